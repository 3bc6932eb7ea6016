"""A task that has not started before its expiry does not run; its result is expired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Read
from django_redis_components.taskqueue import TaskFailed, TaskResult, chain, get_queue, task
from django_redis_components.taskqueue.store.job import Ack
from tests.support import Store, eventually, run_together
from tests.taskqueue.support import (
    base_key,
    end_lease,
    fall_due,
    new_fetcher,
    queue_key,
    recover,
    running_worker,
    server_ms,
    settle_now,
    work_off,
)
from tests.taskqueue.tasks import add, come_back, fail_thrice, note, recorded


def too_late(store: Store, *results: TaskResult, ms: int = 1) -> None:
    """Let these tasks have expired so long ago."""
    now_ms = int(server_ms(store))
    for result in results:
        key = base_key(store, "t", result.id)
        kept = store.raw.hget(key, "X").split()[1].decode()
        store.raw.hset(key, "X", f"{now_ms - ms} {kept}")


def expiry_ms(store: Store, result: TaskResult) -> int:
    return int(store.raw.hget(base_key(store, "t", result.id), "X").split()[0])


@pytest.mark.parametrize("options", [{}, {"priority": 1}, {"priority": -1}, {"run_after": 0.01}], ids=str)
def test_expired_task_does_not_run(store: Store, options: dict[str, Any]) -> None:
    result = note.using(expires=60, result_ttl=77, **options).enqueue("late")
    too_late(store, result)
    if "run_after" in options:
        fall_due(store, result, 5)

    assert work_off() == []

    result.refresh()
    assert (result.state, result.status, result.is_finished, recorded) == ("expired", "FAILED", True, [])
    assert (result.started_at, result.attempts, result.errors) == (None, 0, [])
    assert result.finished_at is not None
    assert 70 < store.raw.ttl(base_key(store, "t", result.id)) <= 77
    depth = get_queue("default").info()
    assert (depth.ready, depth.scheduled, depth.running, depth.failed) == (0, 0, 0, 0)


@pytest.mark.parametrize("year", [1, 1969])
def test_expiry_before_the_epoch_has_passed(store: Store, year: int) -> None:
    late = note.using(expires=datetime(year, 1, 1, tzinfo=UTC)).enqueue("late")
    others = add.enqueue_many([((number, 0), {}) for number in range(3)])

    jobs = new_fetcher().fetch("slot", 4)

    assert [job.id for job in jobs] == [other.id for other in others]
    late.refresh()
    assert late.state == "expired"
    assert late.expires_at == datetime(1970, 1, 1, tzinfo=UTC)


def test_task_that_starts_before_its_expiry_runs(store: Store) -> None:
    result = add.using(expires=60).enqueue(2, 3)

    work_off()

    assert result.get(0) == 5


def test_server_clock_decides_what_has_expired(store: Store) -> None:
    result = note.using(expires=0.05).enqueue("late")

    eventually(lambda: server_ms(store) > expiry_ms(store, result))
    work_off()

    assert recorded == []
    result.refresh()
    assert result.state == "expired"


def test_result_of_an_expired_task_has_state_expired(store: Store) -> None:
    result = note.using(expires=60).enqueue("late")
    too_late(store, result)
    work_off()
    result.refresh()

    with pytest.raises(
        TaskFailed, match=rf"^Task {result.id} \(tests\.taskqueue\.tasks\.note\) expired before it started\.$"
    ):
        result.get(0)
    assert result.cancel() is False, "it has ended"


def test_get_raises_when_the_task_expires(store: Store) -> None:
    result = note.using(expires=60).enqueue("late")

    def wait_or_work(number: int) -> None:
        if number == 0:
            with pytest.raises(TaskFailed, match="expired before it started"):
                result.get(60)
            return
        waited_for = Read("HEXISTS", base_key(store, "t", result.id), "W")
        eventually(lambda: connections.client().execute(waited_for) == 1)
        too_late(store, result)
        work_off()

    run_together(2, wait_or_work)


def test_expired_task_notifies_waiting_callers(store: Store) -> None:
    result = note.using(expires=60).enqueue("late")
    store.raw.hset(base_key(store, "t", result.id), "W", 1)
    too_late(store, result)

    work_off()

    assert store.raw.lrange(base_key(store, "t", result.id, "done"), 0, -1) == [b"1"]


@pytest.mark.parametrize(
    ("options", "after_ms"),
    [
        ({"expires": 60}, 60_000),
        ({"expires": timedelta(minutes=2)}, 120_000),
        ({"expires": 60, "run_after": 3_600}, 3_660_000),
        ({"expires": 60, "run_after": datetime(2001, 1, 1, tzinfo=UTC)}, 60_000),
    ],
    ids=str,
)
def test_relative_expiry_counts_from_run_after(store: Store, options: dict[str, Any], after_ms: int) -> None:
    before_ms = server_ms(store)

    result = note.using(**options).enqueue(1)

    assert before_ms - 1 <= expiry_ms(store, result) - after_ms <= server_ms(store) + 1
    sent = result.expires_at
    result.refresh()
    assert result.expires_at is not None
    assert result.expires_at.timestamp() * 1_000 == pytest.approx(expiry_ms(store, result))
    assert sent == result.expires_at


@pytest.mark.parametrize("options", [{}, {"run_after": 5}, {"run_after": 0}], ids=str)
def test_results_of_enqueue_many_have_expires_at(store: Store, options: dict[str, Any]) -> None:
    results = note.using(expires=60, **options).enqueue_many([((number,), {}) for number in range(300)])
    sent = [(result.expires_at, result.run_after, result.state) for result in results]

    for result in results:
        result.refresh()

    assert sent == [(result.expires_at, result.run_after, result.state) for result in results]
    assert all(expires_at for expires_at, _, _ in sent)


def test_result_of_a_flow_has_expires_at(store: Store) -> None:
    flow = chain(note.using(expires=60).si(1), note.using(expires=60).si(2)).enqueue()
    first, second = (result.expires_at for result in flow.results)
    flow.results[0].refresh()

    assert first == flow.results[0].expires_at is not None
    assert second is None  # it counts from when the task may begin


def test_datetime_expiry_is_used_as_given(store: Store) -> None:
    moment = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)

    result = note.using(expires=moment, run_after=60).enqueue(1)

    assert result.expires_at == moment
    result.refresh()
    assert result.expires_at == moment
    usual = note.enqueue(1)
    usual.refresh()
    assert usual.expires_at is None


def test_decorator_accepts_expires(redis_server: Store) -> None:
    made = task(expires=60)(top_level)

    assert expiry_ms(redis_server, made.enqueue()) > server_ms(redis_server)


def top_level() -> None: ...


def test_retry_of_a_started_task_does_not_expire(store: Store) -> None:
    result = fail_thrice.using(expires=60, backoff=60).enqueue()
    work_off()
    too_late(store, result)
    fall_due(store, result)

    assert [job.id for job in work_off()] == [result.id]


def test_recovered_task_does_not_expire(store: Store) -> None:
    result = note.using(expires=60).enqueue("again")
    new_fetcher(worker="dies").fetch("0", 1)
    too_late(store, result)
    end_lease(store, result.id)
    recover()

    work_off()

    assert recorded == ["again"]


@pytest.mark.parametrize("outcome", ["requeued", "delayed"])
def test_returned_or_delayed_task_expires(store: Store, outcome: str) -> None:
    sender, argument = (note, "late") if outcome == "requeued" else (come_back, 60)
    result = sender.using(expires=60).enqueue(argument)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, Ack(job.id, job.token, outcome, delay_ms=0))
    too_late(store, result)

    assert work_off() == []

    result.refresh()
    assert result.state == "expired"


def test_retried_failed_task_does_not_expire(store: Store) -> None:
    result = fail_thrice.using(expires=60, max_attempts=1).enqueue()
    work_off()
    too_late(store, result)
    get_queue("default").retry_failed()

    assert [job.id for job in work_off()] == [result.id]


@pytest.mark.parametrize("unique", [True, "started", 60])
def test_expired_task_does_not_block_others(store: Store, unique: Any) -> None:
    sender = note.using(unique=unique, expires=60)
    first = sender.enqueue(1)
    too_late(store, first)

    second = sender.enqueue(1)

    assert not second.is_duplicate
    assert [job.id for job in work_off()] == [second.id]


def test_expiry_releases_the_unique_key(store: Store) -> None:
    first = note.using(unique=60, expires=60).enqueue(1)
    too_late(store, first)

    work_off()

    assert not [key for key in store.keys() if b":u:" in key]  # noqa: SIM118 - a Store is no dict


def test_many_expired_tasks_do_not_block_others(redis_server: Store) -> None:
    """One call passes over 500; the server serves others before the next."""
    late = note.using(expires=60).enqueue_many([((number,), {}) for number in range(1_300)])
    too_late(redis_server, *late)
    note.enqueue("in time")
    fetcher = new_fetcher()

    assert fetcher.fetch("0", 1) == []

    assert redis_server.raw.llen(queue_key(redis_server, "ready")) == 801
    due_s = fetcher.seconds_to_due()
    assert due_s is not None
    assert due_s <= 0, "there is more to look at"
    assert redis_server.raw.exists(base_key(redis_server, "wakeup", "q:default"))
    with running_worker(burst=True) as worker:
        eventually(lambda: not worker.is_alive())
    assert recorded == ["in time"]
