"""The view of the page of workers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.translation import gettext as _

from django_redis_components.dashboard import responses
from django_redis_components.dashboard.queues.change_views import task_url
from django_redis_components.dashboard.verbs import is_allowed
from django_redis_components.dashboard.workers import data, page, snapshot
from django_redis_components.dashboard.workers.change_views import VERBS
from django_redis_components.taskqueue.store.workers import MAX_ID

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_TEMPLATES = responses.Templates("workers/page.html", "workers/fragment.html")


def workers(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Respond with the page of workers. The caller has checked the permission."""
    after = request.GET.get("after", "")
    if len(after) > MAX_ID:
        return HttpResponseBadRequest(f"after: expected at most {MAX_ID} characters.", "text/plain")
    commands = {
        command: responses.url_of(model_admin, command) for command, verb in VERBS.items() if is_allowed(request, verb)
    }
    build = partial(page.build_page, commands=commands, url_of=partial(task_url, model_admin))
    return responses.snapshot_response(
        model_admin,
        request,
        partial(snapshot.read, after),
        data.worker_data,
        build,
        _TEMPLATES,
        {"title": _("Workers"), **(extra or {})},
    )
