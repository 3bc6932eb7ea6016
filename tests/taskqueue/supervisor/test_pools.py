"""Pools of live workers: changed by commands, kept for processes that start later, reset."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.exceptions import UnknownQueue, WorkerDoesNotExist
from django_redis_components.taskqueue.pool import (
    POOL_VALUES,
    Pool,
    PoolChange,
    check_change,
    decode_change,
    encode_change,
)
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.queue_stats import read_overview
from django_redis_components.taskqueue.stats.scaling import wanted_capacity
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo
from django_redis_components.taskqueue.stats.workers import read_workers
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.pools import ALL_HOSTS, forget_kept, keep_pool, list_kept, read_kept
from django_redis_components.taskqueue.store.workers import change_pool, command_worker, reset_pool
from django_redis_components.taskqueue.supervisor.health import _problem_of
from django_redis_components.taskqueue.worker.ipc import CommandReader
from tests.conftest import components_settings
from tests.dashboard.support import write_worker
from tests.support import Proxy, Store, eventually
from tests.support.processes import Children
from tests.taskqueue.supervisor.support import Process
from tests.taskqueue.support import Held, base_key, queue_key, queue_worker, taskqueue_settings
from tests.taskqueue.tasks import add, hold, note

pytestmark = pytest.mark.integration

HOST = socket.gethostname()
#: The arguments of the workers of this module.
ONE_THREAD = "default --threads 1 --async-concurrency 100"


@pytest.fixture(autouse=True)
def _long_lease(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=60, GRACE=20)


def listed() -> list[WorkerInfo]:
    return run(connections.client(), read_workers(home())).workers


def workers(count: int = 1) -> list[WorkerInfo]:
    """Wait until this number of workers is listed."""

    def found() -> list[WorkerInfo]:
        workers = [each for each in listed() if each.command_line]
        return workers if len(workers) == count else []

    return eventually(found)


def change(target: str, *, author: str = "anna", keep: bool = False, **values: str) -> None:
    run(connections.client(), change_pool(home(), target, values, author, new_op(), keep=keep))


def outcome(verb: str, author: str = "anna") -> str:
    """Wait until all processes report the outcome of the latest command of an author."""

    def found() -> list[str]:
        commands = [each.command for each in listed()]
        return [each.outcome for each in commands if each and (each.verb, each.author) == (verb, author)]

    return eventually(found)[0]


def threads() -> list[int]:
    return sorted(each.threads for each in listed())


def test_all_processes_of_a_supervisor_get_more_threads_and_report_them(
    redis_server: Store, children: Children
) -> None:
    queue_worker(children, "--processes", "2", "--threads", "1")
    first, second = workers(2)
    held = [Held(redis_server, name) for name in "abc"]
    running = [hold.enqueue(name) for name in "abc"]

    change(first.supervisor, threads="4")

    for each in held:
        each.started()
    assert outcome("pool") == "done"
    eventually(lambda: threads() == [4, 4])
    changed = {each.id: each for each in workers(2)}
    assert {first.id, second.id} == set(changed), "no process was restarted"
    [value] = changed[first.id].changes
    assert (value.name, value.configured, value.author, value.is_kept) == ("threads", "1", "anna", False)
    assert changed[first.id].command_line == ONE_THREAD
    overview = run(connections.client(), read_overview(home()))
    assert wanted_capacity(overview, [])["default"].workers == 1, "three running tasks fit into one process"
    for each in held:
        each.release()
    assert [each.get(60) for each in running] == ["a", "b", "c"]


def test_one_process_gets_other_queues_and_the_others_keep_theirs(redis_server: Store, children: Children) -> None:
    queue_worker(children, "--processes", "2", "--threads", "1")
    first, _ = workers(2)

    change(first.id, queues="mail=3,default=1", coroutines="7")

    assert outcome("pool") == "done"
    assert note.using(queue_name="mail").enqueue("mail").get(60) == "mail"
    changed, other = sorted(workers(2), key=lambda each: not each.changes)
    assert (changed.id, changed.queues, changed.weights) == (first.id, ("mail", "default"), (3, 1))
    assert (changed.async_concurrency, other.async_concurrency, other.queues) == (7, 100, ("default",))
    assert redis_server.raw.zrange(queue_key(redis_server, "workers", "mail"), 0, -1) == [first.id.encode()]
    run(connections.client(), reset_pool(home(), first.supervisor, "ben", new_op()))
    assert outcome("reset", "ben") == "done"
    eventually(lambda: [(each.queues, each.weights) for each in listed()] == [(("default",), ())] * 2)
    eventually(lambda: redis_server.raw.zcard(queue_key(redis_server, "workers", "mail")) == 0)


def test_process_of_the_command_line_replaces_a_changed_one(redis_server: Store, children: Children) -> None:
    queue_worker(children, "--threads", "1")
    [first] = workers()
    held = Held(redis_server, "a")
    running = hold.enqueue("a")
    held.started()
    change(first.supervisor, threads="3")
    eventually(lambda: threads() == [3])

    os.kill(first.pid, signal.SIGKILL)

    [second] = eventually(lambda: [each for each in listed() if each.pid not in (0, first.pid)])
    assert (second.threads, second.changes) == (1, ())
    held.release()
    assert running.get(60) == "a"


def test_change_of_a_process_that_is_killed_meanwhile_is_gone(redis_server: Store, children: Children) -> None:
    queue_worker(children, "--threads", "1")
    [first] = workers()
    os.kill(first.pid, signal.SIGSTOP)  # it cannot confirm
    change(first.supervisor, threads="3")
    eventually(lambda: redis_server.raw.llen(base_key(redis_server, "commands", first.supervisor)) == 1)

    os.kill(first.pid, signal.SIGKILL)

    assert outcome("pool") in ("gone", "done"), "the next process may have taken it"
    eventually(lambda: [each.pid for each in workers()] != [first.pid])
    assert add.enqueue(1, 2).get(60) == 3


def test_kept_pool_is_taken_by_the_next_process_and_by_another_worker(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children, "--threads", "1")
    [first] = workers()
    assert run(connections.client(), keep_pool(home(), [(HOST, ONE_THREAD)], {"threads": "2"}, "anna"))
    change(first.supervisor, threads="2", keep=True)
    eventually(lambda: threads() == [2])

    run(connections.client(), command_worker(home(), first.id, "restart", "ben", new_op()))

    [second] = eventually(lambda: [each for each in listed() if each.pid not in (0, first.pid)])
    assert (second.threads, second.changes[0].author, second.changes[0].is_kept) == (2, "anna", True)
    queue_worker(children, "--threads", "1")
    queue_worker(children, "--threads", "3")
    eventually(lambda: threads() == [2, 2, 3])
    kept = run(connections.client(), list_kept(home()))
    assert [(each.host, each.command_line, each.name, each.change.value) for each in kept] == [
        (HOST, ONE_THREAD, "threads", "2")
    ]
    assert run(connections.client(), forget_kept(home(), kept)) == 1
    run(connections.client(), reset_pool(home(), second.supervisor, "ben", new_op()))
    eventually(lambda: threads() == [1, 2, 3])
    assert "starts with threads 2 instead of 1, as anna has requested" in worker.output


def test_two_operators_change_a_worker_at_once(redis_server: Store, children: Children) -> None:
    queue_worker(children, "--threads", "1")
    [first] = workers()

    for number in range(1, 9):
        change(first.supervisor, threads=str(number), author="anna")
        change(first.id, threads=str(number + 1), coroutines="20", author="ben")

    eventually(lambda: threads() == [9])
    [found] = workers()
    assert [(each.name, each.author) for each in found.changes] == [("threads", "ben"), ("coroutines", "ben")]
    eventually(lambda: redis_server.raw.llen(base_key(redis_server, "commands", first.supervisor)) == 0)


def test_change_is_made_although_redis_is_away_meanwhile(
    proxy: Proxy, redis_server: Store, children: Children, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=6, GRACE=20)
    far = components_settings(redis_server)
    far["CONNECTIONS"]["default"] = {"URL": proxy.url, "SOCKET_TIMEOUT": 0.5}
    near, settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS, {**far, "TASKQUEUE": {"LEASE": 6}}
    worker = queue_worker(children, "--threads", "2")
    settings.REDIS_COMPONENTS = near
    [first] = workers()

    proxy.stop_accepting()
    proxy.cut()
    change(first.supervisor, threads="1")
    worker.wait_for("Cannot renew the leases")
    proxy.accept_again()

    assert outcome("pool") == "done"
    assert threads() == [1]
    assert add.enqueue(1, 2).get(60) == 3
    assert [each.pid for each in workers()] == [first.pid]


def test_quiet_stopping_and_gone_processes_refuse_a_change(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children, "--threads", "1")
    [first] = workers()
    run(connections.client(), command_worker(home(), first.supervisor, "quiet", "anna", new_op()))
    eventually(lambda: [each.state for each in listed()] == ["quiet"])

    change(first.id, threads="3")

    assert outcome("pool") == "quiet"
    worker.terminate()
    assert worker.wait() == 0
    with pytest.raises(WorkerDoesNotExist):
        change(first.id, threads="3")


def test_worker_refuses_what_it_does_not_know(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children, "--threads", "1")
    [first] = workers()
    key = base_key(redis_server, "commands", first.supervisor)
    now = int(redis_server.raw.time()[0]) * 1_000
    for op, verb in enumerate(("pool/threads=0", "pool/speed=9", "explode")):
        redis_server.raw.rpush(key, f"{now + 60_000} {now} op{op} {verb} {first.supervisor} author{op}")
    redis_server.raw.expire(key, 60)
    change(first.supervisor, threads="2")  # wakes it

    eventually(lambda: threads() == [2])
    for op in range(3):
        worker.wait_for(f"Remote command of author{op}:")
    assert worker.output.count(f"{first.supervisor}: unknown.") == 3
    assert [each.pid for each in workers()] == [first.pid], "it was not restarted"


def test_lost_command_is_sent_again_until_the_process_confirms_it() -> None:
    process = Process()
    child = process.child
    child.change_pool({"threads": PoolChange("5", "anna", moment_of(0), is_kept=False)})
    assert json.loads(os.read(process.commands, 4_096).splitlines()[0])[5] == [1, 5, 100, ["default", "mail"], []]
    assert json.loads(child.info())["threads"] == 3

    process.write(json.dumps({"leases": {}}) + "\n")
    assert json.loads(os.read(process.commands, 4_096).splitlines()[0])[5][0] == 1, "sent again"
    process.write(json.dumps({"leases": {}, "pool": 1, "threads": 4}) + "\n")

    assert child.pool.is_confirmed()
    assert child.pool.is_short
    assert json.loads(child.info())["threads"] == 4, "the system has no more"
    process.write(json.dumps({"leases": {}, "pool": 1, "threads": 4, "lost_threads": 1}) + "\n")
    assert _problem_of([child], 1, 15, was_healthy=True).startswith("3 of 4 threads of process ")
    process.close()


def test_newer_of_two_kept_values_counts(redis_server: Store) -> None:
    client = connections.client()
    run(client, keep_pool(home(), [("app-1", "x")], {"threads": "2", "queues": "a=5,b=1"}, "anna"))
    key = base_key(redis_server, "kept_pools")
    assert run(client, read_kept(home(), "app-1", "x"))["threads"].value == "2"
    redis_server.raw.hset(key, "app-1\nx\nthreads", "1000 2 anna")

    run(client, keep_pool(home(), [(ALL_HOSTS, "x")], {"threads": "9"}, "ben s."))

    found = run(client, read_kept(home(), "app-1", "x"))
    assert (found["threads"].value, found["threads"].author) == ("9", "ben s.")
    assert found["queues"].value == "a=5,b=1"
    assert list(run(client, read_kept(home(), "app-2", "x"))) == ["threads"]
    assert run(client, read_kept(home(), "app-1", "y")) == {}
    redis_server.raw.hset(key, mapping={"app-1\nx\nthreads": b"\xff", "app-1\nx\ncoroutines": "x 9 a", "broken": "1"})
    assert [each.name for each in run(client, list_kept(home()))] == ["threads", "queues"]
    redis_server.raw.hset(key, mapping={f"h{number}\nx\nthreads": "1 2 a" for number in range(3_000)})
    assert not run(client, keep_pool(home(), [("app-3", "x")], {"threads": "2"}, "anna"))
    assert run(client, keep_pool(home(), [("h1", "x")], {"threads": "3"}, "anna")), "a kept value can be replaced"
    assert run(client, read_kept(home(), "h1", "x"))["threads"].author == "anna"


def test_unknown_queue_that_is_kept_is_left_out(redis_server: Store, children: Children, settings: Any) -> None:
    values = {"threads": "2", "queues": "gone"}
    run(connections.client(), keep_pool(home(), [(HOST, ONE_THREAD)], values, "anna"))
    taskqueue_settings(settings, LEASE=60, QUEUES=["default"])

    worker = queue_worker(children, "--threads", "1")

    [found] = workers()
    assert (found.threads, found.queues) == (2, ("default",))
    worker.wait_for("A kept change of the pool is not accepted")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "expected at least one of threads, coroutines, queues"),
        ({"speed": "9"}, "'speed': expected one of 'threads', 'coroutines', 'queues'"),
        ({"threads": "0"}, "threads '0': expected a whole number from 1 to 1000"),
        ({"threads": "1001"}, "threads '1001': expected a whole number from 1 to 1000"),
        ({"threads": "-3"}, "from 1 to 1000"),
        ({"threads": "٣"}, "from 1 to 1000"),
        ({"coroutines": "10001"}, "coroutines '10001': expected a whole number from 1 to 10000"),
        ({"coroutines": "1e3"}, "from 1 to 10000"),
        ({"queues": ""}, "expected 1 to 100 queues as NAME,NAME in strict order, or as NAME=WEIGHT,NAME=WEIGHT"),
        ({"queues": "a,,b"}, "expected 1 to 100 queues"),
        ({"queues": "a=5,b"}, "queues 'b': expected 1 to 100 queues"),
        ({"queues": "a=0"}, "each weight from 1 to 1000"),
        ({"queues": "a=1001"}, "each weight from 1 to 1000"),
        ({"queues": "a=99999999"}, "each weight from 1 to 1000"),
        ({"queues": "a,a"}, "queue 'a' is named twice"),
        ({"queues": "a{b}"}, "braces are not accepted"),
        ({"queues": ",".join(map(str, range(101)))}, "expected 1 to 100 queues"),
    ],
)
def test_values_that_are_not_accepted_are_named(values: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=r"expected|not accepted|twice") as raised:
        check_change(values)

    assert problem in str(raised.value)


def test_queue_that_is_not_declared_is_refused(settings: Any) -> None:
    taskqueue_settings(settings, QUEUES=["default", "mail"])

    with pytest.raises(UnknownQueue, match="Did you mean 'mail'"):
        check_change({"queues": "mial"})


def test_change_travels_as_one_word() -> None:
    change = {"threads": "8", "coroutines": "50", "queues": "a b=5,c=1"}

    word = encode_change(change, keep=True)

    assert " " not in word
    assert decode_change(word) == (change, True)
    assert decode_change(encode_change({"queues": "a, b"}, keep=False)) == ({"queues": "a,b"}, False)
    assert list(change) == list(POOL_VALUES)


def test_long_command_lines_differ_although_they_are_shortened() -> None:
    pools = [Pool(number, 100, tuple(f"queue-{index}" for index in range(40))) for number in (1, 2)]
    lines = {pool.command_line(burst=burst) for pool in pools for burst in (False, True)}

    assert len(lines) == 4
    assert all(len(line) == 160 for line in lines)


def test_hostile_report_of_a_pool_counts_as_none(redis_server: Store) -> None:
    write_worker(redis_server, "w:1.a", changes=[["threads", "4", "x", 1e300, 1]])
    write_worker(redis_server, "w:2.a", weights="x")

    assert [(each.changes, each.weights) for each in listed()] == [((), ()), ((), ())]


def test_command_that_is_larger_than_the_pipe_arrives_whole() -> None:
    process = Process()
    queues = ",".join(f"{number:03}{'q' * 190}" for number in range(100))
    fcntl.fcntl(process.commands, fcntl.F_SETPIPE_SZ, 4_096)

    process.child.change_pool({"queues": PoolChange(queues, "anna", moment_of(0), is_kept=False)})
    process.child.restart("sent meanwhile: the pipe is full")
    reader = CommandReader(process.commands)
    commands = []
    while not commands:
        reader.read()
        process.child.read_heartbeats()
        commands = reader.take()

    [command] = commands
    assert command.pool is not None
    assert ",".join(command.pool[3]) == queues
    process.write(json.dumps({"leases": {}, "pool": 1, "threads": 3}) + "\n")
    reader.read()
    assert [each.verb for each in reader.take()] == ["restart"], "what was dropped is sent again"
    process.close()
