"""Outcomes that the server refuses, kept apart so that they hold up no other.

A batch of outcomes that the server refuses is sent again one by one; if it was out of memory, the large ones after a
pause, since they fill the server's buffers. What is refused alone waits here and is tried again while the server takes
small writes. At last a failure that names the cause replaces it: a result that does not fit is not tried for ever.

A refusal that concerns every write (OOM for a small outcome, NOPERM, MISCONF) is no fault of the outcome: it stays
among the others, and all wait.
"""

from __future__ import annotations

import logging
import time

from redis.exceptions import NoPermissionError, OutOfMemoryError, RedisError

from django_redis_components.core import conf
from django_redis_components.core import serialization as arguments
from django_redis_components.core.outage_log import is_error_reply
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue.exceptions import OutcomeRefused
from django_redis_components.taskqueue.stats import fingerprint as fingerprints
from django_redis_components.taskqueue.store.job import Ack

logger = logging.getLogger("django_redis_components.taskqueue")

#: Bytes of an outcome above which "out of memory" may be for its size.
LARGE_BYTES = 4_096
#: Tries of a large outcome while the server takes small writes, before it is replaced by a failure.
WHOLE_TRIES = 3
#: Tries after which an outcome that is refused for another reason is given up. Its lease ends then.
MAX_TRIES = 6
#: Seconds between two tries: the first pause, which doubles, and the longest.
PAUSE_S, MAX_PAUSE_S = 0.5, 30.0
#: Words with which a server refuses every write, or every script.
_GENERAL = ("MISCONF", "NOREPLICAS", "NOAUTH", "BUSY", "READONLY", "UNKILLABLE")
#: How Redis and Valkey say that the user may not run a command of a script.
_NO_PERMISSION = ("ACL failure in script", "The user executing the script can't run")


def is_at_fault(ack: Ack, exc: BaseException) -> bool:
    """Whether an outcome that was refused alone is the reason."""
    said = str(exc)
    if not is_error_reply(exc) or isinstance(exc, NoPermissionError) or said.startswith(_GENERAL):
        return False
    if any(words in said for words in _NO_PERMISSION):
        return False
    return not isinstance(exc, OutOfMemoryError) or len(ack.payload) > LARGE_BYTES


class RefusedOutcomes:
    """The outcomes of one process that were refused alone."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, Ack]] = []
        self._tries: dict[tuple[str, str], int] = {}

    def set_aside(self, ack: Ack) -> None:
        """Keep a large one of a batch for which the server had no memory."""
        said = "The outcome (%s, %d bytes) of task %s waits: the server is out of memory."
        logger.warning(said, ack.outcome, len(ack.payload), ack.id)
        self.wait(ack)

    def add(self, ack: Ack, exc: RedisError) -> bool:
        """Keep one that was refused for its own fault; False if it is given up."""
        tries = self._tries[ack.id, ack.token] = self._tries.get((ack.id, ack.token), 0) + 1
        if tries >= MAX_TRIES:
            logger.error("The outcome (%s) of task %s is given up: Redis refuses it (%s).", ack.outcome, ack.id, exc)
            self.forget(ack)
            return False
        if ack.payload and tries == (WHOLE_TRIES if isinstance(exc, OutOfMemoryError) else 1):
            said = "Redis refuses the outcome (%s, %d bytes) of task %s (%s); a failure that says so is sent instead."
            logger.error(said, ack.outcome, len(ack.payload), ack.id, exc)
            ack = replaced(ack, exc)
        self.wait(ack, min(MAX_PAUSE_S, PAUSE_S * 2 ** (tries - 1)))
        return True

    def wait(self, ack: Ack, pause_s: float | None = None) -> None:
        """Keep one for a pause, without another try."""
        self._waiting.append((time.monotonic() + (PAUSE_S if pause_s is None else pause_s), ack))

    def forget(self, ack: Ack) -> None:
        """It has arrived, or is given up."""
        self._tries.pop((ack.id, ack.token), None)

    def take_due(self) -> list[Ack]:
        """Take those whose pause is over."""
        now = time.monotonic()
        due = [entry for entry in self._waiting if entry[0] <= now]
        for entry in due:
            self._waiting.remove(entry)
        return [ack for _, ack in due]

    def seconds_to_next(self) -> float | None:
        """Seconds until the next try; None without any."""
        return max(0.0, min(at for at, _ in self._waiting) - time.monotonic()) if self._waiting else None


def replaced(ack: Ack, exc: RedisError) -> Ack:
    """A failure in the place of an outcome that is refused. What has failed or is retried stays so."""
    refused = OutcomeRefused(
        f"Redis refused the outcome ({ack.outcome}) of this run, {len(ack.payload):,} bytes: {exc}."
        ' See TASKQUEUE["MAX_RESULT_BYTES"] and the memory of the server.'
    )
    kind = type(refused)
    payload = arguments.encode(
        {"exception_class_path": f"{kind.__module__}.{kind.__qualname__}", "message": str(refused), "traceback": ""}
    )
    ran_us = ack.note.partition(" ")[0]
    note = f"{ran_us} {fingerprints.fingerprint(refused)}"
    if ack.outcome in ("fail", "retry"):
        return ack._replace(payload=payload, note=note)
    ttl_ms = to_ms(conf.settings().taskqueue.failed_ttl_s, "failed_ttl")
    return Ack(ack.id, ack.token, "fail", payload, ttl_ms=ttl_ms, note=note)
