"""The lock of many readers or one writer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Unpack

from django_redis_components.core import keys
from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing import wait_queue
from django_redis_components.core.leasing.lease import Lease, local_deadline
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.protocol import Batch, Call, Flow, Read, arun, run
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.locks.base import BaseLock
from django_redis_components.locks.lock_scripts import confirmed
from django_redis_components.locks.options import LockOptions
from django_redis_components.locks.scripts import ABANDON_RW, ACQUIRE_RW, EXTEND_RW, RELEASE_RW
from django_redis_components.locks.state import ReadWriteState, inspect_readwrite, readwrite_keys

#: What the tokens of readers and of writers end in.
READER, WRITER = ":r", ":w"


class ReadWriteScripts:
    """The requests of one side of a `ReadWriteLock`."""

    def __init__(self, name: str, timeout: Seconds, suffix: str) -> None:
        """Args: suffix: `READER` or `WRITER`."""
        self.name = keys.validate_name(name, "lock name")
        self.ttl_ms = to_ms(timeout, "timeout")
        self._suffix = suffix
        self._made_keys: dict[str, str] | None = None

    @property
    def keys(self) -> dict[str, str]:
        """Made on first use: a lock may stand in a module that is imported before the settings."""
        if self._made_keys is None:
            self._made_keys = readwrite_keys(self.name)
        return self._made_keys

    @property
    def identity(self) -> str:
        """Which side of which lock."""
        return self.keys["writer"] + self._suffix

    @property
    def ack_keys(self) -> Sequence[str]:
        """A key beside the others: all are on one node."""
        return (keys.key("locks", self.name, "rw", "ack"),)

    def acquire(
        self, queue: wait_queue.WaitQueue, wait_limit_s: float, token: str | None, acquisition: Acquisition
    ) -> Flow[bool]:
        """Enter; False if others are in the way."""
        if token is not None:
            token = self._complete(token)
        base = self.keys["writer"]
        scripts = (self._ask, self._abandon)
        return queue.acquire(base, *scripts, wait_limit_s, acquisition, suffix=self._suffix, token=token)

    def read(self, token: str) -> Flow[Lease | None]:
        """The lease that this token holds on this side, as it is."""
        token = self._complete(token)
        requested_at = time.monotonic()
        if self._suffix == WRITER:
            state = yield from inspect_readwrite(self.name)
            left_ms = state.remaining * 1_000 if state.writer == token else 0.0
            grant = state.fencing_token or 0
        else:
            left_ms, grant = (yield from self._reader_ms(token)), 1
        return Lease(token, local_deadline(requested_at, int(left_ms)), grant) if left_ms > 0 else None

    def release(self, token: str) -> Sequence[Call]:
        """Leave."""
        release = RELEASE_RW(**self.keys, token=token, handoff_ms=wait_queue.HANDOFF_MS)
        return (confirmed(release, self.keys["writer"]),)

    def extend(self, token: str, ttl_ms: int) -> Sequence[Call]:
        """Make the lease last at least that long from now."""
        made = {part: self.keys[part] for part in ("writer", "readers", "fence")}
        return (EXTEND_RW(**made, token=token, ttl_ms=ttl_ms),)

    def owned(self, token: str) -> Flow[bool]:
        """Whether the server says that this token is in."""
        if self._suffix == WRITER:
            return bool((yield Read("GET", self.keys["writer"])) == token.encode())
        return (yield from self._reader_ms(token)) > 0

    def locked(self) -> Flow[bool]:
        """Whether anybody is in."""
        state = yield from inspect_readwrite(self.name)
        return state.writer is not None or state.reading > 0

    def _complete(self, token: str) -> str:
        return token if token.endswith(self._suffix) else token + self._suffix

    def _reader_ms(self, token: str) -> Flow[float]:
        """Milliseconds that are left to a reader; 0 or less for none."""
        readers = self.keys["readers"]
        until_ms, now = yield Batch([Read("ZSCORE", readers, token), Read("TIME", key=readers)])
        return 0.0 if until_ms is None else float(until_ms) - int(now[0]) * 1_000 - int(now[1]) / 1_000

    def _ask(self, token: str, wait: bool) -> Call:
        return ACQUIRE_RW(
            **self.keys,
            token=token,
            ttl_ms=self.ttl_ms,
            wait=int(wait),
            handoff_ms=wait_queue.HANDOFF_MS,
        )

    def _abandon(self, token: str) -> Call:
        return ABANDON_RW(**self.keys, token=token, handoff_ms=wait_queue.HANDOFF_MS)


class ReadLock(BaseLock):
    """The readers' side: shared with other readers, never with a writer. Made by `ReadWriteLock.read`."""

    def __init__(self, name: str, *, timeout: Seconds, **options: Unpack[LockOptions]) -> None:
        super().__init__(name, ReadWriteScripts(name, timeout, READER), timeout=timeout, **options)

    @property
    def fencing_token(self) -> int | None:
        """None: a reader writes nothing."""
        return None


class WriteLock(BaseLock):
    """The writers' side: alone. Made by `ReadWriteLock.write`."""

    def __init__(self, name: str, *, timeout: Seconds, **options: Unpack[LockOptions]) -> None:
        super().__init__(name, ReadWriteScripts(name, timeout, WRITER), timeout=timeout, **options)


class ReadWriteLock:
    """Many readers at once, or one writer, among all processes that use this name.

    Whoever came first is served first: a reader that comes while a writer waits, waits behind it, so that
    readers cannot starve writers; a release lets in the next writer, or all readers up to it. Each reader has
    a lease of its own on the server's clock, so a reader that died stops writers no longer than its lease.

    A holder of one side that asks for the other waits for itself: it must leave first. `Lock` and `MultiLock`
    of this name do not know this one.

    Args:
        name: 1 to 200 bytes, without control characters and braces.
        timeout: seconds of a lease.
        options: those of `Lock`, but for `fair`, for both sides.

    Raises:
        TypeError, ValueError: an argument is not of this kind.
    """

    def __init__(self, name: str, *, timeout: Seconds = 30.0, **options: Unpack[LockOptions]) -> None:
        self.name = name
        self._timeout = timeout
        self._options = options
        self._using = options.get("using", "default")
        self.write()  # says what is wrong with the arguments

    def __repr__(self) -> str:
        return f"<ReadWriteLock {self.name!r}>"

    def read(self) -> ReadLock:
        """A lock of the readers' side, for `with` or `acquire`."""
        return ReadLock(self.name, timeout=self._timeout, **self._options)

    def write(self) -> WriteLock:
        """A lock of the writers' side, for `with` or `acquire`."""
        return WriteLock(self.name, timeout=self._timeout, **self._options)

    def inspect(self) -> ReadWriteState:
        """Who is in and who waits: one script that changes nothing."""
        return run(client(self._using), inspect_readwrite(self.name))

    async def ainspect(self) -> ReadWriteState:
        """See `inspect`."""
        return await arun(aclient(self._using), inspect_readwrite(self.name))
