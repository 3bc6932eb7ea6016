"""Unique tasks with `on_conflict`: replace and extend, in every state of the first task; and throttling."""

from __future__ import annotations

import dataclasses
import math
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import Concurrency, InvalidTask, TaskResult, Unique, get_queue
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.store.scripts import ENQUEUE, ENQUEUE_MANY
from django_redis_components.testing import captured
from tests.support import Proxy, Store, run_async, run_together
from tests.taskqueue.support import (
    base_key,
    end_lease,
    fall_due,
    new_fetcher,
    queue_key,
    recover,
    settle_now,
    work_off,
)
from tests.taskqueue.tasks import add, come_back, echo, fail, fail_thrice, note, recorded

#: All calls with the same first argument share a key.
latest = echo.using(unique=Unique(until="started", key="{args[0]}", on_conflict="replace"))
debounced = latest.using(run_after=60)
last_noted = note.using(unique=Unique(until="started", key=lambda what: "all", on_conflict="replace"))
extended = echo.using(unique=Unique(key="{args[0]}", on_conflict="extend"), run_after=60)


def ran(queue: str = "default") -> list[str]:
    return [job.id for job in work_off(queue)]


def unique_keys(store: Store) -> list[bytes]:
    return [key for key in store.keys() if b":u:" in key]  # noqa: SIM118 - a Store is no dict


def due_in(store: Store, result: TaskResult) -> float:
    """Seconds from the acceptance of the first call until the task is due, as the queue has it."""
    result.refresh()
    score = store.raw.zscore(queue_key(store, "scheduled", result.queue_name), result.id)
    assert score is not None
    assert result.enqueued_at is not None
    return float(score) / 1_000 - result.enqueued_at.timestamp()


@pytest.mark.contract
def test_last_arguments_are_run_once_under_the_first_id(store: Store) -> None:
    before, first = note.enqueue("before"), latest.enqueue("a", 1)
    note.enqueue("behind")

    results = [latest.enqueue("a", number) for number in (2, 3)]
    other = latest.enqueue("b", 1)

    assert [(result == first, result.is_duplicate, result.args) for result in results] == [
        (True, True, ["a", 2]),
        (True, True, ["a", 3]),
    ]
    assert not other.is_duplicate
    assert ran()[:2] == [before.id, first.id], "it keeps its place"
    assert first.get(0) == [["a", 3], {}]
    assert unique_keys(store) == []


@pytest.mark.contract
def test_replaced_task_is_due_when_the_last_call_is(store: Store) -> None:
    first = debounced.enqueue("a", 1)
    assert 59 < due_in(store, first) < 61

    debounced.using(run_after=600).enqueue("a", 2)
    assert 599 < due_in(store, first) < 660
    debounced.using(run_after=30).enqueue("a", 3)
    assert 29 < due_in(store, first) < 90
    assert ran() == []
    fall_due(store, first)
    assert ran() == [first.id]

    second = debounced.enqueue("a", 4)
    assert not second.is_duplicate
    latest.enqueue("a", 5)
    second.refresh()
    assert (second.state, second.run_after) == ("ready", None)
    assert ran() == [second.id]
    assert second.get(0) == [["a", 5], {}]


def test_options_of_the_last_call_apply(store: Store) -> None:
    first = latest.using(
        priority=5, expires=60, metadata={"a": 1}, concurrency=1, max_deliveries=1, max_attempts=4
    ).enqueue("a", 1)

    again = latest.using(queue_name="mail", max_attempts=2, priority=-1, rate="10/s").enqueue("a", 2)

    stored = store.raw.hgetall(base_key(store, "t", first.id))
    assert again == first
    assert set(stored) == {b"q", b"n", b"b", b"e", b"u", b"p", b"R", b"s", b"t"}
    assert (stored[b"p"], stored[b"b"]) == (b"-1", b'[["a",2],{},{"max_attempts":2}]')
    assert (ran(), ran("mail")) == ([], [first.id])


