"""Problems of queues: no worker, late, paused, unregistered tasks."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import pause_note
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.problem import Problem, queue_command, worker_command
from django_redis_components.dashboard.problems.traffic import grows
from django_redis_components.dashboard.problems.workers import worker_name
from django_redis_components.taskqueue.stats.queue_stats import MAX_QUEUES, QueueInfo, TaskQueueOverview

#: Most queues without a worker that are listed individually.
MAX_UNSERVED = 5
#: Most unregistered names that a problem lists.
MAX_NAMED = 5


def queues_without_worker(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield queues that no live worker serves: with ready tasks, and with tasks that will become ready."""
    unserved = [queue for queue in overview.queues if queue.is_unserved]
    if len(unserved) > MAX_UNSERVED:
        yield _many_without_worker(unserved, overview)
    else:
        for queue in unserved:
            yield _without_worker(queue, overview)
    later = [queue for queue in overview.queues if will_be_unserved(queue)]
    if len(later) > MAX_UNSERVED:
        yield _many_later(later, overview)
    else:
        for queue in later:
            yield _later_without_worker(queue, overview)


def will_be_unserved(queue: QueueInfo) -> bool:
    """Return whether tasks are scheduled, none is ready, and no live worker serves the queue, which is not paused."""
    return bool(queue.scheduled) and not (queue.ready or queue.live_workers or queue.paused)


def _without_worker(queue: QueueInfo, overview: TaskQueueOverview) -> Problem:
    text = ngettext(
        "Queue %(queue)s has %(count)s ready task and no live worker. Oldest: %(age)s.",
        "Queue %(queue)s has %(count)s ready tasks and no live worker. Oldest: %(age)s.",
        queue.ready,
    ) % {"queue": queue.name, "count": number(queue.ready), "age": formats.age(queue.oldest_age or 0.0)}
    return Problem("no_worker", text, _start(queue, overview), _command(overview, queue), "critical", queue.name)


def _later_without_worker(queue: QueueInfo, overview: TaskQueueOverview) -> Problem:
    text = ngettext(
        "Queue %(queue)s has %(count)s scheduled task and no live worker. Next due: %(time)s.",
        "Queue %(queue)s has %(count)s scheduled tasks and no live worker. Next due: %(time)s.",
        queue.scheduled,
    ) % {"queue": queue.name, "count": number(queue.scheduled), "time": _next_due([queue], overview)}
    command = _command(overview, queue)
    return Problem("no_worker", text, _start(queue, overview), command, "warning", queue.name, "scheduled")


def _many_without_worker(queues: list[QueueInfo], overview: TaskQueueOverview) -> Problem:
    text = _("%(queues)s queues have %(tasks)s ready tasks and no live worker. Oldest: %(age)s.") % {
        "queues": number(len(queues)),
        "tasks": number(sum(queue.ready for queue in queues)),
        "age": formats.age(max(queue.oldest_age or 0.0 for queue in queues)),
    }
    return Problem("no_worker", text, _("Start a worker:"), _command(overview, *queues), "critical", count=len(queues))


def _many_later(queues: list[QueueInfo], overview: TaskQueueOverview) -> Problem:
    text = _("%(queues)s queues have %(tasks)s scheduled tasks and no live worker. Next due: %(time)s.") % {
        "queues": number(len(queues)),
        "tasks": number(sum(queue.scheduled for queue in queues)),
        "time": _next_due(queues, overview),
    }
    command = _command(overview, *queues)
    return Problem("no_worker", text, _("Start a worker:"), command, count=len(queues), subject="scheduled")


def _next_due(queues: list[QueueInfo], overview: TaskQueueOverview) -> str:
    """Return when the first scheduled task of queues is due."""
    due = min((queue.next_due_at for queue in queues if queue.next_due_at), default=overview.at)
    return formats.timestamp(due, overview.at).text


def _start(queue: QueueInfo, overview: TaskQueueOverview) -> str:
    return " ".join(filter(None, [_last_worker(queue.name, overview), _("Start a worker:")]))


def _command(overview: TaskQueueOverview, *queues: QueueInfo) -> str:
    return worker_command(*[queue.name for queue in queues], using=overview.using)


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


def late_queues(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield queues whose oldest task has waited for `LATE_AFTER`."""
    for queue in overview.queues:
        if _is_late(queue) and not _is_reported(queue, overview) and queue.live_workers:
            text = _("Queue %(queue)s is behind: its oldest task has waited for %(age)s.") % {
                "queue": queue.name,
                "age": formats.age(queue.oldest_age or 0.0),
            }
            advice = _("It has too few workers, or long tasks occupy them. Add a worker:")
            yield Problem("late", text, advice, worker_command(queue.name, using=overview.using), "warning", queue.name)


def _is_late(queue: QueueInfo) -> bool:
    return queue.oldest_age is not None and queue.oldest_age > conf.settings().dashboard.late_after_s


def _is_reported(queue: QueueInfo, overview: TaskQueueOverview) -> bool:
    """Return whether another problem says why the tasks of a queue wait."""
    return queue.paused is not None or grows(queue, overview)


def unregistered_tasks(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield queues with tasks whose name no worker has registered."""
    for queue in overview.queues:
        if queue.unregistered:
            text = ngettext(
                "Queue %(queue)s has %(count)s task with an unregistered name.",
                "Queue %(queue)s has %(count)s tasks with unregistered names.",
                queue.unregistered,
            ) % {"queue": queue.name, "count": number(queue.unregistered)}
            names = overview.unregistered.get(queue.name, [])
            advice = " ".join(filter(None, [_unregistered_names(names), _requeued(queue.unregistered)]))
            command = worker_command(queue.name, using=overview.using)
            yield Problem("unregistered", text, advice, command, "warning", queue.name, "unregistered")


def _requeued(count: int) -> str:
    return ngettext(
        "It is requeued when a worker that registers the name starts:",
        "They are requeued when a worker that registers the names starts:",
        count,
    )


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


def paused_queues(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield paused queues with ready tasks."""
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
            yield Problem(
                "paused", text, advice, queue_command("resume", queue.name, using=overview.using), severity, queue.name
            )


def truncation(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield what the overview does not list."""
    rows, workers = len(overview.queues), len(overview.workers)
    for code, count, is_cut, what in (
        ("queues", rows, rows >= MAX_QUEUES, _("queues")),
        ("workers", workers, workers < overview.worker_count, _("workers")),
    ):
        if is_cut:
            text = _("Only the first %(count)d %(what)s are shown.") % {"count": count, "what": what}
            advice = _("Read a queue by its name: get_queue(name).info()")
            yield Problem("cut_off", text, advice, subject=code)
