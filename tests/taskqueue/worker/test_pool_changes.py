"""Changes of a worker's threads, coroutines and queues while it runs."""

from __future__ import annotations

import dataclasses
import os
import random
import select
import threading
from typing import Any, NoReturn

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.taskqueue.pool import Pool
from django_redis_components.taskqueue.worker.interrupt import Interrupt
from django_redis_components.taskqueue.worker.thread_pool import ThreadPool
from django_redis_components.taskqueue.worker.worker import Worker
from tests.conftest import components_settings
from tests.support import Proxy, Store, eventually
from tests.taskqueue.shards.support import two_servers
from tests.taskqueue.support import Held, base_key, new_fetcher, queue_key, running_worker, work_off
from tests.taskqueue.tasks import add, hold, hold_async, note, recorded

pytestmark = pytest.mark.integration


def change(worker: Worker, **values: Any) -> None:
    worker.change_pool(dataclasses.replace(Pool(1, 100, ("default",)), **values))


def is_idle(worker: Worker) -> bool:
    """Return whether one thread waits for a wakeup, and the others for that thread."""
    return worker.job_source.leader_lock.locked() and worker.job_source.idle_threads == worker.threads.alive() - 1


def test_added_threads_run_waiting_tasks(redis_server: Store) -> None:
    held = [Held(redis_server, name) for name in "abc"]
    with running_worker() as worker:
        for name in "abc":
            hold.enqueue(name)
        held[0].started()

        change(worker, threads=3)

        for each in held:
            each.started()
        assert worker.threads.alive() == 3
        for each in held:
            each.release()


def test_removed_threads_finish_their_tasks(redis_server: Store) -> None:
    held = [Held(redis_server, name) for name in "abc"]
    with running_worker(threads=3) as worker:
        results = [hold.enqueue(name) for name in "abc"]
        for each in held:
            each.started()

        change(worker, threads=1)

        waiting = note.enqueue("later")
        held[0].release()
        eventually(lambda: worker.threads.alive() == 2)
        waiting.refresh()
        assert waiting.state == "ready", "more tasks run than there should be threads"
        for each in held:
            each.release()
        assert [each.get(60) for each in results] == ["a", "b", "c"]
        assert waiting.get(60) == "later"
        eventually(lambda: worker.threads.alive() == 1)
        assert (worker.threads.lost(), worker.is_damaged()) == (0, False)


def test_idle_threads_leave_at_once_and_none_keeps_the_wakeups(redis_server: Store) -> None:
    held = Held(redis_server, "a")
    with running_worker(threads=8) as worker:
        hold.enqueue("a")
        held.started()
        eventually(lambda: is_idle(worker) or worker.job_source.idle_threads == 6)

        change(worker, threads=1)

        eventually(lambda: worker.threads.alive() == 1)
        with running_worker(worker="there:1"):
            assert note.enqueue("elsewhere").get(60) == "elsewhere"
        held.release()


def test_threads_shrink_to_one_and_grow_under_load_without_losing_a_task(redis_server: Store) -> None:
    choose = random.Random(15)
    with running_worker(threads=8) as worker:
        for part in range(20):
            note.enqueue_many([((50 * part + number,), {}) for number in range(50)])
            change(worker, threads=choose.choice([1, 1, 2, 5, 12]))
        change(worker, threads=1)
        eventually(lambda: len(recorded) == 1_000)
        eventually(lambda: worker.threads.alive() == 1)
        change(worker, threads=4)
        assert add.enqueue(1, 2).get(60) == 3
        assert (worker.threads.alive(), worker.threads.lost()) == (4, 0)

    assert sorted(recorded) == list(range(1_000))
    assert redis_server.raw.zcard(queue_key(redis_server, "running")) == 0


def test_coroutines_shrink_and_grow(redis_server: Store) -> None:
    held = [Held(redis_server, name) for name in "abc"]
    with running_worker(async_concurrency=2) as worker:
        results = [hold_async.enqueue(name) for name in "ab"]
        for each in held[:2]:
            each.started()

        change(worker, coroutines=1)

        results.append(hold_async.enqueue("c"))
        held[0].release()
        assert results[0].get(60) == "a"
        assert held[2].starts() == 0, "one runs"
        change(worker, coroutines=2)
        held[2].started()
        for each in held:
            each.release()
        assert [each.get(60) for each in results] == ["a", "b", "c"]


def test_changed_queues_are_fetched_from_at_once(redis_server: Store) -> None:
    waiting = note.using(queue_name="mail").enqueue("mail")
    with running_worker(threads=3) as worker:
        eventually(lambda: is_idle(worker))

        change(worker, threads=3, queues=("mail",))

        assert waiting.get(60) == "mail"
        left = note.enqueue("left")
        assert note.using(queue_name="mail").enqueue("again").get(60) == "again"
        assert left.state == "ready"
        wakeup = base_key(redis_server, "wakeup", "q:default")
        eventually(lambda: redis_server.raw.zcard(wakeup) == 1)
        with running_worker(worker="there:1"):
            assert left.get(60) == "left"


