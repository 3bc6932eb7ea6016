"""Groups of a queue are served in turn: by weight, and within a group by priority and by arrival."""

from __future__ import annotations

import pytest

from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store, eventually, run_together
from tests.taskqueue.fair_share.support import send, serve, serve_by_weight, take, take_singly, words_of
from tests.taskqueue.support import base_key, end_lease, new_fetcher, queue_key, recover, settle_now, work_off
from tests.taskqueue.tasks import note, recorded


@pytest.mark.contract
def test_groups_are_served_in_turn(store: Store) -> None:
    send("a1 a2 a3 b1 b2 c1")

    assert take() == ["a1", "b1", "c1", "a2", "b2", "a3"]


@pytest.mark.contract
def test_calls_for_single_tasks_serve_the_same_order(store: Store) -> None:
    send("a1 a2 a3 b1 b2 c1")

    assert take_singly(6) == ["a1", "b1", "c1", "a2", "b2", "a3"]


@pytest.mark.contract
def test_customer_with_one_task_waits_for_one_round_behind_ten_thousand(store: Store) -> None:
    send(f"a{number}" for number in range(10_000))
    take_singly(2)

    send("b1")

    assert take_singly(2) == ["a2", "b1"]
    assert take(500) == [f"a{number}" for number in range(3, 503)]


def test_group_that_returns_goes_behind_the_others(store: Store) -> None:
    send("a1 a2 b1 b2 c1")
    assert take_singly(3) == ["a1", "b1", "c1"]

    send("c2")

    assert take_singly(3) == ["a2", "b2", "c2"]


def test_new_group_goes_behind_those_that_wait(store: Store) -> None:
    send("b1 b2 c1 c2")
    assert take_singly(1) == ["b1"]

    send("a1")

    assert take_singly(4) == ["c1", "b2", "a1", "c2"]


@pytest.mark.contract
def test_group_starts_as_many_tasks_in_a_turn_as_its_weight(store: Store) -> None:
    words = "gold1 gold2 gold3 gold4 silver1 silver2 silver3 iron1 iron2"
    send(words, serve_by_weight)

    expected = ["gold1", "gold2", "gold3", "silver1", "silver2", "iron1", "gold4", "silver3", "iron2"]
    assert take_singly(4) + take() == expected


def test_interrupted_turn_is_not_continued_later(store: Store) -> None:
    send("gold1 iron1 iron2 iron3", serve_by_weight)
    assert take_singly(1) == ["gold1"]

    send("gold2 gold3 gold4 gold5", serve_by_weight)

    assert take_singly(5) == ["iron1", "gold2", "gold3", "gold4", "iron2"]


def test_priority_orders_within_a_group_only(store: Store) -> None:
    send("a1 a2 b1")
    serve.using(priority=5).enqueue("a", 9)
    serve.using(priority=-5).enqueue("b", 8)
    send("b2")

    assert take() == ["a9", "b1", "a1", "b2", "a2", "b8"]


def test_tasks_without_a_group_have_turns_like_one_group(store: Store) -> None:
    send("a1 a2 a3 b1")
    note.enqueue_many([((f"plain{number}",), {}) for number in (1, 2)])
    note.using(priority=3).enqueue("first")
    note.using(priority=-3).enqueue("last")

    assert take_singly(8) == ["a1", "b1", "first", "a2", "plain1", "a3", "plain2", "last"]


def test_tasks_of_several_names_share_a_group(store: Store) -> None:
    send("a1 a2")
    send("a3 b1", serve_by_weight)

    assert take() == ["a1", "b1", "a2", "a3"]


def test_groups_of_queues_are_apart(store: Store) -> None:
    send("a1 a2")
    send("a3 b1", serve.using(queue_name="other"))

    assert take(9, "other", "default") == ["a3", "b1", "a1", "a2"]


def test_empty_groups_leave_nothing(store: Store) -> None:
    send("a1 a2 b1")
    note.enqueue("plain")
    work_off()

    keys = {key.decode().rpartition(":")[2] for key in store.raw.scan_iter(queue_key(store, "*"))}
    assert not keys & {"grouped", "turns", "paused_groups"}
    assert recorded == ["a1", "b1", "plain", "a2"]


