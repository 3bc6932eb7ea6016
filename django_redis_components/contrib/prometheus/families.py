"""Metric families: names with units, help, and labels bounded by the number of queues."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from django_redis_components.dashboard.problems.incidents import Incident
from django_redis_components.taskqueue.stats.histogram import BUCKETS, Histogram, bounds_of
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, TaskQueueOverview
from django_redis_components.taskqueue.stats.scaling import wanted_capacity
from django_redis_components.taskqueue.stats.totals import QueueTotals

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

PREFIX = "redis_components"
QUEUE = f"{PREFIX}_taskqueue"
#: States of tasks; each task is in one of them.
STATES = ("ready", "scheduled", "waiting", "running", "failed", "unregistered")


def up_family(*, is_up: bool) -> Metric:
    """Return whether Redis could be read."""
    return _gauge(f"{PREFIX}_up", "Whether Redis could be read (1) or not (0).", (), [((), is_up)])


def families_of(
    overview: TaskQueueOverview, totals: Sequence[QueueTotals], incidents: Sequence[Incident]
) -> Iterator[Metric]:
    """Yield the metrics of all queues and workers, and the current problems."""
    yield from _depth_families(overview.queues)
    yield from _total_families(totals)
    yield from _worker_families(overview)
    yield from _scaling_families(overview, totals)
    yield _gauge(f"{QUEUE}_poller_active", "Whether a poller is active.", (), [((), overview.poller is not None)])
    if overview.eviction_policy is not None:
        text = "Whether the server may evict tasks when its memory is full."
        yield _gauge(f"{PREFIX}_redis_evicts_keys", text, (), [((), overview.evicts)])
    yield _problems(incidents, overview.at.timestamp())


def shard_families(overviews: Mapping[str, TaskQueueOverview | None]) -> Iterator[Metric]:
    """Yield the metrics of each shard, by its name; None for one that does not answer."""
    up = [((name,), overview is not None) for name, overview in overviews.items()]
    yield _gauge(f"{QUEUE}_shard_up", "Whether the shard answers.", ("shard",), up)
    found = {name: overview for name, overview in overviews.items() if overview is not None}
    states = [
        ((name, state), sum(getattr(queue, state) for queue in overview.queues))
        for name, overview in found.items()
        for state in STATES
    ]
    yield _gauge(f"{QUEUE}_shard_tasks", "Tasks by shard and state.", ("shard", "state"), states)
    pollers = [((name,), overview.poller is not None) for name, overview in found.items()]
    yield _gauge(f"{QUEUE}_shard_poller_active", "Whether a poller of the shard is active.", ("shard",), pollers)
    ages = [((name,), max((each.oldest_age or 0.0 for each in one.queues), default=0.0)) for name, one in found.items()]
    text = "Age of the oldest ready task of the shard; 0 if none is ready."
    yield _gauge(f"{QUEUE}_shard_oldest_task_age_seconds", text, ("shard",), ages)


def outbox_families(count: int, oldest_age_s: float) -> Iterator[Metric]:
    """Yield the metrics of the outbox."""
    text = "Calls that wait in the outbox until the relay has sent or deleted them; at most 10,000 of a database."
    yield _gauge(f"{PREFIX}_outbox_rows", text, (), [((), count)])
    text = "Age of the oldest call in the outbox; 0 if none waits."
    yield _gauge(f"{PREFIX}_outbox_oldest_row_age_seconds", text, (), [((), oldest_age_s)])


def _problems(incidents: Sequence[Incident], now: float) -> Metric:
    """Return how many problems of a code there are; without the subjects, whose number has no bound."""
    counts = Counter((each.code, each.severity, "true" if each.is_acknowledged(now) else "false") for each in incidents)
    text = "Problems that the watching process has found in its last round."
    return _gauge(f"{PREFIX}_problems", text, ("code", "severity", "acknowledged"), counts.items())


def _depth_families(queues: Sequence[QueueInfo]) -> Iterator[Metric]:
    states = [((queue.name, state), getattr(queue, state)) for queue in queues for state in STATES]
    yield _gauge(f"{QUEUE}_tasks", "Tasks by queue and state.", ("queue", "state"), states)
    for name, help_text, values in (
        (
            "limited_tasks",
            "Ready and scheduled tasks that a concurrency or rate limit holds back.",
            {queue.name: queue.limited for queue in queues},
        ),
        (
            "retrying_tasks",
            "Scheduled tasks that have failed and wait for their next attempt.",
            {queue.name: queue.retrying for queue in queues},
        ),
        (
            "oldest_task_age_seconds",
            "Age of the oldest ready task; 0 if none is ready.",
            {queue.name: queue.oldest_age or 0.0 for queue in queues},
        ),
        ("paused", "Whether the queue is paused.", {queue.name: queue.paused is not None for queue in queues}),
    ):
        yield _gauge(f"{QUEUE}_{name}", help_text, ("queue",), [((queue,), value) for queue, value in values.items()])


def _total_families(totals: Sequence[QueueTotals]) -> Iterator[Metric]:
    from prometheus_client.metrics_core import CounterMetricFamily

    text = (
        "Outcomes of tasks and runs: succeeded, failed, retried, delayed, recovered, cancelled, expired, unregistered."
    )
    counter = CounterMetricFamily(f"{QUEUE}_outcomes", text, labels=("queue", "outcome"))
    for each in totals:
        for outcome, count in dataclasses.asdict(each.counts).items():
            counter.add_metric((each.name, outcome), count)
    yield counter
    wait_text = "Time from ready (enqueued, due, or requeued) to the worker's lease."
    yield _histogram(f"{QUEUE}_wait_seconds", wait_text, {each.name: each.wait_time for each in totals})
    yield _histogram(f"{QUEUE}_run_seconds", "Time that runs took.", {each.name: each.run_time for each in totals})


def _worker_families(overview: TaskQueueOverview) -> Iterator[Metric]:
    live = [worker for worker in overview.workers if worker.is_alive]
    counts = [(("live",), overview.live_count), (("lost",), overview.worker_count - overview.live_count)]
    text = "Worker processes; a lost one has sent no heartbeat for the duration of a lease."
    yield _gauge(f"{QUEUE}_workers", text, ("state",), counts)
    by_queue = [((queue.name,), queue.live_workers) for queue in overview.queues]
    yield _gauge(f"{QUEUE}_queue_workers", "Live worker processes that serve the queue.", ("queue",), by_queue)
    threads, busy = sum(worker.threads for worker in live), sum(worker.busy_threads for worker in live)
    yield _gauge(f"{QUEUE}_threads", "Threads of live workers.", (), [((), threads)])
    yield _gauge(f"{QUEUE}_busy_threads", "Threads of live workers that run a task.", (), [((), busy)])


def _scaling_families(overview: TaskQueueOverview, totals: Sequence[QueueTotals]) -> Iterator[Metric]:
    wanted = wanted_capacity(overview, totals).items()
    text = "Tasks of the queue that should run at once, so that the ready ones start within a minute."
    yield _gauge(f"{QUEUE}_wanted_slots", text, ("queue",), [((name,), each.slots) for name, each in wanted])
    text = "Worker processes with these slots, if they serve this queue alone; 0 if none is needed."
    yield _gauge(f"{QUEUE}_wanted_workers", text, ("queue",), [((name,), each.workers) for name, each in wanted])


def _gauge(name: str, help_text: str, labels: Sequence[str], rows: Iterable[tuple[Sequence[str], float]]) -> Metric:
    from prometheus_client.metrics_core import GaugeMetricFamily

    family = GaugeMetricFamily(name, help_text, labels=labels)
    for values, value in rows:
        family.add_metric(values, float(value))
    return family


def _histogram(name: str, help_text: str, by_queue: dict[str, Histogram]) -> Metric:
    """Return a histogram. Redis stores no sum: it is that of the middles of the buckets."""
    from prometheus_client.metrics_core import HistogramMetricFamily

    family = HistogramMetricFamily(name, help_text, labels=("queue",))
    for queue, histogram in by_queue.items():
        family.add_metric((queue,), _buckets_of(histogram), histogram.total_s)
    return family


def _buckets_of(histogram: Histogram) -> list[tuple[str, float]]:
    """Return cumulative counts by upper bound; the bounds differ by a factor of 2."""
    counts = list(accumulate(histogram.buckets))
    bounded = [(f"{bounds_of(index)[1]:g}", float(counts[index])) for index in range(0, BUCKETS - 1, 2)]
    return [*bounded, ("+Inf", float(counts[-1]))]
