"""Release of a lock or permit by an operator. The server compares the token: a later holder is not affected."""

from __future__ import annotations

from django_redis_components.core.protocol import Flow, run
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.locks.resources import Resource
from django_redis_components.locks.operators import release_flow as release_lock
from django_redis_components.semaphores.operators import release_flow as release_permits

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
    return run(clients.client(using), _release(resource, token, author)) > 0


def _release(resource: Resource, token: str, author: str) -> Flow[int]:
    if resource.kind == "semaphore":
        return release_permits(resource.name, token=token, author=author)
    group = resource.group if resource.kind == "group" else None
    readwrite = resource.kind == "readwrite"
    return release_lock(resource.name, token=token, group=group, readwrite=readwrite, author=author)
