"""Health reports of a worker: the file, the port, and the log."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.management.arguments import address
from django_redis_components.taskqueue.supervisor import health
from django_redis_components.taskqueue.supervisor.child import Child
from django_redis_components.taskqueue.supervisor.child_pool import ChildPool
from django_redis_components.taskqueue.supervisor.health import Health, Port, _problem_of
from django_redis_components.taskqueue.worker.ipc import PrefetchedLeases
from django_redis_components.taskqueue.worker.options import WorkerOptions
from tests.support import Proxy, Store, eventually
from tests.support.processes import MEASURED, Children
from tests.taskqueue.support import SITE, Held, queue_worker, running_worker, taskqueue_settings
from tests.taskqueue.tasks import add, hold
from tools.localserver import free_port

#: Seconds that a lease lives, where the test does not say.
LEASE_S = 15.0


class Process:
    """A worker process as far as its supervisor hears of it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        heartbeat_read, self.heartbeat = os.pipe()
        self.life, command_write = os.pipe()
        self.child = Child(
            self.process.pid,
            "host:1",
            heartbeat_read,
            command_write,
            ChildPool(WorkerOptions(("default",))),
            PrefetchedLeases(),
        )

    def report(self, **words: Any) -> Child:
        os.write(self.heartbeat, json.dumps({"leases": {}, **words}).encode() + b"\n")
        self.child.read_heartbeats()
        return self.child

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.heartbeat)
        os.close(self.life)
        self.child.close()


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    yield made
    made.close()


def test_process_with_a_recent_reply_is_healthy(process: Process) -> None:
    child = process.report(no_reply_s=14.0)

    assert _problem_of([child], 1, LEASE_S, was_healthy=False) == ""


def test_process_without_a_recent_reply_is_unhealthy(process: Process) -> None:
    child = process.report(no_reply_s=15.5)

    assert _problem_of([child], 1, LEASE_S, was_healthy=True) == (
        f"process {child.pid} has received no reply from Redis for more than 15 s"
    )
    assert _problem_of([child], 1, 20.0, was_healthy=True) == "", "a longer lease gives more time"


def test_process_with_a_dead_thread_is_unhealthy_until_it_is_replaced(process: Process) -> None:
    child = process.report(no_reply_s=0.0, lost_threads=1, restart_reason="one of its threads has died")

    assert _problem_of([child], 1, LEASE_S, was_healthy=True) == f"0 of 1 threads of process {child.pid} are alive"
    assert json.loads(child.info())["lost_threads"] == 1
    child.is_restarted = True
    assert _problem_of([child], 0, LEASE_S, was_healthy=True) == ""


def test_process_without_lease_renewals_is_unhealthy(process: Process) -> None:
    child = process.report(no_reply_s=0.0)

    child.renewed_at = time.monotonic() - 15.5

    assert "has received no reply from Redis" in _problem_of([child], 1, LEASE_S, was_healthy=True)


def test_process_without_heartbeat_is_unhealthy(process: Process) -> None:
    child = process.report(no_reply_s=0.0)

    child.heartbeat_at = time.monotonic() - 8

    assert _problem_of([child], 1, LEASE_S, was_healthy=True) == f"process {child.pid} sends no heartbeat"


def test_new_process_is_unhealthy_before_its_first_fetch_and_a_replacement_is_not(process: Process) -> None:
    child = process.report()
    text = f"process {child.pid} has not fetched yet"

    assert _problem_of([child], 1, LEASE_S, was_healthy=False) == text
    assert _problem_of([child], 1, LEASE_S, was_healthy=True) == ""
    child.started_at = child.renewed_at = time.monotonic() - 15.5
    assert _problem_of([child], 1, LEASE_S, was_healthy=True) == text


def test_worker_is_unhealthy_while_a_process_is_missing(process: Process) -> None:
    child = process.report(no_reply_s=0.0)
    assert _problem_of([child], 2, LEASE_S, was_healthy=True) == "1 of 2 processes run"

    process.report(no_reply_s=0.0, restart_reason="5 tasks run")

    assert _problem_of([child], 1, LEASE_S, was_healthy=True) == "0 of 1 processes run"


def test_no_reply_s_counts_from_the_last_reply(redis_server: Store, proxy: Proxy) -> None:
    with running_worker(using="proxied") as worker:
        eventually(lambda: worker.no_reply_s() is not None)
        assert worker.no_reply_s() < 5

        proxy.stop_accepting()
        proxy.cut()

        eventually(lambda: worker.no_reply_s() > 0.3)
        proxy.accept_again()
        eventually(lambda: worker.no_reply_s() < 0.3)