def test_options_of_the_first_call_do_not_stay(store: Store) -> None:
    first = latest.using(priority=5, queue_name="mail", expires=60, metadata={"a": 1}).enqueue("a", 1)

    latest.using(metadata={"b": 2}, expires=600).enqueue("a", 2)

    first.refresh()
    assert (first.metadata, first.queue_name) == ({"b": 2}, "default")
    assert first.expires_at is not None
    assert first.enqueued_at is not None
    assert 599 < (first.expires_at - first.enqueued_at).total_seconds() < 660
    assert (ran("mail"), ran()) == ([], [first.id])


@pytest.mark.contract
def test_call_during_the_run_is_the_next_task(store: Store) -> None:
    first = latest.enqueue("a", 1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)

    second = latest.enqueue("a", 2)
    third = latest.enqueue("a", 3)

    assert (second.is_duplicate, third == second, second == first) == (False, True, False)
    assert job.message()[0] == ["a", 1]
    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"1", ttl_ms=60_000))
    assert ran() == [second.id]
    second.refresh()
    assert second.return_value == [["a", 3], {}]


def test_task_of_a_dead_worker_runs_before_the_one_that_was_accepted_during_its_run(store: Store) -> None:
    first = latest.enqueue("a", 1)
    new_fetcher(worker="dies").fetch("0", 1)
    second = latest.enqueue("a", 2)
    end_lease(store, first.id)
    recover()

    latest.enqueue("a", 3)

    assert ran() == [first.id, second.id]
    assert second.get(0) == [["a", 3], {}]


def test_task_that_was_returned_is_replaced(store: Store) -> None:
    first = latest.enqueue("a", 1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))

    assert latest.enqueue("a", 2) == first
    assert ran() == [first.id]
    assert first.get(0) == [["a", 2], {}]


def test_key_of_a_limit_follows_the_arguments(store: Store) -> None:
    limited = echo.using(
        unique=Unique(until="started", key="{args[0]}", on_conflict="replace"),
        concurrency=Concurrency(1, key="{args[1]}"),
    )
    running, waiting = limited.enqueue("a", "x"), limited.enqueue("b", "x")
    fetcher = new_fetcher(worker="here:7")
    assert [job.id for job in fetcher.fetch("0", 2)] == [running.id]
    assert get_queue("default").info().limited == 1

    limited.enqueue("b", "y")

    assert ran() == [waiting.id]
    assert waiting.get(0) == [["b", "y"], {}]


def test_extend_moves_the_due_time_only(store: Store) -> None:
    first = extended.enqueue("a", 1)

    again = extended.using(run_after=600, priority=5).enqueue("a", 2)
    assert (again, again.is_duplicate, again.args) == (first, True, ["a", 1])
    assert 599 < due_in(store, first) < 660
    extended.enqueue("a", 3)
    echo.using(unique=extended.options.unique).enqueue("a", 4)
    assert 599 < due_in(store, first) < 660, "never earlier"

    fall_due(store, first)
    assert ran() == [first.id]
    assert first.get(0) == [["a", 1], {}]


def test_extended_expiry_counts_from_the_new_due_time(store: Store) -> None:
    first = extended.using(expires=10).enqueue("a")

    extended.using(run_after=600, expires=10).enqueue("a")

    first.refresh()
    assert first.run_after is not None
    assert first.expires_at == first.run_after + timedelta(seconds=10)
    expires_at = first.expires_at
    extended.using(run_after=1_200).enqueue("a")
    first.refresh()
    assert first.expires_at == expires_at, "a call without an expiry leaves it as it is"


@pytest.mark.parametrize("options", [{}, {"priority": 3}, {"run_after": 0.001}], ids=str)
def test_due_task_that_waits_for_a_worker_is_extended(store: Store, options: dict[str, Any]) -> None:
    first = extended.using(run_after=None).using(**options).enqueue("a")
    if "run_after" in options:
        fall_due(store, first)
    others = note.enqueue_many([((number,), {}) for number in range(3)])

    extended.enqueue("a")

    assert due_in(store, first) > 59
    assert ran() == [result.id for result in others]
    fall_due(store, first)
    assert ran() == [first.id]


