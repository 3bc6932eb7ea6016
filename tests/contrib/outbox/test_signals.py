"""The signal `task_enqueued` of tasks in the outbox: once for each accepted task, whichever process has sent it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import Error as DatabaseError
from django.db import transaction

from django_redis_components.contrib.outbox import relay as relay_module
from django_redis_components.contrib.outbox.relay import Relay
from django_redis_components.taskqueue import TaskResult, chain, failpoints, outbox, registry, signals
from django_redis_components.taskqueue.middleware import Middleware, pipeline
from django_redis_components.taskqueue.task import Task
from tests.contrib.outbox.support import nothing_is_sent, ready, relay_once, row_count
from tests.contrib.outbox.work import NoLease
from tests.support import Proxy, Store, eventually
from tests.taskqueue.support import base_key
from tests.taskqueue.tasks import add, note

pytestmark = pytest.mark.integration

Sent = list[tuple[Any, TaskResult]]


@pytest.fixture
def sent() -> Iterator[Sent]:
    """The signals that were sent: sender and result of each."""
    found: Sent = []

    def receive(sender: Any, task_result: TaskResult, **_: Any) -> None:
        found.append((sender, task_result))

    signals.task_enqueued.connect(receive)
    yield found
    signals.task_enqueued.disconnect(receive)


def ids(sent: Sent) -> list[str]:
    return [result.id for _, result in sent]


def enqueue_each_kind() -> list[str]:
    """Commit a task, one with an id, a flow of two tasks, and a delayed task; return their ids."""
    with transaction.atomic():
        plain = note.enqueue_on_commit("plain")
        own = note.using(id="own").enqueue_on_commit("own id")
        flow = chain(add.s(1, 2), add.s(3)).enqueue_on_commit()
        late = note.using(run_after=60, priority=5).enqueue_on_commit("late")
    return [plain.id, own.id, *(each.id for each in flow.results), late.id]


def test_signals_are_sent_after_the_commit(redis_server: Store, table: None, sent: Sent) -> None:
    expected = enqueue_each_kind()
    relay_once()

    assert ids(sent) == expected
    assert row_count() == 0


def test_relay_sends_the_signals_of_what_it_sends(redis_server: Store, table: None, sent: Sent) -> None:
    with nothing_is_sent():
        expected = enqueue_each_kind()
    assert sent == []

    relay_once()
    relay_once()

    assert ids(sent) == expected
    assert [sender for sender, _ in sent] == [note, note, add, add, note]


def test_result_of_the_relay_is_that_of_the_record(redis_server: Store, table: None, sent: Sent) -> None:
    def shown(result: TaskResult) -> list[Any]:
        times = (result.enqueued_at, result.run_after, result.expires_at)
        return [result.state, result.queue_name, result.args, result.kwargs, result.metadata, *times]

    with nothing_is_sent(), transaction.atomic():
        chain(add.s(1, 2), add.using(run_after=9, expires=9).s(3)).enqueue_on_commit()
        note.using(run_after=60, expires=timedelta(hours=1), metadata={"order": 7}).enqueue_on_commit("ä")
        note.using(expires=60, queue_name="mail", priority=3).enqueue_on_commit("x")
    relay_once()

    for _, result in sent:
        seen = shown(result)
        result.refresh()
        assert seen == shown(result)


def test_middleware_is_called_for_what_the_relay_sends(redis_server: Store, table: None) -> None:
    class Record(Middleware):
        def __init__(self) -> None:
            self.ids: list[str] = []

        def after_enqueue(self, result: TaskResult) -> None:
            self.ids.append(result.id)

    with nothing_is_sent():
        result = note.enqueue_on_commit("x")
    with pipeline.installed(record := Record()):
        relay_once()

    assert record.ids == [result.id]


def test_task_that_the_process_does_not_know_has_no_sender(
    redis_server: Store, table: None, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nothing_is_sent():
        note.enqueue_on_commit("x")
    monkeypatch.setattr(registry, "find", lambda _: None)

    relay_once()

    [(sender, result)] = sent
    assert (sender, result.task, result.name) == (None, None, note.name)


def test_duplicate_that_the_relay_sends_has_no_signal(redis_server: Store, table: None, sent: Sent) -> None:
    with nothing_is_sent():
        first = add.using(unique=True).enqueue_on_commit(1, 1)
        add.using(unique=True).enqueue_on_commit(1, 1)

    relay_once()

    assert ids(sent) == [first.id]


@pytest.mark.parametrize("kind", ["task", "id", "flow"])
def test_relay_that_is_faster_than_the_process_sends_the_signal(
    redis_server: Store, table: None, sent: Sent, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(failpoints, "hook", lambda name: relay_once() if name == "after_commit" else None)

    with transaction.atomic():
        if kind == "flow":
            result = chain(note.s("x")).enqueue_on_commit().results[0]
        else:
            result = note.using(**({"id": "own"} if kind == "id" else {})).enqueue_on_commit("x")

    assert ids(sent) == [result.id]
    assert result.enqueued_at == sent[0][1].enqueued_at
    assert ready() == 1


@pytest.mark.parametrize("kind", ["task", "flow"])
@pytest.mark.parametrize("losses", [1, 100], ids=["the client repeats it", "the next pass finds it"])
def test_relay_whose_reply_is_lost_sends_the_signal_once(
    redis_server: Store, proxy: Proxy, table: None, sent: Sent, kind: str, losses: int
) -> None:
    task: Any = Task(func=note.func, name=note.name, declared_options=note.options, connection="proxied")
    with nothing_is_sent("proxied"):
        _ = chain(task.s("a word")).enqueue_on_commit() if kind == "flow" else task.enqueue_on_commit("a word")
    relay = Relay("proxied")
    proxy.drop_next_reply(b"a word", times=losses)

    relay.step()
    proxy.drop_next_reply(times=0)
    assert (len(sent), row_count()) == ((1, 0) if losses == 1 else (0, 1))
    eventually(lambda: (relay.step(), row_count() == 0)[1])
    relay.release()

    assert proxy.dropped >= 1
    assert (len(sent), ready()) == (1, 1)


def test_row_that_is_sent_again_has_one_signal_if_it_cannot_be_deleted_then(
    redis_server: Store, proxy: Proxy, table: None, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt has no reply and is lost, as by a failover. After the next one the database fails."""
    task: Any = Task(func=note.func, name=note.name, declared_options=note.options, connection="proxied")
    with nothing_is_sent("proxied"):
        result = task.enqueue_on_commit("a word")
    relay = Relay("proxied")
    proxy.drop_next_reply(b"a word", times=100)
    relay.step()
    proxy.drop_next_reply(times=0)
    redis_server.raw.delete(*(base_key(redis_server, key) for key in ("outbox", "q:default:ready", f"t:{result.id}")))

    def fail(name: str) -> None:
        if name == "after_relay":
            raise DatabaseError("terminating connection due to administrator command")

    monkeypatch.setattr(failpoints, "hook", fail)
    eventually(lambda: (relay.step(), len(sent))[1])
    monkeypatch.setattr(failpoints, "hook", None)
    assert row_count() == 1
    eventually(lambda: (relay.step(), row_count() == 0)[1])
    relay.release()

    assert ids(sent) == [result.id]


