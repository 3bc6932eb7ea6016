"""Waiting until replicas have a grant: a failover to one of them then does not lose it.

WAIT counts the replicas that have what its own connection has written, and the grant may have come over
another. So a mark is written before it in the same pipeline: a replica that has the mark has the older grant.
"""

from __future__ import annotations

from collections.abc import Sequence

from django_redis_components.core.protocol import Batch, Command, Flow
from django_redis_components.core.settings import conf

#: Milliseconds that replicas have to acknowledge a grant. A refused caller has waited this long.
WAIT_MS = 1_000
#: Share of the lease, and of the socket timeout, that the wait may take at most.
SHARE = 0.3


def wait(ack_keys: Sequence[str], wanted: int, ttl_ms: int, using: str) -> Flow[int]:
    """Return how many replicas acknowledged the grant within `WAIT_MS`, on the node with the fewest.

    Args:
        ack_keys: a key to write on each node that the grant was made on.
        wanted: number of replicas at which the wait ends.
        ttl_ms: milliseconds of the lease.
        using: our connection alias.
    """
    socket_ms = conf.settings().connections[using].socket_timeout_s * 1_000
    limit_ms = max(1, int(min(WAIT_MS, ttl_ms * SHARE, socket_ms * SHARE)))
    fewest = -1
    for key in ack_keys:
        mark = Command("SET", key, 1, "PX", limit_ms, retry=True)
        _, acknowledged = yield Batch([mark, Command("WAIT", wanted, limit_ms, key=key)])
        fewest = acknowledged if fewest < 0 else min(fewest, acknowledged)
        if fewest < wanted:
            break
    return fewest
