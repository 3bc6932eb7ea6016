"""The view of the overview page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse

from django_redis_components.dashboard import responses
from django_redis_components.dashboard.overview import data, page, snapshot

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_TEMPLATES = responses.Templates("overview/page.html", "overview/fragment.html")


def overview(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Respond with the overview. The caller has checked the permission."""
    return responses.snapshot_response(
        model_admin, request, snapshot.read, data.overview_data, page.build_page, _TEMPLATES, extra
    )
