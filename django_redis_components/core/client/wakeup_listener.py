"""A bell that is waited for with a timer of our own.

An idle server ends a blocking command 5 to 99 ms after its timeout, so whoever must act at a
moment (the next due task) leaves the block outstanding and watches the socket with a local timer.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Sequence

from redis.exceptions import AskError, RedisError, TimeoutError, TryAgainError

from django_redis_components.core.client.clients import SyncClient
from django_redis_components.core.client.links import SyncConnection
from django_redis_components.core.client.server import block_slice
from django_redis_components.core.client.slot_migration import pause_s


class WakeupListener:
    """Waits for the first of several bells (zsets of one slot) on a link of its own. For one thread.

    `wait` may be left by its timer while the block is outstanding; the next `wait` goes on with it.

    Attributes:
        rung: the bell that rang last; empty before the first.
    """

    def __init__(self, client: SyncClient, bells: Sequence[str], wake_fd: int | None = None) -> None:
        """Args: wake_fd: a file descriptor whose readability also ends a wait (a signal, a stop)."""
        self._client = client
        self._bells = tuple(bells)
        self._wake_fd = wake_fd
        self._link: SyncConnection | None = None
        self.last_key = ""
        #: When the server's reply to the outstanding block is overdue (monotonic); None without a block.
        self._overdue_at: float | None = None

    def wait(self, seconds: float) -> bool:
        """Wait until a bell rings, the wake descriptor is readable, or `seconds` have passed.

        Returns:
            True if a bell rang. The bell is used up by this.

        Raises:
            redis.exceptions.RedisError: the server is away; the next wait connects again.
        """
        deadline = time.monotonic() + seconds
        try:
            return self._wait(deadline)
        except RedisError as exc:
            self.close()
            self._client.reset_topology()
            if self._client.endpoint.kind != "cluster" or not isinstance(exc, AskError | TryAgainError):
                raise
        # The slot is being moved, or has moved. Whoever waits looks again after a wait anyway, and waits as all do.
        self._pause(min(pause_s(), deadline - time.monotonic()))
        return False

    def close(self) -> None:
        """Give up the outstanding block and the link."""
        link, self._link, self._overdue_at = self._link, None, None
        if link is not None:
            link.close()

    def _wait(self, deadline: float) -> bool:
        while True:
            link, overdue_at = self._ask()
            ready = self._ready(link, min(deadline, overdue_at) - time.monotonic())
            if link.fileno() in ready:
                if self._answer(link):
                    return True
            elif time.monotonic() >= overdue_at:
                raise TimeoutError(f"{self._client.endpoint} did not end a blocking command in time.")
            if self._wake_fd in ready or time.monotonic() >= deadline:
                return False

    def _ask(self) -> tuple[SyncConnection, float]:
        """The link, with a block outstanding on it, and when its answer is overdue."""
        if self._link is None:
            self._link = self._client.open_connection(self._bells[0])
        if self._overdue_at is None:
            settings = self._client.endpoint.settings
            self._link.send("BZPOPMIN", *self._bells, f"{block_slice(settings, math.inf):.3f}")
            self._overdue_at = time.monotonic() + settings.socket_timeout_s
        return self._link, self._overdue_at

    def _pause(self, seconds: float) -> None:
        """Let some time pass, unless the wake descriptor is readable."""
        poller = select.poll()
        if self._wake_fd is not None:
            poller.register(self._wake_fd, select.POLLIN)
        poller.poll(max(0.0, seconds * 1_000))

    def _ready(self, link: SyncConnection, seconds: float) -> set[int]:
        """The descriptors that can be read within this time, or none somewhat before it has passed.

        `poll`, because `select` ends at descriptor 1023. It counts in whole milliseconds, so the last one is slept.
        """
        poller = select.poll()
        poller.register(link.fileno(), select.POLLIN)
        if self._wake_fd is not None:
            poller.register(self._wake_fd, select.POLLIN)
        whole_ms = max(0, math.floor(seconds * 1_000))
        if not whole_ms:
            time.sleep(max(0.0, seconds))
        return {descriptor for descriptor, _ in poller.poll(whole_ms)}

    def _answer(self, link: SyncConnection) -> bool:
        """Whether a bell rang; the server also answers when the block has lasted its time."""
        reply = link.read()
        self._overdue_at = None
        if reply is None:
            return False
        self.last_key = reply[0].decode()
        return True
