"""The view of the overview page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest

from django_redis_components.dashboard import responses
from django_redis_components.dashboard.models import Failure, Worker
from django_redis_components.dashboard.overview import data, page, snapshot
from django_redis_components.dashboard.overview.queue_table import QueueQuery

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_TEMPLATES = responses.Templates("overview/page.html", "overview/fragment.html")


def overview(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Respond with the overview. The caller has checked the permission."""
    try:
        query = QueueQuery.parse(request.GET)
    except ValueError as exc:
        return HttpResponseBadRequest(str(exc), "text/plain")
    build = partial(
        page.build_page,
        query=query,
        failures_url=responses.page_url(model_admin, request, Failure),
        workers_url=responses.page_url(model_admin, request, Worker),
    )
    return responses.snapshot_response(
        model_admin, request, snapshot.read, data.overview_data, build, _TEMPLATES, extra
    )
