"""Waiting until replicas have a grant; see `core.replicas`."""

from __future__ import annotations

from collections.abc import Sequence

from django_redis_components.core.protocol import Batch, Flow
from django_redis_components.core.replicas import acknowledgement, wait_limit_ms


def wait(ack_keys: Sequence[str], wanted: int, ttl_ms: int, using: str) -> Flow[int]:
    """Return how many replicas acknowledged the grant in time, on the node with the fewest.

    Args:
        ack_keys: a key to write on each node that the grant was made on.
        wanted: number of replicas at which the wait ends.
        ttl_ms: milliseconds of the lease.
        using: our connection alias.
    """
    limit_ms = wait_limit_ms(using, ttl_ms)
    fewest = -1
    for key in ack_keys:
        _, acknowledged = yield Batch(acknowledgement(key, wanted, limit_ms))
        fewest = acknowledged if fewest < 0 else min(fewest, acknowledged)
        if fewest < wanted:
            break
    return fewest
