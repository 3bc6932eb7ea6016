"""Whether the processes of a worker get on: a file that is touched, or a port that answers 200, while they do."""

from __future__ import annotations

import json
import logging
import selectors
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from django_redis_components.taskqueue.supervisor.child import Child

logger = logging.getLogger("django_redis_components.taskqueue")

#: Seconds without an answer from Redis after which a process that should fetch is not well; an idle one asks
#: every four seconds.
PROGRESS_S = 15.0
#: Seconds between two touches of the file.
TOUCH_S = 1.0
#: Most callers whose request is awaited at the same time; more wait in the system's queue.
MAX_CALLERS = 16
#: Seconds after which a caller that has not sent its request is hung up on.
CALLER_S = 5.0


class Health:
    """What a supervisor tells others of its processes. With neither file nor port it costs nothing."""

    def __init__(self, file: Path | None = None, address: tuple[str, int] | None = None) -> None:
        """
        Args:
            file: touched once a second while all is well; it exists only then.
            address: where a port is opened.

        Raises:
            ValueError: the file cannot be written, or the port cannot be opened.
        """
        self._file = file
        self._touched_at = float("-inf")
        self._problem = "no process has fetched yet"
        self._begun = False
        self._complained = False
        try:
            if file is not None:
                file.touch()
                file.unlink()
            self.port = Port(*address) if address else None
        except OSError as exc:
            raise ValueError(f"Health cannot be told: {exc}.") from exc

    def watch(self, fd: int) -> int:
        """A descriptor that becomes readable when this one does, or when somebody asks at the port."""
        return self.port.watch(fd) if self.port else fd

    def tell(self, children: Sequence[Child], wanted: int, lease_s: float) -> None:
        """Tell how the processes are, of which there should be so many."""
        problem = problem_of(children, wanted, lease_s, begun=self._begun)
        if self._file or self.port:
            self._log(problem)
        self._begun = self._begun or not problem
        self._problem = problem
        self._publish()

    def stopping(self) -> None:
        """Tell that the worker is about to end."""
        self._problem = "the worker is stopping"
        self._publish()

    def close(self) -> None:
        """Nobody is there any more."""
        if self.port:
            self.port.close()
        if self._file:
            self._file.unlink(missing_ok=True)

    def _log(self, problem: str) -> None:
        if problem and not self._problem:
            logger.warning("Not well: %s.", problem)
        elif self._problem and not problem:
            logger.info("All is well: every process has heard from Redis.")

    def _publish(self) -> None:
        if self._file and not self._problem and time.monotonic() - self._touched_at >= TOUCH_S:
            self._touched_at = time.monotonic()
            self._touch(self._file)
        if self.port:
            self.port.answer(self._problem)

    def _touch(self, file: Path) -> None:
        try:
            file.touch()
        except OSError as exc:
            if not self._complained:
                logger.error("The health file cannot be touched: %s.", exc)
            self._complained = True


def problem_of(children: Sequence[Child], wanted: int, lease_s: float, *, begun: bool) -> str:
    """Why a worker is not well, in words; empty when it is.

    A process is well that has fetched lately, or whose slots are all taken, and whose leases were renewed.

    Args:
        wanted: how many processes there should be.
        begun: all was well before; a process that has just been replaced may then take its time.
    """
    allowed_s = max(PROGRESS_S, lease_s)
    present = sum(not child.beacon.leaving for child in children)
    if present < wanted:
        return f"{present} of {wanted} processes run"
    for child in children:
        silent_s = child.beacon.silent_s
        if not child.fresh(lease_s):
            return f"process {child.pid} gives no sign of life"
        if silent_s is None and not (begun and child.age_s() < allowed_s):
            return f"process {child.pid} has not fetched yet"
        if max(silent_s or 0.0, time.monotonic() - child.renewed_at) > allowed_s:
            return f"process {child.pid} has heard nothing from Redis for more than {allowed_s:.3g} s"
    return ""


class Port:
    """HTTP, as little of it as a probe needs, in the supervisor's one thread: nothing here waits."""

    def __init__(self, host: str, port: int) -> None:
        """Raises: OSError: the port cannot be opened."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=MAX_CALLERS)
        self._listener.setblocking(False)
        self._callers: dict[socket.socket, float] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)

    def watch(self, fd: int) -> int:
        """See `Health.watch`: a selector is itself a descriptor that others can wait for."""
        self._selector.register(fd, selectors.EVENT_READ)
        return self._selector.fileno()

    def answer(self, problem: str) -> None:
        """Answer those who have asked; hang up on those who do not."""
        ready = {key.fileobj for key, _ in self._selector.select(0)}
        for caller in [each for each in self._callers if each in ready]:
            _reply(caller, problem)
            self._hang_up(caller)
        if self._listener in ready:  # last: room is made by hanging up on one who has not asked
            self._admit()
        for caller in [each for each, until in self._callers.items() if until < time.monotonic()]:
            self._hang_up(caller)

    def close(self) -> None:
        """Close what this process has open; a forked process does so too, and the others' stay."""
        for each in (*self._callers, self._listener):
            each.close()
        self._selector.close()

    def _admit(self) -> None:
        if len(self._callers) >= MAX_CALLERS:
            self._hang_up(next(iter(self._callers)))
        try:
            caller, _ = self._listener.accept()
        except OSError:  # gone again
            return
        caller.setblocking(False)
        self._callers[caller] = time.monotonic() + CALLER_S
        self._selector.register(caller, selectors.EVENT_READ)

    def _hang_up(self, caller: socket.socket) -> None:
        del self._callers[caller]
        self._selector.unregister(caller)
        caller.close()


def _reply(caller: socket.socket, problem: str) -> None:
    status = "503 Service Unavailable" if problem else "200 OK"
    body = json.dumps({"status": "unwell" if problem else "ok", "problem": problem}).encode() + b"\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    try:
        asked = caller.recv(4_096)
        caller.sendall(f"{head}Connection: close\r\n\r\n".encode() + (b"" if asked.startswith(b"HEAD ") else body))
    except OSError:  # whoever asked is gone
        return
