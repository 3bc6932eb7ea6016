"""A limit that several groups share: the tasks that wait for it start in turn, one of each group."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import Concurrency, Rate, get_queue, task
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.explain import explain
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store, eventually
from tests.taskqueue.fair_share.support import send, serve, serve_by_weight, take, words_of
from tests.taskqueue.support import base_key, end_lease, new_fetcher, queue_key, recover, settle_now, work_off
from tests.taskqueue.tasks import note, recorded

GEOCODER = Concurrency(1, group="geocoder")
geocode = serve.using(concurrency=GEOCODER)


@task(concurrency=GEOCODER)
def geocode_alone(number: int) -> None:
    note(f"-{number}")


def starts(number: int, want: int = 1) -> Iterator[str]:
    """Lease tasks and finish each before the next call; return their words."""
    fetcher, slot = new_fetcher(), f"starts{next(_slots)}"
    for _ in range(number):
        jobs = fetcher.fetch(slot, want)
        yield from words_of(jobs)
        for job in jobs:
            settle_now(fetcher, succeeded(job))


_slots = count()


def succeeded(job: Job) -> Ack:
    return Ack(job.id, job.token, "succeeded", b"null", 0, 60_000)


def leftovers(store: Store) -> list[str]:
    """Keys of turns at limits, and of offers."""
    keys = [key.decode() for key in store.keys()]  # noqa: SIM118 - a Store is no dict
    return [key for key in keys if ":limit_turns:" in key or ":offered:" in key]


@pytest.mark.contract
def test_free_places_are_given_to_groups_in_turn(store: Store) -> None:
    send([f"a{number}" for number in range(1, 7)] + ["b1", "b2", "c1"], geocode)

    assert list(starts(9, 100)) == ["a1", "b1", "c1", "a2", "b2", "a3", "a4", "a5", "a6"]

    assert leftovers(store) == []
    assert get_queue("default").info().limited == 0


def test_several_free_places_are_given_in_turn(store: Store) -> None:
    send(
        [f"a{number}" for number in range(1, 9)] + ["b1", "b2", "c1"],
        geocode.using(concurrency=Concurrency(3, group="g")),
    )

    assert list(starts(4, 100)) == ["a1", "b1", "c1", "a2", "b2", "a3", "a4", "a5", "a6", "a7", "a8"]

    assert leftovers(store) == []


def test_group_that_appears_waits_for_one_round(store: Store) -> None:
    send([f"a{number}" for number in range(1, 9)] + ["b1", "b2"], geocode)
    first = list(starts(3, 100))

    send("c1 c2", geocode)

    assert first == ["a1", "b1", "a2"]
    assert list(starts(6, 100)) == ["b2", "a3", "c1", "a4", "c2", "a5"]


def test_later_task_does_not_take_the_place_of_one_that_waits_for_its_turn(store: Store) -> None:
    """The place is free and offered to b1, which waits for the turn of its group in the queue behind a."""
    fetcher = new_fetcher()
    send("a1 b1", geocode)
    [job] = fetcher.fetch("0", 2)
    fetcher.fetch("0", 2)
    send("a2", geocode)  # a has its turn before b1 has one

    settle_now(fetcher, succeeded(job))

    assert take(1) == ["b1"]
    assert get_queue("default").info().limited == 1


def test_weights_count_at_a_shared_limit(store: Store) -> None:
    send([f"gold{number}" for number in range(1, 9)] + ["iron1", "iron2"], serve_by_weight.using(concurrency=GEOCODER))

    words = list(starts(10, 100))

    assert words[0] == "gold1"  # it has not waited
    assert words[1:] == ["gold2", "gold3", "gold4", "iron1", "gold5", "gold6", "gold7", "iron2", "gold8"]
    assert leftovers(store) == []


def test_tasks_without_a_group_have_turns_at_the_limit_like_one_group(store: Store) -> None:
    send("a1 a2 a3", geocode)
    geocode_alone.enqueue_many([((number,), {}) for number in (1, 2, 3)])

    work_off()

    assert sorted(recorded) == ["-1", "-2", "-3", "a1", "a2", "a3"]
    waited = recorded[1:]
    assert [word[0] for word in waited[:4]] in (["-", "a", "-", "a"], ["a", "-", "a", "-"])
    assert leftovers(store) == []


@pytest.mark.contract
def test_starts_of_a_shared_rate_are_given_in_turn(store: Store) -> None:
    fetcher, taken = new_fetcher(), []
    send("a1 a2 a3 a4 b1 b2 c1", serve.using(rate=Rate("50/s", group="api")))

    def all_started() -> bool:
        taken.extend(words_of(fetcher.fetch("0", 100)))
        return len(taken) == 7

    eventually(all_started)

    assert taken == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
    assert leftovers(store) == []


def test_offer_of_a_cancelled_task_passes_to_the_next(store: Store) -> None:
    fetcher = new_fetcher()
    results = dict(zip(["a1", "b1", "a2", "c1"], send("a1 b1 a2 c1", geocode), strict=True))
    [job] = fetcher.fetch("0", 9)
    settle_now(fetcher, succeeded(job))  # the place is offered to b1

    assert results["b1"].cancel()

    assert take(1) == ["c1"]


def test_offer_of_a_cancelled_task_without_a_group_passes_to_the_next(store: Store) -> None:
    fetcher = new_fetcher()
    send("a1 b1 b2", geocode)
    [job] = fetcher.fetch("0", 9)
    result = geocode_alone.enqueue(1)
    fetcher.fetch("0", 9)
    settle_now(fetcher, succeeded(job))  # offered to b1
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, succeeded(job))  # offered to the task without a group

    assert result.cancel()

    assert take(1) == ["b2"]


def test_one_call_forgets_only_some_of_the_groups_that_a_purge_has_left(store: Store) -> None:
    fetcher = new_fetcher()
    send("a1 b1", geocode)
    [job] = fetcher.fetch("0", 9)
    turns = queue_key(store, "limit_turns:c:geocoder")
    store.raw.zadd(turns, {f"gone{number}": -number for number in range(1000)})

    settle_now(fetcher, succeeded(job))

    assert take(1) == ["b1"]
    assert store.raw.zcard(turns) > 500
    assert store.raw.pttl(turns) > 0


def test_purge_takes_offers_with_it(store: Store) -> None:
    fetcher = new_fetcher()
    send("a1 b1 b2", geocode)
    [job] = fetcher.fetch("0", 9)
    settle_now(fetcher, succeeded(job))

    get_queue("default").purge()
    send("c1", geocode)

    assert take() == ["c1"]


def test_offer_of_a_deleted_record_does_not_hold_the_place(store: Store) -> None:
    fetcher = new_fetcher()
    _, second, _ = send("a1 b1 c1", geocode)
    [job] = fetcher.fetch("0", 9)
    settle_now(fetcher, succeeded(job))

    store.raw.delete(base_key(store, "t", second.id))
    take()
    recover()

    assert take() == ["c1"]


def test_place_that_another_queue_has_taken_keeps_the_turn(store: Store) -> None:
    fetcher = new_fetcher()
    send("a1 b1 c1", geocode)
    [job] = fetcher.fetch("0", 9)
    settle_now(fetcher, succeeded(job))  # offered to b1
    geocode_alone.using(queue_name="other").enqueue(1)
    [other] = new_fetcher("other").fetch("other", 1)
    assert take() == []

    settle_now(fetcher, succeeded(other))

    assert take(1) == ["b1"]


def test_pause_of_a_group_passes_its_offer_on(store: Store) -> None:
    fetcher = new_fetcher()
    send("a1 b1 c1", geocode)
    [job] = fetcher.fetch("0", 9)
    settle_now(fetcher, succeeded(job))  # offered to b1

    get_queue("default").pause_group("b")
    take()
    recover()

    assert take() == ["c1"]


def test_place_of_a_dead_worker_is_given_in_turn(store: Store) -> None:
    send("a1 a2 b1", geocode)
    [job] = new_fetcher(worker="dead:1").fetch("0", 9)
    end_lease(store, job.id)
    recover()

    assert sorted(starts(6, 100)) == ["a1", "a2", "b1"]
    assert leftovers(store) == []


def test_two_workers_at_once_start_no_more_than_the_limit_and_each_task_once(store: Store) -> None:
    send(
        [f"{customer}{number}" for number in range(20) for customer in "abc"],
        geocode.using(concurrency=Concurrency(2, group="g")),
    )
    started, leased, counts = list[str](), list[Any](), list[int]()

    def work(name: str) -> None:
        fetcher = new_fetcher(worker=f"{name}:1")
        while len(started) < 60:
            for job in fetcher.fetch("0", 1):
                leased.append(job)
                counts.append(len(leased))
                started.extend(words_of([job]))
                ack = execute(job)
                leased.remove(job)
                fetcher.settle(ack)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert sorted(started) == sorted({f"{customer}{number}" for number in range(20) for customer in "abc"})
    assert max(counts) <= 2


def test_entry_of_an_earlier_version_is_served_and_cancelled(store: Store) -> None:
    """It has no group in it: it counts as one of a task without a group."""
    fetcher = new_fetcher()
    _first, second, _third = send("a1 a2 a3", geocode)
    [job] = fetcher.fetch("0", 9)
    limited = queue_key(store, "limited")
    for entry in store.raw.zrange(limited, 0, -1):
        store.raw.zrem(limited, entry)
        store.raw.zadd(limited, {entry.replace(b"\t\ta\t", b"\t", 1): 0})

    assert second.cancel()
    settle_now(fetcher, succeeded(job))

    assert take() == ["a3"]
    assert get_queue("default").info().limited == 0


def test_queue_without_groups_has_no_turns_at_its_limits(store: Store) -> None:
    geocode_alone.enqueue_many([((number,), {}) for number in range(3)])

    take(1)

    assert leftovers(store) == []
    work_off()


def test_explanation_counts_the_turns_before_a_task(store: Store) -> None:
    results = send("a1 a2 a3 b1 b2", geocode)
    take(1)
    assert take() == []

    assert [run(connections.client(), explain(home(), result.id)).ahead for result in results[1:]] == [1, 3, 1, 3]
