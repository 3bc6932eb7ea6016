"""The exceptions of search."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError


class SearchError(RedisComponentsError):
    """An index could not be written: objects changed again and again. The base class of the errors of search."""


class InvalidSearch(SearchError, ValueError):
    """An argument of a search has a value that is not accepted, such as an order that does not exist.

    A view whose visitors choose order, filters or the place of a search catches it.
    """
