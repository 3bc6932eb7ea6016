"""Repair of the index of each user's chats from the members of the chats."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from django_redis_components.core import key_scan
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Flow, Read, arun, run
from django_redis_components.core.settings import conf
from django_redis_components.messaging import keyspace, user_index
from django_redis_components.messaging.creation import MAX_MEMBERS

#: Chats of a user that are compared in one round trip.
CHUNK = 500


@dataclasses.dataclass
class Reconciliation:
    """What `reconcile` has found.

    Attributes:
        chats: chats of the server.
        added: chats that were missing in the index of a member.
        removed: chats in the index of a non-member.
    """

    chats: int = 0
    added: int = 0
    removed: int = 0


def reconcile(*, using: str = "default") -> Reconciliation:
    """Repair the indexes of users' chats. It looks at all keys of the server, a thousand at a time.

    Raises:
        redis.exceptions.RedisError: an index could not be written; call it again.
    """
    client = connections.client(using)
    return run(client, _repair(client.key_per_primary()))


async def areconcile(*, using: str = "default") -> Reconciliation:
    """See `reconcile`."""
    client = connections.aclient(using)
    return await arun(client, _repair(await client.key_per_primary()))


def _repair(anchors: Sequence[str]) -> Flow[Reconciliation]:
    """Repair what the keys of all primaries say."""
    done, start = Reconciliation(), f"{conf.settings().prefix}:messaging:{{".encode()
    ends = {b"}:chat:members": _add_members, b"}:chats": _remove_chats}
    pattern, cursors = f"{key_scan.escape_glob(start.decode())}*", key_scan.start(anchors)
    while cursors:
        found, cursors = yield from key_scan.scan_step(cursors, pattern, count=key_scan.COUNT)
        for key in found:
            for end, repair in ends.items():
                if key.endswith(end) and (name := _text(key.removeprefix(start).removesuffix(end))) is not None:
                    yield from repair(name, done)
    return done


def _text(name: bytes) -> str | None:
    """Return a name as text; None if it is not UTF-8, as no name of a chat or user is."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def _add_members(chat_id: str, done: Reconciliation) -> Flow[None]:
    members = yield Read("ZRANGE", keyspace.chat_key(chat_id, "members"), 0, MAX_MEMBERS - 1)
    users = [user.decode() for user in members]
    scores: list[Any] = yield Batch([Read("ZSCORE", keyspace.chats_key(user), chat_id) for user in users])
    missing = [(chat_id, user) for user, score in zip(users, scores, strict=True) if score is None]
    yield from user_index.add(missing, is_strict=True)
    done.chats += 1
    done.added += len(missing)


def _remove_chats(user: str, done: Reconciliation) -> Flow[None]:
    cursor = 0
    while True:
        reply = yield Read("ZSCAN", keyspace.chats_key(user), cursor, "COUNT", CHUNK)
        cursor, some = int(reply[0]), [chat_id.decode() for chat_id in reply[1][::2]]
        scores = yield Batch([Read("ZSCORE", keyspace.chat_key(one, "members"), user) for one in some])
        entries = [(chat_id, user) for chat_id, score in zip(some, scores, strict=True) if score is None]
        yield from user_index.remove(entries, is_strict=True)
        done.removed += len(entries)
        if not cursor:
            return
