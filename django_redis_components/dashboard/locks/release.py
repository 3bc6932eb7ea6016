"""Release of a lock or permit by an operator. The server compares the token: a later holder is not affected."""

from __future__ import annotations

from django_redis_components.core.leasing.operators import force_release
from django_redis_components.core.protocol import run
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.locks.resources import Resource

#: Longest token that a form accepts, in characters.
MAX_TOKEN = 1_000


def release(resource: Resource, token: str, using: str, *, author: str) -> bool:
    """Release a resource on behalf of its holder.

    The call is sent once: after a connection error the outcome is unknown.

    Args:
        author: the operator, named in the error of the former holder.

    Returns:
        False if the token does not hold the resource.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    return run(clients.client(using), force_release(resource.lease_kind().parts(), token, author)) > 0