def test_no_reply_s_is_zero_while_no_slot_is_free(redis_server: Store) -> None:
    held = Held(redis_server, "a")
    with running_worker() as worker:
        hold.enqueue("a")
        held.started()
        worker.fetcher.replied_at = time.monotonic() - 60
        assert worker.no_reply_s() == 0.0

        held.release()
        eventually(lambda: held.ends() and not worker.busy())
        worker.fetcher.replied_at = time.monotonic() - 60

        assert worker.no_reply_s() < 30, "the time counts from when the slot was free"
    assert worker.no_reply_s() == 0.0


def test_health_file_is_touched_while_healthy(process: Process, tmp_path: Path) -> None:
    file = tmp_path / "healthy"
    file.touch()
    reporter = Health(file)
    assert not file.exists(), "that of an earlier worker says nothing"
    reporter.update([process.report()], 1, LEASE_S)
    assert not file.exists()

    reporter.update([process.report(no_reply_s=0.0)], 1, LEASE_S)
    assert file.exists()
    os.utime(file, (1, 1))
    reporter.update([process.child], 1, LEASE_S)
    assert file.stat().st_mtime == 1, "once a second is enough"
    reporter.touched_at -= 1
    reporter.update([process.child], 1, LEASE_S)
    assert file.stat().st_mtime > 1

    os.utime(file, (1, 1))
    reporter.touched_at -= 1
    reporter.update([], 1, LEASE_S)
    reporter.set_stopping()
    assert file.stat().st_mtime == 1
    reporter.close()
    assert not file.exists()


def test_changes_of_health_are_logged(process: Process, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    reporter = Health(tmp_path / "healthy")
    child = process.report(no_reply_s=0.0)

    for children in ([], [child], [], [], [child]):
        reporter.update(children, 1, LEASE_S)

    assert [record.getMessage() for record in caplog.records] == [
        "Healthy: every process has received a reply from Redis.",
        "Unhealthy: 0 of 1 processes run.",
        "Healthy: every process has received a reply from Redis.",
    ]


def test_health_without_file_and_port_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    reporter = Health()

    reporter.update([], 1, LEASE_S)
    reporter.set_stopping()
    reporter.close()

    assert caplog.records == []
    assert reporter.watch(7) == 7


def test_untouchable_health_file_is_logged_once(
    process: Process, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "gone").mkdir()
    reporter = Health(tmp_path / "gone" / "healthy")
    (tmp_path / "gone").rmdir()

    for _ in range(3):
        reporter.touched_at = float("-inf")
        reporter.update([process.report(no_reply_s=0.0)], 1, LEASE_S)

    [text] = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert text.startswith("Cannot touch the health file: ")


@pytest.fixture
def port() -> Iterator[Port]:
    made = Port("127.0.0.1", 0)
    yield made
    made.close()


def number_of(port: Port) -> int:
    return port.address[1]


def call(port: Port, request: bytes) -> socket.socket:
    caller = socket.create_connection(("127.0.0.1", number_of(port)))
    caller.sendall(request)
    return caller


def answered(port: Port, caller: socket.socket, problem: str = "") -> bytes:
    caller.settimeout(0.01)
    text = b""

    def ended() -> bool:
        nonlocal text
        port.respond(problem)
        try:
            part = caller.recv(4_096)
        except TimeoutError:
            return False
        text += part
        return not part

    eventually(ended)
    caller.close()
    return text


@pytest.mark.parametrize(
    ("problem", "status", "body"),
    [
        ("", b"200 OK", {"status": "ok", "problem": ""}),
        ("it burns", b"503 Service Unavailable", {"status": "unhealthy", "problem": "it burns"}),
    ],
)
def test_port_responds_with_the_status(port: Port, problem: str, status: bytes, body: dict[str, str]) -> None:
    text = answered(port, call(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), problem)

    head, _, rest = text.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status + b"\r\n")
    assert json.loads(rest) == body
    assert f"Content-Length: {len(rest)}".encode() in head


def test_head_request_gets_no_body(port: Port) -> None:
    text = answered(port, call(port, b"HEAD / HTTP/1.1\r\n\r\n"))

    assert text.startswith(b"HTTP/1.1 200 OK\r\n")
    assert text.endswith(b"\r\n\r\n")


