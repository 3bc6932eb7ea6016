"""`enqueue_many` in several parts, and a Redis that fails between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction
from redis.exceptions import ConnectionError, OutOfMemoryError, RedisError

from django_redis_components.taskqueue import PartiallyEnqueued, TaskResultDoesNotExist, get_queue, signals
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store import messages, task_records
from tests.support import Proxy, Store, run_async
from tests.taskqueue.support import queue_key, work_off
from tests.taskqueue.tasks import note, recorded

#: The task over the proxy that loses replies.
far = dataclasses.replace(note, connection="proxied")
#: More replies than there are attempts.
ALWAYS = 1_000


@pytest.fixture(params=["sync", "async"])
def send(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Send many calls of a task with these arguments."""
    if request.param == "sync":
        return lambda task, names: task.enqueue_many([((name,), {}) for name in names])
    return lambda task, names: run_async(task.aenqueue_many, [((name,), {}) for name in names])


@pytest.fixture
def parts_of_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "CHUNK", 3)


def fails(send: Callable[..., Any], proxy: Proxy, lost: str, names: str) -> PartiallyEnqueued:
    """What is raised when the replies to the part with this argument are lost."""
    proxy.drop_next_reply(after=f'[["{lost}"]'.encode(), times=ALWAYS)
    try:
        with pytest.raises(PartiallyEnqueued) as raised:
            send(far, names)
    finally:
        proxy.drop_next_reply(times=0)
    return raised.value


def args(results: list[Any]) -> str:
    return "".join(result.args[0] for result in results)


def test_error_carries_what_was_accepted(
    proxy: Proxy, redis_server: Store, parts_of_3: None, send: Callable[..., Any]
) -> None:
    error = fails(send, proxy, "e", "abcdefghij")

    assert (args(error.accepted), args(error.unconfirmed), args(error.not_sent)) == ("abc", "def", "ghij")
    assert isinstance(error.__cause__, ConnectionError)
    assert isinstance(error, RedisError)
    assert str(error) == (
        "Redis failed during enqueue_many(): 3 tasks were accepted, 3 are unconfirmed and 4 were not sent."
        " resend() sends the last two with the same ids."
    )
    assert all(result.enqueued_at for result in error.accepted)
    assert [note.get_result(result.id).args[0] for result in error.accepted] == ["a", "b", "c"]
    with pytest.raises(TaskResultDoesNotExist):
        note.get_result(error.not_sent[0].id)


@pytest.mark.parametrize("is_async", [False, True], ids=["resend", "aresend"])
def test_the_others_are_sent_again_without_duplicates(
    proxy: Proxy, redis_server: Store, parts_of_3: None, is_async: bool
) -> None:
    error = fails(lambda task, names: task.enqueue_many([((name,), {}) for name in names]), proxy, "e", "abcdefghij")

    sent = run_async(error.aresend) if is_async else error.resend()

    assert sent == error.unconfirmed + error.not_sent
    assert all(result.enqueued_at for result in sent)
    assert get_queue("default").info().ready == 10
    work_off()
    assert "".join(recorded) == "abcdefghij"


def test_resend_may_fail_again(proxy: Proxy, redis_server: Store, parts_of_3: None, send: Callable[..., Any]) -> None:
    error = fails(send, proxy, "e", "abcdefghij")
    proxy.drop_next_reply(after=b'[["h"]', times=ALWAYS)

    with pytest.raises(PartiallyEnqueued) as raised:
        error.resend()
    proxy.drop_next_reply(times=0)

    again = raised.value
    assert (args(again.accepted), args(again.unconfirmed), args(again.not_sent)) == ("def", "ghi", "j")
    again.resend()
    work_off()
    assert "".join(recorded) == "abcdefghij"


def test_lost_first_part_of_several_is_unconfirmed(
    proxy: Proxy, redis_server: Store, parts_of_3: None, send: Callable[..., Any]
) -> None:
    error = fails(send, proxy, "a", "abcd")

    assert (args(error.accepted), args(error.unconfirmed), args(error.not_sent)) == ("", "abc", "d")


def test_one_part_raises_the_error_of_redis(
    proxy: Proxy, redis_server: Store, parts_of_3: None, send: Callable[..., Any]
) -> None:
    proxy.drop_next_reply(after=b'[["a"]', times=ALWAYS)

    with pytest.raises(ConnectionError):
        send(far, "abc")

    proxy.drop_next_reply(times=0)


def test_refused_first_part_raises_the_error_of_redis(
    own_server: Store, parts_of_3: None, send: Callable[..., Any]
) -> None:
    own_server.raw.config_set("maxmemory", 1)

    with pytest.raises(OutOfMemoryError):
        send(note, "abcdefg")

    own_server.raw.config_set("maxmemory", 0)
    assert own_server.raw.llen(queue_key(own_server, "ready")) == 0


def test_refused_later_part_is_not_accepted(
    own_server: Store, parts_of_3: None, send: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls_for = task_records.calls_for

    def full_after_the_first(shard: Shard, sent: Any) -> Iterator[Any]:
        for number, call in enumerate(calls_for(shard, sent)):
            own_server.raw.config_set("maxmemory", number and 1)
            yield call

    monkeypatch.setattr(task_records, "calls_for", full_after_the_first)

    with pytest.raises(PartiallyEnqueued) as raised:
        send(note, "abcdefg")

    own_server.raw.config_set("maxmemory", 0)
    error = raised.value
    assert (args(error.accepted), error.unconfirmed, args(error.not_sent)) == ("abc", [], "defg")
    assert isinstance(error.__cause__, OutOfMemoryError)
    assert get_queue("default").info().ready == 3


@pytest.mark.django_db(transaction=True)
def test_failure_at_the_commit_is_raised_there(
    proxy: Proxy, redis_server: Store, parts_of_3: None, settings: Any
) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"ENQUEUE_ON_COMMIT": True}}
    proxy.drop_next_reply(after=b'[["d"]', times=ALWAYS)

    with pytest.raises(PartiallyEnqueued) as raised, transaction.atomic():
        results = far.enqueue_many([((name,), {}) for name in "abcd"])
    proxy.drop_next_reply(times=0)

    assert raised.value.accepted == results[:3]
    assert [result.enqueued_at is not None for result in results] == [True, True, True, False]


def test_receivers_hear_of_what_was_accepted_only(
    proxy: Proxy, redis_server: Store, parts_of_3: None, send: Callable[..., Any]
) -> None:
    received: list[str] = []

    def receive(task_result: Any, **_: Any) -> None:
        received.append(task_result.args[0])

    signals.task_enqueued.connect(receive)

    fails(send, proxy, "e", "abcdefgh")

    assert received == ["a", "b", "c"]
