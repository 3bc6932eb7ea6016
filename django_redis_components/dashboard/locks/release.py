"""Release of a lock or permit by an operator. The server compares the token: a later holder is not affected."""

from __future__ import annotations

from django_redis_components.core.leasing.wait_queue import HANDED_OFF, HANDOFF_MS, ReleaseCall
from django_redis_components.core.protocol import Call
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.locks.resources import Resource
from django_redis_components.locks.group import GroupScripts
from django_redis_components.locks.lock_scripts import PlainScripts
from django_redis_components.locks.readwrite import ReadWriteScripts
from django_redis_components.semaphores.scripts import CONFIRM, RELEASE
from django_redis_components.semaphores.state import semaphore_keys

#: Longest token that a form accepts, in characters.
MAX_TOKEN = 1_000


def release(resource: Resource, token: str, using: str) -> bool:
    """Release a resource on behalf of its holder.

    The call is sent once: after a connection error the outcome is unknown.

    Returns:
        False if the token does not hold the resource.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    call = _release_call(resource, token)
    client = clients.client(using)
    reply = client.execute(call)
    if reply == HANDED_OFF and isinstance(call, ReleaseCall):
        client.execute(call.confirm)
    return bool(reply)


def _release_call(resource: Resource, token: str) -> Call:
    if resource.kind == "semaphore":
        keys = semaphore_keys(resource.name)
        release = RELEASE(**keys, permit=token, handoff_ms=HANDOFF_MS)
        confirm = CONFIRM(base=keys["holders"], handoff_ms=HANDOFF_MS)
        return ReleaseCall(release.script, release.keys, release.args, confirm)
    if resource.kind == "group":
        [call] = GroupScripts([resource.name], resource.group, 1.0).release(token)
    elif resource.kind == "readwrite":
        [call] = ReadWriteScripts(resource.name, 1.0, token[-2:]).release(token)
    else:
        [call] = PlainScripts(resource.name, 1.0).release(token)
    return call