def test_queues_that_change_twice_before_a_thread_is_free_notify_others(redis_server: Store) -> None:
    held = Held(redis_server, "a")
    with running_worker("default", "mail") as worker:
        hold.enqueue("a")
        held.started()

        change(worker, queues=("default",))
        change(worker, queues=("default", "low"))

        held.release()
        wakeup = base_key(redis_server, "wakeup", "q:mail")
        eventually(lambda: redis_server.raw.zcard(wakeup) == 1)


def test_queues_get_weights_and_lose_them(redis_server: Store) -> None:
    fetcher = new_fetcher("high", "low")
    for number in range(6):
        for queue in ("high", "low"):
            note.using(queue_name=queue).enqueue((queue, number))

    fetcher.set_queues(("low", "high"), (5, 1))
    weighted = [fetcher.fetch("0", 1)[0].queue for _ in range(6)]
    fetcher.set_queues(("high",))
    strict = [fetcher.fetch("0", 1)[0].queue for _ in range(5)]

    assert sorted(weighted) == ["high", *["low"] * 5]
    assert strict == ["high"] * 5
    assert fetcher.fetch("0", 1) == []


def test_queues_of_several_shards_change(settings: Any, stores: Any) -> None:
    with two_servers(stores, settings):
        waiting = [note.using(queue_name=queue).enqueue(queue) for queue in ("mail", "low")]
        with running_worker("high") as worker:
            eventually(lambda: is_idle(worker))

            change(worker, queues=("mail", "low"))

            assert [each.get(10) for each in waiting] == ["mail", "low"]
            change(worker, queues=("low", "mail"), weights=(3, 1))
            again = [note.using(queue_name=queue).enqueue(queue) for queue in ("mail", "low")]
            assert [each.get(10) for each in again] == ["mail", "low"]


def test_thread_without_a_reply_stays_until_it_has_its_jobs(proxy: Proxy, redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = components_settings(redis_server, proxied=proxy.url)
    settings.REDIS_COMPONENTS["CONNECTIONS"]["proxied"]["RETRIES"] = 0
    fetcher = new_fetcher(using="proxied")
    assert fetcher.fetch("0", 1) == []
    note.enqueue("leased by a request whose reply is lost")

    proxy.drop_next_reply(after=b"here:1")
    with pytest.raises(ConnectionError):
        fetcher.fetch("0", 1)

    assert (fetcher.has_unanswered("0"), fetcher.has_unanswered("1")) == (True, False)
    assert len(fetcher.fetch("0", 1)) == 1
    assert not fetcher.has_unanswered("0")


def test_worker_shrinks_after_redis_was_away(proxy: Proxy, redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = components_settings(redis_server, proxied=proxy.url)
    far_note = dataclasses.replace(note, connection="proxied")
    with running_worker(threads=4, using="proxied") as worker:
        assert far_note.enqueue("before").get(60) == "before"
        proxy.stop_accepting()
        proxy.cut()

        change(worker, threads=1)
        proxy.accept_again()

        assert far_note.enqueue("after").get(60) == "after"
        eventually(lambda: worker.threads.alive() == 1)
        assert worker.threads.lost() == 0
    work_off()
    assert recorded == ["before", "after"]


def test_pool_is_as_large_as_the_system_allows(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    may_end = threading.Event()
    pool = ThreadPool(1, lambda number: may_end.wait(60) and None)
    pool.start()

    def no_more_threads(_: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more_threads)
        assert not pool.resize(3)

    assert (pool.size, pool.alive(), pool.lost(), pool.has_surplus) == (1, 1, 0, False)
    assert "Only 1 of 3 threads of the worker can run (can't start new thread)." in caplog.text
    assert pool.resize(2)
    assert (pool.alive(), pool.leave(0), pool.leave(1)) == (2, False, False)
    may_end.set()
    eventually(lambda: pool.alive() == 0)


def test_numbers_of_threads_that_have_left_are_used_again() -> None:
    ends = {number: threading.Event() for number in range(3)}
    pool = ThreadPool(3, lambda number: ends[number].wait(60) and None)
    pool.start()

    pool.resize(1)
    assert [pool.leave(0), pool.leave(1), pool.leave(2)] == [True, True, False]
    ends[0].set()
    eventually(lambda: pool.alive() == 2)
    ends[0] = threading.Event()
    pool.resize(2)

    assert sorted(pool.numbers().values()) == [0, 1, 2], "the second is still running"
    assert (pool.alive(), pool.lost()) == (3, 0)
    for each in ends.values():
        each.set()
    eventually(lambda: pool.alive() == 0)
    assert pool.lost() == 0


def test_interrupt_is_cleared_once() -> None:
    stop_read, stop_write = os.pipe()
    interrupt = Interrupt(stop_read)
    assert (interrupt.clear(), select.select([interrupt.fd], [], [], 0)[0]) == (False, [])

    interrupt.set()
    interrupt.set()

    assert select.select([interrupt.fd], [], [], 0)[0] == [interrupt.fd]
    assert (interrupt.clear(), interrupt.clear()) == (True, False)
    assert select.select([interrupt.fd], [], [], 0)[0] == []
    os.write(stop_write, b"x")
    assert select.select([interrupt.fd], [], [], 0)[0] == [interrupt.fd]
    os.close(stop_read)
    os.close(stop_write)
