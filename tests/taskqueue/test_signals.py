"""Signals of tasks, in the process that enqueues and in the one that runs them."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction
from django.dispatch import Signal
from redis.exceptions import ResponseError

from django_redis_components.taskqueue import chain, get_result, registry, signals
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.taskqueue.worker.outcome_calls import OutcomeCalls
from django_redis_components.taskqueue.worker.rejected_acks import failure_for
from tests.support import Store, eventually
from tests.support.asynchronous import run_async
from tests.taskqueue import tasks
from tests.taskqueue.support import base_key, new_fetcher, running_worker, work_off, work_until_finished
from tests.taskqueue.tasks import (
    add,
    add_async,
    come_back,
    fail,
    fail_thrice,
    note_async,
    return_what_is_not_json,
    use_context,
)

pytestmark = pytest.mark.integration

NAMES = ("task_enqueued", "task_started", "task_retrying", "task_finished")
ReceivedSignals = list[tuple[Any, ...]]


@pytest.fixture
def connect() -> Iterator[Callable[..., None]]:
    """Connect receivers for one test."""
    made: list[tuple[Signal, Any, Any]] = []

    def to(name: str, receiver: Callable[..., Any], sender: Any = None) -> None:
        signal = getattr(signals, name)
        signal.connect(receiver, sender=sender, weak=False)
        made.append((signal, receiver, sender))

    yield to
    for signal, receiver, sender in made:
        signal.disconnect(receiver, sender=sender)


@pytest.fixture
def received(connect: Callable[..., None]) -> ReceivedSignals:
    """Name of the signal, state, attempts and number of errors, as each receiver sees them."""
    made: ReceivedSignals = []
    for name in NAMES:

        def receiver(sender: Any, task_result: Any, name: str = name, **_: Any) -> None:
            made.append((name, task_result.state, task_result.attempts, len(task_result.errors)))

        connect(name, receiver)
    return made


def test_successful_task_sends_three_signals(redis_server: Store, received: ReceivedSignals) -> None:
    result = add.enqueue(2, 3)
    assert received == [("task_enqueued", "ready", 0, 0)]

    work_off()

    assert received[1:] == [("task_started", "running", 1, 0), ("task_finished", "successful", 1, 0)]
    assert result.get(0) == 5


def test_task_retrying_is_sent_for_each_failure_but_the_last(redis_server: Store, received: ReceivedSignals) -> None:
    result = fail_thrice.enqueue()

    work_until_finished(result)

    assert received[1:] == [
        ("task_started", "running", 1, 0),
        ("task_retrying", "retrying", 1, 1),
        ("task_started", "running", 2, 1),
        ("task_retrying", "retrying", 2, 2),
        ("task_started", "running", 3, 2),
        ("task_finished", "failed", 3, 3),
    ]


def test_delayed_task_sends_no_task_finished(redis_server: Store, received: ReceivedSignals) -> None:
    come_back.enqueue(60)

    work_off()

    assert [name for name, *_ in received] == ["task_enqueued", "task_started"]


def test_unserializable_return_value_is_reported_as_failed(redis_server: Store, received: ReceivedSignals) -> None:
    return_what_is_not_json.enqueue()

    work_off()

    assert received[-1] == ("task_finished", "failed", 1, 1)


def test_result_of_a_signal_equals_the_stored_result(redis_server: Store, connect: Callable[..., None]) -> None:
    seen: dict[str, Any] = {}
    connect("task_finished", lambda task_result, **_: seen.update(result=task_result, value=task_result.return_value))
    sent = add.using(metadata={"a": 1}, queue_name="mail").enqueue(2, b=3)

    work_off("mail")

    result_seen = seen["result"]
    sent.refresh()
    assert (result_seen, result_seen.args, result_seen.kwargs, seen["value"]) == (sent, [2], {"b": 3}, 5)
    assert (result_seen.worker_ids, result_seen.queue_name, result_seen.enqueued_at) == (
        sent.worker_ids,
        "mail",
        sent.enqueued_at,
    )
    assert abs((result_seen.finished_at - sent.finished_at).total_seconds()) < 5
    assert result_seen.started_at == sent.started_at


def test_failure_signal_is_sent_inside_the_except_block(redis_server: Store, connect: Callable[..., None]) -> None:
    seen: list[Any] = []
    connect("task_finished", lambda task_result, **_: seen.extend([sys.exc_info()[1], task_result.errors[0].message]))

    fail.enqueue("my own")
    work_off()

    assert isinstance(seen[0], LookupError)
    assert seen[1] == "my own"


def test_task_retrying_has_the_exception(redis_server: Store, connect: Callable[..., None]) -> None:
    seen: list[Any] = []
    connect("task_retrying", lambda exception, **_: seen.append(repr(exception)))

    work_until_finished(fail_thrice.enqueue("again and"))

    assert seen == ["LookupError('again and')"] * 2


def test_receiver_with_a_sender_gets_one_task(redis_server: Store, connect: Callable[..., None]) -> None:
    seen: list[Any] = []
    connect("task_enqueued", lambda sender, **_: seen.append(sender), sender=add)
    connect("task_finished", lambda sender, **_: seen.append(sender), sender=add)

    add.using(queue_name="default", priority=3).enqueue(1, 2)
    tasks.echo.enqueue()
    work_off()

    assert seen == [add, add]


def test_every_enqueue_method_sends_one_signal_per_task(redis_server: Store, received: ReceivedSignals) -> None:
    add.enqueue_many([((1, 2), {}), ((3, 4), {})])
    assert len(received) == 2

    async def send() -> None:
        await add.aenqueue(1, 2)
        await add.aenqueue_many([((1, 2), {}), ((3, 4), {})])

    run_async(send)

    assert [name for name, *_ in received] == ["task_enqueued"] * 5


def test_tasks_of_a_flow_send_signals_after_the_flow_is_complete(
    redis_server: Store, received: ReceivedSignals
) -> None:
    chain(add.s(1, 2), add.s(3)).enqueue(on_error=fail.si())
    run_async(chain(add.s(1, 2), add.s(3)).aenqueue)

    states = ["ready", "waiting", "waiting", "ready", "waiting"]
    assert received == [("task_enqueued", state, 0, 0) for state in states]


@pytest.mark.django_db(transaction=True)
def test_enqueue_on_commit_sends_its_signal_after_the_commit(redis_server: Store, received: ReceivedSignals) -> None:
    with transaction.atomic():
        add.enqueue_on_commit(1, 2)
        assert received == []

    assert [name for name, *_ in received] == ["task_enqueued"]


def test_duplicate_of_a_unique_task_sends_no_signal(redis_server: Store, received: ReceivedSignals) -> None:
    for _ in range(2):
        add.using(unique=True).enqueue(1, 2)

    assert len(received) == 1


def test_receivers_may_be_coroutines(redis_server: Store, connect: Callable[..., None]) -> None:
    seen: list[str] = []
    for name in NAMES:

        async def receiver(name: str = name, **_: Any) -> None:
            seen.append(name)

        connect(name, receiver)

    add.enqueue(1, 2)
    run_async(add.aenqueue, 1, 2)
    work_off()

    assert seen == ["task_enqueued"] * 2 + ["task_started", "task_finished"] * 2


def test_coroutine_tasks_send_signals(redis_server: Store, received: ReceivedSignals) -> None:
    with running_worker():
        assert add_async.enqueue(1, 2).get(60) == 3

    names = [name for name, *_ in received]  # the worker may begin before the sender has heard that it may
    assert sorted(names) == ["task_enqueued", "task_finished", "task_started"]
    assert names.index("task_started") < names.index("task_finished")


@pytest.mark.parametrize("name", NAMES)
def test_failing_receiver_does_not_change_the_outcome(
    redis_server: Store, connect: Callable[..., None], caplog: pytest.LogCaptureFixture, name: str
) -> None:
    def broken(**_: Any) -> None:
        raise LookupError("the receiver's own")

    connect(name, broken)
    good, bad = add.enqueue(2, 3), fail_thrice.enqueue()
    other = run_async(add.aenqueue, 2, 3)

    work_until_finished(good, bad, other)

    assert (good.return_value, other.return_value, bad.state, bad.attempts) == (5, 5, "failed", 3)
    assert bad.errors[0].message == "again"
    assert "the receiver's own" in caplog.text


def test_error_while_sending_a_signal_does_not_change_the_outcome(
    redis_server: Store, connect: Callable[..., None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect("task_enqueued", lambda **_: None)
    monkeypatch.setattr(registry, "find", lambda name: 1 / 0)

    first, second = add.enqueue(1, 2), run_async(add.aenqueue, 1, 2)

    assert [record.getMessage() for record in caplog.records] == [
        f"A signal of task {result.id} could not be sent." for result in (first, second)
    ]


def test_run_without_receivers_has_no_middleware(connect: Callable[..., None]) -> None:
    assert pipeline.for_run(add) == ()

    connect("task_enqueued", lambda **_: None)
    assert pipeline.for_run(add) == ()
    connect("task_retrying", lambda **_: None)

    assert len(pipeline.for_run(add)) == 1


def test_run_with_receivers_may_have_a_context(redis_server: Store, received: ReceivedSignals) -> None:
    result = use_context.enqueue(["progress", 1, 2])

    work_off()

    assert received[-1] == ("task_finished", "successful", 1, 0)
    assert result.get(0) == {}


def test_task_finished_is_sent_when_redis_has_the_outcome(redis_server: Store, connect: Callable[..., None]) -> None:
    seen: list[Any] = []

    def read(task_result: Any, **_: Any) -> None:
        stored = get_result(task_result.id)
        seen.append((stored.state, stored.return_value if stored.state == "successful" else stored.errors[0].message))

    connect("task_finished", read)
    with running_worker():
        for result in (add.enqueue(2, 3), fail.enqueue("no"), add_async.enqueue(4, 5)):
            eventually(lambda result=result: result.refresh() or result.is_finished)
        eventually(lambda: len(seen) == 3)

    assert sorted(seen, key=str) == [("failed", "no"), ("successful", 5), ("successful", 9)]


def test_task_finished_is_not_sent_for_an_outcome_that_was_discarded(
    redis_server: Store, received: ReceivedSignals
) -> None:
    result = add.enqueue(2, 3)
    fetcher = new_fetcher(worker="late:1")
    [job] = fetcher.fetch("0", 1)
    ack = execute(job)
    redis_server.raw.hset(base_key(redis_server, "t", result.id), Field.lease, "another's")

    fetcher.settle_run(job, ack)
    fetcher.fetch("0", 0)

    assert [name for name, *_ in received] == ["task_enqueued", "task_started"]


def test_task_finished_has_the_failure_that_was_stored_for_a_refused_outcome(
    redis_server: Store, received: ReceivedSignals
) -> None:
    add.enqueue(2, 3)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    ack = failure_for(execute(job), ResponseError("value is too large"))

    fetcher.settle_run(job, ack)
    fetcher.fetch("0", 0)

    assert received[-1] == ("task_finished", "failed", 1, 1)


def test_ack_waits_for_no_receiver(redis_server: Store, connect: Callable[..., None]) -> None:
    """One receiver runs in the thread of the calls, and one in the only thread of the worker."""
    may_end = threading.Event()
    connect("task_finished", lambda **_: may_end.wait(60))
    results = add.enqueue_many([((number, 1), {}) for number in range(3)])

    with running_worker():
        for result in results:
            assert result.get(60) is not None
        may_end.set()


def test_no_receiver_runs_in_what_another_has_forked(redis_server: Store, connect: Callable[..., None]) -> None:
    children: list[int] = []

    def fork(**_: Any) -> None:
        if not children:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # there are other threads
                child = os.fork()
            children.append(child)

    connect("task_finished", fork)
    with running_worker():
        assert [result.get(60) for result in (add.enqueue(2, 3), add.enqueue(3, 4))] == [5, 7]
        eventually(lambda: children)

    assert os.waitpid(children[0], 0) == (children[0], 0)


def test_wait_ends_when_all_receivers_were_called(redis_server: Store) -> None:
    calls = OutcomeCalls()
    seen: list[Ack] = []
    add.enqueue(2, 3)
    [job] = new_fetcher().fetch("0", 1)
    job.on_stored = seen.append
    ack = execute(job)
    for _ in range(20):
        calls.add(job, ack)

    calls.wait(60)

    assert len(seen) == 20
    assert calls.make_next() is False


def test_calls_are_made_by_the_threads_of_the_worker_where_no_other_can_start(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    calls = OutcomeCalls()
    seen: list[Ack] = []
    add.enqueue(2, 3)
    [job] = new_fetcher().fetch("0", 1)
    ack = execute(job)
    job.on_stored = seen.append
    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", fail_to_start)
        calls.add(job, ack)

        assert calls.make_next() is True
    calls.add(job, ack)  # a thread can start again

    eventually(lambda: len(seen) == 2)


def test_slow_receivers_slow_the_coroutines_down(redis_server: Store, connect: Callable[..., None]) -> None:
    queued: list[int] = []

    with running_worker(threads=1, async_concurrency=10) as worker:

        def receiver(**_: Any) -> None:
            queued.append(len(worker.outcome_calls.queued))
            threading.Event().wait(0.002)

        connect("task_finished", receiver)
        note_async.enqueue_many([((number,), {}) for number in range(2_000)])
        eventually(lambda: len(queued) == 2_000)

    assert max(queued) < 200
