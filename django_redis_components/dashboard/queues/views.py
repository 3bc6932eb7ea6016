"""The view of one queue's page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.translation import gettext as _

from django_redis_components.dashboard import responses
from django_redis_components.dashboard.actions.links import actions_url
from django_redis_components.dashboard.queues import changes, data, page, snapshot
from django_redis_components.dashboard.queues.change_views import queue_url, task_url
from django_redis_components.dashboard.queues.task_query import TaskQuery, query_of
from django_redis_components.dashboard.verbs import is_allowed

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_TEMPLATES = responses.Templates("queue/page.html", "queue/fragment.html")


def queue(model_admin: ModelAdmin[Any], request: HttpRequest, name: str) -> HttpResponse:
    """Respond with the page of a queue. The caller has checked the permission and validated the name."""
    try:
        query = query_of(request.GET)
    except ValueError as exc:
        return HttpResponseBadRequest(str(exc), "text/plain")
    url_of = partial(queue_url, model_admin)
    extra = {
        "title": _("Queue %(name)s") % {"name": name},
        "is_subpage": True,
        "page_url": url_of("change", name),
        "actions_url": actions_url(model_admin, request, "queues", name),
        "verbs": {
            verb.name: url_of(verb.name, name)
            for verb in (changes.PAUSE, changes.RESUME, changes.PURGE, changes.RESTORE, changes.RETRY, changes.DELETE)
            if is_allowed(request, verb)
        },
    }
    read = partial(_read, name, query, with_list=request.GET.get("format") != "fragment")
    build = partial(page.build_page, url_of=partial(task_url, model_admin))
    return responses.snapshot_response(model_admin, request, read, data.queue_data, build, _TEMPLATES, extra)


def _read(name: str, query: TaskQuery, *, with_list: bool) -> snapshot.QueueSnapshot:
    found = snapshot.read(name, query, with_list=with_list)
    if not found.is_known:
        raise Http404(
            f"Queue {name!r} has had no task for at least a day, and no task of this process is enqueued there."
        )
    return found
