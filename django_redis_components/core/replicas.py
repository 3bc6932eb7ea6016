"""Waiting until replicas have what was written: a failover to one of them then does not lose it.

WAIT counts the replicas that have what its own connection has written, and the write may have come over another, or may
have been made by an earlier attempt whose reply was lost. So a mark is written directly before it: a replica that has
the mark has all that is older. If a request before a WAIT is sent again, so is the WAIT (`core.client.retry`).
"""

from __future__ import annotations

import math

from django_redis_components.core.client.budget import budget_left_s
from django_redis_components.core.protocol import Command
from django_redis_components.core.settings import conf

#: Milliseconds that replicas have to acknowledge a write. The caller of a write that they do not acknowledge has waited
#: this long.
WAIT_MS = 1_000
#: Share of the socket timeout, of a lease, and of the budget of a page, that the wait may take at most. A wait that
#: outlasts the timeout or the budget loses the reply to the write, which was executed.
SHARE = 0.3
#: Most replicas that may be required.
MAX_REPLICAS = 100


def wait_limit_ms(using: str, lease_ms: float = math.inf) -> int:
    """Return the milliseconds that replicas have to acknowledge a write.

    Args:
        using: connection alias.
        lease_ms: milliseconds of the lease that the write has granted.
    """
    limit_s = min(conf.settings().connections[using].socket_timeout_s, budget_left_s())
    return max(1, int(min(WAIT_MS, lease_ms * SHARE, limit_s * 1_000 * SHARE)))


def acknowledgement(key: str, wanted: int, limit_ms: int) -> tuple[Command, Command]:
    """Return the last two commands of a `Batch`, of which the second counts the replicas that have all before it.

    Args:
        key: a key to write, on the node of the other requests.
        wanted: number of replicas at which the wait ends.
        limit_ms: see `wait_limit_ms`.
    """
    mark = Command("SET", key, 1, "PX", limit_ms, retry=True)
    return mark, Command("WAIT", wanted, limit_ms, key=key, retry=True)
