"""The view of the form that enqueues a task."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _

from django_redis_components.core.protocol import run
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import responses, verbs
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues.changes import client, is_target, read_queue_names
from django_redis_components.dashboard.task_class.enqueue_form import EnqueueForm
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import TaskQueueError
from django_redis_components.taskqueue.store.task_records import new_id
from django_redis_components.taskqueue.task import Task

#: Its entries in the admin's log link to the task class.
ENQUEUE = Verb("enqueue", "enqueue_task", MODELS["taskclass"])


def enqueue(request: PageRequest) -> HttpResponse:
    """Show the form, or enqueue the task."""
    registry.autodiscover()
    task = registry.find(request.object_id)
    impossible = _impossible_text(task)
    form = None if impossible else _form(request, task)
    if form is not None and form.is_valid():
        return verbs.execute(request, _change(request, task, form))
    context = {
        "title": _("Enqueue %(name)s") % {"name": request.object_id},
        "facts": [(_("Task"), task.name), (_("Function"), task.module_path)] if task else [],
        "form": form,
        "button": _("Enqueue"),
        "back": request.links.task_class(request.object_id),
        "is_subpage": True,
        "impossible": impossible,
    }
    response = responses.page_response(request, "edit.html", context)
    if request.is_post:
        response.status_code = 409
    return response


def _impossible_text(task: Any) -> str:
    """Return why the task cannot be enqueued here, or ""."""
    if task is None:
        return _("This process has not registered a task of this name.")
    if task.connection != conf.settings().dashboard.using:
        names = {"using": task.connection}
        return _("It is enqueued over the connection “%(using)s”, which is not that of these pages.") % names
    return ""


def _form(request: PageRequest, task: Task[..., Any, Any]) -> EnqueueForm:
    names, count = run(client(), read_queue_names(queue_shard()))
    options = task.options
    return EnqueueForm(
        request.http.POST if request.is_post else None,
        initial={"to": options.queue_name, "priority": options.priority, "id": new_id()},
        task=task,
        queues=sorted({options.queue_name, *names}),
        is_target=partial(is_target, ""),
        more=count - len(names),
    )


def _change(request: PageRequest, task: Task[..., Any, Any], form: EnqueueForm) -> Change:
    """Return the change; the admin's log gets no arguments, which may be confidential."""
    options = form.options
    parts = [f"Enqueue {request.object_id!r} on queue {form.argument!r}"]
    if "priority" in options:
        parts.append(f"priority {options['priority']}")
    if "run_after" in options:
        parts.append(f"in {options['run_after']:g} s")
    execute = partial(_enqueue, request, task, form)
    back = request.links.task_class(request.object_id)
    return Change(ENQUEUE, request.object_id, ", ".join(parts), execute, back)


def _enqueue(request: PageRequest, task: Task[..., Any, Any], form: EnqueueForm) -> ChangeOutcome:
    try:
        result = task.using(**form.options).enqueue(*form.args, **form.kwargs)
    except (TypeError, ValueError, TaskQueueError) as exc:
        message = _("Not enqueued: %(reason)s") % {"reason": exc}
        return ChangeOutcome(f"refused, {type(exc).__name__}", message, is_done=False)
    links = [(result.id, request.links.task(result.id))]
    if result.is_duplicate:
        message = _("No new task: one has the same unique key, or the form was sent before.")
        return ChangeOutcome(f"no new task, {result.id} is the same call", message, is_done=False, links=links)
    return ChangeOutcome(f"task {result.id} enqueued", _("Enqueued: %(name)s") % {"name": task.name}, links=links)


#: The view of each verb.
VIEWS = ((ENQUEUE, enqueue),)
