"""The views of one task's page, and of the form that jumps to a task."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from django_redis_components.dashboard import responses, verbs
from django_redis_components.dashboard.flows.views import flow_url
from django_redis_components.dashboard.queues.change_views import queue_url, task_url
from django_redis_components.dashboard.task import change_views, changes, data, page, snapshot
from django_redis_components.dashboard.task.snapshot import TaskSnapshot
from django_redis_components.taskqueue.exceptions import TaskResultDoesNotExist
from django_redis_components.taskqueue.stats.explain import MAX_ID

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_TEMPLATES = responses.Templates("task/page.html", "task/fragment.html")


def task(model_admin: ModelAdmin[Any], request: HttpRequest, task_id: str) -> HttpResponse:
    """Respond with the page of a task; 404 if no task has this id. The caller has checked the permission."""
    extra: dict[str, Any] = {"title": _("Task %(id)s") % {"id": task_id}, "is_subpage": True}

    def build(found: TaskSnapshot) -> page.TaskPage:
        return page.build_page(
            found,
            verbs=_verbs(model_admin, request, found),
            url_of=partial(task_url, model_admin),
            queue_url=partial(queue_url, model_admin, "change"),
            flow_url=partial(flow_url, model_admin),
        )

    try:
        return responses.snapshot_response(
            model_admin, request, partial(snapshot.read, task_id), data.task_data, build, _TEMPLATES, extra
        )
    except TaskResultDoesNotExist:
        return _missing(model_admin, request, task_id)


def jump(model_admin: ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """Redirect to the page of the task whose id the form has; without an id to the overview."""
    task_id = request.GET.get("id", "").strip()
    if not task_id:
        name = f"admin:{model_admin.opts.app_label}_overview_changelist"
        return HttpResponseRedirect(reverse(name, current_app=model_admin.admin_site.name))
    if len(task_id) > MAX_ID:
        return _missing(model_admin, request, f"{task_id[:MAX_ID]}…")
    return HttpResponseRedirect(task_url(model_admin, task_id))


def _missing(model_admin: ModelAdmin[Any], request: HttpRequest, task_id: str) -> HttpResponse:
    """Respond with 404 and what may have happened to the task."""
    response: HttpResponse
    if request.GET.get("format") == "json":
        response = JsonResponse({"error": {"code": "no_task", "id": task_id}})
    else:
        context = {"title": _("No task %(id)s") % {"id": task_id}, "is_subpage": True, "id": task_id}
        response = responses.page_response(model_admin, request, "task/missing.html", context)
    response.status_code = 404
    return response


def _verbs(model_admin: ModelAdmin[Any], request: HttpRequest, found: TaskSnapshot) -> dict[str, str]:
    """Return the URLs of the changes that apply to the task and that the user may make."""
    return {
        verb.name: change_views.verb_url(model_admin, verb, found.task.record.id)
        for verb, _view in change_views.VIEWS
        if changes.applies(verb, found.task) and verbs.is_allowed(request, verb)
    }
