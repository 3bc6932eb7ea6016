"""`concurrency` limits how many tasks run at once over all workers; waiting tasks keep their order."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import Concurrency, TaskResult, chain, get_queue, registry, task
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.task import Task
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from tests.support import Store, eventually, run_together
from tests.taskqueue.support import (
    base_key,
    end_lease,
    new_fetcher,
    queue_key,
    recover,
    running_worker,
    settle_now,
    work_off,
    work_until_finished,
)
from tests.taskqueue.tasks import come_back, note, recorded

one = note.using(concurrency=1)
two = note.using(concurrency=2)


@task(concurrency=Concurrency(1, key="{customer}"))
def for_customer(customer: str, number: int) -> Any:
    return note(f"{customer} {number}")


@task(concurrency=Concurrency(1, key=lambda customer, number: number % 2, group="shared"))
def shared(customer: str, number: int) -> Any:
    return note(f"{customer} {number}")


def take(fetcher: Fetcher, want: int = 100) -> list[Any]:
    """The words of what is leased now."""
    return [job.message()[0][0] for job in fetcher.fetch("0", want)]


def give_back(fetcher: Fetcher, job: Job) -> None:
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))


def waiting(store: Store, queue: str = "default") -> int:
    return int(store.raw.zcard(queue_key(store, "limited", queue)))


def send(what: Task[..., Any, Any], *words: Any) -> list[TaskResult]:
    return what.enqueue_many([((word,), {}) for word in words])


def test_concurrency_limits_leased_tasks(store: Store) -> None:
    send(two, *range(5))

    assert take(new_fetcher(worker="a")) == [0, 1]
    assert take(new_fetcher(worker="b")) == []
    assert get_queue("default").info().running == 2


def test_freed_slot_leases_the_next_task_in_the_same_request(store: Store) -> None:
    send(two, *range(5))
    fetcher = new_fetcher()
    first, second = fetcher.fetch("0", 9)

    fetcher.settle(execute(first))
    [third] = fetcher.fetch("0", 9)
    fetcher.settle(execute(second))
    fetcher.settle(execute(third))

    assert take(fetcher) == [3, 4]


@pytest.mark.parametrize("want", [1, 2, 100])
def test_limited_tasks_run_in_order(store: Store, want: int) -> None:
    send(one, *range(20))
    fetcher = new_fetcher()

    ran = []
    while jobs := fetcher.fetch("0", want):
        ran += [job.message()[0][0] for job in jobs]
        for job in jobs:
            fetcher.settle(execute(job))

    assert ran == list(range(20))
    assert waiting(store) == 0
    assert not [key for key in store.keys() if b":holders:" in key]  # noqa: SIM118 - a Store is no dict


def test_task_waiting_for_a_slot_does_not_block_the_next(store: Store) -> None:
    send(one, "first", "waits")
    send(note, "behind", "far behind")

    assert take(new_fetcher(), 3) == ["first", "behind", "far behind"]


def test_waiting_tasks_are_ordered_by_priority_and_age(store: Store) -> None:
    send(one, "runs", "old")
    send(one.using(priority=-5), "unimportant")
    send(one, "young")
    fetcher = new_fetcher()
    [runs] = fetcher.fetch("0", 9)
    send(one.using(priority=5), "urgent")
    assert take(fetcher) == []
    fetcher.settle(execute(runs))

    assert [job.message()[0][0] for job in work_off_with(fetcher)] == ["urgent", "old", "young", "unimportant"]


def work_off_with(fetcher: Fetcher) -> list[Job]:
    ran = []
    while jobs := fetcher.fetch("0", 9):
        ran += jobs
        for job in jobs:
            fetcher.settle(execute(job))
    return ran


def wakeup_keys(store: Store) -> list[bytes]:
    return [key for key in store.keys() if b":wakeup:q:" in key]  # noqa: SIM118 - a Store is no dict


def test_tasks_waiting_for_a_slot_notify_no_worker(store: Store) -> None:
    send(one, *range(5))
    fetcher = new_fetcher()
    first = fetcher.fetch("0", 9)[0]
    store.raw.delete(base_key(store, "wakeup", "q:default"))

    assert take(new_fetcher(worker="b"), 1) == []
    assert wakeup_keys(store) == []

    fetcher.settle(execute(first))
    assert take(fetcher, 1) == [1]
    assert wakeup_keys(store) == [], "it fetched the next task itself"


def test_slot_freed_without_a_fetch_notifies_the_queue(store: Store) -> None:
    send(one, *range(3))
    fetcher = new_fetcher()
    first = fetcher.fetch("0", 9)[0]
    store.raw.delete(base_key(store, "wakeup", "q:default"))

    settle_now(fetcher, execute(first))

    assert wakeup_keys(store) == [base_key(store, "wakeup", "q:default").encode()]
    assert take(new_fetcher(worker="b")) == [1]


def test_slot_freed_by_a_worker_of_another_queue_notifies_the_waiting_queue(store: Store) -> None:
    send(one.using(queue_name="mail"), "mail")
    send(one, "default")
    postman = new_fetcher("mail")
    [mail] = postman.fetch("0", 9)
    assert take(new_fetcher(worker="b")) == []
    store.raw.delete(base_key(store, "wakeup", "q:default"))

    postman.settle(execute(mail))
    assert postman.fetch("0", 9) == []

    assert base_key(store, "wakeup", "q:default").encode() in wakeup_keys(store)
    assert take(new_fetcher(worker="b")) == ["default"]


def test_paused_queue_leaves_the_slot_to_another(store: Store) -> None:
    send(one, "runs", "waits")
    send(one.using(queue_name="mail"), "mail")
    fetcher = new_fetcher("default", "mail")
    [runs] = fetcher.fetch("0", 9)
    get_queue("default").pause()

    fetcher.settle(execute(runs))
    [mail] = fetcher.fetch("0", 9)
    get_queue("default").resume()
    assert take(new_fetcher(worker="b")) == []
    fetcher.settle(execute(mail))

    assert take(fetcher) == ["waits"]


@pytest.mark.contract
def test_unregistered_task_frees_its_slot_and_waits_for_it_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _second = send(one, "first", "second")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(registry, "tasks", {})
        work_off()
    assert get_queue("default").info().unregistered == 2
    fetcher = new_fetcher()

    from django_redis_components.taskqueue.store.unregistered import requeue_unregistered

    requeue_unregistered(home(), ["default"])

    assert [job.id for job in fetcher.fetch("0", 9)] == [first.id]
    assert waiting(store) == 1


def test_slot_of_a_dead_worker_goes_to_its_task(store: Store) -> None:
    results = send(one, *range(3))
    new_fetcher(worker="dies").fetch("0", 9)
    assert take(new_fetcher(worker="lives")) == []
    end_lease(store, results[0].id)

    recover()

    fetcher = new_fetcher(worker="lives")
    assert [job.message()[0][0] for job in work_off_with(fetcher)] == [0, 1, 2]


def test_failed_delivery_passes_the_slot_to_the_next_task(store: Store) -> None:
    results = send(one.using(max_deliveries=1), *range(2))
    new_fetcher(worker="dies").fetch("0", 9)
    end_lease(store, results[0].id)
    store.raw.delete(base_key(store, "wakeup", "q:default"))

    assert recover() == [(results[0].id, "default", "failed")]

    assert wakeup_keys(store) == [base_key(store, "wakeup", "q:default").encode()]
    assert take(new_fetcher(worker="lives")) == [1]


def test_outcome_of_an_expired_lease_frees_no_slot(store: Store) -> None:
    results = send(one, *range(3))
    late = new_fetcher(worker="late")
    [job] = late.fetch("0", 9)
    end_lease(store, results[0].id)
    recover()
    assert take(new_fetcher(worker="lives")) == [0]

    settle_now(late, Ack(job.id, job.token, "succeeded", b"0", ttl_ms=60_000))

    assert take(new_fetcher(worker="third")) == []


def test_returned_task_runs_before_waiting_ones(store: Store) -> None:
    send(one, *range(3))
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 9)

    give_back(fetcher, job)

    assert [job.message()[0][0] for job in work_off_with(fetcher)] == [0, 1, 2]


def test_task_delayed_by_a_lock_frees_its_slot(store: Store) -> None:
    limited = come_back.using(concurrency=1)
    first, second = limited.enqueue(0.01), limited.enqueue(0.01)

    work_until_finished(first, second)

    assert (first.attempts, second.attempts) == (1, 1)


def test_tasks_waiting_for_a_slot_are_ready_and_counted_as_limited(store: Store) -> None:
    results = send(one, *range(4))
    take(new_fetcher())

    depth = get_queue("default").info()

    assert (depth.ready, depth.limited, depth.scheduled, depth.running) == (3, 3, 0, 1)
    for result in results[1:]:
        result.refresh()
        assert (result.state, result.attempts) == ("ready", 0)
    send(note, "plain")
    assert [job.args[0] for job in get_queue("default").tasks("ready")] == ["plain", 1, 2, 3]
    assert [job.args[0] for job in get_queue("default").tasks("ready", limit=2, offset=2)] == [2, 3]
    assert get_queue("default").tasks("scheduled") == []


def test_task_waiting_for_a_slot_can_be_cancelled(store: Store) -> None:
    results = send(one, *range(4))
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 9)

    assert results[1].cancel()

    assert get_queue("default").info().ready == 2
    fetcher.settle(execute(job))
    assert take(fetcher) == [2]
    assert store.raw.exists(queue_key(store, "tombstones")) == 0


def test_cancelled_reserved_task_passes_its_slot_to_the_next(store: Store) -> None:
    results = send(one, *range(4))
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 9)
    settle_now(fetcher, execute(job))

    assert results[1].cancel()

    depth = get_queue("default").info()
    assert (depth.ready, depth.limited) == (2, 1)
    assert take(new_fetcher(worker="b")) == [2]


def test_expired_reserved_task_passes_its_slot_to_the_next(store: Store) -> None:
    results = send(one.using(expires=3_600), *range(3))
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 9)
    store.raw.hset(base_key(store, "t", results[1].id), "X", "1 60000")

    fetcher.settle(execute(job))

    assert take(fetcher) == [2]
    results[1].refresh()
    assert results[1].state == "expired"


def test_restored_unique_task_waiting_for_a_slot_keeps_its_key(store: Store) -> None:
    send(one, "runs")
    only = one.using(unique=True)
    [first] = send(only, "unique")
    queue = get_queue("default")
    queue.restore(queue.purge())
    assert take(new_fetcher()) == ["runs"]
    assert waiting(store) == 1

    assert only.enqueue("unique").id == first.id


def test_restored_tasks_run_in_order(store: Store) -> None:
    send(one, *range(3))
    send(one.using(priority=5), "urgent")
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 9)
    send(one, "not yet at the gate")

    purge = get_queue("default").purge()

    assert (purge.count, waiting(store)) == (4, 0)
    fetcher.settle(execute(job))
    assert fetcher.fetch("0", 9) == []
    send(one, "young")
    assert get_queue("default").restore(purge) == 4
    assert [job.message()[0][0] for job in work_off_with(fetcher)] == [0, 1, 2, "not yet at the gate", "young"]


def test_restored_task_keeps_its_priority(store: Store) -> None:
    send(one, "runs")
    send(one.using(priority=-5), "unimportant")
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 9)
    purge = get_queue("default").purge()
    settle_now(fetcher, execute(job))
    send(note, "plain")

    assert get_queue("default").restore(purge) == 1

    assert take(fetcher) == ["plain", "unimportant"]


def test_deleted_trash_includes_waiting_tasks(store: Store) -> None:
    from django_redis_components.core.protocol import run
    from django_redis_components.taskqueue.store import control

    send(one, *range(3))
    take(new_fetcher())
    get_queue("default").purge()

    assert run(connections.client(), control.delete_trash(home(), 0)) == 2

    assert not [key for key in store.keys() if b":trash" in key]  # noqa: SIM118 - a Store is no dict


def test_each_key_has_a_separate_limit(store: Store) -> None:
    for customer in ("kim", "lee"):
        for number in range(2):
            for_customer.enqueue(customer, number=number)

    jobs = new_fetcher().fetch("0", 9)

    assert [job.message()[0][0] for job in jobs] == ["kim", "lee"]


def test_tasks_of_a_group_share_the_limit(store: Store) -> None:
    shared.enqueue("kim", 1)
    note.using(concurrency=Concurrency(1, group="shared", key=lambda what: what)).enqueue(1)
    shared.enqueue("lee", 2)

    jobs = new_fetcher().fetch("0", 9)

    assert [job.message()[0] for job in jobs] == [["kim", 1], ["lee", 2]]


@pytest.mark.parametrize("text", ["a\tb\nc", "x" * 1_000, "{brace}", "", "schöne Grüße", "r:1/2"])
def test_any_text_is_accepted_as_a_key(store: Store, text: str) -> None:
    by_word = note.using(concurrency=Concurrency(1, key="{what}"))
    send(by_word, text, text, "other")
    fetcher = new_fetcher()

    jobs = fetcher.fetch("0", 9)

    assert [job.message()[0][0] for job in jobs] == [text, "other"]
    fetcher.settle(execute(jobs[0]))
    assert take(fetcher) == [text]


def test_newest_task_sets_the_limit(store: Store) -> None:
    send(one, 0, 1, 2, 3)
    fetcher = new_fetcher()
    assert take(fetcher) == [0]

    send(note.using(concurrency=3), 4)

    assert take(new_fetcher(worker="b")) + take(new_fetcher(worker="c")) == [1, 2]
    assert waiting(store) == 2


def test_tasks_of_a_flow_set_the_limit(store: Store) -> None:
    send(note.using(concurrency=3), *range(4))

    chain(two.s("first"), note.si("second")).enqueue()

    assert take(new_fetcher()) == [0, 1]


def test_lower_limit_applies_when_enough_tasks_have_finished(store: Store) -> None:
    send(note.using(concurrency=3), *range(6))
    fetcher = new_fetcher()
    jobs = fetcher.fetch("0", 9)

    send(one, 6)
    for job in jobs[:2]:
        fetcher.settle(execute(job))
    assert fetcher.fetch("0", 9) == []
    fetcher.settle(execute(jobs[2]))

    assert take(fetcher) == [3]
    assert take(new_fetcher(worker="b")) == []


def test_limit_that_expired_is_restored_by_the_next_task(store: Store) -> None:
    send(two, *range(4))
    key = base_key(store, "limit", f"c:{note.name}")
    assert 29 * 86_400 < store.raw.ttl(key) <= 30 * 86_400
    store.raw.delete(key)

    assert take(new_fetcher()) == [0, 1]
    assert store.raw.get(key) == b"2"


def test_many_waiting_tasks_are_moved_in_several_calls(redis_server: Store) -> None:
    send(one, *range(1_100))
    send(note, "behind")
    store = redis_server

    assert take(new_fetcher(), 2) == [0]
    assert waiting(store) == 500
    assert wakeup_keys(store) != [], "the rest can be fetched"
    assert take(new_fetcher(worker="b")) == []
    assert take(new_fetcher(worker="c")) == ["behind"]
    assert waiting(store) == 1_099


def test_slot_of_a_task_without_a_record_is_freed(store: Store) -> None:
    results = send(one, *range(3))
    assert take(new_fetcher()) == [0]
    store.raw.delete(base_key(store, "t", results[0].id))

    send(one, 3)
    store.raw.delete(base_key(store, "wakeup", "q:default"))

    fetcher = new_fetcher(worker="b")
    assert take(fetcher) == []
    assert wakeup_keys(store) != [], "the slot was reserved for the first one"
    assert [job.message()[0][0] for job in work_off_with(fetcher)] == [1, 2, 3]


def test_repeated_fetch_takes_no_second_slot(store: Store) -> None:
    send(two, *range(4))
    first = new_fetcher(worker="w").fetch("0", 1)

    again = new_fetcher(worker="w").fetch("0", 3)

    assert [job.id for job in again] == [job.id for job in first]
    assert take(new_fetcher(worker="b")) == [1]


def test_repeated_ack_frees_no_second_slot(store: Store) -> None:
    send(two, *range(5))
    fetcher = new_fetcher(worker="w")
    first, _ = fetcher.fetch("0", 9)
    ack = execute(first)

    settle_now(fetcher, ack)
    settle_now(fetcher, ack)

    assert take(new_fetcher(worker="b")) == [2]


def test_concurrent_fetches_never_exceed_the_limit(store: Store) -> None:
    send(note.using(concurrency=3), *range(60))
    most: list[int] = []

    def fetch_and_settle(number: int) -> None:
        fetcher = new_fetcher(worker=f"w:{number}")
        for _ in range(15):
            for job in fetcher.fetch("0", 2):
                most.append(store.raw.zcard(queue_key(store, "running")))
                settle_now(fetcher, execute(job))

    run_together(4, fetch_and_settle)
    work_off()

    assert max(most) <= 3
    assert sorted(recorded) == list(range(60))


def test_workers_run_all_limited_tasks_without_polling(redis_server: Store) -> None:
    with running_worker(threads=4, worker="here:1"), running_worker(threads=4, worker="here:2"):
        results = [one.enqueue(number) for number in range(60)]
        for result in results:
            result.get(60)

    assert recorded == list(range(60))
    eventually(lambda: waiting(redis_server) == 0)
