"""What is sent again after an error, and what never is.

The server refused (NOSCRIPT, MOVED, READONLY, LOADING, CLUSTERDOWN) or could not be reached: nothing ran, so the
request is sent again, to the right place. The reply was lost (connection, timeout): the request may have run, so it is
sent again only if it is marked as safe to repeat. Everything else is the caller's.

Bounds: `RETRIES` repetitions after a pause, `MAX_REDIRECTS` tries at once more in all, and no new try once
`SOCKET_TIMEOUT` has passed since the first error. A batch has these bounds as a whole, not for
each of its requests.

ASK and TRYAGAIN mean that the slot of the request is being moved (`slots`): nothing ran, and the request is sent again
after a pause, for as long as `SLOT_MIGRATION_TIMEOUT` or the caller allows. That uses none of the bounds above.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import random
import time
from collections.abc import Generator, Sequence
from typing import Any

from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from django_redis_components.core.client import slot_migration as slots
from django_redis_components.core.client.endpoint import Node
from django_redis_components.core.client.topology import Ask, Cluster, Topology
from django_redis_components.core.exceptions import NotConnected, SlotMigrating
from django_redis_components.core.protocol import Call, Command, CommandArgs
from django_redis_components.core.sections import ConnectionSettings

#: Seconds of the first pause before a repetition; each further one doubles, with full jitter.
BACKOFF_BASE_S = 0.02
#: Longest pause between two tries, in seconds.
BACKOFF_CAP_S = 0.5
#: Tries for MOVED and NOSCRIPT on top of the repetitions. A script that meets a slot that has moved needs three.
#: Nodes that send a request further, from one to the other, do not agree yet: then it waits, as for any repetition.
MAX_REDIRECTS = 5
#: Nothing was run, and another node, or the same one soon, will.
NOT_EXECUTED_ERRORS = (BusyLoadingError, ReadOnlyError, ClusterDownError, MasterDownError, TryAgainError, NotConnected)
#: Errors of the connection that a repetition cannot mend.
AUTHENTICATION_ERRORS = (AuthenticationError, AuthorizationError)
#: What a blocked client is told when its master becomes a replica.
_UNBLOCKED = "UNBLOCKED"


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """Send these to this node in one round trip. The reply is the list of replies, errors of the server among them."""

    node: Node
    wires: Sequence[CommandArgs]


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """Wait, in seconds."""

    seconds: float


Recovery = Generator[Attempt | Pause | Ask, Any, Any]


def send(requests: Sequence[Call | Command], topology: Topology, settings: ConnectionSettings) -> Recovery:
    """All it takes to have requests answered; the value is the list of replies, with errors in their places."""
    works = [_Work(request) for request in requests]
    yield from _send(works, topology)
    yield from _settle(works, topology, settings)
    return [_outcome(work, topology) for work in works]


def recover(request: Call | Command, error: RedisError, topology: Topology, settings: ConnectionSettings) -> Recovery:
    """Go on after the first error of a request; the value is the reply.

    Raises:
        RedisError: the last error, when there is no way on or the bounds are reached.
    """
    work = _Work(request, error)
    yield from _settle([work], topology, settings)
    reply = _outcome(work, topology)
    if isinstance(reply, RedisError):
        raise reply
    return reply


def is_transient(error: RedisError, topology: Topology) -> bool:
    """Whether the error is of the connection or of the moment, so that asking again later may succeed."""
    if isinstance(error, AskError):
        return topology.redirects
    return isinstance(error, NOT_EXECUTED_ERRORS) or _is_lost(error) or _is_unblocked(error)


def pause_after_wait(error: RedisError, topology: Topology) -> float:
    """Seconds to pause after a blocking wait that ended with a passing error, before its caller asks again."""
    if slots.is_migrating(error):
        return slots.pause_s()
    topology.forget()
    return BACKOFF_BASE_S


@dataclasses.dataclass(slots=True, eq=False)
class _Work:
    """A request on its way: its reply or last error, and how it is sent the next time."""

    request: Call | Command
    reply: Any = None
    node: Node | None = None
    with_text: bool = False
    text_sent: bool = False
    redirects: int = 0
    #: Since when it waits for its slot, by the monotonic clock; 0: it has not met a moving slot.
    waits_since: float = 0.0


class _Way(enum.Enum):
    END = enum.auto()
    AT_ONCE = enum.auto()
    LATER = enum.auto()
    #: The slot is being moved.
    SLOT = enum.auto()


class _Bounds:
    """How long the works of one request or batch are tried."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._tries = settings.retries + MAX_REDIRECTS
        self._pauses = 0
        self._deadline = time.monotonic() + settings.socket_timeout_s
        self._slots_until: float | None = None

    def next(self, ways: Sequence[tuple[_Work, _Way]]) -> tuple[list[_Work], float]:
        """Those works that are sent again, and the pause before that, in seconds."""
        left_s = self._slot_wait_s(ways)
        going = {_Way.SLOT} if left_s > 0 else set()
        if self._tries > 0 and time.monotonic() <= self._deadline:
            going |= {_Way.AT_ONCE, _Way.LATER} if self._pauses < self._settings.retries else {_Way.AT_ONCE}
        met = {way for _, way in ways} & going
        pause_s = 0.0
        if met - {_Way.SLOT}:
            self._tries -= 1
        if _Way.LATER in met:
            pause_s = random.uniform(0, min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2**self._pauses))
            self._pauses += 1
        if _Way.SLOT in met:
            pause_s = min(slots.pause_s(), left_s)
            slots.note_wait(pause_s)
            self._deadline = time.monotonic() + pause_s + self._settings.socket_timeout_s  # begins after the wait
        return [work for work, way in ways if way in going], pause_s

    def _slot_wait_s(self, ways: Sequence[tuple[_Work, _Way]]) -> float:
        """Seconds for which moving slots may still be waited for."""
        if all(way is not _Way.SLOT for _, way in ways):
            return 0.0
        if self._slots_until is None:
            self._slots_until = slots.give_up_at(self._settings.slot_migration_timeout_s)
        return self._slots_until - time.monotonic()


