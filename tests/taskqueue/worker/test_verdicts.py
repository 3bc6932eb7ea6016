"""When a supervisor ends a process for the sake of a task, when it lets it live, and what it does for the others."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.supervisor import termination as endings_module
from django_redis_components.taskqueue.supervisor.cancel_listener import LOOKS_S, Hearing
from django_redis_components.taskqueue.supervisor.termination import Endings
from django_redis_components.taskqueue.worker.ipc import Orders, give
from tests.support import Proxy, Store, eventually
from tests.taskqueue.supervisor.test_child import Process
from tests.taskqueue.support import Held, base_key, new_fetcher, queue_key, recover, running_worker
from tests.taskqueue.tasks import hold, note

#: Long ago, and far away, by the monotonic clock.
PAST, FUTURE = 0.0, 1e12


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    os.set_blocking(made.life, False)
    yield made
    made.close()
    made.child.close()


def beacon(
    process: Process, running: list[str] | None = None, limits: dict[str, Any] | None = None, **more: str
) -> None:
    leases = dict.fromkeys(running or [], "t1") | more
    process.write(json.dumps({"leases": leases, "running": running or [], "limits": limits or {}}) + "\n")


def orders(process: Process) -> list[list[str]]:
    try:
        return [json.loads(line) for line in os.read(process.life, 10_000).splitlines()]
    except BlockingIOError:
        return []


def test_a_hard_limit_that_is_over_condemns(process: Process) -> None:
    beacon(process, ["a", "b"], {"a": ["t1", PAST, 2.0, None], "b": ["t1", FUTURE, 2.0, 50]})

    [(ack, why)] = process.child.overdue(time.monotonic())

    assert (ack.id, ack.token, ack.outcome, why) == ("a", "t1", "fail", "has reached its hard time limit of 2 s")
    assert min(process.child.moments()) == PAST
    process.child.condemn(ack, FUTURE)
    assert orders(process) == [["end", "a", "t1"]]
    assert process.child.overdue(time.monotonic()) == [], "once is enough"
    assert min(process.child.moments()) == FUTURE


def test_a_task_that_ended_meanwhile_saves_its_process(process: Process) -> None:
    beacon(process, ["a"], {"a": ["t1", PAST, 2.0, None]})
    [(ack, _)] = process.child.overdue(1.0)
    process.child.condemn(ack, 5.0)

    beacon(process, ["a"], {"a": ["t1", PAST, 2.0, None]})
    assert process.child.kill_at == 5.0
    beacon(process, [], a="t1")

    assert (process.child.sentence, process.child.kill_at) == ({}, float("inf"))


def test_a_cancelled_task_is_interrupted_and_condemned_when_its_time_is_over(process: Process) -> None:
    beacon(process, ["a"], {"a": ["t1", PAST, 2.0, None]})

    process.child.cancel("a", 1_000.0)
    process.child.cancel("a", 0.0)
    process.child.cancel("a", 1_000.0)

    assert orders(process) == [["cancel", "a", "t1"]] * 3
    [(ack, why)] = process.child.overdue(time.monotonic())
    assert (ack.id, ack.outcome, why) == ("a", "cancel", "was cancelled and goes on")


def test_one_that_has_not_begun_or_has_ended_is_not_condemned(process: Process) -> None:
    beacon(process, [], a="t1")
    process.child.cancel("a", 0.0)
    assert process.child.overdue(FUTURE) == []

    beacon(process, ["a"])
    assert [ack.id for ack, _ in process.child.overdue(FUTURE)] == ["a"]
    beacon(process, [])
    beacon(process, ["a"])
    assert process.child.overdue(FUTURE) == [], "another lease of it was not asked to end"


def test_who_does_not_listen_is_no_danger_to_the_supervisor(process: Process) -> None:
    beacon(process, ["a" * 500])
    for _ in range(500):
        process.child.cancel("a" * 500, 1.0)
    os.read(process.life, 1 << 20)

    process.child.ask()
    os.close(process.life)
    process.child.ask()
    process.life = os.open(os.devnull, os.O_RDONLY)


def test_it_is_killed_when_it_has_not_ended_in_time(
    process: Process, redis_server: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings_module, "TIMEOUT_S", 0.03)
    care = Endings(("default",), "default")
    beacon(process, ["a"], {"a": ["t1", PAST, 2.0, None]})
    assert care.next_at([process.child]) == PAST

    care.look([process.child])
    assert process.process.poll() is None
    assert care.next_at([process.child]) <= time.monotonic() + 0.03
    eventually(lambda: care.look([process.child]) or process.process.poll() is not None)

    assert f"Process {process.child.pid} is ended: task a has reached its hard time limit of 2 s." in caplog.text
    assert f"Process {process.child.pid} does not end by itself; killing it." in caplog.text
    assert process.child.kill_at == float("inf")


def condemned(process: Process, ack: Ack) -> Any:
    process.child.worker_id = "sup.ch"
    process.child.condemn(ack, FUTURE)
    return process.child


@pytest.mark.contract
def test_what_a_dead_process_held_is_found_among_others_and_keeps_its_order(store: Store, process: Process) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(1_200)])
    mine, other = new_fetcher(worker="sup.ch"), new_fetcher(worker="sup.ch2")
    jobs = [*mine.fetch("0", 300), *mine.fetch("1", 300)]
    other.fetch("0", 300)
    care = Endings(("default", "empty"), "default")

    care.bury(condemned(process, Ack(jobs[0].id, jobs[0].token, "fail", b"{}", ttl_ms=60_000)))

    depth = get_queue("default").depths()
    assert (depth.running, depth.ready, depth.failed) == (300, 899, 1)
    front = [task_id.decode() for task_id in store.raw.lrange(queue_key(store, "front"), 0, -1)]
    assert front == [job.id for job in jobs[1:]] == [result.id for result in results[1:600]]
    assert care.next_at([]) == float("inf")
    assert store.raw.hget(base_key(store, "t", jobs[5].id), "x") is None


def test_a_process_that_nobody_condemned_keeps_its_leases(redis_server: Store, process: Process) -> None:
    note.enqueue(1)
    process.child.worker_id = "sup.ch"
    new_fetcher(worker="sup.ch").fetch("0", 1)

    Endings(("default",), "default").bury(process.child)

    assert get_queue("default").depths().running == 1


def test_what_is_left_waits_until_redis_is_back(
    redis_server: Store,
    proxy: Proxy,
    process: Process,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endings_module, "TRY_AGAIN_S", 0.02)
    result, other = note.enqueue(1), note.enqueue(2)
    job, _ = new_fetcher(worker="sup.ch").fetch("0", 2)
    care = Endings(("default",), "proxied")
    proxy.stop_accepting()
    proxy.cut()

    care.bury(condemned(process, Ack(job.id, job.token, "cancel", ttl_ms=60_000)))

    assert "What worker sup.ch has left waits for Redis" in caplog.text
    assert care.next_at([]) < time.monotonic() + 1
    proxy.accept_again()
    eventually(lambda: care.look([]) or care.next_at([]) == float("inf"))
    result.refresh()
    other.refresh()
    assert (result.state, other.state, other.attempts) == ("cancelled", "ready", 0)
    assert recover() == []


def test_a_process_obeys() -> None:
    read_fd, write_fd = os.pipe()
    heard: list[Any] = []

    class Listener:
        def cancel(self, *lease: str) -> None:
            heard.append(lease)

        def runs(self, task_id: str, token: str) -> bool:
            return (task_id, token) == ("b", "t2")

    mine = Orders(read_fd)
    give(write_fd, "cancel", "a", "t1")
    give(write_fd, "beat")
    give(write_fd, "end", "b", "t1")
    os.write(write_fd, b'["end", "b"')
    assert mine.read()
    assert mine.obey(Listener()) == set()  # type: ignore[arg-type]
    os.write(write_fd, b', "t2"]\n')
    assert mine.read()
    assert mine.obey(Listener()) == {"b"}  # type: ignore[arg-type]
    os.close(write_fd)

    assert not mine.read()
    assert heard == [("a", "t1")]
    os.close(read_fd)


def test_those_who_are_spared_are_not_handed_back(redis_server: Store) -> None:
    held = [Held(redis_server, name) for name in "ab"]
    with running_worker(threads=2) as worker:
        results = [hold.enqueue("a"), hold.enqueue("b")]
        for each in held:
            each.started()
        worker.stop()

        worker.give_back(but={results[0].id})

        assert list(worker.fetcher.held) == [results[0].id]
        assert get_queue("default").depths().running == 1
        for each in held:
            each.let_go()
        assert results[0].get(60) == "a"


def test_after_a_ring_it_looks_twice(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ears:
        rings = [True, False, False, False]
        waited: list[float] = []

        def wait(self, seconds: float) -> bool:
            self.waited.append(seconds)
            return self.rings.pop(0)

        def close(self) -> None:
            self.waited.append(-1)

    now = [100.0]
    monkeypatch.setattr("django_redis_components.taskqueue.supervisor.cancel_listener.time.monotonic", lambda: now[0])
    hearing = Hearing(None, "bell", 0, Ears())  # type: ignore[arg-type]
    assert not hearing.must_look()

    assert hearing.wait(7.0)
    assert not hearing.must_look()
    hearing.wait(7.0)
    now[0] += LOOKS_S[0]
    assert hearing.must_look()
    assert not hearing.must_look()
    hearing.wait(7.0)
    now[0] += LOOKS_S[1]
    assert hearing.must_look()
    assert not hearing.must_look()
    hearing.wait(7.0)
    hearing.close()

    assert Ears.waited == pytest.approx([7.0, LOOKS_S[0], LOOKS_S[1] - LOOKS_S[0], 7.0, -1])


def test_without_a_poller_an_outage_ends_no_wait_early_for_long(redis_server: Store, proxy: Proxy) -> None:
    wake_read, wake_write = os.pipe()
    proxy.stop_accepting()
    proxy.cut()
    hearing = Hearing(connections.client("proxied"), "bell", wake_read, None)

    assert hearing.wait(0.01) is False
    os.write(wake_write, b"x")
    assert hearing.wait(60.0) is False

    hearing.close()
    os.close(wake_read)
    os.close(wake_write)
