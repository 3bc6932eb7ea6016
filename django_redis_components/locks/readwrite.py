"""The lock of many readers or one writer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Unpack

from django_redis_components.core import keys
from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing.calls import ReleaseCall, with_confirm
from django_redis_components.core.leasing.holder import describe_caller
from django_redis_components.core.leasing.lease import Lease, local_deadline
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.leasing.wait_queue import HANDOFF_MS, WaitQueue, with_suffix
from django_redis_components.core.protocol import Batch, Call, Flow, Read, arun, run
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.locks.base import BaseLock, LockOptions
from django_redis_components.locks.scripts import (
    ABANDON_READWRITE,
    ACQUIRE_READWRITE,
    CONFIRM,
    EXTEND_READWRITE,
    RELEASE_READWRITE,
)
from django_redis_components.locks.state import ReadWriteState, inspect_readwrite, readwrite_keys

#: What the tokens of readers and of writers end in.
READER, WRITER = ":r", ":w"


class ReadWriteScripts:
    """The requests of one side of a `ReadWriteLock`."""

    def __init__(self, name: str, suffix: str, timeout: Seconds = 1.0) -> None:
        """Args: suffix: `READER` or `WRITER`."""
        self.name = keys.validate_name(name, "lock name")
        self.ttl_ms = to_ms(timeout, "timeout")
        self._suffix = suffix
        self._made_keys: dict[str, str] | None = None

    @property
    def keys(self) -> dict[str, str]:
        """Built on first use: a lock may be created in a module that is imported before the settings."""
        if self._made_keys is None:
            self._made_keys = readwrite_keys(self.name)
        return self._made_keys

    @property
    def base(self) -> str:
        """The writer's key."""
        return self.keys["writer"]

    @property
    def identity(self) -> str:
        """The lock and the side."""
        return self.base + self._suffix

    @property
    def ack_keys(self) -> Sequence[str]:
        """A key in the lock's slot."""
        return (keys.key("locks", self.name, "rw", "ack"),)

    def token_suffix(self, acquisition: Acquisition) -> str:
        """Return the suffix of this side."""
        return self._suffix

    def acquire(self, token: str, wait: bool) -> Call:
        """Request this side, or a place in the queue."""
        return ACQUIRE_READWRITE(
            **self.keys,
            token=token,
            description=describe_caller(),
            ttl_ms=self.ttl_ms,
            wait=int(wait),
            handoff_ms=HANDOFF_MS,
        )

    def refuse(self, acquisition: Acquisition, reply: Sequence[int]) -> None:
        """Do nothing: there is one reason."""

    def abandon(self, token: str) -> Call:
        """Give up place and grant."""
        return ABANDON_READWRITE(**self.keys, token=token, handoff_ms=HANDOFF_MS)

    def release(self, token: str) -> Sequence[ReleaseCall]:
        """Release this side."""
        release = RELEASE_READWRITE(**self.keys, token=token, released_by="", handoff_ms=HANDOFF_MS)
        return (with_confirm(release, CONFIRM(base=self.base, handoff_ms=HANDOFF_MS)),)

    def extend(self, token: str, ttl_ms: int) -> Sequence[Call]:
        """Make the lease last at least that long from now."""
        made = {part: self.keys[part] for part in ("writer", "readers", "fence")}
        return (EXTEND_READWRITE(**made, token=token, ttl_ms=ttl_ms),)

    def read(self, token: str) -> Flow[Lease | None]:
        """Return the lease of this token on this side, as it is."""
        token = with_suffix(token, self._suffix)
        requested_at = time.monotonic()
        if self._suffix == WRITER:
            state = yield from inspect_readwrite(self.name)
            left_ms = state.remaining * 1_000 if state.writer == token else 0.0
            grant = state.fencing_token or 0
        else:
            left_ms, grant = (yield from self._reader_ms(token)), 1
        return Lease(token, local_deadline(requested_at, int(left_ms)), grant) if left_ms > 0 else None

    def owned(self, token: str) -> Flow[bool]:
        """Return whether this token holds this side."""
        if self._suffix == WRITER:
            return bool((yield Read("GET", self.base)) == token.encode())
        return (yield from self._reader_ms(token)) > 0

    def locked(self) -> Flow[bool]:
        """Return whether a reader or the writer holds the lock."""
        state = yield from inspect_readwrite(self.name)
        return state.writer is not None or state.reading > 0

    def _reader_ms(self, token: str) -> Flow[float]:
        """Return the milliseconds that are left to a reader; 0 or less without a lease."""
        readers = self.keys["readers"]
        expires_ms, now = yield Batch([Read("ZSCORE", readers, token), Read("TIME", key=readers)])
        return 0.0 if expires_ms is None else float(expires_ms) - int(now[0]) * 1_000 - int(now[1]) / 1_000


class ReadLock(BaseLock):
    """The readers' side: shared with other readers, never with a writer. `ReadWriteLock.read` returns it."""

    def __init__(self, name: str, *, timeout: Seconds = 30.0, **options: Unpack[LockOptions]) -> None:
        scripts = ReadWriteScripts(name, READER, timeout)
        super().__init__(name, scripts, WaitQueue(scripts), timeout=timeout, **options)

    @property
    def fencing_token(self) -> int | None:
        """None: a reader writes nothing."""
        return None


class WriteLock(BaseLock):
    """The writers' side: exclusive. `ReadWriteLock.write` returns it."""

    def __init__(self, name: str, *, timeout: Seconds = 30.0, **options: Unpack[LockOptions]) -> None:
        scripts = ReadWriteScripts(name, WRITER, timeout)
        super().__init__(name, scripts, WaitQueue(scripts), timeout=timeout, **options)


class ReadWriteLock:
    """Many readers at once, or one writer, among all processes that use this name.

    All are served in FIFO order: a reader that arrives while a writer waits is queued behind it, so readers cannot
    starve writers. A release admits the next writer, or all readers up to the next writer. Each reader has its own
    lease on the server's clock, so a reader that died blocks writers no longer than its lease.

    A holder of one side that acquires the other waits for itself: it must release the first. `Lock` and `MultiLock` of
    this name are other locks.

    Attributes:
        name: the name.
        using: our connection alias.

    Args:
        name: 1 to 200 bytes, without control characters and braces.
        timeout: seconds of a lease.
        options: those of `Lock` except `fair`, for both sides.

    Raises:
        TypeError, ValueError: an argument has a wrong type or value.
    """

    def __init__(self, name: str, *, timeout: Seconds = 30.0, **options: Unpack[LockOptions]) -> None:
        self.name = name
        self._timeout = timeout
        self._options = options
        self.using = options.get("using", "default")
        self.write()  # validates the arguments

    def __repr__(self) -> str:
        return f"<ReadWriteLock {self.name!r}>"

    def read(self) -> ReadLock:
        """Return a lock of the readers' side, for `with` or `acquire`."""
        return ReadLock(self.name, timeout=self._timeout, **self._options)

    def write(self) -> WriteLock:
        """Return a lock of the writers' side, for `with` or `acquire`."""
        return WriteLock(self.name, timeout=self._timeout, **self._options)

    def inspect(self) -> ReadWriteState:
        """Read the holders and the waiters. Changes nothing."""
        return run(client(self.using), inspect_readwrite(self.name))

    async def ainspect(self) -> ReadWriteState:
        """See `inspect`."""
        return await arun(aclient(self.using), inspect_readwrite(self.name))
