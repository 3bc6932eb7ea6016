"""The view of the page Live."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.translation import gettext as _

from django_redis_components.dashboard import responses
from django_redis_components.dashboard.live import data, page, snapshot
from django_redis_components.dashboard.queues.change_views import task_url

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

#: Seconds between two refreshes of an open page.
REFRESH_S = 2
_TEMPLATES = responses.Templates("live/page.html", "live/fragment.html")


def live(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Respond with the newest events. The caller has checked the permission."""
    try:
        query = snapshot.query_of(request.GET)
    except ValueError as exc:
        return HttpResponseBadRequest(str(exc), "text/plain")
    context = {
        "title": _("Live"),
        "page_url": responses.url_of(model_admin, "changelist"),
        "refresh_s": REFRESH_S,
        **(extra or {}),
    }
    build = partial(page.build_page, url_of=partial(task_url, model_admin))
    return responses.snapshot_response(
        model_admin, request, partial(snapshot.read, query), data.live_data, build, _TEMPLATES, context
    )
