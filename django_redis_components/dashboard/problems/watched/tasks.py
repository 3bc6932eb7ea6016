"""Tasks that run far longer than usual: they may hang, and occupy a thread for ever."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from django_redis_components.core.command_line import command_line
from django_redis_components.core.gather import gather
from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.watched.check import WatchedCheck
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.defaults import options_to_show
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.stats.histogram import Histogram
from django_redis_components.taskqueue.stats.metrics import MAX_MINUTES, read_minutes
from django_redis_components.taskqueue.stats.run_time import MIN_OVERLONG_S, is_overlong
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo, WorkerRun

#: Most runs that are looked at, the longest first, and most queues whose run times are read.
MAX_RUNS, MAX_QUEUES = 50, 5


def read(facts: ProblemFacts) -> Flow[list[Any]]:
    """Return the overlong runs: id, name, queue, seconds, the usual p95 or None, id of the worker."""
    runs = yield from _of_shard(facts.shard, _long_runs(facts))
    queues = list(dict.fromkeys(run.queue for run, _worker in runs))[:MAX_QUEUES]
    outcomes = yield from gather([read_minutes(facts.shard, queue, MAX_MINUTES) for queue in queues])
    usual: dict[tuple[str, str], Histogram] = {}
    for queue, outcome in zip(queues, outcomes, strict=True):
        if outcome.value is not None:
            usual |= {(queue, each.name): each.run_time for each in outcome.value.tasks}
    found = []
    for run, worker in runs:
        known = usual.get((run.queue, run.name))
        if run.queue in queues and is_overlong(run.elapsed, known, has_time_limit=_has_time_limit(run.name)):
            found.append([run.id, run.name, run.queue, run.elapsed, known.p95 if known else None, worker.id])
    return found


def find(found: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield the overlong runs."""
    for task_id, name, queue, elapsed_s, p95_s, worker in found:
        text = _("Task %(name)s (%(id)s, queue %(queue)s) has run for %(age)s on %(worker)s.") % {
            "name": name,
            "id": task_id,
            "queue": queue,
            "age": formats.age(elapsed_s),
            "worker": worker,
        }
        usual = _("95 %% of its runs take less than %(time)s.") % {"time": formats.duration(p95_s)} if p95_s else ""
        advice = " ".join(filter(None, [usual, _("It may hang, and occupies a thread. Cancel it:")]))
        command = command_line("redis", "tasks", "cancel", arguments=[task_id], using=facts.using)
        yield Problem("hung", text, advice, command, queue=queue, subject=task_id)


def _long_runs(facts: ProblemFacts) -> list[tuple[WorkerRun, WorkerInfo]]:
    workers = facts.queues.workers if facts.queues else []
    runs = [(run, worker) for worker in workers if worker.is_alive for run in worker.runs]
    long = [(run, worker) for run, worker in runs if run.elapsed > MIN_OVERLONG_S]
    return heapq.nlargest(MAX_RUNS, long, key=lambda each: each[0].elapsed)


def _of_shard(shard: Shard, runs: list[tuple[WorkerRun, WorkerInfo]]) -> Flow[list[tuple[WorkerRun, WorkerInfo]]]:
    """Return the runs whose tasks are in a shard: worker processes report those of all shards to each."""
    if not runs or len(shards_of(shard.using)) == 1:
        return runs
    known = yield Batch([Read("EXISTS", shard.record(run.id)) for run, _worker in runs])
    return [each for each, is_here in zip(runs, known, strict=True) if is_here]


def _has_time_limit(name: str) -> bool:
    """Return whether a task of this process has a time limit."""
    task = registry.find(name)
    return task is not None and options_to_show(task).timeout is not None


CHECK = WatchedCheck("tasks", read, find, is_of_shard=True)
