"""The views of changes of one task: retry, run now, reschedule, cancel, delete; and of its masked arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _

from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats, responses, verbs
from django_redis_components.dashboard.arguments import argument_lines
from django_redis_components.dashboard.audit import AuditEntry
from django_redis_components.dashboard.forms import RescheduleForm
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues.changes import undo_until
from django_redis_components.dashboard.queues.confirmations import undo_links
from django_redis_components.dashboard.task import changes, edit_view, stack_view
from django_redis_components.dashboard.task.loaded import facts_of, impossible_text, loaded
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation
from django_redis_components.taskqueue.exceptions import SealedArguments
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.options import when
from django_redis_components.taskqueue.stats.explain import Explanation
from django_redis_components.taskqueue.store import control


@loaded
def retry(request: PageRequest, task: Explanation) -> HttpResponse:
    """Ask for confirmation (GET), or retry (POST)."""
    checks = [
        Check(_("It gets all of its attempts again, and keeps its errors.")),
        Check(_("A retry cannot be undone: the task may start at once."), "caution"),
    ]
    title, button = _("Retry task %(id)s") % {"id": task.record.id}, _("Retry")
    return _direct(request, task, changes.RETRY, (title, button), checks, partial(_retry, task))


@loaded
def run_now(request: PageRequest, task: Explanation) -> HttpResponse:
    """Ask for confirmation (GET), or make the task due now (POST)."""
    checks = [Check(_("It is due at once. Pauses and limits still apply."))]
    title, button = _("Run task %(id)s now") % {"id": task.record.id}, _("Run now")
    execute = partial(_reschedule, task, "", _("Due now: %(name)s"))
    return _direct(request, task, changes.RUN_NOW, (title, button), checks, execute)


@loaded
def reschedule(request: PageRequest, task: Explanation) -> HttpResponse:
    """Ask for the new due time (GET), or reschedule (POST)."""
    current = formats.local(task.due_at).strftime("%Y-%m-%dT%H:%M") if task.due_at else ""
    form = RescheduleForm(request.http.POST if request.is_post else None, initial={"due": current})
    if form.is_valid():
        due = form.cleaned_data["due"]
        execute = partial(_reschedule, task, when(due, "due"), _("Rescheduled: %(name)s"))
        action = f"Reschedule task {task.record.id!r} to {due.isoformat(' ', 'minutes')}"
        return verbs.execute(request, _change(request, task, changes.RESCHEDULE, action, execute))
    confirmation = Confirmation(
        title=_("Reschedule task %(id)s") % {"id": task.record.id},
        button=_("Reschedule"),
        back=request.links.task(task.record.id),
        facts=facts_of(task),
        checks=[Check(_("A time that has passed makes it due at once."))],
        form=form,
        impossible=impossible_text(changes.RESCHEDULE, task),
        is_danger=False,
    )
    return verbs.confirm(request, confirmation, form.problem)


@loaded
def cancel(request: PageRequest, task: Explanation) -> HttpResponse:
    """Ask for confirmation of a cancellation, or cancel."""
    ticket = verbs.ticket_of(request.http, changes.CANCEL)
    if ticket.is_confirmed and ticket.selection["task"] == task.record.id:
        is_running = ticket.selection["is_running"]
        action = f"{'Stop' if is_running else 'Cancel'} task {task.record.id!r}"
        execute = partial(_cancel, task, is_running)
        return verbs.execute(request, _change(request, task, changes.CANCEL, action, execute))
    is_running = task.state == "running"
    checks = _stop_checks() if is_running else [Check(_("It does not start. Its record is kept for a while."))]
    if task.text(Field.on_failure):
        checks.append(Check(_("Tasks of its flow that depend on it run without its result.")))
    elif task.text(Field.flow_ref):
        checks.append(Check(_("Tasks of its flow that depend on it fail."), "caution"))
    checks.append(Check(_("A cancellation cannot be undone."), "caution"))
    selection = {"task": task.record.id, "is_running": is_running}
    confirmation = Confirmation(
        title=_("Cancel task %(id)s") % {"id": task.record.id},
        button=_("Stop the task") if is_running else _("Cancel the task"),
        back=request.links.task(task.record.id),
        facts=facts_of(task),
        checks=checks,
        fields={"ticket": verbs.sign(request.http, changes.CANCEL, selection)},
        impossible=impossible_text(changes.CANCEL, task),
    )
    return verbs.confirm(request, confirmation, ticket.problem)


@loaded
def delete(request: PageRequest, task: Explanation) -> HttpResponse:
    """Ask for confirmation of a deletion, or delete."""
    ticket = verbs.ticket_of(request.http, changes.DELETE)
    if ticket.is_confirmed and ticket.selection["task"] == task.record.id:
        action = f"Delete task {task.record.id!r} of queue {task.queue!r}"
        execute = partial(_delete, request, task, ticket.selection)
        back = request.links.queue(task.queue)
        return verbs.execute(request, Change(changes.DELETE, task.record.id, action, execute, back))
    at_us = round(task.at.timestamp() * 1e6)
    selection = {
        "task": task.record.id,
        "state": task.state,
        "until_ms": f"{at_us // 1_000}.{at_us % 1_000:03}",
        "trash": control.new_op(),
    }
    confirmation = Confirmation(
        title=_("Delete task %(id)s") % {"id": task.record.id},
        button=_("Delete the task"),
        back=request.links.task(task.record.id),
        facts=facts_of(task),
        checks=[
            Check(_("Can be undone for 24 hours, until %(time)s.") % {"time": undo_until(task.at)}),
            Check(_("Its unique key is free: the same task can be enqueued again."), "caution"),
        ],
        fields={"ticket": verbs.sign(request.http, changes.DELETE, selection)},
        impossible=impossible_text(changes.DELETE, task),
    )
    return verbs.confirm(request, confirmation, ticket.problem)


@loaded
def show_arguments(request: PageRequest, task: Explanation) -> HttpResponse:
    """Ask for confirmation (GET), or log and show the masked arguments (POST)."""
    title = _("Arguments of task %(id)s") % {"id": task.record.id}
    back = request.links.task(task.record.id)
    if not request.is_post:
        confirmation = Confirmation(
            title=title,
            button=_("Show arguments"),
            back=back,
            facts=facts_of(task),
            checks=[Check(_("It is recorded in the admin’s log that you have seen them."), "caution")],
            is_danger=False,
        )
        return verbs.confirm(request, confirmation)
    AuditEntry(
        request.http, changes.SHOW_ARGUMENTS.model, task.record.id, f"Show arguments of task {task.record.id!r}"
    ).finish("shown")
    context = {"title": title, "is_subpage": True, "lines": _all_lines(task), "name": task.record.name, "back": back}
    return responses.page_response(request, "task/arguments.html", context)


def _all_lines(task: Explanation) -> list[str]:
    """Return the arguments, not masked and opened; none if they are not readable."""
    try:
        return argument_lines(task.record, masked=False)
    except SealedArguments:
        return [_("The arguments are sealed, and no key of this process opens them.")]
    except Exception:  # noqa: BLE001 - the site's codec may raise anything
        return []


@loaded
def show_stack(request: PageRequest, task: Explanation) -> HttpResponse:
    """Ask for confirmation (GET), or ask the worker for the stack (POST)."""
    impossible = impossible_text(changes.SHOW_STACK, task)
    if request.is_post and not impossible:
        return stack_view.show(request, task)
    confirmation = Confirmation(
        title=_("Stack of task %(id)s") % {"id": task.record.id},
        button=_("Show the stack"),
        back=request.links.task(task.record.id),
        facts=facts_of(task),
        checks=[
            Check(_("The worker is asked what the task does now. The task continues.")),
            Check(_("It is recorded in the admin’s log that you have seen it."), "caution"),
        ],
        impossible=impossible,
        is_danger=False,
    )
    return verbs.confirm(request, confirmation)


def _stop_checks() -> list[Check]:
    text = _("The task is asked to stop by an exception. If it does not stop within %(age)s, its process is killed.")
    grace = formats.age(conf.settings().taskqueue.cancel_grace_s)
    return [
        Check(text % {"age": grace}),
        Check(_("Other tasks of a process that is killed run again."), "caution"),
    ]


def _direct(
    request: PageRequest,
    task: Explanation,
    verb: Verb,
    words: tuple[str, str],
    checks: list[Check],
    execute: Callable[[], ChangeOutcome],
) -> HttpResponse:
    """Make a change that needs no confirmation (POST), or show it on a page (GET). `words`: title and button."""
    if request.is_post:
        action = f"{verb.name.capitalize().replace('_', ' ')} task {task.record.id!r}"
        return verbs.execute(request, _change(request, task, verb, action, execute))
    confirmation = Confirmation(
        title=words[0],
        button=words[1],
        back=request.links.task(task.record.id),
        facts=facts_of(task),
        checks=checks,
        impossible=impossible_text(verb, task),
        is_danger=False,
    )
    return verbs.confirm(request, confirmation)


def _change(
    request: PageRequest, task: Explanation, verb: Verb, action: str, execute: Callable[[], ChangeOutcome]
) -> Change:
    return Change(verb, task.record.id, action, execute, request.links.task(task.record.id))


def _retry(task: Explanation) -> ChangeOutcome:
    names = {"name": task.record.name}
    if changes.retry(task):
        return ChangeOutcome("done", _("Retrying: %(name)s") % names)
    message = _("Not retried: it is not failed any more, or another task has its unique key.")
    return ChangeOutcome("not retried", message, is_done=False)


def _reschedule(task: Explanation, due: str, message: str) -> ChangeOutcome:
    if changes.reschedule(task.record.id, due):
        return ChangeOutcome("done", message % {"name": task.record.name})
    return ChangeOutcome(
        "it was not scheduled", _("Nothing was changed: the task is not scheduled any more."), is_done=False
    )


def _cancel(task: Explanation, is_running: bool) -> ChangeOutcome:
    done = changes.cancel(task.record.id, is_running=is_running)
    outcomes = {
        1: ChangeOutcome("cancelled", _("Cancelled: %(name)s") % {"name": task.record.name}),
        2: ChangeOutcome("asked to stop", _("The task was asked to stop: %(name)s") % {"name": task.record.name}),
        -2: ChangeOutcome("it had started, left alone", _("Nothing was changed: the task has started."), is_done=False),
    }
    finished = ChangeOutcome("it had finished", _("Nothing was changed: the task has finished."), is_done=False)
    return outcomes.get(done, finished)


def _delete(request: PageRequest, task: Explanation, selection: Any) -> ChangeOutcome:
    trash = selection["trash"]
    done = changes.delete(task.queue, selection["state"], task.record.id, selection["until_ms"], trash)
    if not done:
        message = _("Nothing was changed: the task is not in this state any more.")
        return ChangeOutcome("it was not in this state any more", message, is_done=False)
    undo = undo_links(request, task.queue, trash)
    return ChangeOutcome(f"deleted, trash {trash}", _("Deleted: %(name)s") % {"name": task.record.name}, links=undo)


#: The view of each verb.
VIEWS = (
    (changes.RETRY, retry),
    (changes.RUN_NOW, run_now),
    (changes.RESCHEDULE, reschedule),
    (changes.EDIT, edit_view.edit),
    (changes.CANCEL, cancel),
    (changes.DELETE, delete),
    (changes.SHOW_ARGUMENTS, show_arguments),
    (changes.SHOW_STACK, show_stack),
)
