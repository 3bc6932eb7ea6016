"""The words of the page of workers: states, commands, and what becomes of tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.dashboard import formats
from django_redis_components.taskqueue.stats.worker_reports import ChangedValue, WorkerCommand, WorkerInfo
from django_redis_components.taskqueue.stats.workers import HeldTask

#: Bytes in a MiB.
MIB = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerState:
    """The state of a worker. Kinds, each with a shape and a color: alive, lost, quiet."""

    kind: str
    label: str


#: The state of a process by its name; functions, since the language differs by request.
STATES: dict[str, Callable[[], WorkerState]] = {
    "working": lambda: WorkerState("alive", pgettext("worker", "alive")),
    "lost": lambda: WorkerState("lost", pgettext("worker", "lost")),
    "quiet": lambda: WorkerState("quiet", pgettext("worker", "quiet")),
    "restarting": lambda: WorkerState("quiet", pgettext("worker", "restarting")),
    "stopping": lambda: WorkerState("quiet", pgettext("worker", "stopping")),
}


def state_of(worker: WorkerInfo) -> str:
    """Return the name of a worker's state, a key of `STATES`."""
    if not worker.is_alive:
        return "lost"
    return worker.state if worker.state in STATES else "working"


def poller(name: str) -> str:
    """Return the label of the state of an embedded poller."""
    return {"active": pgettext("poller", "active"), "standby": pgettext("poller", "standby")}.get(
        name, pgettext("poller", "none")
    )


def mebibytes(size: int) -> str:
    """Format a number of bytes."""
    return _("%(count)s MiB") % {"count": formats.number(round(size / MIB))}


def milliseconds(seconds: float) -> str:
    """Format a short time with one decimal place."""
    return _("%(ms)s ms") % {"ms": formats.decimal(seconds * 1_000)}


def actions() -> dict[str, str]:
    """Return the label of the link of each command."""
    return {
        "quiet": pgettext("worker", "Quiet…"),
        "resume": pgettext("worker", "Resume…"),
        "pool": pgettext("worker", "Change pool…"),
        "reset": pgettext("worker", "Reset pool…"),
        "restart": pgettext("worker", "Restart…"),
        "stop": pgettext("worker", "Stop…"),
    }


def command_note(command: WorkerCommand, now: datetime) -> str:
    """Return the author, command, time and outcome of a request."""
    verbs = {
        "quiet": _("Quiet requested by %(author)s at %(time)s: %(outcome)s"),
        "resume": _("Resume requested by %(author)s at %(time)s: %(outcome)s"),
        "pool": _("Change of the pool requested by %(author)s at %(time)s: %(outcome)s"),
        "reset": _("Reset of the pool requested by %(author)s at %(time)s: %(outcome)s"),
        "restart": _("Restart requested by %(author)s at %(time)s: %(outcome)s"),
        "stop": _("Stop requested by %(author)s at %(time)s: %(outcome)s"),
    }
    outcomes = {
        "": _("not executed yet."),
        "done": _("executed."),
        "gone": _("the process had exited."),
        "stopping": _("it was stopping."),
        "restarting": _("it was restarting."),
        "quiet": _("refused, its supervisor is quiet. Resume that."),
        "not_quiet": _("it was not quiet."),
        "threads": _("its system has too few threads."),
        "queue": _("refused, one of the queues is not declared. Its log names it."),
        "unknown": _("refused, its release does not support this command."),
        "unavailable": _("Redis did not answer. Send it again."),
    }
    if command.verb not in verbs:
        return ""
    return verbs[command.verb] % {
        "author": command.author,
        "time": formats.timestamp(command.at, now).text,
        "outcome": outcomes.get(command.outcome, command.outcome),
    }


def pool_note(changed: ChangedValue, worker: WorkerInfo, now: datetime) -> str:
    """Return what was changed of a pool, by whom, and until when."""
    texts = {
        "threads": (
            _("%(value)s threads, configured %(configured)s, changed by %(author)s at %(time)s until restart"),
            _("%(value)s threads, configured %(configured)s, changed by %(author)s at %(time)s and kept"),
        ),
        "coroutines": (
            _("%(value)s coroutines, configured %(configured)s, changed by %(author)s at %(time)s until restart"),
            _("%(value)s coroutines, configured %(configured)s, changed by %(author)s at %(time)s and kept"),
        ),
        "queues": (
            _("Queues %(value)s, configured %(configured)s, changed by %(author)s at %(time)s until restart"),
            _("Queues %(value)s, configured %(configured)s, changed by %(author)s at %(time)s and kept"),
        ),
    }
    if changed.name not in texts:
        return ""
    return texts[changed.name][changed.is_kept] % {
        "value": worker.pool.value(changed.name),
        "configured": changed.configured,
        "author": changed.author,
        "time": formats.timestamp(changed.at, now).text,
    }


def fate_of_task(held: HeldTask) -> str:
    """Return what becomes of a task that a lost worker ran."""
    if held.is_held and held.lease_ends_in > 0:
        return _("lease expires in %(age)s") % {"age": formats.age(held.lease_ends_in)}
    if held.is_held:
        return _("lease expired; the poller returns it to its queue")
    fates = {
        "": _("returned to its queue"),
        "running": _("runs on another worker"),
        "scheduled": _("scheduled"),
        "retrying": _("will be retried"),
        "successful": _("succeeded"),
        "failed": _("failed"),
        "cancelled": _("cancelled"),
        "expired": _("expired"),
        "gone": _("its record has expired"),
    }
    return fates.get(held.state, held.state)
