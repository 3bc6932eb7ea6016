"""Many pending tasks at once: reschedule, run now, move to another queue, cancel."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import chain, get_queue
from django_redis_components.taskqueue.exceptions import InvalidTask, UnknownQueue
from django_redis_components.taskqueue.queue import Queue
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store import pending_tasks
from django_redis_components.taskqueue.store.job import Ack
from tests.support import Store, run_async
from tests.taskqueue.store.support import counts, fill, ids, park_many
from tests.taskqueue.support import (
    new_fetcher,
    queue_key,
    server_ms,
    settle_now,
    taskqueue_settings,
    work_off,
)
from tests.taskqueue.tasks import add, fail_thrice, note

OTHER = "other"


def states(results: list[TaskResult]) -> list[str]:
    for result in results:
        result.refresh()
    return [result.state for result in results]


def ran(queue: str = "default") -> list[str]:
    return [job.id for job in work_off(queue)]


def all_fall_due(store: Store, queue: str = "default") -> None:
    for task_id, _ in store.raw.zrange(queue_key(store, "scheduled", queue), 0, -1, withscores=True):
        store.raw.zadd(queue_key(store, "scheduled", queue), {task_id: server_ms(store) - 1})


def scheduled(queue: str = "default") -> list[str]:
    return [result.id for result in get_queue(queue).tasks("scheduled")]


@pytest.mark.contract
def test_ready_and_scheduled_tasks_of_each_kind_are_rescheduled_and_run_once(store: Store) -> None:
    results = fill(store)
    others = [note.enqueue("stays") for _ in range(3)]

    done = get_queue("default").reschedule(ids(results), timedelta(hours=1))

    assert done == len(results)
    assert scheduled() == ids(results)
    assert set(states(results)) == {"scheduled"}
    assert ran() == ids(others)
    assert 3_500 < (results[0].run_after - results[0].enqueued_at).total_seconds() < 3_700  # type: ignore[operator]
    all_fall_due(store)
    assert sorted(ran()) == sorted(ids(results))
    assert ran() == []


def test_rescheduled_task_that_waits_for_an_attempt_stays_retrying_and_keeps_its_attempts(store: Store) -> None:
    result = fail_thrice.using(backoff=[600]).enqueue()
    work_off()

    assert get_queue("default").reschedule([result.id], 7_200) == 1

    assert (states([result]), result.attempts) == (["retrying"], 1)
    info = get_queue("default").info()
    assert (info.retrying, info.scheduled) == (1, 1)
    assert get_queue("default").run_now([result.id]) == 1
    assert ran() == [result.id]


def test_running_finished_waiting_unknown_and_foreign_tasks_are_not_rescheduled(store: Store) -> None:
    running, done = note.enqueue("runs"), note.using(queue_name="done").enqueue("done")
    work_off("done")
    new_fetcher(worker="here:7").fetch("0", 1)
    waiting = chain(note.using(run_after=60).s("first"), note.si("waits")).enqueue()
    foreign = note.using(queue_name=OTHER).enqueue("foreign")
    last = waiting.last.id

    assert get_queue("default").reschedule([running.id, done.id, last, foreign.id, "unknown"], 60) == 0

    assert states([running, done, foreign]) == ["running", "successful", "ready"]


def test_run_now_leaves_ready_tasks_at_their_place(store: Store) -> None:
    first, second = note.enqueue("first"), note.enqueue("second")
    later = note.using(run_after=60).enqueue("later")

    assert get_queue("default").run_now([second.id, later.id, later.id]) == 1

    assert ran() == [later.id, first.id, second.id]


@pytest.mark.parametrize("change", ["reschedule", "move"])
def test_tasks_are_found_anywhere_in_a_long_ready_list(change: str, store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(3_000)])
    results[1_499].cancel()
    store.raw.delete(f"{home().base}:t:{results[1_499].id}")  # as when its record expires: an entry without a record
    chosen = [results[number] for number in (2_999, 0, 1_500, 1_501, 7)]

    if change == "reschedule":
        assert get_queue("default").reschedule(ids(chosen), 60) == 5
    else:
        assert get_queue("default").move(ids(chosen), to=OTHER) == 5

    assert counts()[0] == 3_000 - 6
    left = [job.id for job in new_fetcher(worker="takes:all").fetch("0", 250)]
    assert left == [result.id for result in results if result not in chosen][:250]


def test_purged_tasks_are_neither_rescheduled_nor_moved_and_are_restored_once(store: Store) -> None:
    results = [note.enqueue("ready"), note.using(run_after=60).enqueue("later")]
    purge = get_queue("default").purge()

    assert get_queue("default").reschedule(ids(results), 60) == 0
    assert get_queue("default").move(ids(results), to=OTHER) == 0

    assert get_queue("default").restore(purge) == 2
    all_fall_due(store)
    assert sorted(ran()) == sorted(ids(results))


@pytest.mark.contract
def test_moved_tasks_of_each_kind_run_once_in_the_other_queue(store: Store) -> None:
    parked = park_many(2)
    results = fill(store)
    chained = chain(note.using(run_after=60).s("first"), note.si("waits")).enqueue()
    waiting = chained.last.id

    done = get_queue("default").move([*ids(results), *ids(parked), waiting], to=OTHER)

    assert done == len(results) + 3
    info = get_queue(OTHER).info()
    assert (info.ready, info.scheduled, info.waiting, info.unregistered) == (len(results) + 1, 1, 1, 0)
    assert ran() == []
    assert {result.queue_name for result in results if not result.refresh()} == {OTHER}
    store.raw.zadd(queue_key(store, "scheduled"), {chained.results[0].id: server_ms(store) - 1})
    work_off()  # the first task of the flow, which had stayed
    all_fall_due(store, OTHER)
    assert sorted(ran(OTHER)) == sorted([*ids(results), *ids(parked), waiting])
    assert ran(OTHER) == []
    assert states(chained.results) == ["successful"] * 2


def test_moved_tasks_keep_priority_and_unique_key(store: Store) -> None:
    plain = note.using(queue_name=OTHER).enqueue("plain")
    urgent = note.using(priority=5).enqueue("urgent")
    unique = note.using(unique=True).enqueue("unique")

    assert get_queue("default").move([urgent.id, unique.id], to=OTHER) == 2

    assert note.using(unique=True).enqueue("unique").id == unique.id
    assert ran(OTHER) == [urgent.id, plain.id, unique.id]
    assert note.using(unique=True).enqueue("unique").id != unique.id


def test_moved_task_that_waits_for_a_limit_lets_the_next_one_go_and_keeps_its_limit(store: Store) -> None:
    limited = note.using(concurrency=1)
    results = [limited.enqueue(number) for number in range(4)]
    fetcher = new_fetcher(worker="here:7")
    [job] = fetcher.fetch("0", 4)
    assert get_queue("default").info().limited == 3

    assert get_queue("default").move([results[1].id], to=OTHER) == 1

    other = new_fetcher(OTHER, worker="here:8")
    assert other.fetch("0", 1) == []
    assert get_queue(OTHER).info().limited == 1
    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"null", ttl_ms=60_000))
    while work_off() or work_off(OTHER):
        pass
    assert set(states(results)) == {"successful"}


@pytest.mark.parametrize("verb", ["reschedule", "move", "cancel"])
def test_task_with_the_reserved_start_of_a_rate_passes_it_on(verb: str, store: Store) -> None:
    results = [note.using(rate="1/h").enqueue(number) for number in range(3)]
    assert [job.id for job in new_fetcher(worker="here:7").fetch("0", 3)] == [results[0].id]

    queue = get_queue("default")
    changes: dict[str, Callable[[], int]] = {
        "reschedule": lambda: queue.reschedule([results[1].id], 7_200),
        "move": lambda: queue.move([results[1].id], to=OTHER),
        "cancel": lambda: queue.cancel([results[1].id]),
    }
    assert changes[verb]() == 1

    assert store.raw.zscore(queue_key(store, "scheduled"), results[2].id) is not None
    assert store.raw.zcard(queue_key(store, "limited")) == 0


@pytest.mark.contract
def test_pending_and_running_tasks_are_cancelled_and_others_are_not(store: Store) -> None:
    parked = park_many(1)
    results = fill(store)
    running = note.using(queue_name="busy").enqueue("runs")
    new_fetcher("busy", worker="here:7").fetch("0", 1)
    foreign = note.using(queue_name=OTHER).enqueue("foreign")

    assert get_queue("default").cancel([*ids(results[1:]), parked[0].id, foreign.id, "unknown"]) == len(results)
    assert get_queue("default").cancel(ids(results[1:])) == 0, "they are cancelled"
    assert get_queue("busy").cancel([running.id]) == 1
    assert get_queue("busy").cancel([running.id]) == 0, "it was asked before"

    assert states([*results[1:], *parked]) == ["cancelled"] * len(results)
    assert states([running, foreign]) == ["running", "ready"]
    assert counts()[0] == 1
    assert ran() == [results[0].id]


def test_cancelling_a_task_of_a_flow_fails_those_that_depend_on_it(store: Store) -> None:
    flow = chain(add.using(run_after=60).s(1, 1), note.s()).enqueue()
    first, second = flow.results

    assert get_queue("default").cancel([first.id]) == 1

    assert states([first, second]) == ["cancelled", "failed"]


@pytest.mark.parametrize(
    "change",
    [
        lambda ids, us: pending_tasks.reschedule_tasks(home(), "default", ids, "+60000", us),
        lambda ids, us: pending_tasks.move_tasks(home(), "default", ids, OTHER, us),
        lambda ids, us: pending_tasks.cancel_tasks(home(), "default", ids, 1_000, us),
    ],
)
def test_tasks_that_entered_the_queue_after_the_watermark_are_skipped(change: Any, store: Store) -> None:
    early, running = note.enqueue("early"), note.using(priority=9).enqueue("runs")
    until_us = f"{server_ms(store) * 1_000:.0f}"
    late = [note.enqueue("late"), note.using(run_after=60).enqueue("late")]
    [job] = new_fetcher(worker="here:7").fetch("0", 1)

    assert home().run(change([running.id, *ids(late), early.id], until_us)) == 1
    assert home().run(change([early.id], until_us)) == 0, "once only: it has entered a list since, or is cancelled"

    assert states([running, *late]) == ["running", "ready", "scheduled"]
    assert job.id == running.id


def test_two_clients_at_once_change_each_task_once(store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(600)])
    start, done = threading.Barrier(4), []

    def change(verb: Callable[[Queue], int]) -> None:
        start.wait()
        done.append(verb(get_queue("default")))

    verbs: list[Callable[[Queue], int]] = [
        lambda queue: queue.move(ids(results), to=OTHER),
        lambda queue: queue.move(ids(results), to="third"),
        lambda queue: queue.cancel(ids(results)),
        lambda queue: len(new_fetcher(worker="takes:some").fetch("0", 100)),
    ]
    threads = [threading.Thread(target=change, args=[verb]) for verb in verbs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for result in results:
        result.refresh()
    cancelled = sum(result.state == "cancelled" for result in results)
    running = sum(result.state == "running" for result in results)
    waiting = get_queue(OTHER).info().ready + get_queue("third").info().ready + counts()[0]
    assert cancelled + running + waiting == 600
    assert len(ran(OTHER)) + len(ran("third")) + len(ran()) == waiting


@pytest.mark.parametrize(
    ("flow", "tail"),
    [(pending_tasks.reschedule_tasks, ("+60000",)), (pending_tasks.move_tasks, (OTHER,))],
    ids=["reschedule", "move"],
)
def test_one_call_takes_at_most_100_tasks_out_of_a_list(flow: Any, tail: tuple[str], store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(230)])
    changed = flow(home(), "default", ids(results), *tail)
    replies = [connections.client().execute(next(changed))]

    with suppress(StopIteration):
        while True:
            replies.append(connections.client().execute(changed.send(replies[-1])))

    assert replies == [[100], [100], [30]]


def test_wrong_arguments_are_refused(store: Store, settings: Any) -> None:
    queue = get_queue("default")

    with pytest.raises(ValueError, match="to='default': expected another queue than the one of the tasks"):
        queue.move(["x"], to="default")
    with pytest.raises(TypeError, match="ids='x': expected an iterable of task ids"):
        queue.cancel("x")
    with pytest.raises(InvalidTask, match="run_after=None"):
        queue.reschedule(["x"], None)  # type: ignore[arg-type]
    taskqueue_settings(settings, QUEUES=["default"])
    with pytest.raises(UnknownQueue, match="emial"):
        queue.move(["x"], to="emial")


def test_async_twins(store: Store) -> None:
    results = [note.enqueue(number) for number in range(4)]
    queue = get_queue("default")

    async def change() -> list[int]:
        return [
            await queue.areschedule([results[0].id], 60),
            await queue.arun_now([results[0].id]),
            await queue.amove([results[1].id], to=OTHER),
            await queue.acancel([results[2].id]),
        ]

    assert run_async(change) == [1, 1, 1, 1]
    assert ran() == [results[0].id, results[3].id]
