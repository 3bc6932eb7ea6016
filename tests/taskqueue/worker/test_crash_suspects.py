"""Tasks of crashed workers are delivered alone, so that `max_deliveries` fails only the task that kills."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import TaskResult, get_queue
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.store.unregistered import requeue_unregistered
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from tests.support import Store
from tests.taskqueue.support import base_key, end_lease, new_fetcher, queue_key, recover, settle_now, work_off
from tests.taskqueue.tasks import note


def send(count: int, **options: Any) -> list[TaskResult]:
    return note.using(**options).enqueue_many([((number,), {}) for number in range(count)])


def die_with(store: Store, count: int, worker: str) -> list[str]:
    """Fetch tasks on as many threads as a worker that crashes; return their ids."""
    fetcher = new_fetcher(worker=worker)
    ids = [job.id for slot in range(count) for job in fetcher.fetch(str(slot), 1)]
    end_lease(store, *ids)
    recover()
    return ids


def done(fetcher: Fetcher, *jobs: Job) -> None:
    settle_now(fetcher, *[Ack(job.id, job.token, "succeeded", b"1", ttl_ms=60_000) for job in jobs])


def test_recovered_task_is_fetched_alone(store: Store) -> None:
    crashed = [result.id for result in send(2)]
    die_with(store, 2, "dies")
    others = [result.id for result in send(3)]
    fetcher = new_fetcher()

    fetched = [[job.id for job in fetcher.fetch("0", 10)] for _ in range(4)]

    assert fetched == [[crashed[0]], [crashed[1]], others, []]


def test_recovered_task_is_not_fetched_after_others(store: Store) -> None:
    send(1, queue_name="high")
    [suspect] = send(1)
    die_with(store, 1, "dies")
    handed_back, another = send(2)
    giver = new_fetcher(worker="gives")
    jobs = [job for slot in range(3) for job in giver.fetch(str(slot), 1)]
    assert [job.id for job in jobs] == [suspect.id, handed_back.id, another.id]
    settle_now(giver, *[Ack(job.id, job.token, "requeued") for job in reversed(jobs[:2])])
    store.raw.lpush(queue_key(store, "requeued"), store.raw.rpop(queue_key(store, "requeued")))
    fetcher = new_fetcher("high", "default")

    [[high, back], [alone]] = [fetcher.fetch("0", 10) for _ in range(2)]

    assert (high.queue, back.id, alone.id) == ("high", handed_back.id, suspect.id)


def test_fetch_of_a_recovered_task_notifies_for_the_rest(store: Store) -> None:
    send(1)
    die_with(store, 1, "dies")
    send(1)
    store.raw.delete(base_key(store, "wakeup", "q:default"))

    new_fetcher().fetch("0", 10)

    assert store.raw.exists(base_key(store, "wakeup", "q:default")) == 1


def test_tasks_with_two_crashes_do_not_share_a_process(store: Store) -> None:
    crashed = send(2)
    for worker in ("first", "second"):
        die_with(store, 2, worker)
    others = send(2)
    fetcher = new_fetcher(worker="third")

    [tried] = fetcher.fetch("0", 10)
    beside = fetcher.fetch("1", 10)

    assert tried.id == crashed[0].id
    assert [job.id for job in beside] == [other.id for other in others], "the others do not wait for it"
    assert fetcher.fetch("2", 10) == []
    [elsewhere] = new_fetcher(worker="fourth").fetch("0", 10)
    assert elsewhere.id == crashed[1].id


@pytest.mark.parametrize("end", ["finished", "died"])
def test_next_suspect_runs_when_the_first_has_finished(store: Store, end: str) -> None:
    crashed = send(2)
    for worker in ("first", "second"):
        die_with(store, 2, worker)
    fetcher = new_fetcher(worker="third")
    [tried] = fetcher.fetch("0", 10)
    if end == "finished":
        done(fetcher, tried)
    else:
        end_lease(store, tried.id)
        recover()

    [following] = fetcher.fetch("1", 10)

    assert following.id == crashed[1].id


def test_suspect_leased_by_another_process_does_not_block_the_next(store: Store) -> None:
    crashed = send(2, max_deliveries=9)
    for worker in ("first", "second"):
        die_with(store, 2, worker)
    slow = new_fetcher(worker="slow")
    [lost] = slow.fetch("0", 10)
    end_lease(store, lost.id)
    recover()
    [again] = new_fetcher(worker="quick").fetch("0", 10)
    assert again.id == lost.id == crashed[0].id

    assert [job.id for job in slow.fetch("1", 10)] == [crashed[1].id]


def test_low_max_deliveries_isolates_a_task_after_one_crash(store: Store) -> None:
    first, second = send(2, max_deliveries=2)
    die_with(store, 2, "first")
    fetcher = new_fetcher(worker="second")

    [tried] = fetcher.fetch("0", 10)

    assert tried.id == first.id
    assert fetcher.fetch("1", 10) == []
    assert [job.id for job in new_fetcher(worker="third").fetch("0", 10)] == [second.id]


def test_tasks_with_one_crash_of_three_run_concurrently(store: Store) -> None:
    """A host that was switched off must not make eight long tasks run one after the other."""
    send(3)
    die_with(store, 3, "first")
    fetcher = new_fetcher(worker="second")

    assert [len(fetcher.fetch(str(slot), 1)) for slot in range(4)] == [1, 1, 1, 0]


def test_isolated_tasks_keep_their_order(store: Store) -> None:
    crashed = [result.id for result in send(4, max_deliveries=2)]
    die_with(store, 4, "first")
    fetcher = new_fetcher(worker="second")
    fetcher.fetch("0", 1)

    fetcher.fetch("1", 1)

    assert store.raw.lrange(queue_key(store, "requeued"), 0, -1) == [task_id.encode() for task_id in crashed[1:]]
    get_queue("default").purge()
    assert fetcher.fetch("2", 1) == []


@pytest.mark.parametrize(("crashed", "found"), [(10, True), (11, False)])
def test_one_fetch_skips_at_most_nine_crashed_tasks(store: Store, crashed: int, found: bool) -> None:
    """One suspect runs; the others wait at the front, before a task without crashes."""
    send(crashed, max_deliveries=2)
    die_with(store, crashed, "first")
    fetcher = new_fetcher(worker="second")
    fetcher.fetch("0", 1)
    back, other = send(2)
    store.raw.lmove(queue_key(store, "ready"), queue_key(store, "requeued"), "LEFT", "RIGHT")

    [job] = fetcher.fetch("1", 1)

    assert job.id == (back if found else other).id


def run_until_the_killer_has_failed(store: Store, killer: TaskResult, threads: int) -> None:
    """Worker processes with some threads, one after the other: each dies as soon as it has the killer."""
    for number in range(40):
        fetcher = new_fetcher(worker=f"process{number}")
        jobs = [job for slot in range(threads) for job in fetcher.fetch(str(slot), 1)]
        if killer.id in [job.id for job in jobs]:
            end_lease(store, *[job.id for job in jobs])
            recover()
        else:
            done(fetcher, *jobs)
        killer.refresh()
        if killer.state == "failed":
            return


def test_max_deliveries_fails_only_the_task_that_kills_its_workers(store: Store) -> None:
    results = send(12)
    killer = results[2]

    run_until_the_killer_has_failed(store, killer, 4)
    work_off(worker="at last")

    for result in results:
        result.refresh()
    assert [result.state for result in results].count("failed") == 1
    assert killer.worker_ids[-1] != "at last"
    assert len(killer.worker_ids) == 3
    assert max(result.attempts for result in results if result != killer) <= 3


def test_returned_task_has_no_start(store: Store) -> None:
    result = note.enqueue(1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    result.refresh()
    assert result.started_at is not None
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))

    result.refresh()

    assert (result.started_at, result.last_attempted_at) == (None, None)


def test_returned_task_keeps_its_earlier_start(store: Store) -> None:
    [result] = send(1)
    die_with(store, 1, "dies")
    result.refresh()
    before = (result.started_at, result.last_attempted_at, result.timeline)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    result.refresh()
    assert result.last_attempted_at > before[1], "it is another moment"
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))

    result.refresh()

    assert (result.started_at, result.last_attempted_at, result.timeline) == before
    assert None not in before


@pytest.mark.contract
@pytest.mark.parametrize("outcome", ["retried", "delayed", "unregistered"])
def test_returned_lease_does_not_change_the_last_run(store: Store, outcome: str) -> None:
    result = note.enqueue(1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, Ack(job.id, job.token, outcome, b"{}", ttl_ms=60_000, ran_us=5))
    requeue_unregistered(home(), ["default"])
    result.refresh()
    attempted_at = result.last_attempted_at
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))

    result.refresh()

    assert result.last_attempted_at == attempted_at is not None
    assert result.started_at == attempted_at


def test_supervisor_returns_only_the_lease_with_its_token(store: Store) -> None:
    """Prefetched tasks are returned by token after the process has died; a newer lease is unchanged."""
    result = note.enqueue(1)
    [job] = new_fetcher(worker="dead").fetch("0", 1)
    end_lease(store, result.id)
    recover()
    [again] = new_fetcher(worker="lives").fetch("0", 1)

    settle_now(Fetcher(home(), connections.client(), "dead", ()), Ack(job.id, job.token, "requeued"))

    assert store.raw.hget(base_key(store, "t", result.id), "L") == again.token.encode()
    assert store.raw.zcard(queue_key(store, "running")) == 1
