"""The workers that a command of the page concerns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.clients import shown_shards
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import InvalidParameter
from django_redis_components.dashboard.shard_reads import of_shards
from django_redis_components.dashboard.workers.rows import MAX_TARGETS
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.merging import merged_workers
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo
from django_redis_components.taskqueue.stats.workers import find_workers
from django_redis_components.taskqueue.store.workers import MAX_ID


def ids_of(request: PageRequest) -> list[str]:
    """Return the ids of the form or the URL, each once."""
    return list(dict.fromkeys(request.http.POST.getlist("id") or request.http.GET.getlist("id")))


def check_ids(targets: Sequence[str]) -> None:
    """Raise InvalidParameter unless these may be ids of workers or supervisors, and not too many."""
    if not 0 < len(targets) <= MAX_TARGETS or not all(0 < len(target) <= MAX_ID for target in targets):
        text = _("Required: id, at most %(most)s characters; at most %(times)s times.") % {
            "most": MAX_ID,
            "times": MAX_TARGETS,
        }
        raise InvalidParameter(text)


def find_all(targets: Sequence[str]) -> Flow[list[WorkerInfo]]:
    """Read the workers of all targets."""
    found = yield from of_shards(lambda shard: gather_values([find_workers(shard, target) for target in targets]))
    return merged_workers([[worker for page in pages for worker in page.workers] for pages in found.values()])


def to_any_shard(command: Callable[[Shard], Flow[None]]) -> Flow[None]:
    """Send a command to the first shard that accepts it. Workers read all, and execute an operation once."""
    *others, last = shown_shards().shards
    for shard in others:
        try:
            return (yield from command(shard))
        except RedisError:
            continue
    return (yield from command(last))


def name_of(target: str, workers: Sequence[WorkerInfo]) -> str:
    """Return the host and the process id of a worker or a supervisor, or the id of an unknown one."""
    worker = next((each for each in workers if target in (each.id, each.supervisor)), None)
    if worker is None:
        return target
    pid = worker.supervisor_pid if target == worker.supervisor else worker.pid
    return f"{worker.host} · {pid}" if pid else target


def names_of(targets: Sequence[str], workers: Sequence[WorkerInfo]) -> str:
    """Return the names of all targets."""
    return ", ".join(dict.fromkeys(name_of(target, workers) for target in targets))


def facts_of(workers: Sequence[WorkerInfo]) -> list[tuple[str, str]]:
    """Return labels and values about the workers, for a confirmation."""
    if not workers:
        return []
    busy, threads = sum(worker.busy_threads for worker in workers), sum(worker.threads for worker in workers)
    return [
        (_("Processes"), number(len(workers))),
        (_("Queues"), ", ".join(dict.fromkeys(queue for worker in workers for queue in worker.queues))),
        (_("Busy"), _("%(busy)s of %(threads)s") % {"busy": number(busy), "threads": number(threads)}),
    ]


def why_impossible(workers: Sequence[WorkerInfo]) -> str:
    """Return why there is nothing to confirm, or ""."""
    if not workers:
        return _("No worker has this id. It may have exited.")
    if not any(worker.is_alive for worker in workers):
        return _("This worker is lost: it sends no heartbeat, and would not execute the command.")
    return ""
