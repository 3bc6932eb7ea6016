"""The names that the processes of a site use, for the dashboard and commands: filters, limits, channels, rankings.

A process records a name when it uses it first, and then at most once an hour. The thread of `flushing` writes it, so a
call makes no further round trip. What Redis does not confirm is recorded again at the next call after `RETRY_S`.

An entry is stored on the connection of its object, and on that of the dashboard if it is another one: there the
dashboard finds the names of all connections. Each list is bounded: the `MAX_NAMES` names that were used last, of at
most `MAX_ENTRY_BYTES`, are kept, each for `KEPT_S` after its last use. A process records at most `MAX_USES` names an
hour, so names made from ids of users cost no more.

=================================  ====  =======================================================  ==================
key                                type  content                                                  TTL
=================================  ====  =======================================================  ==================
``<prefix>:catalog:{<kind>}``      zset  entries (JSON: name, alias, options) by time of use      90 days
=================================  ====  =======================================================  ==================
"""

from __future__ import annotations

import dataclasses
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from django_redis_components.core import keys
from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.observability.flushing import Collector
from django_redis_components.core.protocol import Command, Flow, Read
from django_redis_components.core.settings import conf

#: Seconds between two records of a name by one process.
RECORD_S = 3_600.0
#: Seconds after which a name that Redis did not confirm is recorded again.
RETRY_S = 60.0
#: Seconds for which a name is kept after its last use: 90 days.
KEPT_S = 90 * 86_400
#: Most names of a kind.
MAX_NAMES = 500
#: Most names that a process records in an hour.
MAX_USES = 2_000
#: Largest entry. Names have 200 bytes at most; the rest is options.
MAX_ENTRY_BYTES = 2_048
#: Seconds for which the thread waits for Redis.
TIMEOUT_S = 0.5

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A name that was used.

    Attributes:
        kind: what has the name: "RateLimit".
        name: the name.
        using: connection alias.
        options: what an object of the name is made with, besides.
        used_at: time of the last use in seconds since the epoch, exact to an hour.
    """

    kind: str
    name: str
    using: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    used_at: float = 0.0

    def member(self) -> str:
        """Return the entry as it is stored."""
        return json.dumps([self.name, self.using, self.options], separators=(",", ":"), sort_keys=True)


class NameUse:
    """The use of a name by this process. Objects of one name share it.

    Attributes:
        due_at: the monotonic time from which the next use is recorded.
    """

    __slots__ = ("due_at",)

    def __init__(self, due_at: float) -> None:
        self.due_at = due_at


#: The use of what is not in the catalogue.
NEVER_RECORDED = NameUse(math.inf)


class CatalogRecorder(Collector):
    """Records the names that this process uses."""

    name = "catalog"
    logger = guarded_logger("django_redis_components.core")
    warning = "Names for the dashboard cannot be recorded: %s"

    def __init__(self) -> None:
        #: The uses by kind, name and connection. A reset keeps them, because objects hold them.
        self._uses: dict[tuple[str, str, str], NameUse] = {}
        super().__init__()

    def reset(self) -> None:
        """See the base class."""
        super().reset()
        self._set_due(0.0)
        #: Entries to add (True) or to remove, by connection.
        self._pending: dict[str, dict[tuple[str, str], bool]] = {}
        self._lock = threading.RLock()  # a signal handler may use a name

    def use(self, kind: str, name: str, using: str) -> NameUse:
        """Return the use of a name. Beyond `MAX_USES` names in an hour, it is one that is not recorded."""
        key = (kind, name, using)
        found = self._uses.get(key)
        if found is not None:
            return found
        with self._lock:
            now = time.monotonic()
            if len(self._uses) >= MAX_USES:
                self._uses = {other: use for other, use in self._uses.items() if use.due_at > now}
            if len(self._uses) >= MAX_USES:
                return NameUse(now + RECORD_S)
            return self._uses.setdefault(key, NameUse(0.0))

    def record(self, use: NameUse, entry: CatalogEntry) -> None:
        """Record a use that is due."""
        now = time.monotonic()
        with self._lock:
            if use.due_at <= now:
                use.due_at = now + RECORD_S if is_on() else math.inf
                self._add(entry, is_used=True)

    def remove(self, use: NameUse, entry: CatalogEntry) -> None:
        """Remove a name whose data was deleted."""
        with self._lock:
            use.due_at = 0.0
            self._add(entry, is_used=False)

    def take(self) -> Mapping[str, Sequence[Command]]:
        """See the base class."""
        with self._lock:
            pending, self._pending = self._pending, {}
        return {using: list(_requests(changes)) for using, changes in pending.items()}

    def timeout_s(self) -> float:
        """See the base class."""
        return TIMEOUT_S

    def failed(self, using: str) -> None:
        """Have the names be recorded again. Those of other connections are, too; that is harmless."""
        with self._lock:
            self._set_due(time.monotonic() + RETRY_S)

    def _set_due(self, due_at: float) -> None:
        for use in self._uses.values():
            use.due_at = min(use.due_at, due_at)

    def _add(self, entry: CatalogEntry, *, is_used: bool) -> None:
        member = entry.member()
        if is_on() and len(member) <= MAX_ENTRY_BYTES:
            for alias in {entry.using, conf.settings().dashboard.using}:
                self._pending.setdefault(alias, {})[entry.kind, member] = is_used
            self.notify()


def is_on() -> bool:
    """Return whether names are recorded. Code that needs the settings reports that they are invalid."""
    try:
        return conf.settings().catalog
    except ConfigurationError:
        return False


def entries_flow(kind: str) -> Flow[list[CatalogEntry]]:
    """Return the flow that reads the entries of a kind, the one that was used last first."""
    reply = yield Read("ZREVRANGE", catalog_key(kind), 0, MAX_NAMES - 1, "WITHSCORES")
    entries = [_parse(kind, member, score) for member, score in pairs_of(reply)]
    return [entry for entry in entries if entry is not None]


def names_flow(kind: str) -> Flow[list[CatalogEntry]]:
    """Return the flow that reads the names of a kind, in order: of a name with several options the latest entry."""
    entries = yield from entries_flow(kind)
    names = {(entry.name, entry.using): entry for entry in reversed(entries)}
    return [names[name] for name in sorted(names)]


def objects(entries: Iterable[CatalogEntry], made_by: Callable[..., T]) -> list[T]:
    """Return the objects of entries, in order. Entries that this version of the code cannot use are left out."""
    found = []
    for entry in entries:
        try:
            found.append(made_by(entry.name, using=entry.using, **entry.options))
        except (TypeError, ValueError, ImportError) as exc:
            RECORDER.logger.debug("The entry %r of the catalogue is not used: %s", entry, exc)
    return found


def catalog_key(kind: str) -> str:
    """Return the key of the names of a kind."""
    return keys.key("catalog", kind)


def _requests(changes: Mapping[tuple[str, str], bool]) -> Iterable[Command]:
    now = int(time.time())
    for kind in {kind for kind, _ in changes}:
        key = catalog_key(kind)
        used = [part for (of, member), is_used in changes.items() if of == kind and is_used for part in (now, member)]
        removed = [member for (of, member), is_used in changes.items() if of == kind and not is_used]
        if removed:
            yield Command("ZREM", key, *removed)
        if used:
            yield Command("ZADD", key, "GT", *used)
            yield Command("ZREMRANGEBYSCORE", key, "-inf", now - KEPT_S)
            yield Command("ZREMRANGEBYRANK", key, 0, -MAX_NAMES - 1)
            yield Command("EXPIRE", key, KEPT_S)


def _parse(kind: str, member: bytes, score: bytes | float) -> CatalogEntry | None:
    """Return an entry; None if another program has written it."""
    try:
        name, using, options = json.loads(member)
        entry = CatalogEntry(kind, keys.validate_name(name), using, dict(options), float(score))
    except (TypeError, ValueError, RecursionError):
        return None
    return entry if isinstance(using, str) and all(isinstance(option, str) for option in options) else None


#: The recorder of this process.
RECORDER = CatalogRecorder()
