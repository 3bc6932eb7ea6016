"""Calls are collected in Redis until a batch is full, or its oldest call has waited as long as it may."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.taskqueue import Task, TaskResult, chain, get_queue
from django_redis_components.taskqueue.store.job import Ack
from tests.support import Store, eventually, run_together
from tests.taskqueue.batching.support import let_wait_pass, starts_in_ms, take, words_of
from tests.taskqueue.batching.tasks import collect, collect_by_key, collect_ready, runs
from tests.taskqueue.fair_share.support import serve
from tests.taskqueue.support import base_key, end_lease, new_fetcher, queue_key, recover, settle_now, work_off
from tests.taskqueue.tasks import note


def send(words: str, made: Task[..., Any, Any] = collect) -> list[TaskResult]:
    return made.enqueue_many([((word,), {}) for word in words.split()])


@pytest.mark.contract
def test_batch_starts_when_it_is_full(store: Store) -> None:
    send("a b")
    assert take() == []

    send("c")

    assert take() == [["a", "b", "c"]]


@pytest.mark.contract
def test_batch_starts_with_fewer_calls_when_the_oldest_has_waited(store: Store) -> None:
    send("a b")
    [left_ms] = starts_in_ms(store)
    assert 50_000 < left_ms <= 60_000
    let_wait_pass(store)

    assert take() == [["a", "b"]]
    assert take() == []


@pytest.mark.contract
def test_calls_beyond_a_batch_wait_for_the_next_one(store: Store) -> None:
    send("a b c d e f g")

    assert take(1) == [["a", "b", "c"]]
    assert take(9) == [["d", "e", "f"]]
    assert take() == []
    [left_ms] = starts_in_ms(store)
    assert 50_000 < left_ms <= 60_000


@pytest.mark.contract
def test_batch_counts_as_one_of_the_wanted_jobs(store: Store) -> None:
    send("a b c d e f")

    assert take(2) == [["a", "b", "c"], ["d", "e", "f"]]


@pytest.mark.contract
def test_without_wait_a_batch_gets_the_calls_that_are_ready(store: Store) -> None:
    send("a b c d", collect_ready)

    assert take() == [["a", "b", "c", "d"]]


@pytest.mark.contract
def test_calls_of_a_batch_have_the_same_key(store: Store) -> None:
    for customer in ("one", "two", "one", "two", "one"):
        collect_by_key.enqueue(customer)

    assert take() == [["one", "one", "one"]]
    let_wait_pass(store)
    assert take() == [["two", "two"]]


@pytest.mark.contract
def test_repeated_fetch_returns_the_same_batches(store: Store) -> None:
    note.enqueue("plain")
    send("a b c d e f")
    fetcher = new_fetcher()
    jobs = fetcher.fetch("0", 3)
    assert sorted(words_of(jobs)) == [["a", "b", "c"], ["d", "e", "f"], ["plain"]]

    again = new_fetcher().fetch("0", 3)

    assert words_of(again) == words_of(jobs)
    assert [each.token for job in again for each in (job, *job.others)] == [jobs[0].token] * 7


def test_repeated_fetch_leaves_out_what_has_finished(store: Store) -> None:
    send("a b c")
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"null", ttl_ms=60_000))

    assert words_of(new_fetcher().fetch("0", 1)) == [["b", "c"]]


@pytest.mark.contract
def test_two_clients_at_once_get_each_call_once(store: Store) -> None:
    send(" ".join(str(number) for number in range(300)))

    def drain(number: int) -> list[str]:
        words: list[str] = []
        while taken := take(2, worker=f"here:{number}"):
            assert all(len(batch) == 3 for batch in taken)
            words += [word for batch in taken for word in batch]
        return words

    found = run_together(2, drain)

    assert sorted(int(word) for words in found for word in words) == list(range(300))


@pytest.mark.contract
def test_two_clients_at_once_fill_batches_exactly(store: Store) -> None:
    run_together(2, lambda number: [collect.enqueue(f"{number}{index}") for index in range(30)])

    taken = take(100)

    assert [len(batch) for batch in taken] == [3] * 20
    assert take() == []


def test_priority_orders_within_a_batch(store: Store) -> None:
    send("a b")
    collect.using(priority=5).enqueue("first")

    assert take() == [["first", "a", "b"]]


def test_batch_has_its_turn_among_other_tasks(store: Store) -> None:
    note.enqueue_many([((f"plain{number}",), {}) for number in range(3)])
    send("a b c d e f")

    assert [take(1)[0][0] for _ in range(5)] == ["a", "plain0", "d", "plain1", "plain2"]


def test_groups_of_fair_share_and_batches_have_turns(store: Store) -> None:
    serve.enqueue_many([(("x", number), {}) for number in range(2)])
    send("a b c d e f")

    assert take() == [["x"], ["a", "b", "c"], ["x"], ["d", "e", "f"]]


def test_tasks_beside_a_batch_that_is_not_full_are_fetched_together(store: Store) -> None:
    send("a b")
    note.enqueue_many([((number,), {}) for number in range(5)])

    assert take(5) == [[0], [1], [2], [3], [4]]


def test_group_of_fair_share_is_never_that_of_a_batch(store: Store) -> None:
    send("a b")
    serve.enqueue(f"batch:{collect.name}", 1)
    send("c")

    assert take(9) == [[f"batch:{collect.name}"], ["a", "b", "c"]]


def test_delayed_call_joins_when_it_is_due(store: Store) -> None:
    collect.using(run_after=0.02).enqueue("late")
    send("a b")

    assert eventually(take) == [["late", "a", "b"]], "in the order of acceptance"


@pytest.mark.contract
def test_returned_calls_are_leased_together_again(store: Store) -> None:
    send("a b c")
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    fetcher.return_job(job)
    fetcher.fetch("acks", 0)
    info = get_queue("default").info()
    assert (info.ready, info.running) == (3, 0)

    assert take() == [["a", "b", "c"]]


@pytest.mark.contract
def test_calls_whose_worker_has_died_are_leased_alone(store: Store) -> None:
    results = send("a b c")
    new_fetcher().fetch("0", 1)
    end_lease(store, *[result.id for result in results])
    recover()

    assert [take(9), take(9), take(9), take(9)] == [[["a"]], [["b"]], [["c"]], []]


def test_call_that_fails_after_a_death_is_retried_alone(store: Store) -> None:
    results = send("a b c")
    new_fetcher().fetch("0", 1)
    end_lease(store, *[result.id for result in results])
    recover()
    fetcher = new_fetcher()
    [first] = fetcher.fetch("next", 1)
    settle_now(fetcher, Ack(first.id, first.token, "retried", b"{}", 0, 60_000))
    send("d e")

    taken = [take(9) for _ in range(2)]
    taken.append(eventually(take))
    assert taken == [[["b"]], [["c"]], [["a"]]]
    let_wait_pass(store)
    assert take() == [["d", "e"]]


@pytest.mark.contract
def test_call_whose_worker_has_died_joins_no_batch_of_others(store: Store) -> None:
    [first] = send("a")
    let_wait_pass(store)
    assert take() == [["a"]]
    end_lease(store, first.id)
    recover()
    fetcher = new_fetcher()
    [job] = fetcher.fetch("next", 1)
    settle_now(fetcher, Ack(job.id, job.token, "retried", b"{}", 0, 60_000))
    collect.using(priority=5).enqueue_many([((word,), {}) for word in "bc"])

    taken = [eventually(take), eventually(take)]

    assert taken == [[["b", "c"]], [["a"]]]


@pytest.mark.contract
def test_cancelled_and_expired_calls_are_left_out(store: Store) -> None:
    first, *_ = send("a b")
    assert first.cancel()
    expired = collect.using(expires=90).enqueue("expired")
    store.raw.hset(base_key(store, "t", expired.id), "X", "1 60000")
    send("c d")

    assert take() == [["b", "c", "d"]]
    expired.refresh()
    assert expired.state == "expired"


def test_number_of_calls_is_noted_with_each(store: Store) -> None:
    results = send("a b c")
    take()

    assert [store.raw.hget(base_key(store, "t", result.id), "N") for result in results] == [b"3"] * 3


def test_fetch_tells_when_a_batch_starts(store: Store) -> None:
    send("a")
    fetcher = new_fetcher()

    assert fetcher.fetch("0", 1) == []
    left_s = fetcher.seconds_to_due()
    assert left_s is not None
    assert 50 < left_s <= 60


def test_wakeup_is_written_for_the_first_call_and_for_a_full_batch_only(store: Store) -> None:
    wakeup = base_key(store, "wakeup:q:default")
    written = []
    for word in "abc":
        store.raw.delete(wakeup)
        send(word)
        written.append(bool(store.raw.exists(wakeup)))

    assert written == [True, False, True]


def test_first_call_of_a_later_batch_writes_no_wakeup(store: Store) -> None:
    """Workers and the poller know when the first batch starts: one wakeup for each key would keep them busy."""
    wakeups = base_key(store, "wakeup:q:default"), base_key(store, "wakeup:poller")
    collect_by_key.enqueue("one")
    assert store.raw.exists(*wakeups) == 2
    store.raw.delete(*wakeups)

    collect_by_key.enqueue("two")

    assert store.raw.exists(*wakeups) == 0
    let_wait_pass(store)
    assert take() == [["one"], ["two"]]


def test_paused_queue_keeps_its_batches(store: Store) -> None:
    queue = get_queue("default")
    queue.pause(reason="x")
    send("a b c")
    assert take() == []

    queue.resume()

    assert take() == [["a", "b", "c"]]


def test_paused_group_keeps_its_batch(store: Store) -> None:
    queue = get_queue("default")
    queue.pause_group(f"batch:{collect.name}", reason="x")
    send("a b c")
    assert take() == []

    queue.resume_group(f"batch:{collect.name}")

    assert take() == [["a", "b", "c"]]


def test_moved_calls_are_collected_in_their_new_queue(store: Store) -> None:
    results = send("a b c")

    get_queue("default").move([result.id for result in results], to="other")

    assert (take(), take(9, "other")) == ([], [["a", "b", "c"]])


def test_purged_and_restored_calls_are_collected(store: Store) -> None:
    send("a b")
    purge = get_queue("default").purge()
    assert take() == []
    assert store.raw.exists(queue_key(store, "turns")) == 0

    get_queue("default").restore(purge.id)
    let_wait_pass(store)

    assert take() == [["a", "b"]]


def test_limit_counts_each_call(store: Store) -> None:
    collect_ready.using(concurrency=2).enqueue_many([((word,), {}) for word in "abcd"])

    assert take() == [["a", "b"]]
    assert get_queue("default").info().limited == 2


def test_calls_that_waited_for_a_limit_start_without_waiting_again(store: Store) -> None:
    limited = collect_ready.using(concurrency=2)
    limited.enqueue_many([((word,), {}) for word in "abcd"])
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, *[Ack(each.id, each.token, "succeeded", b"null", ttl_ms=60_000) for each in (job, *job.others)])

    assert take() == [["c", "d"]]


@pytest.mark.contract
def test_calls_that_waited_for_a_rate_start_without_waiting_again(store: Store) -> None:
    """Otherwise one call would start in each `wait`, whatever the rate."""
    results = collect.using(rate="20/s").enqueue_many([((word,), {}) for word in "abc"])

    assert [eventually(take), eventually(take), eventually(take)] == [[["a"]], [["b"]], [["c"]]]
    assert get_queue("default").info().running == len(results)


def test_unique_calls_are_collected_once(store: Store) -> None:
    unique = collect_ready.using(unique=True)
    unique.enqueue_many([((word,), {}) for word in "aabb"])

    assert take() == [["a", "b"]]


def test_empty_batches_leave_nothing(store: Store) -> None:
    send("a b c")
    take()

    assert not store.raw.exists(queue_key(store, "turns"), queue_key(store, "grouped"))


@pytest.mark.contract
def test_one_fetch_leases_a_bounded_number_of_calls(store: Store) -> None:
    collect_ready.enqueue_many([((number,), {}) for number in range(1_500)])

    assert [len(batch) for batch in take(128)] == [100] * 5
    assert store.raw.exists(base_key(store, "wakeup:q:default")), "another worker fetches the rest"


@pytest.mark.contract
def test_step_of_a_flow_waits_for_others_from_when_it_may_start(store: Store) -> None:
    for word in "ab":
        chain(note.s(word), collect.s()).enqueue()
    work_off()

    assert 50_000 < starts_in_ms(store)[0] <= 60_000
    let_wait_pass(store)
    work_off()
    assert runs == [["a", "b"]]
