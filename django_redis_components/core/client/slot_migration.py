"""Cluster slots that are being moved to another node: how long requests wait, and what is logged.

While a slot moves, some of its keys are on the source node and some on the target. The source answers ASK or
TRYAGAIN for keys that it does not have. ASKING is never sent: a script would run on the target with half of its keys.
The client asks the source again until the slot has moved, which uses no retry.

A script that derives keys gets a guard key (`scripts`): a key of the slot that never exists. Without it, a script whose
declared keys are still on the source would run there and fail midway at a derived key that has moved.
"""

from __future__ import annotations

import random
import time

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import AskError, MovedError, TryAgainError

from django_redis_components.core.guarded_logger import guarded_logger

#: Shortest and longest delay before a request for a moving slot is sent again, in seconds. Shorter: more load on a
#: node that is busy moving keys. Longer: requests continue later than they could.
RETRY_DELAY_S = (0.05, 0.5)
#: Seconds after which a slot that is still being moved is logged again.
LOG_AGAIN_S = 60.0
#: Seconds after which a wait for nodes that redirect to each other is logged: after a failover they do for a moment.
DISAGREE_LOG_S = 1.0

_log = guarded_logger(__name__)


def slot_of(key: object) -> int:
    """Return the Cluster slot of a key."""
    return int(key_slot(key if isinstance(key, bytes) else str(key).encode(), REDIS_CLUSTER_HASH_SLOTS))


def is_migrating(error: object) -> bool:
    """Return whether a node refused a request because its slot is being moved. Nothing was executed."""
    return isinstance(error, TryAgainError) or (isinstance(error, AskError) and not isinstance(error, MovedError))


def retry_delay_s() -> float:
    """Return the seconds until a request for a moving slot is sent again."""
    return random.uniform(*RETRY_DELAY_S)


class SlotWaits:
    """Logs a warning when requests start to wait for a slot, and an info when they continue."""

    def __init__(self) -> None:
        #: Slot -> start of the wait, and when it was last logged, by the monotonic clock.
        self._waits: dict[int, tuple[float, float]] = {}

    def begin(self, slot: int, where: object, timeout_s: float, *, is_moving: bool = True) -> None:
        """Log that requests wait for this slot, unless that was logged in the last `LOG_AGAIN_S`.

        Args:
            is_moving: whether the slot is being moved; else its nodes redirect to each other.
        """
        now = time.monotonic()
        before = self._waits.get(slot)
        if before is not None and now < before[1] + LOG_AGAIN_S:
            return
        self._waits[slot] = (before[0] if before else now, now)
        why = (
            "is being moved to another node"
            if is_moving
            else "is served by no node, since nodes redirect to each other"
        )
        _log.warning("Slot %d of the Cluster %s %s: its requests wait, at most %g s each.", slot, where, why, timeout_s)

    def end(self, slot: int) -> None:
        """Log that requests for this slot are executed again."""
        waited = self._waits.pop(slot, None)
        if waited is not None:
            _log.info(
                "Slot %d of the Cluster is served again; its requests waited for %.1f s.",
                slot,
                time.monotonic() - waited[0],
            )
