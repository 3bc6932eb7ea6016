"""Every operation on pending tasks works for those of groups, and leaves the turns of the others as they were."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.taskqueue import Concurrency, Rate, TaskResult, Unique, chain, get_queue, task
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.groups import read_groups
from django_redis_components.taskqueue.store import control
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.store.pending_tasks import cancel_tasks
from django_redis_components.taskqueue.store.unregistered import rename_tasks
from django_redis_components.taskqueue.task import Task
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store, eventually, run_async
from tests.taskqueue.fair_share.support import send, serve, take, take_singly
from tests.taskqueue.support import (
    base_key,
    end_lease,
    new_fetcher,
    queue_key,
    recover,
    server_ms,
    settle_now,
    work_off,
)
from tests.taskqueue.tasks import fail, note, recorded


@task(fair="{customer}", unique=Unique(until="started", key="{number}", on_conflict="replace"))
def serve_once(customer: str, number: int) -> Any:
    return note(f"{customer}{number}")


def leftovers(store: Store) -> set[str]:
    """Parts of queues that groups have."""
    keys = {key.decode().rpartition(":")[2] for key in store.keys() if b":q:" in key}  # noqa: SIM118 - a Store is no dict
    return keys & {"grouped", "turns", "paused_groups", "tombstones"}


def ids(results: list[TaskResult]) -> list[str]:
    return [result.id for result in results]


@pytest.mark.contract
def test_cancelled_task_leaves_its_group_at_once(store: Store) -> None:
    first, _, last = send("a1 a2 b1")

    assert first.cancel()
    assert last.cancel()

    assert get_queue("default").info().ready == 1
    assert take() == ["a2"]
    assert leftovers(store) == set()


def test_cancelled_group_leaves_nothing(store: Store) -> None:
    results = send("a1 a2 b1")

    assert get_queue("default").cancel(ids(results)) == 3

    assert leftovers(store) == set()
    assert take() == []


@pytest.mark.contract
def test_purged_tasks_are_restored_into_their_groups(store: Store) -> None:
    queue = get_queue("default")
    send("a1 a2 b1")
    note.enqueue("plain")

    purge = queue.purge()
    assert (purge.count, queue.info().ready, take()) == (4, 0, [])
    send("a3")
    assert queue.restore(purge) == 4

    assert take(1) == ["a1"]  # before the one that was enqueued since
    assert sorted(take()) == ["a2", "a3", "b1", "plain"]
    assert leftovers(store) == set()


def test_purged_tasks_are_restored_beside_those_that_waited_for_a_limit(store: Store) -> None:
    queue = get_queue("default")
    send("a1 a2 b1 b2", serve.using(concurrency=1))
    assert take(4) == ["a1"]
    assert store.raw.zcard(queue_key(store, "limited")) == 3
    send("c1 c2")

    assert queue.restore(queue.purge()) == 5

    assert queue.info().ready == 5
    assert take() == ["c1", "c2"]


def test_purge_until_a_moment_keeps_later_tasks_of_groups(store: Store) -> None:
    send("a1 b1")
    until_us = round(server_ms(store) * 1_000)
    eventually(lambda: server_ms(store) * 1_000 > until_us + 1_000)
    send("a2")

    moved, place = 0, (1, 0)
    while place[0]:
        done, *rest = home().run(control.purge_until(home(), "default", "bin", until_us, 0, *place))
        moved, place = moved + done, (rest[0], rest[1])

    assert moved == 2
    assert take() == ["a2"]
    assert get_queue("default").restore("bin") == 2
    assert sorted(take()) == ["a1", "b1"]


def test_moved_tasks_have_turns_in_the_other_queue(store: Store) -> None:
    results = send("a1 a2 b1")
    send("a9 c1", serve.using(queue_name="other"))

    assert get_queue("default").move(ids(results), to="other") == 3

    assert leftovers(store) == {"grouped", "turns"}
    assert take(9, "default") == []
    assert take(9, "other") == ["a1", "c1", "b1", "a2", "a9"]


def test_rescheduled_tasks_return_to_their_groups_when_they_are_due(store: Store) -> None:
    results = send("a1 a2 b1")
    queue = get_queue("default")

    assert queue.reschedule(ids(results), 60) == 3
    assert (take(), queue.info().scheduled) == ([], 3)
    assert queue.reschedule(ids(results), 0) == 3

    assert take() == ["a1", "b1", "a2"]


def test_failed_tasks_are_retried_in_turn(store: Store) -> None:
    failing = fail.using(fair="{text}")
    failing.enqueue_many([(("x",), {}), (("x",), {}), (("y",), {})])
    work_off()
    queue = get_queue("default")
    assert queue.info().failed == 3

    assert queue.retry_failed() == 3

    assert take() == ["x", "y", "x"]


def test_unregistered_tasks_are_requeued_and_renamed_in_turn(store: Store) -> None:
    stranger: Task[..., Any, Any] = Task(func=serve.func, name="gone.task", declared_options=serve.declared_options)
    results = send("a1 a2 b1", stranger)
    work_off()
    assert get_queue("default").info().unregistered == 3

    assert home().run(rename_tasks(home(), "default", ids(results), serve.name, "inf")) == 3

    assert take() == ["a1", "b1", "a2"]


def test_update_of_the_arguments_changes_the_group(store: Store) -> None:
    first, *_ = send("a1 a2 b1")

    first.update(args=["b", 1])
    first.update(priority=7)

    assert get_queue("default").info().ready == 3
    assert take() == ["a2", "b1", "b1"]
    assert leftovers(store) == set()


def test_update_of_other_arguments_keeps_the_place(store: Store) -> None:
    first, *_ = send("a1 a2 b1")

    first.update(args=["a", 7])

    assert take() == ["a7", "b1", "a2"]


def test_replacing_call_moves_the_task_to_the_group_of_the_call(store: Store) -> None:
    serve_once.enqueue("a", 1)
    send("a2 b2")

    serve_once.enqueue("b", 1)

    assert take() == ["a2", "b1", "b2"]
    assert leftovers(store) == set()


def test_unique_key_of_a_task_that_waits_for_its_turn_is_held_after_a_purge(store: Store) -> None:
    get_queue("default").purge()
    once = serve.using(unique=True)
    first = once.enqueue("a", 1)
    get_queue("default").purge()

    second = once.enqueue("a", 1)

    assert second.id != first.id  # the purged one does not hold the key
    assert once.enqueue("a", 1).id == second.id


def test_tasks_of_a_flow_have_turns(store: Store) -> None:
    send("a1 a2")
    chain(serve.s("b", 1), serve.si("a", 0)).enqueue()

    work_off()

    assert recorded == ["a1", "b1", "a2", "a0"]


def test_expired_task_uses_no_turn(store: Store) -> None:
    late = serve.using(expires=0.001).enqueue("a", 1)
    send("a2 b1")
    eventually(lambda: server_ms(store) > late.enqueued_at.timestamp() * 1_000 + 2)

    assert take() == ["a2", "b1"]
    late.refresh()
    assert late.state == "expired"


def test_many_expired_tasks_of_a_group_delay_others_by_one_turn(store: Store) -> None:
    results = serve.using(expires=0.001).enqueue_many([(("a", number), {}) for number in range(60)])
    send("a99 b1")
    eventually(lambda: server_ms(store) > results[-1].enqueued_at.timestamp() * 1_000 + 2)

    assert take() == ["b1", "a99"]


def test_cancelled_tasks_without_a_group_delay_the_next_one_by_few_turns(store: Store) -> None:
    send(f"a{number}" for number in range(9))
    results = note.enqueue_many([((number,), {}) for number in range(50)])
    note.enqueue("plain")

    get_queue("default").cancel(ids(results))

    assert "plain" in take_singly(6)


def test_deleted_records_are_passed_over(store: Store) -> None:
    first, *_ = send("a1 a2 b1")
    store.raw.delete(base_key(store, "t", first.id))

    assert take() == ["a2", "b1"]
    assert leftovers(store) == set()


@pytest.mark.contract
def test_ready_tasks_of_groups_are_counted_and_listed(store: Store) -> None:
    results = send("b1 a1 a2")
    serve.using(priority=3).enqueue("a", 3)
    plain = note.enqueue("plain")
    queue = get_queue("default")

    info = queue.info()
    listed = [result.id for result in queue.tasks("ready")]

    assert info.ready == 5
    assert info.oldest_age is not None
    assert listed[0] == plain.id
    assert listed[2:] == [results[1].id, results[2].id, results[0].id]


def test_age_of_a_delayed_task_counts_from_its_due_time(store: Store) -> None:
    result = serve.using(run_after=60).enqueue("a")
    due_ms = server_ms(store) - 5_000
    store.raw.zadd(queue_key(store, "scheduled"), {result.id: due_ms})
    store.raw.hset(base_key(store, "t", result.id), mapping={"d": int(due_ms), "e": int((due_ms - 600_000) * 1_000)})
    send("b1 b2")
    take(1)

    age = get_queue("default").info().oldest_age

    assert age is not None
    assert age < 100


@pytest.mark.contract
def test_paused_group_starts_nothing_and_others_go_on(store: Store) -> None:
    queue = get_queue("default")
    send("a1 a2 b1")

    queue.pause_group("a", "invoice is open", author="anna")

    assert take() == ["b1"]
    send("a3 b2")
    assert take() == ["b2"]
    assert queue.info().ready == 3
    [group] = queue.groups()
    assert (group.name, group.ready, group.paused and group.paused.reason) == ("a", 3, "invoice is open")
    assert queue.resume_group("a")
    assert take() == ["a1", "a2", "a3"]
    assert not queue.resume_group("a")
    assert leftovers(store) == set()


def test_returned_and_due_tasks_of_a_paused_group_wait(store: Store) -> None:
    queue = get_queue("default")
    send("a1")
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    serve.using(run_after=60).enqueue("a", 2)
    [due] = queue.tasks("scheduled")
    queue.pause_group("a")
    due.run_now()

    settle_now(fetcher, Ack(job.id, job.token, "requeued"))

    assert take() == []
    queue.resume_group("a")
    assert take() == ["a1", "a2"]


def test_resumed_group_notifies_a_worker(store: Store) -> None:
    queue = get_queue("default")
    send("a1")
    queue.pause_group("a")
    take()
    store.raw.delete(base_key(store, "wakeup:q:default"))

    queue.resume_group("a")

    assert store.raw.exists(base_key(store, "wakeup:q:default"))


def test_async_twins_pause_list_and_resume(store: Store) -> None:
    async def all_of_them() -> tuple[Any, bool]:
        queue = get_queue("default")
        await queue.apause_group("a")
        groups = await queue.agroups()
        return groups, await queue.aresume_group("a")

    groups, was_paused = run_async(all_of_them)
    assert [(group.name, group.ready, group.oldest_age) for group in groups] == [("a", 0, None)]
    assert was_paused


@pytest.mark.parametrize("name", ["a\tb", "x" * 101])
def test_name_that_no_group_can_have_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match=r"group=.*: expected at most 100 characters without control characters"):
        get_queue("default").pause_group(name)


def test_number_of_paused_groups_is_bounded(store: Store) -> None:
    queue = get_queue("default")
    for number in range(200):
        queue.pause_group(str(number))
    queue.pause_group("7", "again")

    with pytest.raises(ValueError, match="group='more': 200 groups of queue 'default' are paused"):
        queue.pause_group("more")


@pytest.mark.contract
def test_groups_with_most_ready_tasks_are_listed_first(store: Store) -> None:
    send("a1 b1 b2 b3 c1 c2")
    note.enqueue("plain")
    take(2)

    groups = get_queue("default").groups(limit=2)

    assert [(group.name, group.ready) for group in groups] == [("b", 2), ("c", 2)]
    assert all(group.oldest_age is not None and group.oldest_age < 60 for group in groups)


def test_large_group_among_many_is_listed(store: Store) -> None:
    send(f"g{number}" for number in range(1))
    wide = serve.using(fair="{number}")
    wide.enqueue_many([(("x", number), {}) for number in range(600)])
    serve.using(fair="zz").enqueue_many([(("z", 0), {})] * 600)

    groups = get_queue("default").groups(limit=1)

    assert [(group.name, group.ready) for group in groups] == [("zz", 600)]


@pytest.mark.contract
def test_concurrency_of_the_same_key_limits_a_group_and_passes_its_turn(store: Store) -> None:
    limited = serve.using(concurrency=Concurrency(1, key="{customer}"))
    send("a1 a2 a3 b1 b2", limited)
    fetcher = new_fetcher()
    jobs = fetcher.fetch("0", 9)
    assert [job.message()[0] for job in jobs] == [["a", 1], ["b", 1]]

    fetcher.settle(execute(jobs[0]))
    [third] = fetcher.fetch("0", 9)
    assert third.message()[0] == ["a", 2]
    fetcher.settle(execute(jobs[1]))
    fetcher.settle(execute(third))
    assert [job.message()[0] for job in fetcher.fetch("0", 9)] == [["b", 2], ["a", 3]]


def test_limited_customer_does_not_hold_the_only_thread(store: Store) -> None:
    limited = serve.using(concurrency=Concurrency(1, key="{customer}"))
    send([f"a{number}" for number in range(20)] + [f"b{number}" for number in range(20)], limited)

    work_off()

    assert recorded == [f"{customer}{number}" for number in range(20) for customer in "ab"]


def test_rate_of_the_same_key_limits_a_group(store: Store) -> None:
    send("a1 a2 b1 b2", serve.using(rate=Rate("1/h", key="{customer}")))

    assert take() == ["a1", "b1"]
    assert get_queue("default").info().scheduled == 2


def test_task_of_a_paused_group_does_not_hold_a_limit_that_others_wait_for(store: Store) -> None:
    limited = serve.using(concurrency=1)
    fetcher = new_fetcher()
    send("a1 a2 b1", limited)
    [job] = fetcher.fetch("0", 9)
    queue = get_queue("default")
    queue.pause_group("a")

    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"null", 0, 60_000))

    assert take() == ["b1"]


def test_many_waiting_tasks_of_a_paused_group_do_not_hold_a_limit_of_all_groups(store: Store) -> None:
    limited, fetcher = serve.using(concurrency=Concurrency(1, group="geocoder")), new_fetcher()
    send([f"a{number}" for number in range(700)], limited)
    [job] = fetcher.fetch("0", 1)
    take(1)
    get_queue("default").pause_group("a")
    send("b1", limited)

    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"null", 0, 60_000))

    assert [word for _ in range(4) for word in take(1)] == ["b1"]


def test_waiting_tasks_of_a_paused_group_do_not_hold_a_rate_of_all_groups(store: Store) -> None:
    send([f"a{number}" for number in range(100)] + ["b1"], serve.using(rate=Rate("20/s", group="geocoder")))
    assert "b1" not in take()

    get_queue("default").pause_group("a")

    eventually(lambda: take() == ["b1"])


def test_task_that_a_worker_has_died_with_is_leased_alone_after_it_waited_for_a_limit(store: Store) -> None:
    limited, fetcher = serve.using(concurrency=Concurrency(2, group="geocoder")), new_fetcher()
    send("a1 b1", limited)
    crashed, job = fetcher.fetch("0", 2)
    store.raw.set(base_key(store, "limit", "c:geocoder"), 1)
    end_lease(store, crashed.id)
    recover()
    assert take() == []
    send("a2 c1")

    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"null", 0, 60_000))

    assert [take(), take()] == [["a1"], ["a2", "c1"]]


def test_task_that_a_worker_has_died_with_is_leased_alone_after_a_pause_of_its_group(store: Store) -> None:
    queue = get_queue("default")
    send("a1 a2 b1")
    [crashed] = new_fetcher().fetch("0", 1)
    queue.pause_group("a")
    end_lease(store, crashed.id)
    recover()
    assert take() == ["b1"]

    queue.resume_group("a")

    assert take() == ["a2"]
    assert store.raw.exists(base_key(store, "wakeup:q:default"))
    assert [take(), take()] == [["a1"], []]


def test_cancelled_task_of_the_requeued_list_does_not_enter_a_paused_group(store: Store) -> None:
    queue, fetcher = get_queue("default"), new_fetcher()
    [result] = send("a1")
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))
    queue.pause_group("a")

    assert result.cancel()

    assert take() == []
    assert [group.ready for group in queue.groups()] == [0]
    assert leftovers(store) == {"paused_groups"}


def test_one_call_passes_a_bounded_number_of_emptied_groups(store: Store) -> None:
    results = serve.using(fair="{number}").enqueue_many([(("x", number), {}) for number in range(800)])
    send("b1")

    get_queue("default").cancel(ids(results))

    assert take(1) == []
    assert store.raw.zcard(queue_key(store, "turns")) == 301
    assert take(1) == ["b1"]


def test_age_of_the_oldest_task_is_known_behind_emptied_groups(store: Store) -> None:
    results = serve.using(fair="{number}").enqueue_many([(("x", number), {}) for number in range(100)])
    send("b1")

    get_queue("default").cancel(ids(results))

    assert get_queue("default").info().oldest_age is not None


def test_emptied_groups_are_not_counted(store: Store) -> None:
    results = send("a1 b1 c1 c2")
    get_queue("default").cancel(ids(results[:2]))

    assert home().run(read_groups(home(), "default", 9)).count == 1


def test_cancel_of_selected_tasks_counts_those_of_groups(store: Store) -> None:
    results = send("a1 a2 b1")

    assert home().run(cancel_tasks(home(), "default", ids(results[:2]), "")) == 2
    assert take_singly(2) == ["b1"]


def test_task_that_meets_a_limit_lets_the_next_of_its_group_have_a_turn(store: Store) -> None:
    """With a higher limit each start offers a place to the next task that waits: one of the group whose turn it is."""
    fetcher = new_fetcher()
    send("a1 a2 a3", serve.using(concurrency=1))
    [job] = fetcher.fetch("0", 9)
    store.raw.set(base_key(store, "limit", f"c:{serve.name}"), 3)

    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"null", 0, 60_000))

    assert take() == ["a2", "a3"]
    assert leftovers(store) == set()
