"""Enqueueing tasks: one, many, and from coroutines."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.exceptions import ConnectionError, OutOfMemoryError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.taskqueue import TaskResultStatus, get_queue, group, task
from django_redis_components.taskqueue.enqueue import prepare
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store import messages
from django_redis_components.taskqueue.store.task_records import new_ids
from tests.support import Store, run_async, run_together
from tests.taskqueue.support import base_key, queue_key, server_ms, work_off
from tests.taskqueue.tasks import add, add_async, note, recorded


@task(max_attempts=2, backoff=60)
def fail_with_pause() -> None:
    raise LookupError("again in a minute")


def test_enqueued_task_is_ready(store: Store) -> None:
    before = server_ms(store)

    result = add.enqueue(2, b=3)

    assert (result.name, result.task, result.queue_name) == ("tests.taskqueue.tasks.add", add, "default")
    assert (result.args, result.kwargs) == ([2], {"b": 3})
    assert (result.state, result.status) == ("ready", TaskResultStatus.READY)
    assert result.enqueued_at is not None
    assert before <= result.enqueued_at.timestamp() * 1_000 <= server_ms(store)
    assert len(result.id) == 20
    assert store.raw.lrange(queue_key(store, "ready"), 0, -1) == [result.id.encode()]


def test_result_of_enqueue_equals_the_result_read_later(store: Store) -> None:
    sent = add.using(run_after=60, priority=3).enqueue(2, 3)

    read = add.get_result(sent.id)

    for name in ("id", "name", "args", "kwargs", "state", "status", "enqueued_at", "run_after", "queue_name", "errors"):
        assert getattr(read, name) == getattr(sent, name), name
    assert read == sent
    assert hash(read) == hash(sent)


def test_no_delayed_task_is_due_before_its_delay_has_passed(store: Store) -> None:
    delay = timedelta(milliseconds=10)
    later = add.using(run_after=delay)
    sent = [later.enqueue(1, 2) for _ in range(20)] + later.enqueue_many([((1, 2), {})] * 20)
    sent += [result for _ in range(10) for result in group(later.s(1, 2), later.s(3, 4)).enqueue().results]

    for result in sent:
        before = result.run_after
        result.refresh()
        assert result.enqueued_at is not None
        assert result.run_after is not None
        assert result.run_after == before
        assert result.run_after >= result.enqueued_at + delay


def test_zero_delay_is_due_at_once(store: Store) -> None:
    sent = [add.using(run_after=0).enqueue(1, 2), *add.using(run_after=0).enqueue_many([((1, 2), {})] * 600)]

    assert {result.state for result in sent} == {"ready"}
    assert get_queue("default").info().ready == 601


def test_no_retry_is_due_before_its_pause_has_passed(store: Store) -> None:
    results = [fail_with_pause.enqueue() for _ in range(20)]

    work_off()

    for result in results:
        result.refresh()
        (run,) = result.timeline
        assert result.state == "retrying"
        assert run.finished_at is not None
        assert result.run_after is not None
        assert result.run_after >= run.finished_at + timedelta(seconds=60)


def test_aenqueue_sends_the_task(store: Store) -> None:
    async def send() -> Any:
        result = await add.aenqueue(2, 3)
        return result, await add.aget_result(result.id)

    sent, read = run_async(send)
    work_off()

    sent.refresh()
    assert read == sent
    assert sent.return_value == 5


def test_a_coroutine_function_runs_as_a_task(store: Store) -> None:
    result = add_async.enqueue(2, 3)

    work_off()

    result.refresh()
    assert result.return_value == 5


@pytest.mark.parametrize("count", [0, 1, 501])
def test_enqueue_many_returns_results_in_order(store: Store, count: int) -> None:
    results = note.enqueue_many(((number,), {}) for number in range(count))

    assert [result.args for result in results] == [[number] for number in range(count)]
    assert store.raw.lrange(queue_key(store, "ready"), 0, -1) == [result.id.encode() for result in results]
    assert all(result.enqueued_at for result in results)
    assert get_queue("default").info().ready == count


def test_aenqueue_many_sends_all_tasks(store: Store) -> None:
    results = run_async(note.using(queue_name="mail").aenqueue_many, [(["a"], {}), ([], {"what": "b"})])

    work_off("mail")

    assert recorded == ["a", "b"]
    assert [result.queue_name for result in results] == ["mail", "mail"]


def test_enqueue_many_with_large_arguments_sends_several_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server does nothing else while it accepts a part."""
    monkeypatch.setattr(messages, "CHUNK_BYTES", 1_000)
    sent = [prepare(note, ["a" * 400], {})[1] for _ in range(7)]

    parts = list(messages.chunks(sent))
    results = note.enqueue_many([(["a" * 400], {})] * 7)

    assert [len(part) for part in parts] == [3, 3, 1]
    assert store.raw.lrange(queue_key(store, "ready"), 0, -1) == [result.id.encode() for result in results]


