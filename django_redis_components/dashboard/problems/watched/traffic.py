"""Traffic of the queues whose metrics a page does not read: more than 50 are measured by the watching process only."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils.translation import ngettext

from django_redis_components.core.chunks import chunks
from django_redis_components.core.command_line import command_line
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.traffic import CHECKS as OF_TRAFFIC
from django_redis_components.dashboard.problems.watched.check import WatchedCheck
from django_redis_components.taskqueue import Counts, Histogram, Interval, Metrics
from django_redis_components.taskqueue.fields import Part
from django_redis_components.taskqueue.stats.metrics import MAX_QUEUES, STEPS_S
from django_redis_components.taskqueue.stats.packed_minutes import NONE, read_range
from django_redis_components.taskqueue.stats.queue_stats import OVERVIEW_MINUTES, TaskQueueOverview, read_traffic

#: Most queues with a problem whose metrics are stored. Of the others only the number is known.
MAX_STORED = 50
#: Length of an interval of the metrics.
STEP_S = STEPS_S[Part.minute]


def read(facts: ProblemFacts) -> Flow[dict[str, Any]]:
    """Return the metrics of the queues with a problem, of those of which the overview has none, and how many more.

    Each is a list: name, seconds since the epoch, arrivals per minute or None, and of each minute with tasks how long
    ago it is, and its counts by outcome. Beside them is how many failed tasks never ran, by the name of the queue.
    """
    overview, found = facts.queues, []
    not_run: dict[str, int] = {}
    if overview is None:
        return {"queues": [], "more": 0}
    names = [queue.name for queue in overview.queues if queue.name not in overview.metrics]
    packed = (yield from read_range(facts.shard)) if names else NONE
    for chunk in chunks(names, MAX_QUEUES):
        metrics, arrivals = yield from read_traffic(facts.shard, chunk, packed)
        part = _with_traffic(overview, metrics, arrivals)
        reported = {problem.queue for check in OF_TRAFFIC for problem in check(part)}
        found += [_stored(metrics[name], arrivals.get(name)) for name in chunk if name in reported]
        not_run |= {name: metrics[name].not_run for name in chunk if name in reported and metrics[name].not_run}
    stored = found[:MAX_STORED]
    kept = {name: not_run[name] for name, *_ in stored if name in not_run}
    return {"queues": stored, "more": len(found[MAX_STORED:]), "not_run": kept}


def find(found: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield the number of further queues. The problems of the others are found with those that a page measures."""
    _restored(found)
    if more := int(found["more"]):
        text = ngettext(
            "%(count)s more queue has failures, retries, lost leases or a growing backlog.",
            "%(count)s more queues have failures, retries, lost leases or a growing backlog.",
            more,
        ) % {"count": number(more)}
        command = command_line("redis", "queues", "status", using=facts.using)
        yield Problem("cut_off", text, "", command, count=more, subject="traffic")


def with_watched_traffic(facts: ProblemFacts) -> ProblemFacts:
    """Return facts whose overview has the metrics that the watching process has found, beside its own."""
    if facts.queues is None or CHECK.name not in facts.watched:
        return facts
    with contextlib.suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # `find` raises it
        metrics, arrivals = _restored(facts.watched[CHECK.name])
        unread = {name: each for name, each in metrics.items() if name not in facts.queues.metrics}
        return dataclasses.replace(facts, queues=_with_traffic(facts.queues, unread, arrivals))
    return facts


def _with_traffic(
    overview: TaskQueueOverview, metrics: Mapping[str, Metrics], arrivals: Mapping[str, float | None]
) -> TaskQueueOverview:
    queues = [
        dataclasses.replace(queue, arrival_rate=arrivals[queue.name]) if queue.name in metrics else queue
        for queue in overview.queues
    ]
    return dataclasses.replace(overview, queues=queues, metrics={**overview.metrics, **metrics})


def _stored(metrics: Metrics, arrival_rate: float | None) -> list[Any]:
    minutes = [
        [ago, *dataclasses.astuple(interval.counts)]
        for ago, interval in enumerate(reversed(metrics.intervals))
        if any(dataclasses.astuple(interval.counts))
    ]
    return [metrics.queue, metrics.at.timestamp(), arrival_rate, minutes]


def _restored(found: Any) -> tuple[dict[str, Metrics], dict[str, float | None]]:
    """Return metrics, without histograms, and arrivals by queue."""
    not_run = found.get("not_run", {})  # an earlier version stores none
    metrics = {
        name: _metrics(name, datetime.fromtimestamp(at, UTC), minutes, int(not_run.get(name, 0)))
        for name, at, _, minutes in found["queues"]
    }
    return metrics, {name: arrival_rate for name, _, arrival_rate, _ in found["queues"]}


def _metrics(name: str, at: datetime, minutes: list[list[int]], not_run: int) -> Metrics:
    latest, counts = at.replace(second=0, microsecond=0), {ago: Counts(*numbers) for ago, *numbers in minutes}
    intervals = [
        Interval(latest - timedelta(seconds=ago * STEP_S), counts.get(ago, Counts()))
        for ago in range(OVERVIEW_MINUTES - 1, -1, -1)
    ]
    totals = Counts(*map(sum, zip(*(numbers for _, *numbers in minutes), strict=True)))
    return Metrics(name, at, STEP_S, intervals, totals, Histogram(()), Histogram(()), [], not_run)


CHECK = WatchedCheck("traffic", read, find, is_of_shard=True)