@pytest.mark.parametrize("kind", ["task", "flow"])
@pytest.mark.parametrize("point", ["before_relay", "calls_of"])
def test_two_relays_that_send_the_same_row_send_one_signal(
    redis_server: Store, table: None, sent: Sent, monkeypatch: pytest.MonkeyPatch, kind: str, point: str
) -> None:
    """Both have found it, as on SQLite, which has no SKIP LOCKED, or after a failover of the database."""
    with nothing_is_sent():
        _ = chain(note.s("x")).enqueue_on_commit() if kind == "flow" else note.enqueue_on_commit("x")
    monkeypatch.setattr(relay_module, "Lock", NoLease)
    first, second = Relay("default"), Relay("default")

    def overtake(name: str) -> None:
        monkeypatch.undo()
        monkeypatch.setattr(NoLease, "fencing_token", 2)
        second.step()

    def overtake_at(*args: Any) -> Any:
        overtake("")
        return outbox.calls_of(*args)

    if point == "calls_of":
        monkeypatch.setattr(relay_module, point, overtake_at)
    else:
        monkeypatch.setattr(failpoints, "hook", lambda name: overtake(name) if name == point else None)
    first.step()

    assert (len(sent), row_count(), ready()) == (1, 0, 1)


def test_signals_are_sent_if_the_rows_cannot_be_deleted(
    redis_server: Store, table: None, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        if name == "after_relay":
            raise DatabaseError("terminating connection due to administrator command")

    with nothing_is_sent():
        result = note.enqueue_on_commit("x")
    monkeypatch.setattr(failpoints, "hook", fail)
    relay_once()
    monkeypatch.setattr(failpoints, "hook", None)
    assert (ids(sent), row_count()) == ([result.id], 1)

    relay_once()

    assert (ids(sent), row_count(), ready()) == ([result.id], 0, 1)


def test_receiver_that_fails_stops_neither_the_relay_nor_other_signals(
    redis_server: Store, table: None, sent: Sent
) -> None:
    def fail(**_: Any) -> None:
        raise LookupError("a bug of the site")

    with nothing_is_sent():
        for number in range(3):
            note.enqueue_on_commit(number)
    signals.task_enqueued.connect(fail)
    try:
        relay_once()
    finally:
        signals.task_enqueued.disconnect(fail)

    assert (len(sent), row_count()) == (3, 0)


def test_relay_builds_no_results_without_receivers(
    redis_server: Store, table: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nothing_is_sent():
        note.enqueue_on_commit("x")
    monkeypatch.setattr("django_redis_components.contrib.outbox.accepted_tasks.results_of", None)

    relay_once()

    assert (row_count(), ready()) == (0, 1)
