"""What is wrong, worst first, and what to do about it."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core import conf
from django_redis_components.dashboard import wording
from django_redis_components.dashboard.outages import outage_of
from django_redis_components.dashboard.reading import Snapshot
from django_redis_components.taskqueue.schedules.status import Timetable
from django_redis_components.taskqueue.stats.overview import Overview, Pause, QueueDepth, WorkerInfo

#: Most problems of one kind that are listed one by one.
MAX_OF_A_KIND = 5
#: As many queues, or workers, as the snapshot holds at most: there may be more.
SURVEYED = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """Something that somebody should look at.

    Attributes:
        code: a word for programs: "no_worker", "poller_missing", …
        text: what is wrong, in one sentence.
        advice: what to do.
        command: a command that does it, or "".
    """

    code: str
    text: str
    advice: str
    command: str = ""


def problems(snapshot: Snapshot) -> list[Problem]:
    """Everything that is wrong in a snapshot, worst first, in the active language."""
    found = [*_unread(snapshot)]
    queues = snapshot.queues
    if snapshot.schedules is not None:
        found.extend(_at_most(list(_overdue(snapshot.schedules))))
    if queues is not None:
        for kind in (_unserved, _evicting, _pollerless, _late, _lost, _unregistered, _paused, _cut_off):
            found.extend(_at_most(list(kind(queues))))
    return found


def is_alive(worker: WorkerInfo) -> bool:
    """Whether a worker has been heard of within the life of a lease."""
    return worker.seen_s <= conf.settings().taskqueue.lease_s


def serving(queue: str, overview: Overview) -> int:
    """How many live workers serve a queue."""
    return sum(1 for worker in overview.workers if queue in worker.queues and is_alive(worker))


def worker_command(queue: str) -> str:
    """The command that starts a worker for a queue, quoted for a shell."""
    dashes = "-- " if queue.startswith("-") else ""
    return f"python manage.py runworker {dashes}{shlex.quote(queue)}"


def _unread(snapshot: Snapshot) -> Iterator[Problem]:
    parts = {
        "queues": _("queues and workers"),
        "schedules": _("periodic tasks"),
        "visitors": _("visitors"),
        "sign_ins": _("sign-ins"),
    }
    for name, error in snapshot.errors.items():
        outage = outage_of(error, snapshot.address)
        text = _("The part “%(part)s” could not be read: %(why)s") % {"part": parts[name], "why": outage.title}
        yield Problem("unread", text, f"{outage.advice} ({outage.detail})")


def _overdue(timetable: Timetable) -> Iterator[Problem]:
    for schedule in timetable.schedules:
        if schedule.state == "late" and schedule.next_at:
            text = _("Schedule %(schedule)s: its time was %(age)s ago, and no poller has sent it.") % {
                "schedule": schedule.name,
                "age": wording.age((timetable.at - schedule.next_at).total_seconds()),
            }
            advice = _("Start a poller, or a worker without --no-poller, whose code has it:")
            yield Problem("schedule_late", text, advice, "python manage.py runpoller")


def _unserved(overview: Overview) -> Iterator[Problem]:
    for queue in overview.queues:
        if not queue.ready or queue.paused or serving(queue.name, overview):
            continue
        text = ngettext(
            "Queue %(queue)s: %(count)s task is ready, and no live worker serves it; it has waited for %(age)s.",
            "Queue %(queue)s: %(count)s tasks are ready, and no live worker serves them;"
            " the oldest has waited for %(age)s.",
            queue.ready,
        ) % {
            "queue": queue.name,
            "count": wording.number(queue.ready),
            "age": wording.age(queue.oldest_age_s or 0.0),
        }
        yield Problem("no_worker", text, _("Start a worker for it:"), worker_command(queue.name))


def _evicting(overview: Overview) -> Iterator[Problem]:
    if overview.evicts:
        text = _("The server deletes keys when its memory is full, tasks among them: maxmemory-policy is %(policy)s.")
        advice = _("Set maxmemory-policy to noeviction, or give the queue a server of its own.")
        yield Problem("evicts", text % {"policy": overview.eviction_policy}, advice)


def _pollerless(overview: Overview) -> Iterator[Problem]:
    if overview.poller is None and (overview.queues or overview.workers):
        yield Problem(
            "poller_missing",
            _("No poller is active: what a dead worker was running does not come back."),
            _("Start one, or a worker without --no-poller:"),
            "python manage.py runpoller",
        )


def _late(overview: Overview) -> Iterator[Problem]:
    for queue in overview.queues:
        if _is_late(queue) and not queue.paused and serving(queue.name, overview):
            text = _("Queue %(queue)s: the oldest task has waited for %(age)s.") % {
                "queue": queue.name,
                "age": wording.age(queue.oldest_age_s or 0.0),
            }
            advice = _("Its workers are too few, or busy with long tasks. One more worker:")
            yield Problem("late", text, advice, worker_command(queue.name))


def _is_late(queue: QueueDepth) -> bool:
    return queue.oldest_age_s is not None and queue.oldest_age_s > conf.settings().dashboard.late_after_s


def _lost(overview: Overview) -> Iterator[Problem]:
    for worker in overview.workers:
        if not is_alive(worker):
            text = _("Worker %(worker)s is lost: it was last seen %(age)s ago.") % {
                "worker": worker_name(worker),
                "age": wording.age(worker.seen_s),
            }
            advice = _("The poller brings its running tasks back. Look in its log, and start it again.")
            yield Problem("worker_lost", text, advice)


def worker_name(worker: WorkerInfo) -> str:
    """How a worker is called: host and process, or its id if it has not said who it is."""
    return f"{worker.host} ({worker.pid})" if worker.pid else worker.id


def _unregistered(overview: Overview) -> Iterator[Problem]:
    for queue in overview.queues:
        if queue.unregistered:
            text = ngettext(
                "Queue %(queue)s: %(count)s task has a name that no worker has registered.",
                "Queue %(queue)s: %(count)s tasks have names that no worker has registered.",
                queue.unregistered,
            ) % {"queue": queue.name, "count": wording.number(queue.unregistered)}
            advice = _("They are requeued when a worker starts that has registered them:")
            yield Problem("unregistered", text, advice, worker_command(queue.name))


def _paused(overview: Overview) -> Iterator[Problem]:
    for queue in overview.queues:
        if queue.paused and queue.ready:
            text = ngettext(
                "Queue %(queue)s is paused, and %(count)s task waits.",
                "Queue %(queue)s is paused, and %(count)s tasks wait.",
                queue.ready,
            ) % {"queue": queue.name, "count": wording.number(queue.ready)}
            how = _("It goes on with:")
            advice = f"{pause_words(queue.paused, overview.at)} {how}"
            yield Problem("paused", text, advice, f"get_queue({queue.name!r}).resume()")


def pause_words(pause: Pause, now: datetime) -> str:
    """Who paused a queue, since when, until when and why."""
    parts = [_("Paused %(age)s ago") % {"age": wording.age((now - pause.at).total_seconds())}]
    if pause.author:
        parts.append(_("by %(author)s") % {"author": pause.author})
    if pause.until:
        parts.append(_("until %(time)s") % {"time": wording.moment(pause.until, now).text})
    return " ".join(parts) + (f": {pause.reason}." if pause.reason else ".")


def _cut_off(overview: Overview) -> Iterator[Problem]:
    for rows, what in ((overview.queues, _("queues")), (overview.workers, _("workers"))):
        if len(rows) >= SURVEYED:
            text = _("This page shows the first %(count)d %(what)s only.") % {"count": SURVEYED, "what": what}
            yield Problem("cut_off", text, _("Ask for one queue by name: get_queue(name).depths()"))


def _at_most(found: list[Problem]) -> list[Problem]:
    """The first few of a kind, and one line for the rest."""
    rest = len(found) - MAX_OF_A_KIND
    if rest <= 0:
        return found
    text = ngettext("%(count)d more of this kind.", "%(count)d more of this kind.", rest) % {"count": rest}
    return [*found[:MAX_OF_A_KIND], Problem(found[0].code, text, "")]
