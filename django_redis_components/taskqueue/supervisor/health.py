"""Health checks: a file that is touched, or a port that responds with 200, while all processes are healthy."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.supervisor.child import Child

#: Seconds without a reply from Redis after which a process with a free thread is unhealthy. An idle process fetches
#: every four seconds.
MAX_NO_REPLY_S = 15.0
#: Seconds between two touches of the file.
TOUCH_S = 1.0
#: Concurrent connections at most; more wait in the system's queue.
MAX_CONNECTIONS = 16
#: Seconds after which a connection without a request is closed.
REQUEST_TIMEOUT_S = 5.0


class Health:
    """The health of a supervisor's processes. Without file and port it costs nothing."""

    def __init__(self, file: Path | None = None, address: tuple[str, int] | None = None) -> None:
        """
        Args:
            file: touched once a second while the worker is healthy; it exists only then.
            address: of the port.

        Raises:
            ValueError: the file cannot be written, or the port cannot be opened.
        """
        self._file = file
        self.touched_at = float("-inf")
        self._problem = "no process has fetched yet"
        self._was_healthy = False
        self._has_logged_error = False
        try:
            if file is not None:
                file.touch()
                file.unlink()
            self.port = Port(*address) if address else None
        except OSError as exc:
            raise ValueError(f"Cannot report health: {exc}.") from exc

    def watch(self, fd: int) -> int:
        """Return a descriptor that is readable when `fd` is or when the port has a request."""
        return self.port.watch(fd) if self.port else fd

    def update(self, children: Sequence[Child], processes: int, lease_s: float) -> None:
        """Report the state of these processes.

        Args:
            processes: how many there should be.
        """
        problem = _problem_of(children, processes, lease_s, was_healthy=self._was_healthy)
        if self._file or self.port:
            self._log(problem)
        self._was_healthy = self._was_healthy or not problem
        self._problem = problem
        self._publish()

    def set_stopping(self) -> None:
        """Report that the worker is stopping."""
        self._problem = "the worker is stopping"
        self._publish()

    def close(self) -> None:
        """Close the port and remove the file."""
        if self.port:
            self.port.close()
        if self._file:
            self._file.unlink(missing_ok=True)

    def _log(self, problem: str) -> None:
        if problem and not self._problem:
            logger.warning("Unhealthy: %s.", problem)
        elif self._problem and not problem:
            logger.info("Healthy: every process has received a reply from Redis.")

    def _publish(self) -> None:
        if self._file and not self._problem and time.monotonic() - self.touched_at >= TOUCH_S:
            self.touched_at = time.monotonic()
            self._touch(self._file)
        if self.port:
            self.port.respond(self._problem)

    def _touch(self, file: Path) -> None:
        try:
            file.touch()
        except OSError as exc:
            if not self._has_logged_error:
                logger.error("Cannot touch the health file: %s.", exc)
            self._has_logged_error = True


def _problem_of(children: Sequence[Child], processes: int, lease_s: float, *, was_healthy: bool) -> str:
    """Return why a worker is unhealthy; empty if it is healthy.

    A process is healthy if it has fetched lately or all its threads are busy, its leases are renewed, and all its
    threads are alive.

    Args:
        processes: how many there should be.
        was_healthy: whether the worker was healthy before; a new process then has time for its first fetch.
    """
    allowed_s = max(MAX_NO_REPLY_S, lease_s)
    for child in children:
        if child.heartbeat.lost_threads and not child.is_restarted:
            threads = child.pool.current.threads
            alive = max(0, threads - child.heartbeat.lost_threads)
            return f"{alive} of {threads} threads of process {child.pid} are alive"
    present = sum(not child.heartbeat.restart_reason for child in children)
    if present < processes:
        return f"{present} of {processes} processes run"
    for child in children:
        no_reply_s = child.heartbeat.no_reply_s
        if not child.is_fresh(lease_s):
            return f"process {child.pid} sends no heartbeat"
        if no_reply_s is None and not (was_healthy and child.age_s() < allowed_s):
            return f"process {child.pid} has not fetched yet"
        if max(no_reply_s or 0.0, time.monotonic() - child.renewed_at) > allowed_s:
            return f"process {child.pid} has received no reply from Redis for more than {allowed_s:.3g} s"
    return ""


class Port:
    """A minimal HTTP server for probes, in the supervisor's one thread: no call blocks.

    Attributes:
        address: what the port listens on.
    """

    def __init__(self, host: str, port: int) -> None:
        """
        Raises:
            OSError: the port cannot be opened.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=MAX_CONNECTIONS)
        self._listener.setblocking(False)
        self.address = self._listener.getsockname()
        self._connections: dict[socket.socket, float] = {}
        self.selector = selectors.DefaultSelector()
        self.selector.register(self._listener, selectors.EVENT_READ)

    def watch(self, fd: int) -> int:
        """See `Health.watch`: a selector is itself a descriptor to wait for."""
        self.selector.register(fd, selectors.EVENT_READ)
        return self.selector.fileno()

    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self._connections)

    def respond(self, problem: str) -> None:
        """Respond to requests, accept connections, and close those without a request."""
        ready = {key.fileobj for key, _ in self.selector.select(0)}
        for connection in [each for each in self._connections if each in ready]:
            _send_response(connection, problem)
            self._close(connection)
        if self._listener in ready:  # last, because it may close a connection without a request
            self.accept()
        for connection in [each for each, until in self._connections.items() if until < time.monotonic()]:
            self._close(connection)

    def close(self) -> None:
        """Close all sockets. A forked process calls this too; it does not affect the parent's."""
        for each in (*self._connections, self._listener):
            each.close()
        self.selector.close()

    def accept(self) -> None:
        """Accept a connection."""
        if len(self._connections) >= MAX_CONNECTIONS:
            self._close(next(iter(self._connections)))
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the client has closed it meanwhile
            return
        connection.setblocking(False)
        self._connections[connection] = time.monotonic() + REQUEST_TIMEOUT_S
        self.selector.register(connection, selectors.EVENT_READ)

    def _close(self, connection: socket.socket) -> None:
        del self._connections[connection]
        self.selector.unregister(connection)
        connection.close()


def _send_response(connection: socket.socket, problem: str) -> None:
    status = "503 Service Unavailable" if problem else "200 OK"
    body = json.dumps({"status": "unhealthy" if problem else "ok", "problem": problem}).encode() + b"\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    try:
        request = connection.recv(4_096)
        body = b"" if request.startswith(b"HEAD ") else body
        connection.sendall(f"{head}Connection: close\r\n\r\n".encode() + body)
    except OSError:  # the client has closed the connection
        return
