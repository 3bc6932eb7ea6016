"""Changing a pending task: arguments, queue, priority and expiry, in every state and against everything that races."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_redis_components.taskqueue import (
    Concurrency,
    InvalidTask,
    NotPending,
    Rate,
    TaskIdConflict,
    TaskResult,
    TaskResultDoesNotExist,
    Unique,
    UniqueKeyConflict,
    UnknownQueue,
    chain,
    get_queue,
    get_result,
)
from django_redis_components.taskqueue.middleware import Middleware
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.store.scripts import UPDATE_TASK
from tests.support import Proxy, Store, run_async, run_together
from tests.taskqueue.store.support import fill, ids, park_many
from tests.taskqueue.support import (
    base_key,
    end_lease,
    fall_due,
    new_fetcher,
    queue_key,
    recover,
    server_ms,
    settle_now,
    taskqueue_settings,
    work_off,
)
from tests.taskqueue.tasks import add, fail_thrice, note, recorded

OTHER = "other"


def ran(queue: str = "default") -> list[str]:
    return [job.id for job in work_off(queue)]


def unique_keys(store: Store) -> set[bytes]:
    return {key for key in store.keys() if b":u:" in key}  # noqa: SIM118 - a Store is no dict


@pytest.mark.contract
def test_new_arguments_are_run_and_every_task_keeps_its_place(store: Store) -> None:
    results = fill(store)

    for number, result in enumerate(results):
        result.update(args=[f"new {number}"])

    assert [result.args for result in results] == [[f"new {number}"] for number in range(len(results))]
    fall_due(store, results[-1])
    order = [results[0], results[1], results[-1], *results[2:-1]]
    assert ran() == ids(order)
    assert recorded == [result.args[0] for result in order]


def test_what_is_not_given_stays(store: Store) -> None:
    result = add.using(priority=3, timeout=5, metadata={"a": 1}, expires=60).enqueue(1, b=2)
    before = store.raw.hgetall(base_key(store, "t", result.id))

    result.update(kwargs={"b": 5})

    assert (result.args, result.kwargs, result.metadata) == ([1], {"b": 5}, {"a": 1})
    assert result.expires_at is not None
    after = store.raw.hgetall(base_key(store, "t", result.id))
    assert after == before | {b"b": b'[[1],{"b":5},{"timeout":5.0}]'}
    work_off()
    assert result.get(0) == 6


@pytest.mark.contract
def test_other_queue_and_priority_move_the_task(store: Store) -> None:
    results = fill(store)
    first = note.using(queue_name=OTHER).enqueue("first")

    results[3].update(priority=9)
    results[2].update(queue_name=OTHER, priority=0)
    results[6].update(priority=0)
    results[7].update(queue_name=OTHER)

    assert (results[2].queue_name, results[7].queue_name, results[7].state) == (OTHER, OTHER, "scheduled")
    assert ran() == ids([results[0], results[1], results[3], results[4], results[5], results[6]])
    assert ran(OTHER) == ids([first, results[2]])
    fall_due(store, results[7], queue=OTHER)
    assert ran(OTHER) == [results[7].id]


def test_expiry_is_set_extended_and_removed(store: Store) -> None:
    result = note.using(run_after=60).enqueue(1)

    result.update(expires=30)
    assert (result.expires_at - result.run_after).total_seconds() == 30  # type: ignore[operator]
    at = datetime(2099, 1, 1, tzinfo=UTC)
    result.update(expires=at)
    assert result.expires_at == at
    result.update(expires=None)
    assert result.expires_at is None


def test_expiry_that_has_passed_is_refused(store: Store) -> None:
    result = note.enqueue(1)

    with pytest.raises(
        InvalidTask, match=r"^expires=[\d-]+ [\d:.]+\+00:00: this time has passed\. cancel\(\) cancels the task\.$"
    ):
        result.update(args=[2], expires=datetime.now(UTC) - timedelta(seconds=1))

    assert get_result(result.id).args == [1]


@pytest.mark.contract
@pytest.mark.parametrize("state", ["running", "successful", "cancelled"])
def test_running_or_finished_task_is_refused(store: Store, state: str) -> None:
    result = note.enqueue(1)
    if state == "running":
        new_fetcher(worker="here:7").fetch("0", 1)
    elif state == "cancelled":
        result.cancel()
    else:
        work_off()

    with pytest.raises(NotPending, match=f"cannot be changed: it is {state}\\. Only pending tasks can be"):
        result.update(args=[2])

    assert get_result(result.id).args == [1]


def test_purged_and_unknown_tasks_are_refused(store: Store) -> None:
    results = [note.enqueue(1), note.using(run_after=60).enqueue(1), note.using(priority=1).enqueue(1)]
    purge = get_queue("default").purge()
    for result in results:
        for changes in ({"args": [2]}, {"priority": 5}, {"queue_name": OTHER}):
            with pytest.raises(NotPending, match="it was purged"):
                result.update(**changes)  # type: ignore[arg-type]
    get_queue("default").restore(purge)
    store.raw.delete(base_key(store, "t", results[0].id))

    for changes in ({"args": [2]}, {"priority": 5}):
        with pytest.raises(TaskResultDoesNotExist):
            results[0].update(**changes)  # type: ignore[arg-type]


def test_task_that_waits_for_its_next_attempt_gets_new_arguments(store: Store) -> None:
    result = fail_thrice.using(backoff=600).enqueue()
    work_off()

    result.update(priority=4, expires=1)

    assert (result.state, result.attempts) == ("retrying", 1)
    assert get_queue("default").info().retrying == 1
    fall_due(store, result)
    assert ran() == [result.id]


def test_wrong_values_are_refused_and_named(store: Store, settings: Any) -> None:
    result = add.enqueue(1, 2)

    for changes, error, text in (
        ({}, InvalidTask, r"update\(\) got nothing: expected one or more of args, kwargs, priority"),
        ({"timeout": 5}, InvalidTask, r"update\(\) got timeout: expected one or more of args"),
        ({"args": "ab"}, TypeError, r"args='ab': expected a list or a tuple"),
        ({"kwargs": [1]}, TypeError, r"kwargs=\[1\]: expected a dict"),
        ({"args": [1]}, TypeError, r"missing a required argument: 'b'"),
        ({"kwargs": {"c": 1}}, TypeError, r"unexpected keyword argument 'c'"),
        ({"args": [1, {1}]}, TypeError, r"args\[1\]"),
        ({"priority": 101}, InvalidTask, "priority=101"),
        ({"queue_name": "a{b"}, InvalidTask, "queue_name"),
        ({"expires": "soon"}, InvalidTask, "expires='soon'"),
    ):
        with pytest.raises(error, match=text):
            result.update(**changes)  # type: ignore[arg-type]
    taskqueue_settings(settings, QUEUES=["default"], MAX_BODY_BYTES=1024)
    with pytest.raises(UnknownQueue, match="emial"):
        result.update(queue_name="emial")
    with pytest.raises(InvalidTask, match=r"are 2,0\d\d bytes of JSON"):
        result.update(args=["x" * 2_000, 1])

    assert get_result(result.id).args == [1, 2]


def test_unregistered_name_refuses_arguments_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    [parked] = park_many(1)
    found = get_result(parked.id)

    with pytest.raises(InvalidTask, match=r"Task 'unknown\.task' is not registered in this process"):
        found.update(args=[1])
    found.update(priority=5)

    assert (found.state, get_queue("default").info().unregistered) == ("unregistered", 1)
    found.update(queue_name=OTHER)
    assert (found.state, get_queue(OTHER).info().ready) == ("ready", 1)


def test_headers_and_options_of_the_message_stay(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, MIDDLEWARE=[f"{__name__}.Tenant"])
    result = note.using(max_attempts=7).enqueue(1)

    result.update(args=[2])

    assert (
        store.raw.hget(base_key(store, "t", result.id), "b") == b'[[2],{},{"max_attempts":7,"headers":{"tenant":"a"}}]'
    )


class Tenant(Middleware):
    def before_enqueue(self, task: Any) -> None:
        task.headers["tenant"] = "a"


def test_unique_key_follows_the_arguments(store: Store) -> None:
    for unique in (True, Unique(key="{what}"), "started", 60):
        sender = note.using(unique=unique)
        result = sender.enqueue("old")

        get_result(result.id).update(args=["new"]) if unique is True else result.update(args=["new"])

        assert sender.enqueue("new") == result, unique
        assert not sender.enqueue("old").is_duplicate
        work_off()
        store.raw.delete(*unique_keys(store) or ["none"])


def test_time_of_a_unique_key_continues(store: Store) -> None:
    result = note.using(unique=60).enqueue("old")

    result.update(args=["new"])

    [key] = unique_keys(store)
    assert 50_000 < store.raw.pttl(key) <= 60_000


def test_key_of_another_task_is_refused(store: Store) -> None:
    once = note.using(unique=True)
    first, second = once.enqueue(1), once.enqueue(2)

    with pytest.raises(UniqueKeyConflict, match=f"task {first.id} has its new unique key") as raised:
        second.update(args=[1], priority=5)

    assert (raised.value.id, raised.value.holder_id) == (second.id, first.id)
    assert (get_result(second.id).args, once.enqueue(2)) == ([2], second)
    first.cancel()
    second.update(args=[1])
    assert once.enqueue(1) == second


def test_key_that_cannot_be_made_here_is_refused(store: Store) -> None:
    result = note.using(unique=Unique(key="first:{what}")).enqueue(1)

    with pytest.raises(InvalidTask, match=r"was enqueued with using\(unique=…\), so the key of its new arguments"):
        get_result(result.id).update(args=[2])
    get_result(result.id).update(priority=5)
    result.update(args=[2])

    assert note.using(unique=Unique(key="first:{what}")).enqueue(2) == result


@pytest.mark.parametrize("changed", [[1], [2]])
def test_revived_expired_task_needs_its_key_again(store: Store, changed: list[int]) -> None:
    once = note.using(unique=True)
    first = once.using(expires=60).enqueue(1)
    store.raw.hset(base_key(store, "t", first.id), "X", f"{server_ms(store) - 1:.0f} 1000")
    second = once.enqueue(1)

    with pytest.raises(UniqueKeyConflict):
        first.update(expires=None)
    second.cancel()
    first.update(expires=60, args=changed)

    assert once.enqueue(*changed) == first
    assert ran() == [first.id]


def test_key_of_a_concurrency_limit_follows_the_arguments(store: Store) -> None:
    sender = note.using(concurrency=Concurrency(1, key="{what}"))
    results = [sender.enqueue("a") for _ in range(3)]
    fetcher = new_fetcher(worker="here:7")
    [job] = fetcher.fetch("0", 3)
    assert get_queue("default").info().limited == 2

    results[1].update(args=["b"])

    assert ran() == [results[1].id]
    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"null", ttl_ms=60_000))
    assert ran() == [results[2].id]
    with pytest.raises(InvalidTask, match=r"using\(concurrency=…\)"):
        get_result(sender.enqueue("a").id).update(args=["b"])


def test_key_of_a_rate_follows_the_arguments_and_the_next_task_gets_the_start(store: Store) -> None:
    sender = note.using(rate=Rate("1/h", key="{what}"))
    results = [sender.enqueue("a") for _ in range(3)]
    assert [job.id for job in new_fetcher(worker="here:7").fetch("0", 3)] == [results[0].id]

    results[1].update(args=["b"])

    assert store.raw.zscore(queue_key(store, "scheduled"), results[2].id) is not None, "it has the next start"
    results[2].update(args=["c"])
    fall_due(store, results[2])
    fall_due(store, results[1])
    assert sorted(ran()) == sorted(ids(results[1:]))


def test_task_that_waits_for_a_limit_gets_another_priority_and_queue(store: Store) -> None:
    limited = note.using(concurrency=1)
    results = [limited.enqueue(number) for number in range(3)]
    fetcher = new_fetcher(worker="here:7")
    [job] = fetcher.fetch("0", 3)

    results[2].update(priority=9)
    results[1].update(queue_name=OTHER)

    assert new_fetcher(OTHER, worker="here:8").fetch("0", 1) == []
    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"null", ttl_ms=60_000))
    done = [*ran(), *ran(OTHER), *ran()]
    assert sorted(done) == sorted(ids(results[1:]))


@pytest.mark.contract
def test_task_of_a_flow_gets_new_arguments_queue_and_expiry(store: Store) -> None:
    flow = chain(add.using(run_after=60).s(1, 2), add.using(priority=2).s(10)).enqueue()
    first, second = flow.results

    first.update(args=[5, 5], priority=3)
    second.update(args=[100], queue_name=OTHER, expires=60)
    with pytest.raises(TypeError, match="too many positional arguments"):
        second.update(args=[1, 2])

    assert (second.state, get_queue(OTHER).info().waiting, second.expires_at) == ("waiting", 1, None)
    fall_due(store, first)
    assert ran() == [first.id]
    second.refresh()
    assert 59 < (second.expires_at - first.enqueued_at).total_seconds() < 120  # type: ignore[operator]
    assert ran(OTHER) == [second.id]
    assert second.get(0) == 110


def test_key_of_a_limit_in_a_flow_follows_the_arguments_behind_the_result(redis_server: Store) -> None:
    limited = add.using(concurrency=Concurrency(1, key="{b}"))
    [_, second] = chain(add.s(1, 2), limited.s(10)).enqueue().results

    second.update(args=[11])

    stored = redis_server.raw.hget(base_key(redis_server, "t", second.id), "C")
    assert stored.rpartition(b":")[2] == b"11"


def test_paused_queue_does_not_prevent_a_change(store: Store) -> None:
    get_queue("default").pause()
    result = note.enqueue(1)

    result.update(args=[2], priority=1)
    assert ran() == []
    get_queue("default").resume()

    assert (ran(), recorded) == ([result.id], [2])


def test_recovered_task_can_be_changed(store: Store) -> None:
    result = note.enqueue(1)
    new_fetcher(worker="dies").fetch("0", 1)
    end_lease(store, result.id)
    recover()

    result.update(args=[2])

    assert (ran(), recorded) == ([result.id], [2])


def test_repeated_enqueue_with_its_own_id_conflicts_after_a_change(store: Store) -> None:
    note.using(id="order-7").enqueue(1).update(args=[2])

    with pytest.raises(TaskIdConflict):
        note.using(id="order-7").enqueue(1)


@pytest.mark.contract
def test_two_clients_at_once_lose_no_change(store: Store) -> None:
    result = add.using(run_after=60).enqueue(0, b=0)
    mine = iter([{"args": [7]}, {"kwargs": {"b": 8}}, {"priority": 9}, {"queue_name": OTHER}] * 2)
    lock = threading.Lock()

    def change() -> None:
        with lock:
            changes: Any = next(mine)
        get_result(result.id).update(**changes)

    run_together(8, change)

    result.refresh()
    assert (result.args, result.kwargs, result.queue_name) == ([7], {"b": 8}, OTHER)
    assert store.raw.hget(base_key(store, "t", result.id), "p") == b"9"
    fall_due(store, result, queue=OTHER)
    assert (ran(), ran(OTHER)) == ([], [result.id])


@pytest.mark.contract
def test_task_runs_with_the_arguments_of_the_last_accepted_change(store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(60)])

    def change() -> list[str]:
        accepted = []
        for result in results:
            mine = get_result(result.id)
            with suppress(NotPending):
                mine.update(args=[f"new {result.id}"], priority=1)
                accepted.append(result.id)
        return accepted

    changed: list[list[str]] = []
    thread = threading.Thread(target=lambda: changed.append(change()))
    thread.start()
    done = [*ran()]
    thread.join()
    done += ran()

    assert sorted(done) == sorted(ids(results)), "each runs once"
    [accepted] = changed
    assert sorted(f"new {task_id}" for task_id in accepted) == sorted(
        text for text in recorded if isinstance(text, str)
    )


def test_lost_reply_is_answered_by_the_first_outcome(
    proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    note.enqueue("warm").update(args=["warm"])
    result = note.using(unique=True).enqueue("old")
    far = TaskResult(result.task, result.name, result.id, home("proxied"), {})
    far.refresh()
    proxy.drop_next_reply(after=UPDATE_TASK.sha.encode())
    monkeypatch.setattr("django_redis_components.core.client.retry.random.uniform", lambda *_: work_off() and 0.0)

    far.update(args=["new"], priority=5)

    assert proxy.dropped == 1
    assert (far.state, far.args, recorded) == ("successful", ["new"], ["new", "warm"])


def test_async_twin(store: Store) -> None:
    result = note.enqueue(1)

    run_async(lambda: result.aupdate(args=[2], priority=1))

    assert (result.args, ran(), recorded) == ([2], [result.id], [2])


def test_failed_task_is_changed_after_an_operator_has_retried_it(store: Store) -> None:
    result = fail_thrice.using(max_attempts=1).enqueue()
    work_off()
    with pytest.raises(NotPending, match="it is failed"):
        result.update(priority=1)

    get_queue("default").retry_failed()
    result.update(priority=1)

    assert ran() == [result.id]