def test_connections_without_a_request_do_not_block_others(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = [call(port, b"") for _ in range(health.MAX_CONNECTIONS)]
    eventually(lambda: port.respond("") or port.connections() == health.MAX_CONNECTIONS)

    assert answered(port, call(port, b"GET / HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
    assert port.connections() == health.MAX_CONNECTIONS - 1

    later = time.monotonic() + health.REQUEST_TIMEOUT_S + 1
    monkeypatch.setattr(health, "time", SimpleNamespace(monotonic=lambda: later))
    port.respond("")
    assert port.connections() == 0
    assert [caller.recv(1) for caller in silent] == [b""] * health.MAX_CONNECTIONS
    for caller in silent:
        caller.close()


def test_a_request_on_a_connection_that_is_closed_for_another_is_harmless(port: Port) -> None:
    callers = [call(port, b"") for _ in range(health.MAX_CONNECTIONS)]
    eventually(lambda: port.respond("") or port.connections() == health.MAX_CONNECTIONS)
    late = call(port, b"GET / HTTP/1.0\r\n\r\n")
    for caller in callers:  # the oldest among them, whose place the late one gets
        caller.sendall(b"GET / HTTP/1.0\r\n\r\n")
    eventually(lambda: len(port.selector.select(0)) == health.MAX_CONNECTIONS + 1)

    assert answered(port, late).startswith(b"HTTP/1.1 200 OK")

    assert port.connections() == 0
    for caller in callers:
        caller.close()


def test_a_closed_connection_is_removed(port: Port) -> None:
    caller = call(port, b"")
    eventually(lambda: port.respond("") or port.connections())
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # the end is a reset

    caller.close()

    eventually(lambda: port.respond("") or not port.connections())


def test_a_connection_that_was_closed_before_accept_is_ignored(port: Port) -> None:
    port.accept()

    assert port.connections() == 0


def test_watched_descriptor_is_readable_for_callers_and_for_the_given_descriptor(port: Port) -> None:
    read_fd, write_fd = os.pipe()
    watched = port.watch(read_fd)
    select = Port.__init__.__globals__["selectors"].DefaultSelector()
    select.register(watched, 1)
    assert not select.select(0)

    os.write(write_fd, b"x")
    assert select.select(5)
    port.respond("")
    os.read(read_fd, 1)
    assert not select.select(0)
    caller = call(port, b"")
    assert select.select(5)

    caller.close()
    select.close()
    os.close(read_fd)
    os.close(write_fd)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("8080", ("", 8080)), ("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:65535", ("::1", 65535))],
)
def test_address_is_parsed(text: str, expected: tuple[str, int]) -> None:
    assert address(text) == expected


@pytest.mark.parametrize("text", ["", "0", "65536", "many", "::1", "host:"])
def test_invalid_address_is_refused(text: str) -> None:
    if text == "::1":
        assert address(text) == (":", 1), "a port alone may follow the last colon"
        return
    with pytest.raises(ArgumentTypeError) as raised:
        address(text)

    assert str(raised.value) == f"{text!r}: expected a port from 1 to 65535, or ADDRESS:PORT."


def test_unusable_file_or_port_is_refused_at_start(redis_server: Store, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(CommandError, match=r"^Cannot report health: .*Address already in use"):
            call_command("runworker", "--health-port", f"127.0.0.1:{number}")
    with pytest.raises(CommandError, match=r"^Cannot report health: .*No such file or directory"):
        call_command("runworker", "--health-file", str(tmp_path / "nowhere" / "healthy"))


def status_of(number: int, host: str = "127.0.0.1") -> int:
    connection = http.client.HTTPConnection(host, number, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def test_worker_reports_its_health(
    redis_server: Store, proxy: Proxy, children: Children, settings: Any, tmp_path: Path
) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": proxy.url}}}
    taskqueue_settings(settings, LEASE=4)
    number, file = free_port(), tmp_path / "healthy"
    worker = children.call("tests.taskqueue.processes:worker_that_tells", number, str(file), env=SITE | MEASURED)
    eventually(lambda: status_of(number) == 200)
    eventually(file.exists)
    assert status_of(number, "localhost") == 200

    proxy.stop_accepting()
    proxy.cut()
    eventually(lambda: status_of(number) == 503)
    worker.wait_for("has received no reply from Redis for more than 4 s.")
    touched_at = file.stat().st_mtime
    proxy.accept_again()
    eventually(lambda: status_of(number) == 200)
    eventually(lambda: file.stat().st_mtime > touched_at)

    worker.terminate()
    worker.wait_for("done 0")
    assert not file.exists()
    assert status_of(number) == 0


def test_busy_worker_is_healthy_and_a_killed_supervisor_frees_the_port(
    redis_server: Store, children: Children, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=60, GRACE=20)  # a worker without supervisor returns its tasks before it expires
    number, held = free_port(), Held(redis_server, "a")
    worker = queue_worker(children, "--threads", "1", "--health-port", f"127.0.0.1:{number}")
    eventually(lambda: status_of(number) == 200)
    result = hold.enqueue("a")
    held.started()
    eventually(lambda: status_of(number) == 200)

    worker.kill()

    assert status_of(number) == 0, "the worker process does not hold the port"
    held.release()
    assert result.get(60) == "a"
    assert add.enqueue(1, 2).state == "ready"
