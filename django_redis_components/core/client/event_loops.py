"""What connections need of an event loop: waits that count no time in which it is busy, and closing at once.

A thread's waits count the time of the kernel, so that only the timeouts while it connects are here.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal

from redis.exceptions import TimeoutError

from django_redis_components.core.polling import POLLIN, new_poller

#: Seconds of a part of a timeout. After each part in which the server did not answer, the wait is reported.
PART_S = 0.1
#: Seconds until a task that has not ended is cancelled again.
CANCEL_AGAIN_S = 0.05


@contextlib.contextmanager
def limited_reads(redis_connection: Any) -> Iterator[None]:
    """Limit the time in which a connection is opened; redis-py limits each single read."""
    parser, started_at, waited_s = redis_connection._parser, time.monotonic(), 0.0
    read = parser.read_from_socket

    def read_in_time(**options: Any) -> Any:
        nonlocal waited_s
        waited_s = waited_s or time.monotonic() - started_at
        left_s = redis_connection.socket_timeout - waited_s
        if left_s <= 0:
            raise TimeoutError("Timeout reading from socket")
        has_arrived, asked_at = is_readable(parser._sock), time.monotonic()
        try:
            return read(**{**options, "timeout": left_s})
        finally:
            waited_s += 0.0 if has_arrived else time.monotonic() - asked_at

    parser.read_from_socket = read_in_time
    try:
        yield
    finally:
        del parser.read_from_socket


@contextlib.contextmanager
def shorter_timeouts(redis_connection: Any, timeout_s: float | None) -> Iterator[None]:
    """Limit the timeouts of a connection while it is opened."""
    before = redis_connection.socket_timeout, redis_connection.socket_connect_timeout
    if timeout_s is not None:
        redis_connection.socket_timeout = min(before[0], timeout_s)
        redis_connection.socket_connect_timeout = min(before[1], timeout_s)
    try:
        yield
    finally:
        redis_connection.socket_timeout, redis_connection.socket_connect_timeout = before


async def finish(task: asyncio.Future[Any], limit_s: float) -> float:
    """Wait for a task, and return the seconds in which the event loop was busy meanwhile.

    Args:
        limit_s: seconds, without those, after which the task is cancelled.
    """
    loop, busy_s, left_s = asyncio.get_running_loop(), 0.0, limit_s
    try:
        while not task.done():
            if left_s <= 0:
                raise TimeoutError("Timeout connecting to server")
            started_at = loop.time()
            await asyncio.wait([task], timeout=min(PART_S, left_s))
            busy_s += max(0.0, loop.time() - started_at - PART_S)
            left_s -= PART_S
    except (TimeoutError, asyncio.CancelledError):
        await _cancel(task)
        raise
    return busy_s


async def wait_at_most(task: asyncio.Future[Any], seconds: float) -> None:
    """Wait for a task that others wait for as well, at most this long without the time in which the loop is busy."""
    while not task.done() and seconds > 0:
        await asyncio.wait([task], timeout=min(PART_S, seconds))
        seconds -= PART_S


async def _cancel(task: asyncio.Future[Any]) -> None:
    """Cancel a task until it has ended: it may lose a cancellation, and this task may be cancelled again meanwhile."""
    while not task.done():
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=CANCEL_AGAIN_S)
    if not task.cancelled():
        task.exception()  # retrieved, or asyncio logs it


def sync_request_limit(_: int | None, __: float | None) -> threading.Semaphore | None:
    """Return no limit: each thread has one request at a time, and threads are few."""
    return None


def async_request_limit(limit: int | None, wait_s: float | None) -> asyncio.Semaphore | None:
    """Return a limit of concurrent requests; None: unlimited.

    Args:
        limit: None for unlimited.
        wait_s: seconds that a request waits for others to finish; None: as long as they take.
    """
    if limit is None:
        return None
    return asyncio.Semaphore(limit) if wait_s is None else _PatientSemaphore(limit, wait_s)


class _PatientSemaphore(asyncio.Semaphore):
    """A semaphore whose callers wait for a limited time, in which the event loop is not busy."""

    def __init__(self, limit: int, wait_s: float) -> None:
        super().__init__(limit)
        self._wait_s = wait_s

    async def acquire(self) -> Literal[True]:
        """See the base class.

        Raises:
            TimeoutError: the callers before this one have not finished in time.
        """
        if not self.locked():
            return await super().acquire()
        wait_s = self._wait_s
        while True:
            try:
                async with asyncio.timeout(wait_s) as timer:
                    return await super().acquire()
            except builtins.TimeoutError:
                late_s = asyncio.get_running_loop().time() - (timer.when() or 0.0)
                if late_s < PART_S:
                    raise TimeoutError(f"All connections were in use for {self._wait_s:g} s.") from None
                wait_s = min(late_s, wait_s)


def has_arrived(transport: Any) -> bool:
    """Return whether the socket can be read: a busy event loop has not read yet what has arrived."""
    return is_readable(transport.get_extra_info("socket"))


def is_readable(sock: Any) -> bool:
    """Return whether a socket can be read without waiting."""
    poller = new_poller()
    poller.register(sock.fileno(), POLLIN)
    return bool(poller.poll(0))


def abort(transport: Any) -> None:
    """Close a transport at once. One whose loop has ended cannot do so itself: call the last step it would take."""
    try:
        transport.abort()
    except RuntimeError:  # the loop is closed
        plain = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None) or transport
        with contextlib.suppress(RuntimeError, AttributeError):  # TLS would have the loop notify the stream
            plain._call_connection_lost(None)