def _settle(works: Sequence[_Work], topology: Topology, settings: ConnectionSettings) -> Recovery:
    bounds = _Bounds(settings)
    while True:
        ways = [(work, _way(work, topology)) for work in works if isinstance(work.reply, RedisError)]
        works, pause_s = bounds.next(ways)
        if not works:
            return
        waited = [work for work in works if work.waits_since]
        _log_waits(waited, topology, settings)
        if pause_s:
            yield Pause(pause_s)
        yield from _send(works, topology)
        _log_waits(waited, topology, settings)


def _log_waits(waited: Sequence[_Work], topology: Topology, settings: ConnectionSettings) -> None:
    """Log which slots are waited for, and of which no request is refused any more."""
    if not isinstance(topology, Cluster):
        return
    for work in waited:
        if slots.is_migrating(work.reply):
            timeout_s = settings.slot_migration_timeout_s
            topology.slot_waits.begin(slots.slot_of(work.request.key), topology, timeout_s)
        elif not isinstance(work.reply, AskError) and not _is_lost(work.reply):
            topology.slot_waits.end(slots.slot_of(work.request.key))


def _way(work: _Work, topology: Topology) -> _Way:
    """Decide how to go on after the work's error."""
    error, work.node = work.reply, None
    if isinstance(error, NoScriptError):
        work.with_text = isinstance(work.request, Call) and not work.text_sent
        return _Way.AT_ONCE if work.with_text else _Way.END
    if topology.redirects and slots.is_migrating(error):
        work.waits_since = work.waits_since or time.monotonic()
        return _Way.SLOT
    if isinstance(error, AskError):  # MOVED, or ASK of a node that was taken for a server of its own
        if not topology.redirects:
            return _Way.END
        work.node = Node(error.host, error.port)
        topology.forget()
        work.redirects += 1
        return _Way.AT_ONCE if work.redirects < MAX_REDIRECTS else _Way.LATER
    if isinstance(error, NOT_EXECUTED_ERRORS) or _is_lost(error):
        topology.forget()
        return _Way.LATER if _may_repeat(work.request, error) else _Way.END
    return _Way.END


def _may_repeat(request: Call | Command, error: RedisError) -> bool:
    """Whether the request is safe to send again, and its caller still waits for it."""
    if time.monotonic() > getattr(request, "give_up_at", math.inf):
        return False
    return isinstance(error, NOT_EXECUTED_ERRORS) or request.retry


def _send(works: Sequence[_Work], topology: Topology) -> Recovery:
    works = yield from _located(works, topology)
    groups: dict[Node, list[_Work]] = {}
    for work in works:
        node = work.node or topology.locate(work.request.key)
        if node is None:
            work.reply = ClusterDownError(f"No node of the cluster serves the slot of {work.request.key!r}.")
        else:
            groups.setdefault(node, []).append(work)
    for node, group in groups.items():
        try:
            replies = yield Attempt(node, _wires(group, topology.redirects))
        except RedisError as exc:
            replies = [exc] * len(group)
        for work, reply in zip(group, replies, strict=True):
            work.reply = reply


def _located(works: Sequence[_Work], topology: Topology) -> Generator[Attempt | Pause | Ask, Any, Sequence[_Work]]:
    """Those works whose node is known, after asking for the nodes if need be."""
    unknown = [work for work in works if not work.node and topology.locate(work.request.key) is None]
    if not unknown:
        return works
    try:
        yield from topology.discover()
    except RedisError as exc:
        for work in unknown:
            work.reply = exc
        return [work for work in works if work not in unknown]
    return works


def _wires(group: Sequence[_Work], cluster: bool) -> list[CommandArgs]:
    """What is sent. A script's text goes with its first call alone: the server has it for those behind."""
    sent: set[int] = set()
    wires = []
    for work in group:
        request = work.request
        if work.with_text and isinstance(request, Call) and id(request.script) not in sent:
            sent.add(id(request.script))
            work.text_sent = True
            wires.append(request.eval_args(cluster))
        else:
            wires.append(request.command_args(cluster))
    return wires


def _outcome(work: _Work, topology: Topology) -> Any:
    """The reply, or the last error in words."""
    error = work.reply
    if isinstance(topology, Cluster) and slots.is_migrating(error):
        return SlotMigrating(slots.slot_of(work.request.key), time.monotonic() - work.waits_since, str(topology))
    if isinstance(error, AskError) and topology.redirects:
        return ClusterDownError(
            f"The nodes of the cluster do not agree on who serves the slot of {work.request.key!r}: "
            f"the last one asked named {error.host}:{error.port}."
        )
    return error


def _is_lost(error: Any) -> bool:
    return isinstance(error, ConnectionError | TimeoutError) and not isinstance(error, AUTHENTICATION_ERRORS)


def _is_unblocked(error: RedisError) -> bool:
    return isinstance(error, ResponseError) and str(error).startswith(_UNBLOCKED)
