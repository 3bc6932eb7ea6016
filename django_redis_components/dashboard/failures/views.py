"""The view of the page of failures."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.translation import gettext as _

from django_redis_components.dashboard import responses, verbs
from django_redis_components.dashboard.failures import change_views, data, page, snapshot
from django_redis_components.dashboard.queues.change_views import queue_url, task_url

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_TEMPLATES = responses.Templates("failures/page.html", "failures/fragment.html")


def failures(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Respond with the page of failures. The caller has checked the permission."""
    try:
        query = snapshot.query_of(request.GET)
    except ValueError as exc:
        return HttpResponseBadRequest(str(exc), "text/plain")
    context = {
        "title": _("Failures"),
        "page_url": responses.url_of(model_admin, "changelist"),
        "verbs": {
            verb.name: responses.url_of(model_admin, verb.name)
            for verb in (change_views.RETRY, change_views.DELETE)
            if verbs.is_allowed(request, verb)
        },
        **(extra or {}),
    }
    read = partial(snapshot.read, query, with_tasks=request.GET.get("format") != "fragment")
    build = partial(
        page.build_page, url_of=partial(task_url, model_admin), queue_url=partial(queue_url, model_admin, "change")
    )
    return responses.snapshot_response(model_admin, request, read, data.failure_data, build, _TEMPLATES, context)