def test_task_that_was_leased_before_is_not_extended(store: Store) -> None:
    retried = fail_thrice.using(unique=Unique(on_conflict="extend"), backoff=5)
    first = retried.enqueue()
    work_off()
    run_after = [retried.using(run_after=600).enqueue().run_after]
    delayed = come_back.using(unique=Unique(on_conflict="extend"))
    second = delayed.enqueue(5)
    work_off()
    run_after.append(delayed.using(run_after=600).enqueue(5).run_after)
    third = extended.using(run_after=None).enqueue("a")
    new_fetcher(worker="dies").fetch("0", 1)
    end_lease(store, third.id)
    recover()
    assert extended.enqueue("a") == third

    for result, at in zip((first, second), run_after, strict=True):
        result.refresh()
        assert result.run_after == at
    assert ran() == [third.id]


def test_running_or_finished_task_is_not_extended(store: Store) -> None:
    first = extended.using(run_after=None).enqueue("a")
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    again = extended.enqueue("a")
    assert (again, again.state) == (first, "running")
    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"1", ttl_ms=60_000))

    assert not extended.enqueue("a").is_duplicate


def test_extended_key_with_a_duration_is_held_for_that_time_again(store: Store) -> None:
    timed = extended.using(unique=Unique(until=600, key="{args[0]}", on_conflict="extend"))
    first = timed.enqueue("a")
    [key] = unique_keys(store)
    store.raw.pexpire(key, 5_000)

    timed.using(run_after=120).enqueue("a")

    assert 590_000 < store.raw.pttl(key) <= 600_000
    assert due_in(store, first) > 119
    fall_due(store, first)
    work_off()
    store.raw.pexpire(key, 5_000)
    assert timed.enqueue("a") == first, "the time has not passed"
    assert store.raw.pttl(key) <= 5_000, "it has finished"


@pytest.mark.contract
@pytest.mark.parametrize("task", [note, fail])
def test_throttled_calls_are_accepted_once_per_period_whatever_the_outcome(store: Store, task: Any) -> None:
    throttled = task.using(unique=Unique(until=60))
    first = throttled.enqueue("x")
    work_off()

    assert [throttled.enqueue("x") for _ in range(3)] == [first] * 3
    store.raw.delete(*unique_keys(store))  # the period has passed
    assert not throttled.enqueue("x").is_duplicate


@pytest.mark.parametrize("sender", [latest, debounced, extended], ids=["replace", "debounce", "extend"])
@pytest.mark.parametrize("end", ["cancel", "purge"])
def test_cancelled_or_purged_task_releases_its_key(store: Store, sender: Any, end: str) -> None:
    first = sender.enqueue("a", 1)
    sender.enqueue("a", 2)
    purge = get_queue("default").purge() if end == "purge" else first.cancel()

    second = sender.enqueue("a", 3)

    assert not second.is_duplicate
    assert second.args == ["a", 3]
    if end == "purge":
        assert get_queue("default").restore(purge) == 0, "another task has its key"
    first.refresh()
    assert first.state == "cancelled"
    assert sender.enqueue("a", 4) == second


def test_restored_task_is_replaced(store: Store) -> None:
    first = latest.enqueue("a", 1)
    get_queue("default").restore(get_queue("default").purge())

    assert latest.enqueue("a", 2) == first
    assert ran() == [first.id]
    assert first.get(0) == [["a", 2], {}]


@pytest.mark.contract
@pytest.mark.django_db(transaction=True)
def test_every_way_to_enqueue_replaces(store: Store) -> None:
    first = latest.enqueue("a", 0)

    many = latest.enqueue_many(
        [(("a", number), {}) for number in range(5)] + [(("b", number), {}) for number in range(5)]
    )
    with transaction.atomic():
        late = latest.enqueue_on_commit("a", "commit")
        latest.enqueue_on_commit("c", 1)
        latest.enqueue_on_commit("c", 2)

    assert [result == first for result in many] == [True] * 5 + [False] * 5
    assert [result.is_duplicate for result in many] == [True] * 5 + [False] + [True] * 4
    assert (late, late.args) == (first, ["a", "commit"])

    async def send() -> list[TaskResult]:
        return [await latest.aenqueue("b", "async"), *await latest.aenqueue_many([(("d", 1), {}), (("d", 2), {})])]

    run_async(send)
    work_off()
    assert [first.get(0), many[5].get(0)] == [[["a", "commit"], {}], [["b", "async"], {}]]
    assert len(get_queue("default").tasks("successful")) == 4


