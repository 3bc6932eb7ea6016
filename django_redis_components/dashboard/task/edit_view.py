"""The view of the form that changes a pending task."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _

from django_redis_components.core.protocol import run
from django_redis_components.dashboard import formats, responses, verbs
from django_redis_components.dashboard.audit import AuditEntry
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues.changes import client, is_target, read_queue_names
from django_redis_components.dashboard.task import changes, page
from django_redis_components.dashboard.task.form import ARGUMENTS, EditForm
from django_redis_components.dashboard.task.loaded import facts_of, impossible_text, loaded
from django_redis_components.dashboard.verbs import Change, ChangeOutcome
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import NotPending, TaskQueueError
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.json_codec import pack
from django_redis_components.taskqueue.stats.explain import Explanation, number_of
from django_redis_components.taskqueue.task_update import TaskChanges, check_update

#: The button that shows the arguments, which is logged.
SHOW_ARGUMENTS = "show_arguments"


@loaded
def edit(request: PageRequest, task: Explanation) -> HttpResponse:
    """Show the form, or change the task. The arguments are in the form only after a POST with `SHOW_ARGUMENTS`."""
    registry.autodiscover()
    post = request.http.POST
    arguments = _arguments(task) if request.http.user.has_perm(changes.SHOW_ARGUMENTS.full_permission) else None
    is_revealed = SHOW_ARGUMENTS in post and arguments is not None
    shows_arguments = arguments is not None and (is_revealed or not set(ARGUMENTS).isdisjoint(post))
    form = _form(request, task, arguments or {}, shows_arguments=shows_arguments)
    impossible = impossible_text(changes.EDIT, task)
    if not impossible and form.is_valid():
        return verbs.execute(request, _change(request, task, form.changes))
    if is_revealed:
        action = f"Show arguments of task {task.record.id!r}"
        AuditEntry(request.http, changes.EDIT.model, task.record.id, action).finish("shown")
    context = {
        "title": _("Edit task %(id)s") % {"id": task.record.id},
        "facts": facts_of(task),
        "form": form,
        "back": request.links.task(task.record.id),
        "is_subpage": True,
        "has_hidden_arguments": arguments is not None and not shows_arguments,
        "impossible": impossible,
    }
    response = responses.page_response(request, "edit.html", context)
    if form.is_bound:
        response.status_code = 409
    return response


def _form(request: PageRequest, task: Explanation, arguments: dict[str, Any], *, shows_arguments: bool) -> EditForm:
    names, count = run(client(), read_queue_names(queue_shard()))
    expires_at = task.record.expires_at
    initial = {
        **arguments,
        "priority": number_of(task.text(Field.priority)),
        "to": task.queue,
        "expires": formats.local(expires_at).strftime("%Y-%m-%dT%H:%M") if expires_at else "",
    }
    return EditForm(
        request.http.POST if request.is_post and SHOW_ARGUMENTS not in request.http.POST else None,
        initial=initial,
        queues=sorted({task.queue, *names}),
        is_target=partial(is_target, task.queue),
        more=count - len({*names} - {task.queue}) - 1,
        check=partial(check_update, registry.find(task.record.name), task.fields),
        shows_arguments=shows_arguments,
    )


def _arguments(task: Explanation) -> dict[str, Any] | None:
    """Return the arguments as JSON values; None if they are too large for the page, or the task is not registered."""
    if registry.find(task.record.name) is None or Field.body not in task.fields:
        return None
    return page.guarded(lambda: {"args": pack(task.record.args), "kwargs": pack(task.record.kwargs)}, None)


def _change(request: PageRequest, task: Explanation, made: TaskChanges) -> Change:
    """Return the change; the admin's log gets no arguments, which may be confidential."""
    texts = [name if name in ARGUMENTS else f"{name} {value!r}" for name, value in _logged(made).items()]
    action = f"Edit task {task.record.id!r}: {', '.join(texts)}"
    return Change(
        changes.EDIT, task.record.id, action, partial(_update, task, made), request.links.task(task.record.id)
    )


def _logged(made: TaskChanges) -> dict[str, Any]:
    """Return the changes in the order of the form, with the expiry as text."""
    values: dict[str, Any] = {name: made.get(name) for name in TaskChanges.__annotations__ if name in made}
    if values.get("expires"):
        values["expires"] = values["expires"].isoformat(" ", "minutes")
    return values


def _update(task: Explanation, made: TaskChanges) -> ChangeOutcome:
    names = {"name": task.record.name}
    try:
        changes.update(task, made)
    except NotPending as exc:
        message = _("Nothing was changed: the task has started, has finished or was purged.")
        return ChangeOutcome(f"it was {exc.state}", message, is_done=False)
    except (TypeError, ValueError, TaskQueueError) as exc:
        message = _("Nothing was changed: %(reason)s") % {"reason": exc}
        return ChangeOutcome(f"refused, {type(exc).__name__}", message, is_done=False)
    return ChangeOutcome("done", _("Saved: %(name)s") % names)
