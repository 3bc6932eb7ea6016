"""Problems shown on the overview, most severe first, each with a remedy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.client.endpoint import naming_server
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import pause_note
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.outages import outage_of
from django_redis_components.dashboard.overview.problem import Problem, queue_command, worker_command
from django_redis_components.dashboard.overview.server import clock_problem, server_problems
from django_redis_components.dashboard.overview.snapshot import OverviewSnapshot
from django_redis_components.dashboard.overview.traffic import (
    failing_queues,
    growing_queues,
    grows,
    lost_leases,
    retry_storms,
)
from django_redis_components.taskqueue.schedules.status import ScheduleSnapshot
from django_redis_components.taskqueue.stats.queue_stats import MAX_QUEUES, QueueInfo, TaskQueueOverview
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo

#: Most problems of one kind that are listed individually.
MAX_OF_A_KIND = 5
#: Most unregistered names that a problem lists.
MAX_NAMED = 5
#: Leases after a worker's last heartbeat until its tasks are in their queues: it may have leased some until its next
#: heartbeat was due (1/3), their leases end (1), and the poller's next round follows (1/3).
RETURN_LEASES = 5 / 3


def find_problems(snapshot: OverviewSnapshot) -> list[Problem]:
    """Return the problems in a snapshot, critical ones first, in the active language."""
    found = [*_unread_parts(snapshot), *clock_problem(snapshot.clock_offset_s)]
    if snapshot.schedules is not None:
        found.extend(_truncate(list(_overdue_schedules(snapshot.schedules))))
    if snapshot.queues is not None:
        for check in _CHECKS:
            found.extend(_truncate(list(check(snapshot.queues))))
    found = [
        dataclasses.replace(problem, command=naming_server(problem.command, snapshot.redis_cli)) for problem in found
    ]
    return sorted(found, key=lambda problem: problem.severity != "critical")


def worker_name(worker: WorkerInfo) -> str:
    """Return the host and the process id of a worker, or its id without a valid heartbeat."""
    return f"{worker.host} ({worker.pid})" if worker.pid else worker.id


def _unread_parts(snapshot: OverviewSnapshot) -> Iterator[Problem]:
    parts = {
        "queues": _("queues and workers"),
        "history": _("history"),
        "schedules": _("periodic tasks"),
        "visitors": _("visitors"),
        "sign_ins": _("sign-ins"),
    }
    for name, error in snapshot.errors.items():
        outage = outage_of(error, snapshot.address)
        text = _("Cannot read %(part)s: %(reason)s") % {"part": parts[name], "reason": outage.title}
        yield Problem("unread", text, f"{outage.advice} ({outage.detail})", severity="critical")


def _overdue_schedules(snapshot: ScheduleSnapshot) -> Iterator[Problem]:
    for schedule in snapshot.schedules:
        if schedule.state == "late" and schedule.next_at:
            text = _("Schedule %(schedule)s is %(age)s overdue: no poller has enqueued its task.") % {
                "schedule": schedule.name,
                "age": formats.age((snapshot.at - schedule.next_at).total_seconds()),
            }
            advice = _("Start a poller, or a worker without --no-poller, with the code that declares it:")
            yield Problem("schedule_late", text, advice, "python manage.py runpoller", "critical")


def _queues_without_worker(overview: TaskQueueOverview) -> Iterator[Problem]:
    unserved = [queue for queue in overview.queues if queue.ready and not queue.paused and not queue.live_workers]
    if len(unserved) > MAX_OF_A_KIND:
        yield _many_without_worker(unserved)
        return
    for queue in unserved:
        text = ngettext(
            "Queue %(queue)s has %(count)s ready task and no live worker. Oldest: %(age)s.",
            "Queue %(queue)s has %(count)s ready tasks and no live worker. Oldest: %(age)s.",
            queue.ready,
        ) % {"queue": queue.name, "count": number(queue.ready), "age": formats.age(queue.oldest_age or 0.0)}
        command = worker_command(queue.name)
        advice = " ".join(filter(None, [_last_worker(queue.name, overview), _("Start a worker:")]))
        yield Problem("no_worker", text, advice, command, "critical", queue.name)


def _many_without_worker(queues: list[QueueInfo]) -> Problem:
    text = _("%(queues)s queues have %(tasks)s ready tasks and no live worker. Oldest: %(age)s.") % {
        "queues": number(len(queues)),
        "tasks": number(sum(queue.ready for queue in queues)),
        "age": formats.age(max(queue.oldest_age or 0.0 for queue in queues)),
    }
    command = worker_command(*[queue.name for queue in queues])
    return Problem("no_worker", text, _("Start a worker:"), command, "critical", count=len(queues))


def _last_worker(queue: str, overview: TaskQueueOverview) -> str:
    """Return since when the last worker of a queue is lost; "" if none was lost lately."""
    lost = [worker for worker in overview.workers if queue in worker.queues]
    if not lost:
        return ""
    worker = min(lost, key=lambda worker: worker.heartbeat_age)
    return _("Its last worker, %(worker)s, was lost %(age)s ago.") % {
        "worker": worker_name(worker),
        "age": formats.age(worker.heartbeat_age),
    }


def _eviction(overview: TaskQueueOverview) -> Iterator[Problem]:
    if overview.evicts:
        text = _("Redis may evict tasks when its memory is full: maxmemory-policy is %(policy)s.")
        advice = _("Set maxmemory-policy to noeviction, or use a separate server for the task queue.")
        command = "redis-cli CONFIG SET maxmemory-policy noeviction"
        yield Problem("evicts", text % {"policy": overview.eviction_policy}, advice, command, "critical")


def _missing_poller(overview: TaskQueueOverview) -> Iterator[Problem]:
    if overview.poller is None and (overview.queues or overview.workers):
        yield Problem(
            "poller_missing",
            _("No poller is active: tasks of crashed workers are not recovered."),
            _("Start a poller, or a worker without --no-poller:"),
            "python manage.py runpoller",
            "critical",
        )


def _late_queues(overview: TaskQueueOverview) -> Iterator[Problem]:
    for queue in overview.queues:
        if _is_late(queue) and not _is_reported(queue, overview) and queue.live_workers:
            text = _("Queue %(queue)s is behind: its oldest task has waited for %(age)s.") % {
                "queue": queue.name,
                "age": formats.age(queue.oldest_age or 0.0),
            }
            advice = _("It has too few workers, or long tasks occupy them. Add a worker:")
            yield Problem("late", text, advice, worker_command(queue.name), "warning", queue.name)


def _is_late(queue: QueueInfo) -> bool:
    return queue.oldest_age is not None and queue.oldest_age > conf.settings().dashboard.late_after_s


def _is_reported(queue: QueueInfo, overview: TaskQueueOverview) -> bool:
    """Return whether another problem says why the tasks of a queue wait."""
    return queue.paused is not None or grows(queue, overview)


def _lost_workers(overview: TaskQueueOverview) -> Iterator[Problem]:
    for worker in overview.workers:
        facts = {"worker": worker_name(worker), "age": formats.age(worker.heartbeat_age)}
        if not worker.is_alive:
            text = _("Worker %(worker)s is lost. Last heartbeat: %(age)s ago.") % facts
            yield Problem("worker_lost", text, _lost_tasks(worker, overview))
        elif worker.is_silent:
            text = _("Worker %(worker)s does not respond. Last heartbeat: %(age)s ago.") % facts
            yield Problem("worker_silent", text, _lost_tasks(worker, overview))


def _lost_threads(overview: TaskQueueOverview) -> Iterator[Problem]:
    for worker in overview.workers:
        if worker.is_alive and worker.lost_threads:
            text = _("Worker %(worker)s has %(alive)s of %(threads)s threads.") % {
                "worker": worker_name(worker),
                "alive": number(max(0, worker.threads - worker.lost_threads)),
                "threads": number(worker.threads),
            }
            advice = _("Its process is restarted when its running tasks have finished. Its log names the error.")
            yield Problem("threads_lost", text, advice)


def _lost_tasks(worker: WorkerInfo, overview: TaskQueueOverview) -> str:
    """Return what a worker held, what becomes of it, and what to do."""
    check = _("Check the worker’s log and its host, then restart it.")
    if not worker.leases:
        return " ".join([_("It held no tasks at its last heartbeat."), check])
    held = ngettext(
        "It held %(count)s task at its last heartbeat.", "It held %(count)s tasks at its last heartbeat.", worker.leases
    ) % {"count": number(worker.leases)}
    return f"{held} {_return_of_tasks(worker, overview)} {check}"


def _return_of_tasks(worker: WorkerInfo, overview: TaskQueueOverview) -> str:
    if overview.poller is None:
        return _("No poller is active to return them to their queues.")
    lease_s = conf.settings().taskqueue.lease_s
    returned_at = overview.at + timedelta(seconds=lease_s * RETURN_LEASES - worker.heartbeat_age)
    if returned_at <= overview.at:
        return ngettext(
            "The poller returns it to its queue.", "The poller returns them to their queues.", worker.leases
        )
    text = ngettext(
        "Its %(count)s task returns to its queue by %(time)s.",
        "Its %(count)s tasks return to their queues by %(time)s.",
        worker.leases,
    )
    time = formats.timestamp(returned_at, overview.at).text
    return text % {"count": number(worker.leases), "time": time}


def _unregistered_tasks(overview: TaskQueueOverview) -> Iterator[Problem]:
    for queue in overview.queues:
        if queue.unregistered:
            text = ngettext(
                "Queue %(queue)s has %(count)s task with an unregistered name.",
                "Queue %(queue)s has %(count)s tasks with unregistered names.",
                queue.unregistered,
            ) % {"queue": queue.name, "count": number(queue.unregistered)}
            names = overview.unregistered.get(queue.name, [])
            advice = " ".join(filter(None, [_unregistered_names(names), _requeued()]))
            command = worker_command(queue.name)
            yield Problem("unregistered", text, advice, command, "warning", queue.name, "unregistered")


def _requeued() -> str:
    return _("They are requeued when a worker that registers the names starts:")


def _unregistered_names(names: list[str]) -> str:
    """Return the names, and the modules that a worker must import to register them."""
    if not names:
        return ""
    shown = [*names[:MAX_NAMED], *(["…"] if len(names) > MAX_NAMED else [])]
    modules = dict.fromkeys(name.rpartition(".")[0] or name for name in names[:MAX_NAMED])
    return _("Names: %(names)s. Modules to import: %(modules)s.") % {
        "names": ", ".join(shown),
        "modules": ", ".join(modules),
    }


def _paused_queues(overview: TaskQueueOverview) -> Iterator[Problem]:
    for queue in overview.queues:
        if queue.paused and queue.ready:
            text = ngettext(
                "Queue %(queue)s is paused and has %(count)s ready task.",
                "Queue %(queue)s is paused and has %(count)s ready tasks.",
                queue.ready,
            ) % {"queue": queue.name, "count": number(queue.ready)}
            advice = " ".join([pause_note(queue.paused, overview.at), _("Resume it:")])
            paused_s = (overview.at - queue.paused.at).total_seconds()
            severity = "critical" if paused_s > conf.settings().dashboard.paused_after_s else "warning"
            yield Problem("paused", text, advice, queue_command("resume", queue.name), severity, queue.name)


def _truncation(overview: TaskQueueOverview) -> Iterator[Problem]:
    rows, workers = len(overview.queues), len(overview.workers)
    for count, is_cut, what in (
        (rows, rows >= MAX_QUEUES, _("queues")),
        (workers, workers < overview.worker_count, _("workers")),
    ):
        if is_cut:
            text = _("Only the first %(count)d %(what)s are shown.") % {"count": count, "what": what}
            yield Problem("cut_off", text, _("Read a queue by its name: get_queue(name).info()"))


def _truncate(problems: list[Problem]) -> list[Problem]:
    """Return the first problems of a kind, and the number of the others."""
    rest = len(problems) - MAX_OF_A_KIND
    if rest <= 0:
        return problems
    text = ngettext("%(count)d more of this kind.", "%(count)d more of this kind.", rest) % {"count": rest}
    severity = problems[MAX_OF_A_KIND].severity
    return [*problems[:MAX_OF_A_KIND], Problem(problems[0].code, text, "", severity=severity, count=rest)]


#: Checks of the task queue, most severe first: what is wrong with the server may be the cause of the rest.
_CHECKS = (
    server_problems,
    _eviction,
    failing_queues,
    _queues_without_worker,
    _missing_poller,
    retry_storms,
    growing_queues,
    _late_queues,
    _lost_workers,
    _lost_threads,
    lost_leases,
    _unregistered_tasks,
    _paused_queues,
    _truncation,
)
