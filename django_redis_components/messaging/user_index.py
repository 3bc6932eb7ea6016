"""The index of each user's chats, and the dashboard's indexes.

It is in another slot than the chats, so it is written after them, as well as possible: the members of a chat are the
truth. A write that fails is logged, and `reconcile` repairs the index. Readers ignore what is not true any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.messaging import keyspace

#: Chats of a user that are read.
MAX_CHATS = 1_000
#: Milliseconds after the last write or read until the index of a user expires.
TTL_MS = 400 * 86_400 * 1_000
#: Names that each index of the dashboard keeps, the latest.
MAX_INDEXED = 1_000
#: Commands of one round trip.
CHUNK = 500

logger = logging.getLogger("django_redis_components.messaging")


def add_chat(chat_id: str, users: Iterable[str], *, is_new: bool = False) -> Flow[None]:
    """Add a chat to the index of each user, and a new one to the index of chats."""
    requests: list[Command] = []
    for user in users:
        key = keyspace.chats_key(user)
        requests.append(Command("ZADD", key, "NX", _order(), chat_id, retry=True))
        requests.append(Command("PEXPIRE", key, TTL_MS, retry=True))
    if is_new:
        requests += _index_commands(keyspace.index_key(), chat_id)
    yield from write(requests)


def remove_chat(chat_id: str, users: Iterable[str], *, is_deleted: bool = False) -> Flow[None]:
    """Remove a chat from the index of each user. While it exists it may have messages of the user."""
    requests: list[Command] = []
    for user in users:
        requests.append(Command("ZREM", keyspace.chats_key(user), chat_id, retry=True))
        if not is_deleted:
            key = keyspace.left_key(user)
            requests += [
                Command("ZADD", key, _order(), chat_id, retry=True),
                Command("ZREMRANGEBYRANK", key, 0, -MAX_CHATS - 1, retry=True),
                Command("PEXPIRE", key, TTL_MS, retry=True),
            ]
    if is_deleted:
        requests.append(Command("ZREM", keyspace.index_key(), chat_id, retry=True))
    yield from write(requests)


def chat_ids(user: str) -> Flow[list[str]]:
    """Return the ids of the chats in the index of a user, and let the index live on."""
    key = keyspace.chats_key(user)
    found, _ = yield Batch([Read("ZREVRANGE", key, 0, MAX_CHATS - 1), Command("PEXPIRE", key, TTL_MS, retry=True)])
    return [chat_id.decode() for chat_id in found]


def write(requests: Sequence[Command]) -> Flow[None]:
    """Write to indexes. An error is logged: what it is about has been done."""
    for start in range(0, len(requests), CHUNK):
        try:
            replies = yield Batch(requests[start : start + CHUNK], return_exceptions=True)
        except RedisError as exc:
            replies = [exc]
        _log_first_error(replies)


def index_name(kind: str, name: str) -> Flow[None]:
    """Add a mailbox or a broadcast to the dashboard's index of its kind; see `keyspace.index_key`."""
    yield from write(_index_commands(keyspace.index_key(kind), name))


def _index_commands(key: str, name: str) -> list[Command]:
    """Return the commands that add a name to an index of the dashboard."""
    return [
        Command("ZADD", key, _order(), name, retry=True),
        Command("ZREMRANGEBYRANK", key, 0, -MAX_INDEXED - 1, retry=True),
        Command("PEXPIRE", key, TTL_MS, retry=True),
    ]


def _order() -> int:
    """Return the score of an entry: indexes are read from the latest on. Nothing else depends on this clock."""
    return int(time.time() * 1_000)


def _log_first_error(replies: Sequence[Any]) -> None:
    error = next((reply for reply in replies if isinstance(reply, Exception)), None)
    if error is not None:
        logger.warning("An index of messaging was not written; run manage.py reconcile_messaging: %s", error)
