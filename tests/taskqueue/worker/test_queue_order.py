"""Queues by weight: proportional first places without starvation; and strict order."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pytest
from django.core.management import call_command

from django_redis_components.core.client import connections
from django_redis_components.management.arguments import weights
from django_redis_components.taskqueue import startup
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.options import WorkerOptions
from django_redis_components.taskqueue.worker.queue_order import QueueOrder
from tests.support import Proxy, Store, run_together
from tests.support.processes import Children
from tests.taskqueue.support import new_fetcher, queue_worker
from tests.taskqueue.tasks import add, note


def test_queues_without_weights_keep_the_given_order() -> None:
    turns = QueueOrder(["high", "low"])

    assert {turns.next() for _ in range(10)} == {("high", "low")}


def test_each_queue_is_first_in_proportion_to_its_weight() -> None:
    turns = QueueOrder(["a", "b", "c"], [5, 2, 1])

    firsts = Counter(turns.next()[0] for _ in range(800))

    assert firsts == {"a": 500, "b": 200, "c": 100}


def test_first_places_are_evenly_distributed() -> None:
    turns = QueueOrder(["a", "b", "c"], [5, 1, 1])

    assert "".join(turns.next()[0] for _ in range(14)) == "aabacaaaabacaa"


def test_all_queues_are_in_each_order() -> None:
    turns = QueueOrder(["a", "b", "c"], [1_000, 7, 1])

    for _ in range(2_000):
        assert sorted(turns.next()) == ["a", "b", "c"]


def test_threads_share_one_order() -> None:
    turns = QueueOrder(["a", "b"], [3, 1])
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    orders = run_together(4, lambda: [turns.next()[0] for _ in range(2_000)])

    sys.setswitchinterval(before)
    assert Counter(first for mine in orders for first in mine) == {"a": 6_000, "b": 2_000}


def by_weight(**weighed: int) -> Fetcher:
    return Fetcher(home(), connections.client(), "w", tuple(weighed), weights=tuple(weighed.values()))


def send(count: int, *queues: str) -> None:
    for queue in queues:
        note.using(queue_name=queue).enqueue_many([((number,), {}) for number in range(count)])


def test_a_worker_serves_queues_by_weight(store: Store) -> None:
    send(60, "high", "low")
    fetcher = by_weight(high=5, low=1)

    served = [job.queue for _ in range(60) for job in fetcher.fetch("0", 1)]

    assert Counter(served) == {"high": 50, "low": 10}


def test_empty_queue_is_skipped(store: Store) -> None:
    send(6, "low")
    fetcher = by_weight(high=5, low=1)

    assert [job.queue for _ in range(6) for job in fetcher.fetch("0", 1)] == ["low"] * 6


def test_request_without_jobs_does_not_advance_the_order(store: Store) -> None:
    send(2, "high", "low")
    fetcher = by_weight(high=1, low=1)

    first = fetcher.fetch("0", 1)
    fetcher.fetch("acks", 0)
    second = fetcher.fetch("0", 1)

    assert [job.queue for job in (*first, *second)] == ["high", "low"]


def test_strict_order_serves_later_queues_last(store: Store) -> None:
    send(10, "high", "low")
    fetcher = new_fetcher("high", "low")

    assert {job.queue for _ in range(10) for job in fetcher.fetch("0", 1)} == {"high"}


def test_repeated_fetch_returns_the_same_tasks_in_another_order(proxy: Proxy, redis_server: Store) -> None:
    send(4, "high", "low")
    fetcher = Fetcher(home("proxied"), connections.client("proxied"), "w", ("high", "low"), weights=(1, 1))
    [first] = fetcher.fetch("0", 1)
    proxy.drop_next_reply(after=b":taskqueue:")

    [second] = fetcher.fetch("0", 1)

    assert proxy.dropped == 1
    assert [first.queue, second.queue] == ["high", "low"]
    assert redis_server.raw.zcard(f"{redis_server.prefix}:taskqueue:{{default}}:q:low:running") == 1


@pytest.fixture
def started_options(monkeypatch: pytest.MonkeyPatch) -> list[WorkerOptions]:
    """What `runworker` would run with; it ends at once."""
    received: list[WorkerOptions] = []

    def run_worker(options: WorkerOptions, *_: Any, **__: Any) -> int:
        received.append(options)
        return 0

    monkeypatch.setattr(startup, "run_worker", run_worker)
    return received


@pytest.mark.parametrize(
    ("args", "queues", "chosen"),
    [
        ([], ("default",), ()),
        (["b", "a", "b"], ("b", "a"), ()),
        (["--weights", "high=5,low=1"], ("high", "low"), (5, 1)),
        (["low", "other", "high", "--weights", "high=5,low=2"], ("low", "other", "high"), (2, 1, 5)),
    ],
    ids=str,
)
def test_queues_and_weights_are_combined(
    started_options: list[WorkerOptions], args: list[str], queues: tuple[str, ...], chosen: tuple[int, ...]
) -> None:
    with pytest.raises(SystemExit):
        call_command("runworker", *args)

    assert [(options.queues, options.weights) for options in started_options] == [(queues, chosen)]


def test_queue_name_may_contain_an_equals_sign() -> None:
    assert weights("a=b=3") == {"a=b": 3}


def test_worker_logs_its_weights(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children, "--weights", "high=5,low=1", "--threads", "1")

    assert "Worker: queues high=5, low=1 (by weight), 1 process with 1 thread" in worker.output
    assert add.using(queue_name="low").enqueue(2, 3).get(60) == 5


def test_weight_for_a_queue_that_is_not_served_exits_with_code_2(children: Children) -> None:
    child = children.manage("runworker", "high", "--weights", "low=1")

    assert child.wait(60) == 2
    assert child.output.endswith("CommandError: --weights: 'low' is not among the queues high.")
