"""What connections need of an event loop: waits that count no time in which it is busy, and closing at once.

A thread's waits count the time of the kernel, so that only the timeouts while it connects are here.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Literal

from redis.exceptions import TimeoutError

#: Seconds of a part of a timeout. After each part in which the server did not answer, the wait is reported.
PART_S = 0.1
#: Seconds until a task that has not ended is cancelled again.
CANCEL_AGAIN_S = 0.05


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


async def finish(task: asyncio.Future[Any]) -> float:
    """Wait for a task, and return the seconds in which the event loop was busy meanwhile."""
    loop, busy_s = asyncio.get_running_loop(), 0.0
    try:
        while not task.done():
            started_at = loop.time()
            await asyncio.wait([task], timeout=PART_S)
            busy_s += max(0.0, loop.time() - started_at - PART_S)
    except asyncio.CancelledError:
        await _cancel(task)
        raise
    return busy_s


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


def abort(transport: Any) -> None:
    """Close a transport at once. One whose loop has ended cannot do so itself: call the last step it would take."""
    try:
        transport.abort()
    except RuntimeError:  # the loop is closed
        plain = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None) or transport
        with contextlib.suppress(RuntimeError, AttributeError):  # TLS would have the loop notify the stream
            plain._call_connection_lost(None)
