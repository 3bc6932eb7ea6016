"""The fetcher: acks, leases, the next due time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from redis.exceptions import ResponseError

from django_redis_components.core.exceptions import UnsupportedServer
from django_redis_components.taskqueue import failpoints, get_queue
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.taskqueue.worker.fetcher import MAX_ACKS, Fetcher
from tests.support import Proxy, Store, eventually, run_together
from tests.taskqueue.support import base_key, new_fetcher, queue_key
from tests.taskqueue.tasks import note


def in_thread(function: Callable[..., object], *args: object) -> threading.Thread:
    thread = threading.Thread(target=function, args=args)
    thread.start()
    return thread


def open_two_connections(proxy: Proxy, fetcher: Fetcher) -> None:
    """Open them before replies are held: a held handshake would keep a second request from being sent."""
    proxy.hold()
    threads = [in_thread(fetcher.fetch, "acks", 0) for _ in range(2)]
    eventually(lambda: proxy.accepted >= 2)
    proxy.let_go()
    for thread in threads:
        thread.join(60)


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_leases_are_those_of_fetched_and_unsettled_jobs(store: Store) -> None:
    note.enqueue_many([((number,), {}) for number in range(3)])
    fetcher = new_fetcher(worker="w")

    jobs = fetcher.fetch("0", 2)
    assert fetcher.leases == {jobs[0].id: "w/0/0", jobs[1].id: "w/0/0"}
    fetcher.settle(execute(jobs[0]))
    assert (fetcher.pending_acks(), len(fetcher.leases)) == (1, 2)
    [third] = fetcher.fetch("1", 1)

    assert fetcher.pending_acks() == 0
    assert fetcher.leases == {jobs[1].id: "w/0/0", third.id: "w/1/0"}


def test_fetch_of_no_jobs_sends_only_acks(store: Store) -> None:
    note.enqueue_many([((1,), {}), ((2,), {})])
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    fetcher.settle(execute(job))

    assert fetcher.fetch("acks", 0) == []

    assert get_queue("default").info().ready == 1
    assert note.get_result(job.id).state == "successful"


def test_many_acks_are_sent_in_parts(redis_server: Store) -> None:
    note.enqueue_many([((number,), {}) for number in range(MAX_ACKS + 3)])
    fetcher = new_fetcher()
    for job in fetcher.fetch("0", MAX_ACKS + 3):
        fetcher.settle(Ack(job.id, job.token, "succeeded", b"1", ttl_ms=60_000))

    left = []
    while fetcher.pending_acks():
        fetcher.fetch("acks", 0)
        left.append(fetcher.pending_acks())

    assert left == [3, 0]
    assert redis_server.raw.zcard(queue_key(redis_server, "running")) == 0


def test_concurrent_acks_of_threads_are_all_sent(redis_server: Store, restless: None) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(3_000)])
    fetcher = new_fetcher()
    jobs = fetcher.fetch("0", 3_000)
    shares = [jobs[number::6] for number in range(6)]

    def settle(number: int) -> None:
        for job in shares[number]:
            fetcher.settle(Ack(job.id, job.token, "succeeded", b"1", ttl_ms=60_000))
            fetcher.fetch("acks", 0)

    run_together(6, settle)

    assert (fetcher.pending_acks(), fetcher.leases) == (0, {})
    assert {result.get(0) for result in results[::100]} == {1}


def test_lease_of_a_returned_task_that_another_thread_fetches_is_kept(proxy: Proxy, redis_server: Store) -> None:
    note.enqueue(1)
    fetcher = new_fetcher(using="proxied", worker="w")
    open_two_connections(proxy, fetcher)
    [job] = fetcher.fetch("0", 1)
    fetcher.settle(Ack(job.id, job.token, "requeued"))
    proxy.hold()
    first = in_thread(fetcher.fetch, "acks", 0)
    eventually(lambda: get_queue("default").info().ready == 1)
    second = in_thread(fetcher.fetch, "1", 1)
    eventually(lambda: get_queue("default").info().running == 1)

    proxy.let_go()

    first.join(60)
    second.join(60)
    assert fetcher.leases == {job.id: "w/1/0"}


def test_acks_of_another_thread_are_unconfirmed_until_they_are_answered(proxy: Proxy, redis_server: Store) -> None:
    result = note.enqueue(1)
    fetcher = new_fetcher(using="proxied")
    open_two_connections(proxy, fetcher)
    fetcher.settle(execute(fetcher.fetch("0", 1)[0]))

    def requests() -> int:
        return int(redis_server.raw.info("commandstats")["cmdstat_evalsha"]["calls"])

    proxy.hold()
    first = in_thread(fetcher.fetch, "acks", 0)
    eventually(lambda: note.get_result(result.id).state == "successful")
    before = requests()
    second = in_thread(fetcher.fetch, "acks", 0)
    eventually(lambda: requests() > before)

    assert fetcher.has_unconfirmed_acks()

    proxy.let_go()
    first.join(60)
    second.join(60)
    assert not fetcher.has_unconfirmed_acks()


def test_fetch_returns_the_next_due_time(store: Store) -> None:
    fetcher = new_fetcher("default", "mail")
    fetcher.fetch("0", 1)
    assert fetcher.seconds_to_due() is None
    note.using(run_after=60).enqueue(1)
    note.using(run_after=30, queue_name="mail").enqueue(2)
    note.using(run_after=10, queue_name="other").enqueue(3)

    fetcher.fetch("0", 1)

    due_s = fetcher.seconds_to_due()
    assert due_s is not None
    assert 28 < due_s <= 30.1
    fetcher.fetch("acks", 0)
    assert fetcher.seconds_to_due() is not None, "a fetch of nothing does not look"


def test_due_task_is_fetched_within_a_millisecond(store: Store) -> None:
    note.using(run_after=0.5).enqueue(1)
    fetcher = new_fetcher()
    assert fetcher.fetch("0", 1) == []
    due_s = fetcher.seconds_to_due()
    assert due_s is not None

    while (fetcher.seconds_to_due() or 0) > 0:
        time.sleep(0.001)

    assert len(fetcher.fetch("0", 1)) == 1


def test_late_reply_does_not_delay_the_timer(proxy: Proxy, redis_server: Store) -> None:
    note.using(run_after=60).enqueue(1)
    fetcher = new_fetcher(using="proxied")
    fetcher.fetch("0", 1)
    due_at = time.monotonic() + (fetcher.seconds_to_due() or 0)
    proxy.delay(1.0)

    fetcher.fetch("0", 1)

    assert time.monotonic() + (fetcher.seconds_to_due() or 0) == pytest.approx(due_at, abs=0.5)
    proxy.delay(0)


def wakeup_keys(store: Store) -> list[str]:
    found = [key.decode().rpartition("wakeup:")[2] for key in store.keys() if b":wakeup:" in key]  # noqa: SIM118
    return sorted(found)


def quiet(store: Store) -> None:
    for key in store.keys():  # noqa: SIM118 - a Store is no dict
        if b":wakeup:" in key:
            store.raw.delete(key)


def test_enqueue_notifies_the_queue(store: Store) -> None:
    note.enqueue(1)
    assert wakeup_keys(store) == ["q:default"]
    quiet(store)
    note.using(queue_name="mail", priority=1).enqueue(1)
    assert wakeup_keys(store) == ["q:mail"]
    quiet(store)
    note.using(queue_name="mail", run_after=60).enqueue(1)
    assert wakeup_keys(store) == ["poller", "q:mail"], "those who time the next due task must hear of an earlier one"
    quiet(store)
    note.using(queue_name="mail", run_after=90).enqueue(1)

    assert wakeup_keys(store) == [], "it is not the next one"


@pytest.mark.parametrize("options", [{}, {"priority": 3}, {"run_after": 2}], ids=str)
def test_fetch_that_leaves_tasks_notifies_the_queue_again(store: Store, options: dict[str, int]) -> None:
    note.enqueue(1)
    note.using(**options).enqueue(2)
    quiet(store)
    fetcher = new_fetcher()

    fetcher.fetch("0", 1)

    assert wakeup_keys(store) == ["q:default"]
    quiet(store)
    fetcher.fetch("1", 2)
    assert wakeup_keys(store) == [], (
        "a worker that got less than it requested waits for a wakeup and times the rest itself"
    )


def test_returned_task_notifies_the_queue(store: Store) -> None:
    note.enqueue(1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    quiet(store)
    fetcher.settle(Ack(job.id, job.token, "requeued"))

    fetcher.fetch("acks", 0)

    assert wakeup_keys(store) == ["q:default"]


def test_task_popped_before_a_script_error_is_recoverable(redis_server: Store) -> None:
    """Another client has overwritten the record of the last one."""
    results = note.enqueue_many([((number,), {}) for number in range(3)])
    redis_server.raw.set(base_key(redis_server, "t", results[2].id), "not a record")

    with pytest.raises(ResponseError, match="WRONGTYPE"):
        new_fetcher().fetch("0", 3)

    leased = redis_server.raw.zrange(queue_key(redis_server, "running"), 0, -1)
    assert set(leased) == {result.id.encode() for result in results}
    assert redis_server.raw.hget(base_key(redis_server, "t", results[0].id), "s") == b"running"


def test_ack_is_kept_after_an_error_that_is_not_of_redis(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_an_old_server(point: str) -> None:
        if point == "before_ack":
            raise UnsupportedServer("Redis 6.2.14", "here")

    result = note.enqueue(1)
    fetcher = new_fetcher()
    fetcher.settle(execute(fetcher.fetch("0", 1)[0]))

    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "hook", find_an_old_server)
        with pytest.raises(UnsupportedServer, match="too old"):
            fetcher.fetch("0", 1)
    assert (fetcher.pending_acks(), len(fetcher.leases)) == (1, 1)
    fetcher.fetch("0", 1)

    assert result.get(0) == 1
    assert not fetcher.leases
