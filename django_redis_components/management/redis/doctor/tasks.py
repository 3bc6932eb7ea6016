"""Checks of the task queue: workers, poller, schedules, waiting and unregistered tasks."""

from __future__ import annotations

from collections.abc import Iterator

from redis.exceptions import ResponseError

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.protocol import run
from django_redis_components.core.settings import conf
from django_redis_components.management.listings.task_listing import age
from django_redis_components.management.redis.doctor.findings import Finding, Report
from django_redis_components.management.redis.groups import command_line
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.schedules import status
from django_redis_components.taskqueue.schedules.status import ScheduleSnapshot
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, TaskQueueOverview, read_overview
from django_redis_components.taskqueue.store.control import list_tasks

#: Most unregistered tasks of a queue whose names are read.
MAX_UNREGISTERED = 50
#: Most queues whose unregistered tasks are read.
MAX_QUEUES = 20


def check_tasks(shard: Shard, client: SyncClient, report: Report) -> None:
    """Report problems of queues, workers and schedules."""
    try:
        overview = run(client, read_overview(shard))
        schedules = run(client, status.read_registered(shard))
        names = {
            queue.name: _unregistered_names(shard, client, queue.name)
            for queue in [each for each in overview.queues if each.unregistered][:MAX_QUEUES]
        }
    except ResponseError as exc:
        report.skipped.append(f"Queues, workers and schedules: {exc}")
        return
    report.facts |= {
        "queues": len(overview.queues),
        "workers": overview.live_count,
        "poller": overview.poller,
    }
    report.findings.extend(task_findings(overview, shard.alias))
    report.findings.extend(_schedules(schedules, shard.alias))
    report.findings.extend(_unregistered(queue, names, shard.alias) for queue in overview.queues if queue.unregistered)


def task_findings(overview: TaskQueueOverview, using: str) -> Iterator[Finding]:
    """Yield the problems of queues, workers and the poller."""
    for queue in overview.queues:
        worker = command_line("runworker", arguments=[queue.name], using=using)
        if queue.ready and not queue.paused and not queue.live_workers:
            text = f"Queue {queue.name!r} has {queue.ready:,} ready tasks and no live worker."
            yield Finding("error", "no_worker", text, "Start a worker:", worker)
        elif queue.ready and queue.paused:
            text = f"Queue {queue.name!r} is paused and has {queue.ready:,} ready tasks."
            resume = command_line("redis", "queues", "resume", arguments=[queue.name], using=using)
            yield Finding("warning", "paused", text, "Resume it:", resume)
        elif queue.ready and (queue.oldest_age or 0.0) > conf.settings().dashboard.late_after_s:
            text = f"The oldest ready task of queue {queue.name!r} has waited for {age(queue.oldest_age or 0.0)}."
            yield Finding("warning", "late", text, "Start another worker:", worker)
    if overview.poller is None and (overview.queues or overview.workers):
        text = "No poller is active: tasks of crashed workers are not recovered, periodic tasks are not sent."
        fix = "Start a poller, or a worker without --no-poller:"
        yield Finding("error", "no_poller", text, fix, command_line("runpoller", using=using))
    for lost in overview.workers:
        if not lost.is_alive:
            text = f"Worker {lost.id} is lost: its last heartbeat was {age(lost.heartbeat_age)} ago."
            yield Finding("warning", "worker_lost", text, "Read its log and restart it. The poller requeues its tasks.")


def _schedules(snapshot: ScheduleSnapshot, using: str) -> Iterator[Finding]:
    for each in snapshot.schedules:
        if each.state == "late" and each.next_at:
            overdue_s = (snapshot.at - each.next_at).total_seconds()
            text = f"Schedule {each.name!r} is {age(overdue_s)} overdue: no poller has enqueued its task."
            fix = "Start a poller with the code that declares it:"
            yield Finding("warning", "schedule_late", text, fix, command_line("runpoller", using=using))


def _unregistered(queue: QueueInfo, names: dict[str, list[str]], using: str) -> Finding:
    tasks = ", ".join(names.get(queue.name, [])) or "unknown"
    text = f"Queue {queue.name!r} has {queue.unregistered:,} tasks whose name no worker has registered: {tasks}."
    fix = "Deploy the modules that define them and restart a worker, which requeues them; or delete them:"
    command = command_line("redis", "queues", "delete", options=["--unregistered"], arguments=[queue.name], using=using)
    return Finding("warning", "unregistered", text, fix, command)


def _unregistered_names(shard: Shard, client: SyncClient, queue: str) -> list[str]:
    """Return the names of the first unregistered tasks of a queue."""
    rows = run(client, list_tasks(shard, queue, "unregistered", MAX_UNREGISTERED, 0))
    return sorted({fields[Field.task_name].decode() for _, fields, _ in rows if Field.task_name in fields})
