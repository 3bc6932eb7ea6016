"""What is sent again after an error, and what never is.

The server refused (NOSCRIPT, MOVED, ASK, READONLY, LOADING, TRYAGAIN, CLUSTERDOWN) or could not be
reached: nothing ran, so the request is sent again, to the right place. The reply was lost
(connection, timeout): the request may have run, so it is sent again only if it is marked as safe
to repeat. Everything else is the caller's.

Bounds: `RETRIES` repetitions after a pause, `MAX_REDIRECTS` tries at once more in all, and no new try once
`SOCKET_TIMEOUT` has passed since the first error. A batch has these bounds as a whole, not for
each of its requests.
"""

from __future__ import annotations

import dataclasses
import enum
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
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from django_redis_components.core.endpoints import Node
from django_redis_components.core.exceptions import NotConnected
from django_redis_components.core.protocol import Call, Command, Wire
from django_redis_components.core.sections import ConnectionSettings
from django_redis_components.core.topology import Ask, Topology

#: Seconds of the first pause before a repetition; each further one doubles, with full jitter.
BACKOFF_BASE_S = 0.02
#: Longest pause between two tries, in seconds.
BACKOFF_CAP_S = 0.5
#: Tries for MOVED, ASK and NOSCRIPT on top of the repetitions. A script that meets a migrating slot needs three.
#: Nodes that send a request further, from one to the other, do not agree yet: then it waits, as for any repetition.
MAX_REDIRECTS = 5
#: Nothing was run, and another node, or the same one soon, will.
REFUSED = (BusyLoadingError, ReadOnlyError, ClusterDownError, MasterDownError, TryAgainError, NotConnected)
#: Errors of the connection that a repetition cannot mend.
HOPELESS = (AuthenticationError, AuthorizationError)
#: What a blocked client is told when its master becomes a replica.
_UNBLOCKED = "UNBLOCKED"


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """Send these to this node in one round trip; `asking` puts ASKING before each.

    The reply is the list of replies, errors of the server among them.
    """

    node: Node
    wires: Sequence[Wire]
    asking: bool = False


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


def is_passing(error: RedisError, topology: Topology) -> bool:
    """Whether the error is of the connection or of the moment, so that asking again later may succeed."""
    if isinstance(error, AskError):
        return topology.redirects
    return isinstance(error, REFUSED) or _is_lost(error) or _is_unblocked(error)


def with_asking(wires: Sequence[Wire]) -> list[Wire]:
    """Each command behind an ASKING of its own."""
    return [each for wire in wires for each in (("ASKING",), wire)]


@dataclasses.dataclass(slots=True, eq=False)
class _Work:
    """A request on its way: its reply or last error, and how it is sent the next time."""

    request: Call | Command
    reply: Any = None
    node: Node | None = None
    asking: bool = False
    with_text: bool = False
    text_sent: bool = False
    redirects: int = 0


class _Way(enum.Enum):
    END = enum.auto()
    AT_ONCE = enum.auto()
    LATER = enum.auto()


def _settle(works: Sequence[_Work], topology: Topology, settings: ConnectionSettings) -> Recovery:
    deadline = time.monotonic() + settings.socket_timeout_s
    pauses = 0
    for _ in range(settings.retries + MAX_REDIRECTS):
        ways = [(work, _way(work, topology)) for work in works if isinstance(work.reply, RedisError)]
        if pauses >= settings.retries:
            ways = [(work, way) for work, way in ways if way is not _Way.LATER]
        works = [work for work, way in ways if way is not _Way.END]
        if not works or time.monotonic() > deadline:
            return
        if any(way is _Way.LATER for _, way in ways):
            yield Pause(random.uniform(0, min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2**pauses)))
            pauses += 1
        yield from _send(works, topology)


def _way(work: _Work, topology: Topology) -> _Way:
    """Decide how to go on after the work's error."""
    error, work.node, work.asking = work.reply, None, False
    if isinstance(error, NoScriptError):
        work.with_text = isinstance(work.request, Call) and not work.text_sent
        return _Way.AT_ONCE if work.with_text else _Way.END
    if isinstance(error, AskError):  # MovedError is a kind of AskError
        if not topology.redirects:
            return _Way.END
        work.node, work.asking = Node(error.host, error.port), not isinstance(error, MovedError)
        if not work.asking:
            topology.forget()
        work.redirects += 1
        return _Way.AT_ONCE if work.redirects < MAX_REDIRECTS else _Way.LATER
    if isinstance(error, REFUSED) or _is_lost(error):
        topology.forget()
        return _Way.LATER if isinstance(error, REFUSED) or work.request.retry else _Way.END
    return _Way.END


def _send(works: Sequence[_Work], topology: Topology) -> Recovery:
    works = yield from _located(works, topology)
    groups: dict[tuple[Node, bool], list[_Work]] = {}
    for work in works:
        node = work.node or topology.locate(work.request.key)
        if node is None:
            work.reply = ClusterDownError(f"No node of the cluster serves the slot of {work.request.key!r}.")
        else:
            groups.setdefault((node, work.asking), []).append(work)
    for (node, asking), group in groups.items():
        try:
            replies = yield Attempt(node, _wires(group), asking)
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


def _wires(group: Sequence[_Work]) -> list[Wire]:
    """What is sent. A script's text goes with its first call alone: the server has it for those behind."""
    sent: set[int] = set()
    wires = []
    for work in group:
        request = work.request
        if work.with_text and isinstance(request, Call) and id(request.script) not in sent:
            sent.add(id(request.script))
            work.text_sent = True
            wires.append(request.full_wire())
        else:
            wires.append(request.wire())
    return wires


def _outcome(work: _Work, topology: Topology) -> Any:
    """The reply, or the last error in words."""
    error = work.reply
    if isinstance(error, AskError) and topology.redirects:
        return ClusterDownError(
            f"The nodes of the cluster do not agree on who serves the slot of {work.request.key!r}: "
            f"the last one asked named {error.host}:{error.port}."
        )
    return error


def _is_lost(error: RedisError) -> bool:
    return isinstance(error, ConnectionError | TimeoutError) and not isinstance(error, HOPELESS)


def _is_unblocked(error: RedisError) -> bool:
    return isinstance(error, ResponseError) and str(error).startswith(_UNBLOCKED)
