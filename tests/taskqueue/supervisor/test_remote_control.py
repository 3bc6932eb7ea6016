"""Commands to workers: quiet, resume, restart and stop, executed once by real worker processes."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.exceptions import WorkerDoesNotExist
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo
from django_redis_components.taskqueue.stats.workers import WorkerPage, find_workers, read_workers
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.workers import VERBS, RemoteCommand, command_worker
from django_redis_components.taskqueue.supervisor.remote_control import RemoteControl
from tests.dashboard.support import now_ms, write_worker
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import Held, base_key, is_running, queue_worker, renewal, taskqueue_settings
from tests.taskqueue.tasks import add, hold

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _long_lease(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=60, GRACE=20)


def page(**options: Any) -> WorkerPage:
    return run(connections.client(), read_workers(home(), **options))


def send(target: str, verb: str, op: str = "", author: str = "m. keller") -> None:
    run(connections.client(), command_worker(home(), target, verb, author, op or new_op()))


def workers(count: int, *states: str) -> list[WorkerInfo]:
    """Wait until this number of workers is listed, in these states."""

    def found() -> list[WorkerInfo]:
        listed = page().workers
        return listed if (len(listed), {each.state for each in listed}) == (count, set(states)) else []

    return eventually(found)


def outcome(target: str, verb: str) -> str:
    """Wait until a command was executed; return its outcome."""

    def found() -> list[str]:
        commands = [each.command for each in run(connections.client(), find_workers(home(), target)).workers]
        return [each.outcome for each in commands if each and (each.target, each.verb) == (target, verb)]

    return eventually(found)[0]


def test_supervisor_is_quiet_until_it_is_resumed(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children, "default", "--processes", "2")
    first, second = workers(2, "working")
    supervisor = first.supervisor
    assert (second.supervisor, first.supervisor_pid) == (supervisor, worker.pid)
    held = Held(redis_server, "a")
    running = hold.enqueue("a")
    pid = held.started()

    send(supervisor, "quiet")

    workers(2, "quiet")
    assert outcome(supervisor, "quiet") == "done"
    later = add.enqueue(1, 2)
    send(first.id, "resume")
    assert outcome(first.id, "resume") == "quiet", "its supervisor is quiet"
    send(supervisor, "restart")
    assert outcome(supervisor, "restart") == "quiet"
    assert later.state == "ready"

    send(supervisor, "resume")

    assert later.get(60) == 3
    assert is_running(pid), "a running task is not interrupted"
    held.release()
    assert running.get(60) == "a"
    resumed = workers(2, "working")
    assert not {each.pid for each in resumed} & {first.pid, second.pid}
    worker.terminate()
    assert worker.wait() == 0


def test_one_process_is_restarted_after_its_task_and_another_is_stopped(
    redis_server: Store, children: Children
) -> None:
    worker = queue_worker(children, "default", "--processes", "2")
    before = {each.pid: each for each in workers(2, "working")}
    held = Held(redis_server, "a")
    running = hold.enqueue("a")
    old = before.pop(held.started())
    [other] = before.values()

    send(old.id, "restart")

    restarting, *_ = eventually(lambda: [each for each in page().workers if each.state == "restarting"])
    assert restarting.id == old.id
    assert [run.name for run in restarting.runs] == ["tests.taskqueue.tasks.hold"]
    eventually(lambda: len(page().workers) == 3)
    held.release()
    assert running.get(60) == "a"
    pids = {each.pid for each in workers(2, "working")}
    assert (other.pid in pids, old.pid in pids) == (True, False)

    send(other.id, "stop")

    [left] = workers(1, "working")
    assert left.pid != other.pid
    assert add.enqueue(1, 2).get(60) == 3

    send(left.supervisor, "stop")

    assert worker.wait() == 0
    assert "Remote command of m. keller: stop" in worker.output
    assert page().workers == []


def test_stopping_the_last_process_stops_the_supervisor(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children, "default")
    [only] = workers(1, "working")
    held = Held(redis_server, "a")
    running = hold.enqueue("a")
    held.started()

    send(only.id, "stop")
    workers(1, "stopping")
    send(only.id, "quiet")
    assert outcome(only.id, "quiet") == "stopping"
    held.release()

    assert worker.wait() == 0
    assert running.get(60) == "a", "within the grace period"


def test_worker_reports_what_its_page_shows(redis_server: Store, children: Children, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=3, VERSION="2026.11.3")
    queue_worker(children, "default", "--threads", "2")
    held = Held(redis_server, "a")
    task = hold.using(timeout=(None, 600)).enqueue("a")
    pid = held.started()

    def found() -> list[WorkerInfo]:
        return [each for each in page().workers if each.runs and each.per_minute is not None and each.round_trip]

    [info] = eventually(found)

    assert (info.pid, info.busy, info.leases, info.version) == (pid, 1, 1, "2026.11.3")
    assert (info.runs[0].id, info.runs[0].queue) == (task.id, "default")
    assert 0 <= info.runs[0].elapsed < 60
    assert info.runs[0].limit == 600
    assert info.memory is not None
    assert info.memory > 1 << 20
    eventually(lambda: page().workers[0].poller == "active")
    assert page().poller is not None
    held.release()


def test_command_is_executed_once_although_its_reply_is_lost(redis_server: Store) -> None:
    write_worker(redis_server, "here:1.a")
    op = new_op()
    send("here:1.a", "quiet", op)
    send("here:1.a", "quiet", op)
    control = RemoteControl("here:1")

    for _lost in range(2):
        control.receive(beat(control, executed=""), "")
    [command] = control.take()
    assert (command.op, command.verb, command.target, command.author) == (op, "quiet", "here:1.a", "m. keller")
    control.finish(command, "done")
    control.receive(beat(control, executed=""), "")

    assert control.take() == []
    assert page().pending_commands["here:1.a"].verb == "quiet"
    executed = control.executed()
    control.receive(beat(control, executed=executed), executed)
    assert (control.take(), control.executed(), page().pending_commands) == ([], "", {})
    assert control.facts("here:1.a")["command"].verb == "quiet"
    assert control.facts("here:1.b")["command"] is None


def beat(control: RemoteControl, *, executed: str) -> list[bytes]:
    """Send a heartbeat; return the commands in its reply."""
    call = renewal("here:1.a", [], lease_ms=60_000, supervisor=control.supervisor, executed=executed)
    found: list[bytes] = connections.client().execute(call)[2]
    return found


def test_command_expires_and_corrupt_ones_are_ignored(redis_server: Store, caplog: Any) -> None:
    write_worker(redis_server, "here:1.a")
    send("here:1", "stop")
    key = base_key(redis_server, "commands", "here:1")
    assert 0 < redis_server.raw.pttl(key) <= 60_000
    now = now_ms(redis_server)
    redis_server.raw.delete(key)
    redis_server.raw.rpush(key, f"{now - 1} {now} old stop here:1 x", "corrupt", f"{now + 60_000} x y", b"\xff" * 200)
    control = RemoteControl("here:1")

    control.receive(beat(control, executed=""), "")

    assert control.take() == []
    assert "Ignored a corrupt command" in caplog.text
    assert page().pending_commands == {}
    assert redis_server.raw.lrange(key, 0, -1) == [f"{now + 60_000} x y".encode()]


def test_commands_to_unknown_lost_and_deaf_workers_are_refused(redis_server: Store) -> None:
    write_worker(redis_server, "lost:1.a", seen_s=61)
    write_worker(redis_server, "here:1.a")

    for target, problem in (("nowhere:1", "No worker or supervisor"), ("lost:1.a", "is lost"), ("lost:1", "is lost")):
        with pytest.raises(WorkerDoesNotExist, match=problem):
            send(target, "stop")
    for _ in range(20):
        send("here:1.a", "quiet")
    with pytest.raises(WorkerDoesNotExist, match="20 commands that it has not executed"):
        send("here:1", "quiet")
    with pytest.raises(ValueError, match=f"expected one of {', '.join(map(repr, VERBS))}"):
        send("here:1", "kill")
    with pytest.raises(ValueError, match="at most 300 characters"):
        send("x" * 301, "stop")


def test_command_keeps_the_words_of_its_author() -> None:
    command = RemoteCommand.parse(b"2 1 op stop here:1 Ada \xff Lovelace")

    assert (command.author, command.at) == ("Ada � Lovelace", moment_of(1_000))
    with pytest.raises(ValueError, match="values to unpack"):
        RemoteCommand.parse(b"stop")


def test_pages_follow_a_cursor_and_state_what_lost_workers_held(redis_server: Store) -> None:
    taken = [("here:2.a", "default"), ("lost:1.a", "default")]
    tasks = [add.enqueue(1, number) for number in range(3)]
    runs = [[task.id, "add", "default", 1.5] for task in tasks]
    base = base_key(redis_server, "t")
    for task, (worker, queue) in zip(tasks, taken, strict=False):
        redis_server.raw.hset(f"{base}:{task.id}", mapping={"s": "running", "L": f"{worker}/0/1"})
        redis_server.raw.zadd(base_key(redis_server, f"q:{queue}", "running"), {task.id: now_ms(redis_server) + 9_000})
    write_worker(redis_server, "lost:1.a", seen_s=61, runs=[*runs, ["gone", "add", "default", 2]], leases=4)
    for number in range(4):
        write_worker(redis_server, f"here:{number}.a")

    first = page(limit=3)
    second = page(limit=3, after=first.next)

    assert [each.id for each in first.workers] == ["here:0.a", "here:1.a", "here:2.a"]
    assert ([each.id for each in second.workers], second.next) == (["here:3.a", "lost:1.a"], "")
    assert (first.total, first.live, first.held) == (5, 4, {})
    fates = [(second.held[each.id].state, second.held[each.id].is_held) for each in second.workers[-1].runs]
    assert fates == [("running", False), ("running", True), ("", False), ("gone", False)]
    assert 0 < second.held[tasks[1].id].lease_ends_in < 10