def test_group_that_is_emptied_has_no_turn_while_others_go_on(store: Store) -> None:
    send("a1 b1 b2")
    take_singly(1)

    assert store.raw.zrange(queue_key(store, "turns"), 0, -1) == [b"b"]


def test_delayed_task_enters_its_group_when_it_is_due(store: Store) -> None:
    late = serve.using(run_after=0.05).enqueue("b", 1)
    send(f"a{number}" for number in range(5))
    assert take_singly(1) == ["a0"]

    eventually(lambda: not store.raw.zcount(queue_key(store, "scheduled"), 0, "+inf") or _is_due(store, late.id))

    assert take_singly(2) == ["a1", "b1"]


def _is_due(store: Store, task_id: str) -> bool:
    seconds, micros = store.raw.time()
    return bool(store.raw.zscore(queue_key(store, "scheduled"), task_id) <= seconds * 1_000 + micros // 1_000)


def test_many_due_tasks_of_one_group_do_not_keep_others_from_their_turns(store: Store) -> None:
    serve.using(run_after=0.001).enqueue_many([(("a", number), {}) for number in range(1_200)])
    last = serve.using(run_after=0.001).enqueue("a", 1_200)
    send("b1 b2 b3")
    eventually(lambda: _is_due(store, last.id))

    taken = take_singly(6)

    assert taken[:2] == ["b1", "a0"]
    assert sorted(taken) == ["a0", "a1", "a2", "b1", "b2", "b3"]
    assert store.raw.zcard(queue_key(store, "scheduled")) == 0


def test_retry_waits_for_a_turn_of_its_group(store: Store) -> None:
    send("a1 a2 a3 b1 b2")
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, Ack(job.id, job.token, "retried", b"{}", 1, 60_000))
    eventually(lambda: _is_due(store, job.id))

    assert take_singly(4) == ["b1", "a1", "b2", "a2"]


def test_recovered_and_returned_tasks_start_before_all_others(store: Store) -> None:
    results = send("a1 a2 b1 b2")
    fetcher = new_fetcher()
    jobs = fetcher.fetch("0", 3)
    assert [job.id for job in jobs][2] == results[1].id
    settle_now(fetcher, Ack(jobs[2].id, jobs[2].token, "requeued"))
    end_lease(store, jobs[0].id)
    recover()

    # A task that a worker has died with is leased alone.
    assert [take(9), take(9), take(9)] == [["a1"], ["a2", "b2"], []]


def test_two_clients_at_once_serve_each_task_once_and_in_turn(store: Store) -> None:
    send([f"{group}{number}" for group in "abcd" for number in range(100)])

    def drain(number: int) -> list[str]:
        words = []
        while taken := take(3, worker=f"here:{number}"):
            words += taken
        return words

    found = run_together(2, drain)

    words = sorted(word for some in found for word in some)
    assert words == sorted(f"{group}{number}" for group in "abcd" for number in range(100))
    for some in found:
        for group in "abcd":
            own = [int(word[1:]) for word in some if word[0] == group]
            assert own == sorted(own)


def test_number_of_a_turn_is_exact_after_many(store: Store) -> None:
    store.raw.set(base_key(store, "sequence"), 20_000_000_000)
    send("gold1 gold2 gold3 gold4 iron1 iron2", serve_by_weight)

    assert take_singly(6) == ["gold1", "gold2", "gold3", "iron1", "gold4", "iron2"]


def test_worker_runs_the_tasks_of_groups(store: Store) -> None:
    [first, *_] = send("a1 a2 b1")
    work_off()

    first.refresh()
    assert first.is_finished
    assert recorded == ["a1", "b1", "a2"]
    assert get_queue("default").info().ready == 0


def test_wakeup_is_left_for_the_tasks_that_a_fetch_leaves(store: Store) -> None:
    send("a1 b1")
    store.raw.delete(base_key(store, "wakeup:q:default"))

    take(1)

    assert store.raw.exists(base_key(store, "wakeup:q:default"))


def test_outcome_and_next_task_share_a_round_trip(store: Store) -> None:
    send("a1 b1")
    fetcher = new_fetcher()
    [first] = fetcher.fetch("0", 1)
    fetcher.settle(execute(first))

    assert words_of(fetcher.fetch("0", 1)) == ["b1"]
    assert recorded == ["a1"]
