"""Taking from a holder what it holds. The server compares the token: whoever has taken it since then keeps it."""

from __future__ import annotations

from django_redis_components.core.leasing.wait_queue import HANDED_OFF, HANDOFF_MS, ReleaseCall
from django_redis_components.core.protocol import Call
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.lock_places import Place
from django_redis_components.locks.group import GroupScripts
from django_redis_components.locks.lock_scripts import PlainScripts
from django_redis_components.locks.readwrite import ReadWriteScripts
from django_redis_components.semaphores.scripts import CONFIRM, RELEASE
from django_redis_components.semaphores.state import semaphore_keys

#: Longest token that is accepted from a form, in characters.
MAX_TOKEN = 1_000


def release(place: Place, token: str, using: str) -> bool:
    """Release it as its holder would; False if this token does not hold it (any more).

    It is sent once: after an error of the connection it may have been done.

    Raises:
        redis.exceptions.RedisError: the server does not answer.
    """
    call = _call(place, token)
    client = clients.client(using)
    reply = client.execute(call)
    if reply == HANDED_OFF and isinstance(call, ReleaseCall):
        client.execute(call.confirm)
    return bool(reply)


def _call(place: Place, token: str) -> Call:
    if place.kind == "semaphore":
        made = semaphore_keys(place.name)
        release = RELEASE(**made, permit=token, handoff_ms=HANDOFF_MS)
        confirm = CONFIRM(base=made["holders"], handoff_ms=HANDOFF_MS)
        return ReleaseCall(release.script, release.keys, release.args, confirm)
    if place.kind == "group":
        [call] = GroupScripts([place.name], place.group, 1.0).release(token)
    elif place.kind == "readwrite":
        [call] = ReadWriteScripts(place.name, 1.0, token[-2:]).release(token)
    else:
        [call] = PlainScripts(place.name, 1.0).release(token)
    return call