def test_later_call_of_one_batch_for_another_queue_replaces_the_arguments(store: Store) -> None:
    """The first one is listed when the batch is accepted, so it cannot be moved."""
    base = {"base": home().base}
    fields = ("n", echo.name, "b")
    first = ("one", "default", "", 0, "sdigest replace", "", *fields, b"[[1],{}]")
    second = ("two", "mail", "", 5, "sdigest replace", "", *fields, b"[[2],{}]", "p", 5)
    connections.client().execute(ENQUEUE_MANY(**base, tasks=[len(first), *first, len(second), *second]))

    assert (ran("mail"), ran()) == ([], ["one"])
    assert echo.get_result("one").return_value == [[2], {}]


@pytest.mark.contract
def test_concurrent_calls_run_each_argument_once_and_the_last_one_last(store: Store) -> None:
    done = threading.Event()
    numbers = iter(range(4))

    def call() -> int:
        own = next(numbers)
        for number in range(40):
            last_noted.enqueue(own * 1_000 + number)
        return own

    def work() -> None:
        while not done.is_set():
            work_off(worker="here:9")

    worker = threading.Thread(target=work)
    worker.start()
    run_together(4, call)
    done.set()
    worker.join()
    work_off()

    assert len(recorded) == len(set(recorded))
    assert recorded[-1] % 1_000 == 39, "it is the last call of a client"
    assert unique_keys(store) == []


def test_repeated_call_does_not_undo_a_later_one(store: Store) -> None:
    first = latest.enqueue("a", 1)
    claim = store.raw.hget(base_key(store, "t", first.id), "u").decode() + " replace"
    args = {"base": home().base, "queue": "default", "due": "", "priority": 0, "unique": claim, "expires": ""}
    call = ENQUEUE(id="repeated", fields=("n", echo.name, "b", b'[["a","lost"],{}]'), **args)
    accepted = connections.client().execute(call)[0]
    latest.enqueue("a", "newer")

    again = connections.client().execute(call)

    assert accepted == again[0] == first.id.encode()
    first.refresh()
    assert first.args == ["a", "newer"]
    work_off()
    assert connections.client().execute(call)[0] == first.id.encode(), "it was applied, and its task has run"
    assert ran() == []
    [key] = [key for key in store.keys() if key.endswith(b":reply:repeated")]  # noqa: SIM118
    assert 0 < store.raw.pttl(key) <= 60_000


