"""The lock of many readers or one writer."""

from __future__ import annotations

import re
from typing import Unpack

from django.utils.translation import gettext_lazy

from django_redis_components.core import keys
from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing.lease import Lease
from django_redis_components.core.leasing.scripted_kind import ScriptedKind
from django_redis_components.core.leasing.scripts import KindScripts
from django_redis_components.core.leasing.wait_queue import with_suffix
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.units import Seconds
from django_redis_components.locks.base import BaseLock, LockOptions
from django_redis_components.locks.state import READER, WRITER, ReadWriteState, read_readwrite


class ReadWriteKind(ScriptedKind):
    """The kind of a `ReadWriteLock`, and of one of its sides."""

    scripts = KindScripts("locks/readwrite")
    slug, noun, label = "readwrite", "Read-write lock", gettext_lazy("read-write lock")
    role_labels = {
        "writer": gettext_lazy("read-write lock, writer"),
        "reader": gettext_lazy("read-write lock, reader"),
    }
    holder_keys = re.compile(r"(?P<name>[^{}]+)\}:rw:(?:writer|readers)")

    def __init__(self, name: str, suffix: str = WRITER, timeout: Seconds = 1.0) -> None:
        """Args: suffix: `READER` or `WRITER`."""
        self._suffix = suffix
        super().__init__(keys.validate_name(name, "lock name"), timeout)

    def suffix_of(self, permits: int) -> str:
        """Return the suffix of this side."""
        return self._suffix

    @property
    def identity(self) -> str:
        """The lock and the side."""
        return self.base + self.suffix

    def make_keys(self) -> tuple[str, str]:
        """Return the writer and the queue. None of the keys is one of the `Lock` of this name."""
        return keys.key("locks", self.name, "rw", "writer"), keys.key("locks", self.name, "rw", "queue")

    def read(self, token: str) -> Flow[Lease | None]:
        """Return the lease of this token on this side, as it is."""
        return super().read(with_suffix(token, self.suffix))

    def role_of(self, token: str) -> str:
        """Return "reader" or "writer"."""
        return "reader" if token.endswith(READER) else "writer"

    def inspect(self) -> Flow[ReadWriteState]:
        """Read the holders and the waiters."""
        return read_readwrite(self)


class ReadLock(BaseLock):
    """The readers' side: shared with other readers, never with a writer. `ReadWriteLock.read` returns it."""

    def __init__(self, name: str, *, timeout: Seconds = 30.0, **options: Unpack[LockOptions]) -> None:
        super().__init__(name, ReadWriteKind(name, READER, timeout), timeout=timeout, **options)

    @property
    def fencing_token(self) -> int | None:
        """None: a reader writes nothing."""
        return None


class WriteLock(BaseLock):
    """The writers' side: exclusive. `ReadWriteLock.write` returns it."""

    def __init__(self, name: str, *, timeout: Seconds = 30.0, **options: Unpack[LockOptions]) -> None:
        super().__init__(name, ReadWriteKind(name, WRITER, timeout), timeout=timeout, **options)


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
        self._kind = ReadWriteKind(name)
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
        return run(client(self.using), self._kind.inspect())

    async def ainspect(self) -> ReadWriteState:
        """See `inspect`."""
        return await arun(aclient(self.using), self._kind.inspect())
