"""The exceptions of search."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError


class SearchError(RedisComponentsError):
    """An index could not be written: objects changed again and again, or a rebuild was superseded or abandoned."""
