"""The view of the overview page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse

from django_redis_components.dashboard import responses
from django_redis_components.dashboard.models import Failure
from django_redis_components.dashboard.overview import data, page, snapshot

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_TEMPLATES = responses.Templates("overview/page.html", "overview/fragment.html")


def overview(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Respond with the overview. The caller has checked the permission."""
    build = partial(page.build_page, failures_url=responses.page_url(model_admin, request, Failure))
    return responses.snapshot_response(
        model_admin, request, snapshot.read, data.overview_data, build, _TEMPLATES, extra
    )
