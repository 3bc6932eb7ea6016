"""Problems of worker processes and the poller."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.problem import Problem, poller_command
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo

#: Leases after a worker's last heartbeat until its tasks are in their queues: it may have leased some until its next
#: heartbeat was due (1/3), their leases end (1), and the poller's next round follows (1/3).
RETURN_LEASES = 5 / 3


def worker_name(worker: WorkerInfo) -> str:
    """Return the host and the process id of a worker, or its id without a valid heartbeat."""
    return f"{worker.host} ({worker.pid})" if worker.pid else worker.id


def missing_poller(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield a problem if no poller recovers the tasks of crashed workers."""
    if overview.poller is None and (overview.queues or overview.workers):
        yield Problem(
            "poller_missing",
            _("No poller is active: tasks of crashed workers are not recovered."),
            _("Start a poller, or a worker without --no-poller:"),
            poller_command(overview.using),
            "critical",
        )


def lost_workers(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield workers that have sent no heartbeat, until they are replaced."""
    for worker in overview.workers:
        if _is_replaced(worker, overview):
            continue
        facts = {"worker": worker_name(worker), "age": formats.age(worker.heartbeat_age)}
        if not worker.is_alive:
            text = _("Worker %(worker)s is lost. Last heartbeat: %(age)s ago.") % facts
            yield Problem("worker_lost", text, _lost_tasks(worker, overview), subject=worker.id)
        elif worker.is_silent:
            text = _("Worker %(worker)s does not respond. Last heartbeat: %(age)s ago.") % facts
            yield Problem("worker_silent", text, _lost_tasks(worker, overview), subject=worker.id)


def _is_replaced(lost: WorkerInfo, overview: TaskQueueOverview) -> bool:
    """Return whether the host has a new worker of the queues for each lost one, and the tasks are returned."""
    if lost.is_alive or overview.poller is None or overview.at < _returned_at(lost, overview):
        return False
    seen_at = overview.at - timedelta(seconds=lost.heartbeat_age)
    of_host = [each for each in overview.workers if each.host == lost.host]
    new = [
        each
        for each in of_host
        if each.is_alive and each.started_at and each.started_at > seen_at and {*lost.queues} <= {*each.queues}
    ]
    return len(new) >= sum(not each.is_alive for each in of_host)


def lost_threads(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield workers of which threads have died."""
    for worker in overview.workers:
        if worker.is_alive and worker.lost_threads:
            text = ngettext(
                "Worker %(worker)s has %(alive)s of %(threads)s thread.",
                "Worker %(worker)s has %(alive)s of %(threads)s threads.",
                worker.threads,
            ) % {
                "worker": worker_name(worker),
                "alive": number(max(0, worker.threads - worker.lost_threads)),
                "threads": number(worker.threads),
            }
            advice = _("Its process is restarted when its running tasks have finished. Its log names the error.")
            yield Problem("threads_lost", text, advice, subject=worker.id)


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
        return ngettext(
            "No poller is active to return it to its queue.",
            "No poller is active to return them to their queues.",
            worker.leases,
        )
    returned_at = _returned_at(worker, overview)
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


def _returned_at(worker: WorkerInfo, overview: TaskQueueOverview) -> datetime:
    """Return by when the poller has returned the tasks of a lost worker to their queues."""
    lease_s = conf.settings().taskqueue.lease_s
    return overview.at + timedelta(seconds=lease_s * RETURN_LEASES - worker.heartbeat_age)
