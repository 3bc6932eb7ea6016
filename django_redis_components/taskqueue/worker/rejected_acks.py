"""Acks that the server rejects, kept apart so that they do not delay others.

If the server rejects a request with several acks, each is sent again alone; if it was out of memory, large ones after
a backoff, because they fill the server's buffers. An ack that is rejected alone is kept here and sent again while the
server accepts small writes. Finally it is replaced by a failure that names the cause, so a result that is too large is
not sent forever.

A server closes the connection when a string is too long for it. So large acks are kept apart after a lost connection,
and sent alone after the server has replied to a small write.

An error that concerns every write (OOM for a small ack, NOPERM, MISCONF) is not caused by the ack: it stays with the
others, and all wait.
"""

from __future__ import annotations

import time

from redis.exceptions import ConnectionError, OutOfMemoryError, RedisError

from django_redis_components.core import serialization
from django_redis_components.core.client.server import refuses_all_writes
from django_redis_components.core.names import dotted_path
from django_redis_components.core.settings import conf
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue.exceptions import OutcomeRefused
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.outage_log import is_error_reply
from django_redis_components.taskqueue.states import ERROR_OUTCOMES, Outcome
from django_redis_components.taskqueue.stats.fingerprint import identify
from django_redis_components.taskqueue.store.job import Ack

#: Bytes of a payload above which its size may be the reason for "out of memory".
LARGE_BYTES = 4_096
#: Bytes of a payload above which a server may close the connection: a quarter of the lowest limit that it accepts.
CLOSING_BYTES = 262_144
#: Times that a large ack is sent while the server accepts small writes, before a failure replaces it.
MAX_LARGE_TRIES = 3
#: Times that an ack is sent which is rejected for another reason. Then its lease ends.
MAX_TRIES = 6
#: Seconds between two tries: the first backoff, which doubles, and the longest.
BACKOFF_S, MAX_BACKOFF_S = 0.5, 30.0


def is_caused_by(ack: Ack, exc: RedisError) -> bool:
    """Return whether an ack that was sent alone is the cause of the error."""
    if isinstance(exc, OutOfMemoryError):
        return len(ack.payload) > LARGE_BYTES
    return is_error_reply(exc) and not refuses_all_writes(exc)


def may_close_connection(ack: Ack, exc: BaseException) -> bool:
    """Return whether the server may have closed the connection because of the size of the ack.

    It does so without a usable reply if a string is longer than its proto-max-bulk-len, or a request than its
    client-query-buffer-limit. It looks like an outage.
    """
    return isinstance(exc, ConnectionError) and len(ack.payload) > CLOSING_BYTES


class RejectedAcks:
    """The acks of one process that were rejected alone. Threads share it: each step on a dict is atomic in CPython."""

    def __init__(self) -> None:
        #: By task id and token: when the ack is sent again, on the monotonic clock, and the ack.
        self._postponed: dict[tuple[str, str], tuple[float, Ack]] = {}
        self._tries: dict[tuple[str, str], int] = {}

    def postpone_large(self, ack: Ack) -> None:
        """Keep a large ack of a request for which the server had no memory."""
        message = "The outcome (%s, %d bytes) of task %s is postponed: the server is out of memory."
        logger.warning(message, ack.outcome, len(ack.payload), ack.id)
        self.postpone(ack)

    def add(self, ack: Ack, exc: RedisError) -> bool:
        """Keep an ack that caused the error; return False after `MAX_TRIES`."""
        tries = self._tries[ack.id, ack.token] = self._tries.get((ack.id, ack.token), 0) + 1
        if tries >= MAX_TRIES:
            message = "The outcome (%s) of task %s is discarded after %d tries: Redis rejects it (%s)."
            logger.error(message, ack.outcome, ack.id, tries, exc)
            self.remove(ack)
            return False
        if ack.payload and tries == (MAX_LARGE_TRIES if isinstance(exc, OutOfMemoryError | ConnectionError) else 1):
            message = "Redis rejects the outcome (%s, %d bytes) of task %s (%s); a failure is sent instead."
            logger.error(message, ack.outcome, len(ack.payload), ack.id, exc)
            ack = failure_for(ack, exc)
        self.postpone(ack, min(MAX_BACKOFF_S, BACKOFF_S * 2 ** (tries - 1)))
        return True

    def postpone(self, ack: Ack, delay_s: float | None = None) -> None:
        """Keep an ack for a time, without counting a try."""
        self._postponed[ack.id, ack.token] = time.monotonic() + (BACKOFF_S if delay_s is None else delay_s), ack

    def remove(self, ack: Ack) -> None:
        """Forget the tries of an ack that was accepted or discarded."""
        self._tries.pop((ack.id, ack.token), None)

    def pop_due(self) -> list[Ack]:
        """Remove and return the acks whose backoff is over. Of two threads one gets each of them."""
        now = time.monotonic()
        due = [lease for lease, (at, _) in list(self._postponed.items()) if at <= now]
        return [entry[1] for lease in due if (entry := self._postponed.pop(lease, None)) is not None]

    def seconds_to_next(self) -> float | None:
        """Return the seconds until the next try; None without any."""
        next_at = min([at for at, _ in list(self._postponed.values())], default=None)
        return None if next_at is None else max(0.0, next_at - time.monotonic())


def failure_for(ack: Ack, exc: RedisError) -> Ack:
    """Return a failure that replaces a rejected ack. A failure or retry keeps its outcome."""
    outcome = f"the outcome ({ack.outcome}) of this run, {len(ack.payload):,} bytes"
    hint = 'See TASKQUEUE["MAX_RESULT_BYTES"] and the memory of the server.'
    if isinstance(exc, ConnectionError) or "Protocol error" in str(exc):
        hint = 'Lower TASKQUEUE["MAX_RESULT_BYTES"] to the proto-max-bulk-len of the server, or raise that.'
    verb = "closed the connection each time it received" if isinstance(exc, ConnectionError) else "rejected"
    rejected = OutcomeRefused(f"Redis {verb} {outcome}: {str(exc).rstrip('.')}. {hint}")
    payload = serialization.encode(
        {"exception_class_path": dotted_path(OutcomeRefused), "message": str(rejected), "traceback": ""}
    )
    error = identify(rejected)
    if ack.outcome in ERROR_OUTCOMES:
        return ack._replace(payload=payload, error=error)
    ttl_ms = to_ms(conf.settings().taskqueue.failed_ttl_s, "failed_ttl")
    return Ack(ack.id, ack.token, Outcome.failed, payload, ttl_ms=ttl_ms, ran_us=ack.ran_us, error=error)
