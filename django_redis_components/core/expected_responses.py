"""Responses with a status of 500 or above that are no error of the site."""

from __future__ import annotations

from typing import Any, TypeVar

from django.http import HttpResponseBase

Response = TypeVar("Response", bound=HttpResponseBase)


def unlogged(response: Response) -> Response:
    """Keep Django from logging a response, and return it.

    Django logs each one of 500 and above as an error and mails it to ADMINS: while Redis is unavailable, one mail per
    poll of each open page, and per request of each load balancer; without what a view needs, one per request.
    """
    marked: Any = response
    marked._has_been_logged = True
    return response