def test_lost_reply_replaces_once(proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    far = dataclasses.replace(latest, connection="proxied")
    first = far.enqueue("a", 1)
    proxy.drop_next_reply(after=ENQUEUE.sha.encode())
    monkeypatch.setattr("django_redis_components.core.client.retry.random.uniform", lambda *_: work_off() and 0.0)

    again = far.enqueue("a", 2)

    assert proxy.dropped == 1
    assert (again.id, again.state, again.return_value) == (first.id, "successful", [["a", 2], {}])
    assert ran() == []


def test_lost_reply_extends_once(proxy: Proxy, redis_server: Store) -> None:
    far = dataclasses.replace(extended, connection="proxied")
    first = far.enqueue("a", 1)
    proxy.drop_next_reply(after=ENQUEUE.sha.encode())

    again = far.using(run_after=600).enqueue("a", 2)

    assert proxy.dropped == 1
    assert (again, again.is_duplicate, again.args) == (first, True, ["a", 1])
    assert 599 < due_in(redis_server, first) < 660


def test_lost_reply_to_the_first_call_of_a_period_is_no_duplicate(proxy: Proxy, redis_server: Store) -> None:
    far = dataclasses.replace(note.using(unique=Unique(until=60)), connection="proxied")
    proxy.drop_next_reply(after=ENQUEUE.sha.encode())

    first = far.enqueue("x")

    assert proxy.dropped == 1
    assert not first.is_duplicate
    assert far.enqueue("x") == first
    assert ran() == [first.id]


def test_call_with_its_own_id_replaces(store: Store) -> None:
    first = latest.using(id="one").enqueue("a", 1)
    nonce = store.raw.hget(base_key(store, "t", "one"), "i")

    second = latest.using(id="two").enqueue("a", 2)
    again = latest.using(id="two").enqueue("a", 2)

    assert second == again == first
    assert store.raw.exists(base_key(store, "t", "two")) == 0
    assert store.raw.hget(base_key(store, "t", "one"), "i") == nonce, "it identifies the first call"
    assert ran() == ["one"]


def test_records_and_claims_are_those_that_earlier_versions_read(store: Store) -> None:
    results = [latest.enqueue("a", 1), extended.enqueue("b", 1)]
    latest.enqueue("a", 2)

    claims = [store.raw.hget(base_key(store, "t", result.id), "u") for result in results]

    assert [claim[:1] for claim in claims] == [b"s", b"f"]
    assert {len(claim) for claim in claims} == {23}
    assert set(store.raw.hgetall(base_key(store, "t", results[0].id))) == {b"q", b"n", b"b", b"e", b"u"}


def test_mode_of_each_call_applies(store: Store) -> None:
    returning = echo.using(unique=Unique(until="started", key="{args[0]}"))
    first = returning.enqueue("a", 1)

    assert latest.enqueue("a", 2) == first
    assert returning.enqueue("a", 3).args == ["a", 2]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"on_conflict": "throttle"}, ValueError, r"To throttle calls, set until to a duration\."),
        (
            {"on_conflict": "debounce"},
            ValueError,
            r'To debounce calls, use "replace" or "extend", and using\(run_after=…\)',
        ),
        ({"on_conflict": "skip"}, ValueError, r"^on_conflict='skip': expected 'return', 'replace', 'extend'\.$"),
        ({"on_conflict": None}, ValueError, r"^on_conflict=None: expected"),
        ({"on_conflict": ["replace"]}, ValueError, r"^on_conflict=\['replace'\]: expected"),
        (
            {"on_conflict": "replace"},
            ValueError,
            r"with until=\'finished\': the arguments of a call made after the start",
        ),
        ({"on_conflict": "replace", "until": 60}, ValueError, r"with until=60: the arguments"),
    ],
)
def test_wrong_modes_and_combinations_are_named(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Unique(**options)


def test_delay_as_long_as_the_key_is_refused() -> None:
    timed = add.using(unique=Unique(until=60, on_conflict="extend"))

    with pytest.raises(InvalidTask, match=r"run_after=60 with until=60 and on_conflict='extend': the key would expire"):
        timed.using(run_after=60)
    timed.using(run_after=59)
    add.using(unique=Unique(until=60), run_after=600)


def bounded(task: Any, max_wait: float = 60, **options: Any) -> Any:
    """Return a copy of a task whose calls cannot move it beyond `max_wait` after the first one."""
    unique = dataclasses.replace(task.options.unique, max_wait=max_wait)
    return task.using(**{"unique": unique, "run_after": 60, **options})


def waits_ms(store: Store, result: TaskResult) -> int:
    """Milliseconds from the acceptance of the first call until the task is due, as the queue has it."""
    record = base_key(store, "t", result.id)
    accepted_us, due_ms = (int(value) for value in store.raw.hmget(record, Field.enqueued_at_us, Field.due_at_ms))
    score = store.raw.zscore(queue_key(store, "scheduled", result.queue_name), result.id)
    assert score is not None
    assert math.ceil(score) == due_ms
    return due_ms - -(-accepted_us // 1_000)


@pytest.mark.contract
@pytest.mark.parametrize("task", [latest, extended], ids=["replace", "extend"])
def test_calls_move_a_task_to_max_wait_after_the_first_at_most(store: Store, task: Any) -> None:
    first = bounded(task, max_wait=90).enqueue("a", 1)
    assert waits_ms(store, first) == 60_000

    bounded(task, max_wait=90, run_after=70).enqueue("a", 2)
    assert 70_000 <= waits_ms(store, first) <= 90_000
    for number in range(3, 6):
        last = bounded(task, max_wait=90, run_after=90).enqueue("a", number)
        assert waits_ms(store, first) == 90_000

    first.refresh()
    assert (last, last.run_after) == (first, first.run_after)
    assert first.args == ["a", 5 if task is latest else 1]
    fall_due(store, first)
    assert ran() == [first.id]
    assert waits_ms(store, bounded(task, max_wait=90).enqueue("a", 6)) == 60_000, "the next first call counts anew"


@pytest.mark.contract
@pytest.mark.parametrize("task", [latest, extended], ids=["replace", "extend"])
def test_max_wait_is_exact_with_two_clients_at_once(store: Store, task: Any) -> None:
    def call(client: int) -> list[TaskResult]:
        return [bounded(task).enqueue("a", number) for number in range(15)]

    results = [result for some in run_together(2, call) for result in some]

    assert len({result.id for result in results}) == 1
    assert waits_ms(store, results[0]) == 60_000


def test_shorter_max_wait_of_a_later_call_makes_the_task_due_at_once(store: Store) -> None:
    first = bounded(latest).enqueue("a", 1)
    store.raw.hincrby(base_key(store, "t", first.id), Field.enqueued_at_us, -10_000_000)

    again = bounded(latest, max_wait=10, run_after=10).enqueue("a", 2)

    assert (again, again.state, ran()) == (first, "ready", [first.id])


def test_call_of_a_batch_cannot_move_its_task_beyond_max_wait(store: Store) -> None:
    results = bounded(latest).enqueue_many([(("a", number), {}) for number in range(3)])
    bounded(latest).enqueue_many([(("a", number), {}) for number in range(3)])

    assert len({result.id for result in results}) == 1
    assert waits_ms(store, results[0]) == 60_000


def test_captured_task_is_moved_to_max_wait_at_most() -> None:
    with captured():
        first = bounded(latest).enqueue("a", 1)
        again = bounded(latest).enqueue("a", 2)

    assert (again, again.args) == (first, ["a", 2])
    assert again.run_after is not None
    assert again.enqueued_at is not None
    assert (again.run_after - again.enqueued_at).total_seconds() < 60.001


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"max_wait": 60},
            ValueError,
            r'^max_wait=60 with on_conflict="return": such a call does not move',
        ),
        ({"max_wait": 0, "on_conflict": "extend"}, ValueError, r"^max_wait"),
        ({"max_wait": -1, "on_conflict": "extend"}, ValueError, r"^max_wait"),
        ({"max_wait": "60", "on_conflict": "extend"}, TypeError, r"^max_wait"),
        ({"max_wait": True, "on_conflict": "extend"}, TypeError, r"^max_wait"),
    ],
)
def test_wrong_max_wait_is_named(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Unique(**options)


def test_first_call_that_is_due_after_max_wait_is_refused() -> None:
    text = r"with max_wait=60: the first call would be due after max_wait\. Use a longer max_wait\.$"

    for late in (61, timedelta(minutes=2), timezone.now() + timedelta(hours=1)):
        with pytest.raises(InvalidTask, match=text):
            bounded(latest, run_after=late)
    bounded(latest, run_after=timezone.now() + timedelta(seconds=30))
    bounded(latest, run_after=None)


def test_captured_tasks_are_replaced_and_extended() -> None:
    with captured() as sent:
        first = latest.enqueue("a", 1)
        again = debounced.using(queue_name="mail", priority=3).enqueue("a", 2)
        assert (again, again.args, again.queue_name, again.state) == (first, ["a", 2], "mail", "scheduled")
        second = extended.enqueue("b", 1)
        later = extended.using(run_after=600).enqueue("b", 2)
        assert (later, later.args) == (second, ["b", 1])
        assert later.run_after is not None
        assert second.run_after is not None
        assert later.run_after > second.run_after
        sent.run()
        assert not latest.enqueue("a", 3).is_duplicate
