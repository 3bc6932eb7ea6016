"""Order: strict between queues; in a queue returned, due, by priority, by arrival."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from django_redis_components.taskqueue import TaskResult, get_queue
from tests.support import Store, eventually
from tests.taskqueue.support import (
    Ack,
    end_lease,
    fall_due,
    new_fetcher,
    queue_key,
    recover,
    server_ms,
    settle_now,
    work_off,
)
from tests.taskqueue.tasks import note, recorded


def fetched(*queues: str, want: int = 100) -> list[Any]:
    """The words of the tasks in the order in which they are leased, taken `want` at a time."""
    fetcher = new_fetcher(*queues, worker=f"order:{want}")
    found = []
    while jobs := fetcher.fetch("0", want):
        found += [job.message()[0][0] for job in jobs]
    return found


def give_back(result: TaskResult, queue: str = "default") -> None:
    """Lease it (it must be the next one), and hand it back as a worker does that stops."""
    fetcher = new_fetcher(queue, worker="giver")
    [job] = fetcher.fetch("0", 1)
    assert job.id == result.id
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))


@pytest.mark.parametrize("want", [1, 2, 100])
def test_returned_due_priority_and_ready_tasks_are_served_in_order(store: Store, want: int) -> None:
    give_back(note.enqueue("front"))
    for word in ("ready 1", "ready 2"):
        note.enqueue(word)
    for priority in (-1, -100, 1, 100, -1, 1):
        note.using(priority=priority).enqueue(f"priority {priority}")
    late, later = (note.using(run_after=60).enqueue(f"due {number}") for number in (1, 2))
    now_ms = server_ms(store)
    fall_due(store, later, ms_ago=10, now_ms=now_ms)
    fall_due(store, late, ms_ago=20, now_ms=now_ms)
    note.using(run_after=60).enqueue("not yet")

    assert fetched(want=want) == [
        "front",
        *("due 1", "due 2"),
        *("priority 100", "priority 1", "priority 1"),
        *("ready 1", "ready 2"),
        *("priority -1", "priority -1", "priority -100"),
    ]


def scheduled_order(store: Store) -> list[str]:
    return [task_id.decode() for task_id in store.raw.zrange(queue_key(store, "scheduled"), 0, -1)]


def test_tasks_due_in_the_same_millisecond_are_leased_in_sending_order(store: Store) -> None:
    due = datetime.fromtimestamp(math.floor(server_ms(store) / 1_000) + 2, UTC)
    task = note.using(run_after=due)
    task.enqueue_many([((number,), {}) for number in range(600)])
    for number in range(600, 620):
        task.enqueue(number)
    found: list[Any] = []

    eventually(lambda: (found.extend(fetched(want=7)), len(found) == 620)[1])

    assert found == list(range(620))


@pytest.mark.parametrize(
    ("year", "per_ms"), [(2030, 4_096), (2041, 32), (9998, 32)], ids=["until 2039", "after 2039", "last year"]
)
def test_sending_order_holds_for_more_tasks_than_a_millisecond_has_scores(
    redis_server: Store, year: int, per_ms: int
) -> None:
    due = datetime(year, 5, 17, 11, 30, 0, 123_000, tzinfo=UTC)
    due_ms = round(due.timestamp() * 1_000)
    results = note.using(run_after=due).enqueue_many([((number,), {}) for number in range(2 * per_ms + 100)])
    last = note.using(run_after=due).enqueue("last")

    assert scheduled_order(redis_server) == [result.id for result in [*results, last]]
    scores = [
        score for _, score in redis_server.raw.zrange(queue_key(redis_server, "scheduled"), 0, -1, withscores=True)
    ]
    assert len(set(scores)) == len(scores)
    assert [math.ceil(score) for score in scores[:per_ms]] == [due_ms] * per_ms
    assert math.ceil(scores[-1]) == due_ms + (len(scores) - 1) // per_ms
    assert {result.run_after for result in results} == {due}
    assert get_queue("default").info().next_due_at == due


def test_task_due_in_a_full_millisecond_is_found_by_its_id(redis_server: Store) -> None:
    due = datetime(2030, 1, 1, tzinfo=UTC)
    results = note.using(run_after=due).enqueue_many([((number,), {}) for number in range(6)])

    results[1].cancel()
    results[0].reschedule(due)
    purge = get_queue("default").purge()
    get_queue("default").restore(purge)

    assert scheduled_order(redis_server) == [result.id for result in [*results[2:], results[0]]]
    assert [job.id for job in get_queue("default").tasks("scheduled")] == scheduled_order(redis_server)


def test_tasks_retried_at_the_same_moment_keep_their_order(redis_server: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(50)])
    fetcher = new_fetcher(worker="retrier")
    jobs = fetcher.fetch("0", 50)

    settle_now(fetcher, *[Ack(job.id, job.token, "retried", b"{}", 60_000, 60_000) for job in jobs])

    assert scheduled_order(redis_server) == [result.id for result in results]


def test_equal_priorities_keep_the_order_of_arrival(store: Store) -> None:
    for number in range(30):
        note.using(priority=-3 if number % 2 else 3).enqueue(number)

    assert fetched() == [*range(0, 30, 2), *range(1, 30, 2)]


@pytest.mark.parametrize("want", [1, 3, 100])
def test_a_later_queue_waits_for_the_earlier_ones(store: Store, want: int) -> None:
    for number in range(4):
        for queue in ("low", "high", "middle"):
            note.using(queue_name=queue, priority=number - 2).enqueue(f"{queue} {number}")
    due = note.using(queue_name="low", run_after=60).enqueue("low due")
    fall_due(store, due, queue="low")

    words = fetched("high", "middle", "low", want=want)

    assert [word.split()[0] for word in words] == ["high"] * 4 + ["middle"] * 4 + ["low"] * 5
    assert words[8] == "low due"


def test_queues_that_are_not_requested_are_unchanged(store: Store) -> None:
    note.using(queue_name="mail").enqueue(1)

    assert fetched("default", "high") == []
    assert fetched("mail") == [1]


def test_recovered_tasks_keep_their_order_at_the_front(store: Store) -> None:
    results = [note.enqueue(number) for number in range(4)]
    jobs = new_fetcher(worker="dies").fetch("0", 3)
    end_lease(store, *[job.id for job in jobs])
    note.using(priority=100).enqueue("urgent")

    assert [task_id for task_id, _, _ in reversed(recover())] == [result.id for result in results[:3]]
    assert fetched() == [0, 1, 2, "urgent", 3]


def test_due_task_is_served_by_the_next_fetch(store: Store) -> None:
    delayed = note.using(run_after=60).enqueue("delayed")
    note.enqueue("at once")
    assert [job.message()[0] for job in work_off()] == [["at once"]]
    fall_due(store, delayed)

    work_off()

    assert recorded == ["at once", "delayed"]


def test_a_delayed_task_never_starts_before_its_time(store: Store) -> None:
    results = note.using(run_after=0.02).enqueue_many([((number,), {}) for number in range(50)])

    def all_ran() -> bool:
        work_off()
        return len(recorded) == 50

    eventually(all_ran)

    for result in results:
        result.refresh()
        assert result.started_at >= result.run_after  # type: ignore[operator]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_tasks_are_served_in_the_order_of_a_model(redis_server: Store, seed: int) -> None:
    chance = random.Random(seed)
    now_ms = server_ms(redis_server)
    expected = []
    for arrival in range(120):
        queue = chance.choice(["a", "b", "c"])
        kind = chance.choice(["due", "plain", "plain", "prio"])
        word = f"{queue} {kind} {arrival}"
        if kind == "due":
            ms_ago = chance.randrange(1, 1_000_000)
            fall_due(redis_server, note.using(queue_name=queue, run_after=60).enqueue(word), ms_ago, queue, now_ms)
            expected.append((queue, 0, -ms_ago, arrival, word))
        else:
            priority = chance.choice([-100, -1, 1, 7, 100]) if kind == "prio" else 0
            note.using(queue_name=queue, priority=priority).enqueue(word)
            expected.append((queue, 1, -priority, arrival, word))

    found = []
    fetcher = new_fetcher("a", "b", "c")
    while jobs := fetcher.fetch("0", chance.randrange(1, 9)):
        found += [job.message()[0][0] for job in jobs]

    assert found == [word for *_, word in sorted(expected)]
