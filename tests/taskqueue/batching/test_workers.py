"""Workers die, stop and are asked to end a call in the middle of a batch; replies are lost and the server is away."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import time
from collections import Counter
from typing import Any

import pytest

from django_redis_components.taskqueue import TaskFailed, TaskResult, get_queue
from tests.conftest import components_settings
from tests.support import Proxy, Store, eventually
from tests.support.processes import Child, Children
from tests.taskqueue.batching.tasks import count, hold_batch, hold_batch_async, runs_of
from tests.taskqueue.support import (
    Held,
    base_key,
    is_running,
    kill_processes,
    processes_of,
    queue_worker,
    running_worker,
    taskqueue_settings,
)

pytestmark = pytest.mark.integration

SITE = {"DJANGO_SETTINGS_MODULE": "tests.taskqueue.batching.site"}
BOTH = pytest.mark.parametrize("made", [hold_batch, hold_batch_async], ids=["sync", "async"])


@pytest.fixture(autouse=True)
def _settings(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=3, GRACE=20)


def worker_of(children: Children, *args: str) -> Child:
    return queue_worker(children, *args, env=SITE)


def send(made: Any, name: str, numbers: int) -> list[TaskResult]:
    found: list[TaskResult] = made.enqueue_many([((name, number), {}) for number in range(numbers)])
    return found


def values(results: list[TaskResult]) -> list[Any]:
    return [result.get(60) for result in results]


def outcomes(result: TaskResult) -> list[str]:
    result.refresh()
    return [run.outcome for run in result.timeline]


def deliveries(store: Store, result: TaskResult) -> bytes | None:
    found: bytes | None = store.raw.hget(base_key(store, "t", result.id), "x")
    return found


@BOTH
def test_each_call_runs_again_alone_after_kill_9(redis_server: Store, children: Children, made: Any) -> None:
    worker_of(children)
    results = send(made, "a", 5)
    held = Held(redis_server, "a")

    os.kill(held.started(), signal.SIGKILL)
    held.release()

    assert values(results) == list(range(5))
    assert runs_of(redis_server, "a")[0] == list(range(5))
    assert sorted(runs_of(redis_server, "a")[1:]) == [[number] for number in range(5)]
    assert [outcomes(result) for result in results] == [["recovered", "succeeded"]] * 5
    assert [deliveries(redis_server, result) for result in results] == [b"1"] * 5


@BOTH
def test_calls_are_returned_without_an_attempt_when_the_grace_period_ends(
    redis_server: Store, children: Children, settings: Any, made: Any
) -> None:
    taskqueue_settings(settings, LEASE=3, GRACE=0.2)
    first = worker_of(children)
    results = send(made, "a", 5)
    held = Held(redis_server, "a")
    held.started()

    first.terminate()
    assert first.wait() == 0

    for result in results:
        result.refresh()
        assert (result.state, result.attempts) == ("ready", 0)
        assert deliveries(redis_server, result) is None
    held.release()
    worker_of(children)
    assert values(results) == list(range(5))
    assert [sorted(run) for run in runs_of(redis_server, "a")] == [list(range(5))] * 2, "together again"


@BOTH
def test_running_batch_finishes_before_its_worker_stops(redis_server: Store, children: Children, made: Any) -> None:
    worker = worker_of(children)
    results = send(made, "a", 5)
    held = Held(redis_server, "a")
    held.started()

    worker.terminate()
    worker.wait_for("Stopping: running tasks have 20 s to finish")
    held.release()

    assert worker.wait() == 0
    assert values(results) == list(range(5))
    assert [outcomes(result) for result in results] == [["succeeded"]] * 5


@BOTH
def test_cancelled_call_ends_at_once_and_the_others_continue(
    redis_server: Store, children: Children, made: Any
) -> None:
    worker_of(children)
    results = send(made, "a", 5)
    held = Held(redis_server, "a")
    pid = held.started()

    assert results[2].cancel(force_after=0.5)

    with pytest.raises(TaskFailed, match="was cancelled"):
        results[2].get(60)
    held.release()
    assert values(results[:2] + results[3:]) == [0, 1, 3, 4]
    assert held.starts() == 1
    assert is_running(pid)
    assert redis_server.raw.lrange(f"{redis_server.prefix}:done:a", 0, -1) == [b"0", b"1", b"3", b"4"]


@BOTH
def test_function_is_interrupted_when_all_calls_are_cancelled(
    redis_server: Store, children: Children, made: Any
) -> None:
    worker_of(children)
    results = send(made, "a", 5)
    held = Held(redis_server, "a")
    held.started()

    assert get_queue("default").cancel([result.id for result in results]) == 5

    for result in results:
        with pytest.raises(TaskFailed, match="was cancelled"):
            result.get(60)
    other = made.enqueue("b", 7)
    Held(redis_server, "b").release()
    assert other.get(60) == 7
    assert redis_server.raw.exists(f"{redis_server.prefix}:done:a") == 0


@BOTH
def test_soft_limit_fails_the_calls_that_are_not_settled(redis_server: Store, children: Children, made: Any) -> None:
    worker_of(children)

    results = send(made.using(timeout=(0.3, None)), "a", 3)

    for result in results:
        with pytest.raises(TaskFailed, match=r"soft time limit of 0\.3 s"):
            result.get(60)


def test_hard_limit_ends_each_call_as_its_options_say(redis_server: Store, children: Children) -> None:
    worker = worker_of(children)
    limited = hold_batch.using(timeout=(None, 0.5))
    pairs = [limited.enqueue("a", 0), limited.using(max_attempts=2, backoff=60).enqueue("a", 1)]
    held = Held(redis_server, "a")
    held.started()
    assert runs_of(redis_server, "a") == [[0, 1]]

    with pytest.raises(TaskFailed, match=r"hard time limit of 0\.5 s"):
        pairs[0].get(60)

    eventually(lambda: outcomes(pairs[1]) == ["retried"])
    assert pairs[1].state == "retrying"
    assert [pair.attempts for pair in pairs] == [1, 1]
    worker.wait_for("has reached its hard time limit of 0.5 s")


def test_neighbors_of_a_call_whose_outcome_the_supervisor_sends_are_left_to_it(redis_server: Store) -> None:
    held = Held(redis_server, "a")
    with running_worker() as worker:
        results = send(hold_batch, "a", 5)
        held.started()

        worker.return_jobs(keep={results[0].id})

        assert sorted(worker.fetcher.leases) == sorted(result.id for result in results)
        assert [outcomes(result) for result in results] == [["running"]] * 5
        held.release()
        assert values(results) == list(range(5))


def test_many_kills_lose_no_call_and_repeat_only_those_that_ran(redis_server: Store, children: Children) -> None:
    results = count.using(max_deliveries=1_000).enqueue_many([((number,), {}) for number in range(1_000)])
    late = count.using(max_deliveries=1_000, run_after=0.5).enqueue_many(
        [((number,), {}) for number in range(1_000, 1_200)]
    )
    kills = 0
    deadline = time.monotonic() + 100
    while not finished([*results, *late]) and time.monotonic() < deadline:
        worker = worker_of(children, "--threads", "2")
        goal = redis_server.raw.llen(f"{redis_server.prefix}:counted") + random.Random(kills).randint(50, 300)
        eventually(
            lambda goal=goal: (
                redis_server.raw.llen(f"{redis_server.prefix}:counted") >= goal or finished([*results, *late])
            )
        )
        if kills < 4:
            kill_processes([*processes_of(worker.pid), worker.pid])
            kills += 1
        else:
            eventually(lambda: finished([*results, *late]))
            worker.terminate()
            assert worker.wait() == 0

    counted = [int(number) for number in redis_server.raw.lrange(f"{redis_server.prefix}:counted", 0, -1)]
    assert sorted(set(counted)) == list(range(1_200))
    assert finished([*results, *late])
    assert get_queue("default").info().running == 0
    repeated = [(number, times) for number, times in Counter(counted).items() if times > 1]
    assert len(repeated) < len(results), "most calls ran once"
    timelines = {number: runs_with_workers([*results, *late][number]) for number, _ in repeated}
    assert [number for number, times in repeated if len(timelines[number]) < times] == []
    assert {outcome for runs in timelines.values() for outcome, _ in runs[:-1]} <= {"recovered"}
    dead = {worker.rpartition(".")[0] for runs in timelines.values() for _, worker in runs[:-1]}
    assert len(dead) <= kills, "a call ran again although its worker was not killed"


def runs_with_workers(result: TaskResult) -> list[tuple[str, str]]:
    """Return the outcome and the worker of each run."""
    result.refresh()
    return [(run.outcome, run.worker_id) for run in result.timeline]


def finished(results: list[TaskResult]) -> bool:
    info = get_queue("default").info()
    return not (info.ready or info.running or info.scheduled or info.retrying)


def test_two_workers_settle_each_call_once(redis_server: Store, children: Children) -> None:
    for _ in range(2):
        worker_of(children, "--threads", "2")

    results = count.enqueue_many([((number,), {}) for number in range(600)])

    values(results)
    counted = sorted(int(number) for number in redis_server.raw.lrange(f"{redis_server.prefix}:counted", 0, -1))
    assert counted == list(range(600))
    sizes = [int(size) for size in redis_server.raw.lrange(f"{redis_server.prefix}:sizes", 0, -1)]
    assert max(sizes) == 20
    assert len(sizes) < 60


def test_lost_replies_settle_each_call_once(proxy: Proxy, redis_server: Store) -> None:
    far = dataclasses.replace(hold_batch, connection="proxied")
    Held(redis_server, "a").release()
    with running_worker(using="proxied"):
        for number in range(20):
            proxy.drop_next_reply(after=b"taskqueue")
            results = send(far, "a", 5)
            assert values(results) == list(range(5)), number

    assert runs_of(redis_server, "a") == [list(range(5))] * 20
    assert proxy.dropped >= 10


def test_outage_loses_and_repeats_no_call(own_server: Store, settings: Any, children: Children) -> None:
    settings.REDIS_COMPONENTS = components_settings(own_server) | {"TASKQUEUE": {"LEASE": 3}}
    worker_of(children)
    results = send(hold_batch, "a", 5)
    held = Held(own_server, "a")
    held.started()
    eventually(lambda: len(runs_of(own_server, "a")) == 1)

    own_server.servers[0].stop()
    own_server.servers[0].start()
    held.release()

    assert values(results) == list(range(5))
    assert runs_of(own_server, "a") == [list(range(5))]
    assert [outcomes(result) for result in results] == [["succeeded"]] * 5