def test_part_that_the_server_rejects_is_not_accepted(own_server: Store) -> None:
    note.enqueue_many([((1,), {})])
    before = sorted(own_server.keys())
    used = own_server.raw.info("memory")["used_memory"]
    own_server.raw.config_set("maxmemory", used // 2)
    own_server.raw.config_set("maxmemory-policy", "noeviction")

    with pytest.raises(OutOfMemoryError):
        note.enqueue_many([((number,), {}) for number in range(10)])

    assert sorted(own_server.keys()) == before


def test_invalid_call_in_enqueue_many_sends_nothing(redis_server: Store) -> None:
    with pytest.raises(TypeError, match=r"^calls\[1\]: args\[0\] is a builtins\.set"):
        note.enqueue_many([((1,), {}), (({1},), {})])

    assert redis_server.keys() == []


@pytest.mark.parametrize(
    "call", [1, "ab", ((1,),), ((1,), {}, 3), ("ab", {}), ((1,), None), ((1,), [("what", 1)]), None]
)
def test_enqueue_many_refuses_anything_but_pairs(redis_server: Store, call: Any) -> None:
    with pytest.raises(TypeError) as caught:
        note.enqueue_many([((1,), {}), call])

    assert str(caught.value).startswith(f"calls[1] is {call!r}: expected (args, kwargs), such as ((1, 2), {{}}), or ")
    assert redis_server.keys() == []


@pytest.mark.usefixtures("redis_server")
def test_enqueue_many_accepts_calls_of_the_task() -> None:
    mailed = note.using(queue_name="mail")

    results = mailed.enqueue_many([note.si(1), mailed.si(2), ((3,), {})])

    assert [(result.args, result.queue_name) for result in results] == [([1], "mail"), ([2], "mail"), ([3], "mail")]


@pytest.mark.parametrize(
    "call",
    [
        add.si(1, 2),
        note.s(1),
        note.using(priority=5).si(1),
        note.si(1).on_failure("ignore"),
    ],
    ids=["other task", "with a result", "other options", "of a flow"],
)
def test_enqueue_many_refuses_calls_with_a_task_or_options_of_their_own(redis_server: Store, call: Any) -> None:
    with pytest.raises(TypeError, match=rf"^calls\[0\] is .+ or a call of {note.name} by si\(…\)\. Options belong "):
        note.enqueue_many([call])

    assert redis_server.keys() == []


def test_enqueue_many_repeated_after_a_lost_reply_accepts_once(store: Store) -> None:
    sent = [prepare(note, [number], {})[1] for number in range(3)]
    (first,) = messages.calls_for(home(), sent[:2])
    (again,) = messages.calls_for(home(), sent)
    client = connections.client()

    before = client.execute(first)
    after = client.execute(again)

    assert client.execute(again) == after
    assert after[:2] == before
    assert store.raw.lrange(queue_key(store, "ready"), 0, -1) == [message.id.encode() for message in sent]


def test_enqueue_repeated_after_a_lost_reply_accepts_once(store: Store) -> None:
    message = prepare(note, [1], {})[1]
    client = connections.client()

    replies = [client.execute(messages.call_for(home(), message)) for _ in range(2)]

    assert replies[0] == replies[1]
    assert store.raw.lrange(queue_key(store, "ready"), 0, -1) == [message.id.encode()]


def test_ids_generated_concurrently_are_unique(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = iter([b"\xf8" * 15 + bytes(15), *(bytes([number]) * 15 for number in range(1, 9))])
    monkeypatch.setattr("os.urandom", lambda _: next(chance))

    made = new_ids(2)

    assert made == ["AQEBAQEBAQEBAQEBAQEB", "A" * 20], "one that begins with a dash would be taken for an option"


def test_concurrent_enqueues_lose_no_task(store: Store) -> None:
    run_together(8, lambda number: [note.enqueue(number * 100 + turn) for turn in range(25)])

    work_off()

    assert sorted(recorded) == [number * 100 + turn for number in range(8) for turn in range(25)]
    for number in range(8):
        mine = [what for what in recorded if what // 100 == number]
        assert mine == sorted(mine), "each thread's own tasks keep their order"


@pytest.mark.parametrize("kind", ["seconds", "timedelta", "datetime"])
def test_delayed_task_is_scheduled_at_its_due_time(store: Store, kind: str) -> None:
    run_after = {
        "seconds": 90.5,
        "timedelta": timedelta(seconds=90.5),
        "datetime": datetime.fromtimestamp(server_ms(store) / 1_000 + 90.5, UTC),
    }[kind]

    result = add.using(run_after=run_after).enqueue(2, 3)

    [(task_id, due_ms)] = store.raw.zrange(queue_key(store, "scheduled"), 0, -1, withscores=True)
    assert task_id.decode() == result.id
    assert abs(due_ms - server_ms(store) - 90_500) < 5_000
    assert (result.state, result.status) == ("scheduled", TaskResultStatus.READY)
    assert result.run_after == datetime.fromtimestamp(math.ceil(due_ms) / 1_000, UTC)
    depth = get_queue("default").info()
    assert (depth.ready, depth.scheduled, depth.next_due_at) == (0, 1, result.run_after)
    assert work_off() == []


@pytest.mark.parametrize("run_after", [0, timedelta(0), datetime(2020, 1, 1, tzinfo=UTC)], ids=repr)
def test_task_that_is_due_is_ready(store: Store, run_after: Any) -> None:
    result = note.using(run_after=run_after).enqueue("now")

    assert (result.state, result.run_after) == ("ready", None)
    work_off()
    assert recorded == ["now"]


def test_task_uses_no_more_memory_than_documented(redis_server: Store) -> None:
    results = note.enqueue_many([((1,), {})] * 50)

    sizes = [redis_server.raw.memory_usage(base_key(redis_server, "t", result.id)) for result in results]

    assert max(sizes) <= 220


def test_unknown_connection_raises_with_its_name(redis_server: Store) -> None:
    import dataclasses

    with pytest.raises(ConfigurationError) as raised:
        dataclasses.replace(add, connection="defualt").enqueue(1, 2)

    assert str(raised.value) == ("REDIS_COMPONENTS[\"CONNECTIONS\"] has no 'defualt'. Did you mean 'default'?")


def test_enqueue_raises_redis_error_when_redis_is_unavailable(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0", "RETRIES": 0}}}

    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:1"):
        add.enqueue(1, 2)
