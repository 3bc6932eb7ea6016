"""What is sent again after an error.

- The server refused the request (NOSCRIPT, MOVED, READONLY, LOADING, CLUSTERDOWN) or could not be reached: nothing was
  executed. The request is sent again, to the right node.
- The reply was lost (connection, timeout): the request may have been executed. It is sent again only if it is
  idempotent.
- READONLY of an address that always leads to the same server: waiting for a failover would not help. The request is
  sent again at once, over a new connection, because a name or a proxy may lead to another server by now. This happens
  once in `topology.RECONNECT_EVERY_S`; in between the error is raised at once.
- ASK and TRYAGAIN: the slot of the request is being moved (`slot_migration`), nothing was executed. The request is sent
  again after a delay, for as long as `SLOT_MIGRATION_TIMEOUT`, the caller or the budget of a page allows. This uses no
  retry. Nodes that redirect to each other with MOVED do not agree yet after a move or a failover: the same holds.
- All other errors are raised.

An error of the first kind that is raised says that no attempt was executed: after an attempt whose reply was lost, the
error of that attempt is raised instead.

Limits: `RETRIES` retries after a delay, `MAX_REDIRECTS` further ones without a delay, and none once `SOCKET_TIMEOUT`
has passed since the request began; a retry waits for the rest of that time. They hold for a batch as a whole, not for
each of its requests. Only after NOSCRIPT and MOVED, and after the wait for a slot, the request is sent in any case, for
`ANSWERED_S` at least: a server has just answered, and the next call would be late by the same error. Delays use up the
budget of a page, as replies do.
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

from django_redis_components.core import slot_waits
from django_redis_components.core.client import slot_migration
from django_redis_components.core.client.budget import budget_left_s, spend
from django_redis_components.core.client.endpoint import Node
from django_redis_components.core.client.event_loops import PART_S
from django_redis_components.core.client.exceptions import NotConnected, OutOfTime, SlotMigrating
from django_redis_components.core.client.topology import Cluster, NodeQuery, Standalone, Topology
from django_redis_components.core.protocol import Call, Command, CommandArgs
from django_redis_components.core.settings.sections import ConnectionSettings

#: Longest first delay before a retry, in seconds; it doubles for each further retry, with full jitter.
BACKOFF_BASE_S = 0.02
#: Longest delay before a retry, in seconds.
BACKOFF_CAP_S = 0.5
#: Retries without a delay, for MOVED and NOSCRIPT. A script whose slot has moved needs three. Nodes that redirect to
#: each other do not agree yet: then the request waits, as for a slot that is being moved.
MAX_REDIRECTS = 5
#: Seconds that a request has at least after NOSCRIPT and MOVED, if its time limit has passed. A reply is waited for as
#: long in any case, so that less has no effect.
ANSWERED_S = PART_S
#: Errors that mean that nothing was executed, and that another node, or the same one soon, will execute the request.
NOT_EXECUTED_ERRORS = (BusyLoadingError, ReadOnlyError, ClusterDownError, MasterDownError, TryAgainError, NotConnected)
#: redis-py's connection errors that a retry does not resolve.
AUTHENTICATION_ERRORS = (AuthenticationError, AuthorizationError)
#: The error reply to a blocked client whose primary becomes a replica.
_UNBLOCKED = "UNBLOCKED"


@dataclasses.dataclass(frozen=True, slots=True)
class SendCommands:
    """Send commands to a node in one round trip. The reply is the list of replies, error replies among them."""

    node: Node
    commands: Sequence[CommandArgs]
    #: Whether to use none of the open connections to the node.
    reconnects: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Backoff:
    """Wait, in seconds."""

    seconds: float


Steps = Generator[SendCommands | Backoff | NodeQuery, Any, Any]


def send(requests: Sequence[Call | Command], topology: Topology, limits: RetryLimits) -> Steps:
    """Send requests, with retries. The value is the list of replies, errors among them."""
    pending = [_PendingRequest(request) for request in requests]
    yield from _send(pending, topology)
    replies: list[Any] = yield from recover_many(requests, [each.reply for each in pending], topology, limits)
    return replies


def recover(request: Call | Command, error: RedisError, topology: Topology, limits: RetryLimits) -> Steps:
    """Continue after the first error of a request. The value is the reply.

    Raises:
        RedisError: the last error, if no retry is allowed or left.
    """
    pending = _PendingRequest(request, error)
    yield from _retry([pending], topology, limits)
    reply = _outcome(pending, topology)
    if isinstance(reply, RedisError):
        raise reply
    return reply


def recover_many(
    requests: Sequence[Call | Command], replies: Sequence[Any], topology: Topology, limits: RetryLimits
) -> Steps:
    """Continue after the first replies of several requests. The value is the list of replies, errors among them."""
    pending = [_PendingRequest(request, reply) for request, reply in zip(requests, replies, strict=True)]
    yield from _retry(pending, topology, limits)
    return [_outcome(each, topology) for each in pending]


def is_transient(error: RedisError, topology: Topology) -> bool:
    """Return whether the same request may succeed later."""
    if isinstance(error, AskError):
        return topology.redirects
    return isinstance(error, NOT_EXECUTED_ERRORS) or is_connection_loss(error) or _is_unblocked(error)


def delay_after_wait_s(error: RedisError, topology: Topology, key: str) -> float:
    """Return the seconds to sleep after a blocking wait for a key that failed with a transient error."""
    if slot_migration.is_migrating(error):
        return slot_migration.retry_delay_s()
    topology.forget(None if isinstance(error, AskError) else key)
    return BACKOFF_BASE_S


@dataclasses.dataclass(slots=True, eq=False)
class _PendingRequest:
    """A request, its reply or last error, and how it is sent next."""

    request: Call | Command
    reply: Any = None
    node: Node | None = None
    with_source: bool = False
    source_sent: bool = False
    redirects: int = 0
    #: Since when it waits for its slot, by the monotonic clock; 0: its slot was not being moved.
    waits_since: float = 0.0
    #: Since when nodes redirect to each other; 0: they do not.
    disagree_since: float = 0.0
    #: The error of the first attempt that may have been executed.
    lost: RedisError | None = None


class _Retry(enum.Enum):
    NEVER = enum.auto()
    AT_ONCE = enum.auto()
    WITH_SOURCE = enum.auto()
    RECONNECTED = enum.auto()
    AFTER_BACKOFF = enum.auto()
    AFTER_SLOT_MOVED = enum.auto()


#: Retries after an answer of a server that says how to send the request.
_AFTER_ANSWER = {_Retry.AT_ONCE, _Retry.WITH_SOURCE}


class RetryLimits:
    """How often and how long one request or batch is retried."""

    __slots__ = (
        *("_answered_deadline", "_backoffs", "_deadline", "_retries_left", "_slot_deadline", "_started_at"),
        *("reconnects", "settings"),
    )

    def __init__(self, settings: ConnectionSettings, started_at: float) -> None:
        """
        Args:
            started_at: when the request or batch began, by the monotonic clock.
        """
        self.settings = settings
        self._retries_left = settings.retries + MAX_REDIRECTS
        self._backoffs = 0
        self._started_at = started_at
        self._deadline = started_at + settings.socket_timeout_s
        #: What `Standalone.reconnects` has returned.
        self.reconnects: bool | None = None
        self._answered_deadline = started_at
        self._slot_deadline: float | None = None

    def left_s(self) -> float:
        """Return the seconds that are left for the next attempt."""
        return max(self._answered_deadline - time.monotonic(), self._time_left_s())

    def next(
        self, failed: Sequence[tuple[_PendingRequest, _Retry]], topology: Topology
    ) -> tuple[list[_PendingRequest], float]:
        """Return the requests that are sent again, and the delay before that in seconds."""
        slot_wait_left_s = self._slot_wait_left_s(failed)
        allowed = {_Retry.AFTER_SLOT_MOVED} if slot_wait_left_s > 0 else set()
        if self._retries_left > 0:
            allowed |= _AFTER_ANSWER
            if self._time_left_s() > 0 and self._backoffs < self.settings.retries:
                allowed |= {_Retry.AFTER_BACKOFF}
            if any(when is _Retry.RECONNECTED for _, when in failed) and self._may_reconnect(topology):
                allowed |= {_Retry.RECONNECTED}
        used = {when for _, when in failed} & allowed
        if used & _AFTER_ANSWER:
            self._answered_deadline = time.monotonic() + ANSWERED_S
        delay_s = 0.0
        if used - {_Retry.AFTER_SLOT_MOVED}:
            self._retries_left -= 1
        if _Retry.AFTER_BACKOFF in used:
            delay_s = random.uniform(0, min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2**self._backoffs))
            self._backoffs += 1
        if _Retry.AFTER_SLOT_MOVED in used:
            delay_s = min(slot_migration.retry_delay_s(), slot_wait_left_s)
            waits_until = time.monotonic() + delay_s
            self._deadline = waits_until + self.settings.socket_timeout_s  # starts after the wait
            self._answered_deadline = waits_until + ANSWERED_S  # the budget of a page may end with the wait
        spend(delay_s)
        return [pending for pending, when in failed if when in allowed], delay_s

    def _may_reconnect(self, topology: Topology) -> bool:
        """Return whether what a replica refused is sent again: once, over a connection that is newer than its start."""
        if self.reconnects is None and self._time_left_s() > 0 and isinstance(topology, Standalone):
            self.reconnects = topology.reconnects(self._started_at)
            return self.reconnects is not None
        return False

    def _time_left_s(self) -> float:
        return min(self._deadline - time.monotonic(), budget_left_s())

    def _slot_wait_left_s(self, failed: Sequence[tuple[_PendingRequest, _Retry]]) -> float:
        """Return the seconds that requests may still wait for slots that are being moved."""
        if all(when is not _Retry.AFTER_SLOT_MOVED for _, when in failed):
            return 0.0
        if self._slot_deadline is None:
            self._slot_deadline = slot_waits.give_up_at(self.settings.slot_migration_timeout_s)
        return min(self._slot_deadline - time.monotonic(), budget_left_s())


def _retry(pending: Sequence[_PendingRequest], topology: Topology, limits: RetryLimits) -> Steps:
    settings, batch = limits.settings, pending
    while True:
        failed = [(each, _when(each, topology)) for each in pending if isinstance(each.reply, RedisError)]
        pending, delay_s = limits.next(failed, topology)
        if not pending:
            return
        pending = [*pending, *_waits_after(pending, batch)]
        slot_waiters = [each for each in pending if each.waits_since or each.disagree_since]
        _log_slot_waits(slot_waiters, topology, settings)
        if delay_s:
            yield Backoff(delay_s)
        yield from _send(pending, topology, any(when is _Retry.RECONNECTED for _, when in failed) and limits.reconnects)
        _log_slot_waits(slot_waiters, topology, settings)


def _waits_after(pending: Sequence[_PendingRequest], batch: Sequence[_PendingRequest]) -> list[_PendingRequest]:
    """Return each WAIT of a batch that was answered, and counts replicas for a write that is sent again."""
    waits = [each for each in batch if each.request.command_args()[0] == "WAIT" and each not in pending]
    for each in waits:
        each.node = pending[-1].node
    return waits


def _log_slot_waits(slot_waiters: Sequence[_PendingRequest], topology: Topology, settings: ConnectionSettings) -> None:
    """Log the slots that requests wait for, and those that they no longer wait for."""
    if not isinstance(topology, Cluster):
        return
    for waiter in slot_waiters:
        if slot_migration.is_migrating(waiter.reply):
            timeout_s = settings.slot_migration_timeout_s
            topology.slot_waits.begin(slot_migration.slot_of(waiter.request.key), topology, timeout_s)
        elif isinstance(waiter.reply, AskError):
            if waiter.disagree_since and time.monotonic() - waiter.disagree_since >= slot_migration.DISAGREE_LOG_S:
                slot = slot_migration.slot_of(waiter.request.key)
                topology.slot_waits.begin(slot, topology, settings.slot_migration_timeout_s, is_moving=False)
        elif not is_connection_loss(waiter.reply):
            topology.slot_waits.end(slot_migration.slot_of(waiter.request.key))


def _when(pending: _PendingRequest, topology: Topology) -> _Retry:
    """Decide when to send a failed request again, and to which node."""
    error, pending.node = pending.reply, None
    if isinstance(error, NoScriptError):
        pending.with_source = isinstance(pending.request, Call) and not pending.source_sent
        return _Retry.WITH_SOURCE if pending.with_source else _Retry.NEVER
    if topology.redirects and slot_migration.is_migrating(error):
        pending.waits_since = pending.waits_since or time.monotonic()
        return _Retry.AFTER_SLOT_MOVED
    if isinstance(error, AskError):  # MOVED, or ASK of a node that was taken for a standalone server
        if not topology.redirects:
            return _Retry.NEVER
        pending.node = Node(error.host, error.port)
        topology.forget()
        pending.redirects += 1
        if pending.redirects < MAX_REDIRECTS:
            return _Retry.AT_ONCE
        pending.disagree_since = pending.disagree_since or time.monotonic()
        return _Retry.AFTER_SLOT_MOVED
    if isinstance(error, ReadOnlyError) and isinstance(topology, Standalone):
        return _Retry.RECONNECTED
    if isinstance(error, NOT_EXECUTED_ERRORS) or is_connection_loss(error):
        if pending.lost is None and not isinstance(error, NOT_EXECUTED_ERRORS):
            pending.lost = error
        topology.forget(pending.request.key)
        return _Retry.AFTER_BACKOFF if _may_retry(pending.request, error) else _Retry.NEVER
    return _Retry.NEVER


def _may_retry(request: Call | Command, error: RedisError) -> bool:
    """Return whether the request is safe to send again, and its caller still waits for it."""
    if time.monotonic() > getattr(request, "give_up_at", math.inf):
        return False
    return isinstance(error, NOT_EXECUTED_ERRORS) or request.retry


def _send(pending: Sequence[_PendingRequest], topology: Topology, reconnects: bool | None = False) -> Steps:
    pending = yield from _with_known_node(pending, topology)
    groups: dict[Node, list[_PendingRequest]] = {}
    for entry in pending:
        node = entry.node or topology.locate(entry.request.key)
        if node is None:
            entry.reply = ClusterDownError(f"No node of the cluster serves the slot of {entry.request.key!r}.")
        else:
            groups.setdefault(node, []).append(entry)
    for node, group in groups.items():
        try:
            replies = yield SendCommands(node, _commands(group, topology.redirects), bool(reconnects))
        except OutOfTime as exc:  # what was answered before says more
            replies = [exc if each.reply is None else each.reply for each in group]
        except RedisError as exc:
            replies = [exc] * len(group)
        for entry, reply in zip(group, replies, strict=True):
            entry.reply = reply


def _with_known_node(
    pending: Sequence[_PendingRequest], topology: Topology
) -> Generator[SendCommands | Backoff | NodeQuery, Any, Sequence[_PendingRequest]]:
    """Discover the nodes if one is unknown. Return the requests whose node is known; the others get the error."""
    unknown = [each for each in pending if not each.node and topology.locate(each.request.key) is None]
    if not unknown:
        return pending
    try:
        yield from topology.discover()
    except RedisError as exc:
        for each in unknown:
            each.reply = each.reply if isinstance(exc, OutOfTime) and each.reply is not None else exc
        return [each for each in pending if each not in unknown]
    return pending


def _commands(group: Sequence[_PendingRequest], in_cluster: bool) -> list[CommandArgs]:
    """Return what is sent. Only the first call of a script carries its source: the later ones find it loaded."""
    sent: set[int] = set()
    commands = []
    for each in group:
        request = each.request
        if each.with_source and isinstance(request, Call) and id(request.script) not in sent:
            sent.add(id(request.script))
            each.source_sent = True
            commands.append(request.eval_args(in_cluster))
        else:
            commands.append(request.command_args(in_cluster))
    return commands


def _outcome(pending: _PendingRequest, topology: Topology) -> Any:
    """Return the reply, or the last error with an explanation."""
    error = pending.reply
    if pending.lost is not None and isinstance(error, (AskError, *NOT_EXECUTED_ERRORS)):
        return pending.lost  # that attempt may have been executed
    if isinstance(topology, Cluster) and slot_migration.is_migrating(error):
        slot = slot_migration.slot_of(pending.request.key)
        return SlotMigrating(slot, time.monotonic() - pending.waits_since, str(topology))
    if isinstance(error, AskError) and topology.redirects:
        if pending.redirects < MAX_REDIRECTS:
            return ClusterDownError(
                f"The slot of {pending.request.key!r} has moved to {error.host}:{error.port}, and no retry was left to "
                "send the request there."
            )
        return ClusterDownError(
            f"The nodes of the cluster disagree about the node of the slot of {pending.request.key!r}: "
            f"the last redirection named {error.host}:{error.port}."
        )
    return error


def is_connection_loss(error: Any) -> bool:
    """Return whether the connection failed, not because of its credentials."""
    return isinstance(error, ConnectionError | TimeoutError) and not isinstance(error, AUTHENTICATION_ERRORS)


def _is_unblocked(error: RedisError) -> bool:
    return isinstance(error, ResponseError) and str(error).startswith(_UNBLOCKED)
