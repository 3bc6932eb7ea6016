"""What operators can do with tasks in a list: the verbs, to which states they apply, and their words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext_lazy, pgettext_lazy

from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Check

RETRY = Verb("retry", "retry_task", MODELS["queues"])
DELETE = Verb("delete", "delete_task", MODELS["queues"])
RUN_NOW = Verb("run_now", "run_task", MODELS["queues"])
RESCHEDULE = Verb("reschedule", "reschedule_task", MODELS["queues"])
MOVE = Verb("move", "move_task", MODELS["queues"])
CANCEL = Verb("cancel", "cancel_task", MODELS["queues"])
RENAME = Verb("rename", "retry_task", MODELS["queues"])


@dataclasses.dataclass(frozen=True, slots=True)
class TaskVerb:
    """A verb of selected tasks.

    Attributes:
        states: of the lists in which it is offered.
        row, selected, every, matching: labels of its buttons: of one row, of ticked rows, of all in the list, and of
            all that match filters.
        title, question, button, done: texts with the numbers "number" and "count", "queue" and "state".
        checks: returns what the operator should know, for a state.
        log: what was done, for the admin's log.
        is_row: whether each row has a button: of verbs that need a confirmation only.
        needs_name: whether it applies only to tasks with a new name; the buttons of their rows have that.
    """

    verb: Verb
    states: tuple[str, ...]
    row: Any
    selected: Any
    every: Any
    matching: Any
    title: Any
    question: Any
    button: Any
    done: Any
    checks: Callable[[str], list[Check]]
    log: str
    is_row: bool = False
    is_danger: bool = False
    needs_name: bool = False


def _retry_checks(state: str) -> list[Check]:
    return [
        Check(_("Each gets all of its attempts again, and keeps its errors.")),
        Check(_("A retry cannot be undone: tasks may start at once."), "caution"),
    ]


def _run_checks(state: str) -> list[Check]:
    return [Check(_("They are due at once. Pauses and limits still apply."))]


def _reschedule_checks(state: str) -> list[Check]:
    return [
        Check(_("They do not start before the new time. Their attempts stay as they are.")),
        Check(_("A task that expires before the new time does not start any more."), "caution"),
    ]


def _move_checks(state: str) -> list[Check]:
    return [
        Check(_("Due times, priorities, unique keys, limits and flows stay as they are.")),
        Check(_("Workers of the other queue must have registered the names of these tasks."), "caution"),
    ]


def _rename_checks(state: str) -> list[Check]:
    return [
        Check(_("Each gets the name of the registered task that accepts its arguments, and is ready at once.")),
        Check(_("Tasks that no registered task, or more than one, accepts stay as they are.")),
        Check(_("The new name cannot be undone. Their unique keys and limits stay those of the old one."), "caution"),
    ]


def _cancel_checks(state: str) -> list[Check]:
    if state == "running":
        grace = formats.age(conf.settings().taskqueue.cancel_grace_s)
        text = _(
            "The tasks are asked to stop by an exception. If one does not stop within %(age)s, its process is killed."
        )
        checks = [
            Check(text % {"age": grace}),
            Check(_("Other tasks of a process that is killed run again."), "caution"),
        ]
    else:
        checks = [
            Check(_("They do not start. Their records are kept for a while.")),
            Check(_("Tasks that have started are left alone.")),
        ]
    return [
        *checks,
        Check(_("Tasks of their flows that depend on them fail."), "caution"),
        Check(_("A cancellation cannot be undone."), "caution"),
    ]


_TIMED = ("scheduled", "retrying")
_PENDING = ("ready", *_TIMED, "limited")

#: In the order of their buttons.
TASK_VERBS = (
    TaskVerb(
        verb=RENAME,
        states=("unregistered",),
        row="",
        selected=gettext_lazy("Run selected under new names…"),
        every=gettext_lazy("Run all under new names…"),
        matching=gettext_lazy("Run all that match under new names…"),
        title=gettext_lazy("Run tasks of queue %(name)s under new names"),
        question=ngettext_lazy(
            "Run %(count)s unregistered task of the queue “%(queue)s” under its new name?",
            "Run %(count)s unregistered tasks of the queue “%(queue)s” under their new names?",
            "number",
        ),
        button=ngettext_lazy("Run %(count)s task", "Run %(count)s tasks", "number"),
        done=ngettext_lazy(
            "%(count)s task is ready under its new name.", "%(count)s tasks are ready under their new names.", "number"
        ),
        checks=_rename_checks,
        log="renamed",
        is_row=True,
        needs_name=True,
    ),
    TaskVerb(
        verb=RETRY,
        states=("failed",),
        row=gettext_lazy("Retry…"),
        selected=gettext_lazy("Retry selected…"),
        every=gettext_lazy("Retry all…"),
        matching=gettext_lazy("Retry all that match…"),
        title=gettext_lazy("Retry tasks of queue %(name)s"),
        question=ngettext_lazy(
            "Retry %(count)s failed task of the queue “%(queue)s”?",
            "Retry %(count)s failed tasks of the queue “%(queue)s”?",
            "number",
        ),
        button=ngettext_lazy("Retry %(count)s task", "Retry %(count)s tasks", "number"),
        done=ngettext_lazy("Retrying %(count)s task.", "Retrying %(count)s tasks.", "number"),
        checks=_retry_checks,
        log="retried",
        is_row=True,
    ),
    TaskVerb(
        verb=RUN_NOW,
        states=_TIMED,
        row=gettext_lazy("Run now…"),
        selected=gettext_lazy("Run selected now…"),
        every=gettext_lazy("Run all now…"),
        matching=gettext_lazy("Run all that match now…"),
        title=gettext_lazy("Run tasks of queue %(name)s now"),
        question=ngettext_lazy(
            "Run %(count)s task of the queue “%(queue)s” in the state “%(state)s” now?",
            "Run %(count)s tasks of the queue “%(queue)s” in the state “%(state)s” now?",
            "number",
        ),
        button=ngettext_lazy("Run %(count)s task now", "Run %(count)s tasks now", "number"),
        done=ngettext_lazy("%(count)s task is due now.", "%(count)s tasks are due now.", "number"),
        checks=_run_checks,
        log="made due",
        is_row=True,
    ),
    TaskVerb(
        verb=RESCHEDULE,
        states=_PENDING,
        row=gettext_lazy("Reschedule…"),
        selected=gettext_lazy("Reschedule selected…"),
        every=gettext_lazy("Reschedule all…"),
        matching=gettext_lazy("Reschedule all that match…"),
        title=gettext_lazy("Reschedule tasks of queue %(name)s"),
        question=ngettext_lazy(
            "Reschedule %(count)s task of the queue “%(queue)s” in the state “%(state)s”?",
            "Reschedule %(count)s tasks of the queue “%(queue)s” in the state “%(state)s”?",
            "number",
        ),
        button=ngettext_lazy("Reschedule %(count)s task", "Reschedule %(count)s tasks", "number"),
        done=ngettext_lazy("Rescheduled %(count)s task.", "Rescheduled %(count)s tasks.", "number"),
        checks=_reschedule_checks,
        log="rescheduled",
    ),
    TaskVerb(
        verb=MOVE,
        states=(*_PENDING, "waiting", "unregistered"),
        row=pgettext_lazy("to another queue", "Move…"),
        selected=pgettext_lazy("to another queue", "Move selected…"),
        every=pgettext_lazy("to another queue", "Move all…"),
        matching=pgettext_lazy("to another queue", "Move all that match…"),
        title=gettext_lazy("Move tasks of queue %(name)s"),
        question=ngettext_lazy(
            "Move %(count)s task of the queue “%(queue)s” in the state “%(state)s”?",
            "Move %(count)s tasks of the queue “%(queue)s” in the state “%(state)s”?",
            "number",
        ),
        button=ngettext_lazy("Move %(count)s task", "Move %(count)s tasks", "number"),
        done=ngettext_lazy("Moved %(count)s task.", "Moved %(count)s tasks.", "number"),
        checks=_move_checks,
        log="moved",
    ),
    TaskVerb(
        verb=CANCEL,
        states=(*_PENDING, "waiting", "running"),
        row=pgettext_lazy("a task", "Cancel…"),
        selected=gettext_lazy("Cancel selected…"),
        every=gettext_lazy("Cancel all…"),
        matching=gettext_lazy("Cancel all that match…"),
        title=gettext_lazy("Cancel tasks of queue %(name)s"),
        question=ngettext_lazy(
            "Cancel %(count)s task of the queue “%(queue)s” in the state “%(state)s”?",
            "Cancel %(count)s tasks of the queue “%(queue)s” in the state “%(state)s”?",
            "number",
        ),
        button=ngettext_lazy("Cancel %(count)s task", "Cancel %(count)s tasks", "number"),
        done=ngettext_lazy(
            "Cancelled %(count)s task, or asked it to stop.",
            "Cancelled %(count)s tasks, or asked them to stop.",
            "number",
        ),
        checks=_cancel_checks,
        log="cancelled",
        is_row=True,
        is_danger=True,
    ),
    TaskVerb(
        verb=DELETE,
        states=("failed", "unregistered"),
        row=pgettext_lazy("a task", "Delete…"),
        selected=gettext_lazy("Delete selected…"),
        every=gettext_lazy("Delete all…"),
        matching=gettext_lazy("Delete all that match…"),
        title=gettext_lazy("Delete tasks of queue %(name)s"),
        question=ngettext_lazy(
            "Delete %(count)s task of the queue “%(queue)s” in the state “%(state)s”?",
            "Delete %(count)s tasks of the queue “%(queue)s” in the state “%(state)s”?",
            "number",
        ),
        button=ngettext_lazy("Delete %(count)s task", "Delete %(count)s tasks", "number"),
        done=ngettext_lazy("Deleted %(count)s task.", "Deleted %(count)s tasks.", "number"),
        checks=lambda state: [],
        log="deleted",
        is_row=True,
        is_danger=True,
    ),
)


def bulk_actions(state: str, urls: dict[str, str], *, is_search: bool, has_names: bool = False) -> list[dict[str, Any]]:
    """Return the verbs of a list that the user may use, with the labels of their buttons.

    Args:
        urls: those of the verbs, by name.
        is_search: whether the list is filtered.
        has_names: whether it has tasks with new names.
    """
    return [
        {
            "url": urls[each.verb.name],
            "selected": each.selected,
            "every": each.matching if is_search else each.every,
            "row": each.row if each.is_row else "",
            "is_danger": each.is_danger,
            "needs_name": each.needs_name,
        }
        for each in TASK_VERBS
        if state in each.states and each.verb.name in urls and (has_names or not each.needs_name)
    ]
