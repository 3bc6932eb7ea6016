"""How many slots a load needs: Erlang's formula for queues."""

from __future__ import annotations

import dataclasses
import math

from django_redis_components.taskqueue.stats.histogram import runs_per_task
from django_redis_components.taskqueue.stats.metrics import Metrics


@dataclasses.dataclass(frozen=True, slots=True)
class QueuePlan:
    """What the load of a queue needs.

    Attributes:
        per_second: runs per second in its busiest minute.
        mean_run: of a run, in seconds.
        load: slots that are busy on average then.
        slots: the fewest that keep the wait; 0 if nothing has run.
        workers: worker processes with these slots.
        busy: share of the slots that are busy then.
    """

    queue: str
    per_second: float
    mean_run: float
    load: float
    slots: int
    workers: int
    busy: float


def plan(recent: Metrics, *, wait_s: float, share: float, threads: int) -> QueuePlan:
    """Return what the busiest of these minutes needs, so that a share of the tasks starts within a time."""
    whole = recent.intervals[:-1] or recent.intervals
    per_second = max(interval.counts.runs for interval in whole) / recent.step
    per_second *= runs_per_task(recent.run_time, recent.wait_time)
    mean_s = recent.run_time.mean_s or 0.0
    load = per_second * mean_s
    slots = slots_for(load, within=wait_s / mean_s, share=share) if load else 0
    workers = math.ceil(slots / threads)
    return QueuePlan(recent.queue, per_second, mean_s, load, slots, workers, load / slots if slots else 0.0)


def wait_probability(load: float, slots: int, within: float = 0.0) -> float:
    """Return the probability that a task waits, or that it waits longer than `within`.

    This is Erlang C, for Poisson arrivals and exponential run times, from Erlang B by its recursion over the slots
    (A. K. Erlang, "Solution of some problems in the theory of probabilities of significance in automatic telephone
    exchanges", 1917; L. Kleinrock, "Queueing Systems", volume 1, 1975, section 3.5). The wait of a task that waits is
    exponential with the rate `slots - load`.

    Args:
        load: arrivals per second times the mean run in seconds.
        within: a time, as a multiple of the mean run.
    """
    if load >= slots:
        return 1.0
    blocked = 1.0
    for count in range(1, slots + 1):
        blocked = load * blocked / (count + load * blocked)
    waits = blocked / (1 - load / slots * (1 - blocked))
    return waits * math.exp(-(slots - load) * within)


def slots_for(load: float, *, within: float, share: float) -> int:
    """Return the fewest slots with which this share of the tasks starts within a time.

    Args:
        load, within: see `wait_probability`.
        share: from 0 to 1, exclusive.
    """
    low, high = math.floor(load), math.floor(load) + 1
    while wait_probability(load, high, within) > 1 - share:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if wait_probability(load, middle, within) > 1 - share:
            low = middle
        else:
            high = middle
    return high
