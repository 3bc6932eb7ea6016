"""The index of each user's chats, and the dashboard's indexes.

It is in another slot than the chats, so it is written after them, as well as possible: the members of a chat are the
truth. A write that fails is logged, and `reconcile` repairs the index. Readers ignore what is not true any more, so an
entry too many is harmless; after a removal the members are read again, because the user may have joined meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from redis.exceptions import RedisError

from django_redis_components.core.chunks import chunks
from django_redis_components.core.circuit_breaker import should_log_failure
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.messaging import keyspace

#: Chats of a user that are read.
MAX_CHATS = 10_000
#: Milliseconds after the last write or read until the index of a user expires.
TTL_MS = 400 * 86_400 * 1_000
#: Names that each index of the dashboard keeps, the latest.
MAX_INDEXED = 1_000
#: Commands of one round trip.
CHUNK = 500

#: The id of a chat, and a user.
Entry = tuple[str, str]

logger = guarded_logger("django_redis_components.messaging")


def add(entries: Iterable[Entry], *, is_strict: bool = False) -> Flow[None]:
    """Add chats to the indexes of users."""
    requests: list[Command] = []
    for chat_id, user in entries:
        key = keyspace.chats_key(user)
        requests.append(Command("ZADD", key, "NX", _order(), chat_id, retry=True))
        requests.append(Command("PEXPIRE", key, TTL_MS, retry=True))
    yield from write(requests, is_strict=is_strict)


def remove(entries: Sequence[Entry], *, is_strict: bool = False) -> Flow[None]:
    """Remove chats from the indexes of users."""
    requests = [Command("ZREM", keyspace.chats_key(user), chat_id, retry=True) for chat_id, user in entries]
    yield from write(requests, is_strict=is_strict)
    yield from restore(entries, is_strict=is_strict)


def restore(entries: Sequence[Entry], *, is_strict: bool = False) -> Flow[None]:
    """Add those chats to the indexes of users of which they are members."""
    for chunk in chunks(entries, CHUNK):
        reads = [Read("ZSCORE", keyspace.chat_key(chat_id, "members"), user) for chat_id, user in chunk]
        try:
            scores = yield Batch(reads)
        except RedisError as exc:
            _raise_or_log(exc, is_strict)
        else:
            found = [entry for entry, score in zip(chunk, scores, strict=True) if score is not None]
            yield from add(found, is_strict=is_strict)


def add_left_chat(chat_id: str, user: str) -> Flow[None]:
    """Note, before a user leaves a chat, that it may have messages of the user: `forget_user` depends on it."""
    key, now_ms = keyspace.left_key(user), _order()
    yield Batch(
        [
            Command("ZADD", key, now_ms, chat_id, retry=True),
            Command("ZREMRANGEBYSCORE", key, "-inf", now_ms - TTL_MS, retry=True),
            Command("PEXPIRE", key, TTL_MS, retry=True),
        ]
    )


def chat_ids(user: str) -> Flow[list[str]]:
    """Return the ids of the chats in the index of a user, and let the index live on."""
    key = keyspace.chats_key(user)
    requests = [Read("ZREVRANGE", key, 0, MAX_CHATS), Command("PEXPIRE", key, TTL_MS, retry=True)]
    found, _ = yield Batch(requests, return_exceptions=True)  # a server that refuses writes can be read
    if isinstance(found, Exception):
        raise found
    if len(found) > MAX_CHATS:
        logger.warning("User %r has more than %d chats: the others are not read.", user, MAX_CHATS)
    return [chat_id.decode() for chat_id in found[:MAX_CHATS]]


def write(requests: Sequence[Command], *, is_strict: bool = False) -> Flow[None]:
    """Write to indexes. An error is logged: what it is about has been done. A strict write raises it."""
    for chunk in chunks(requests, CHUNK):
        try:
            yield Batch(chunk)
        except RedisError as exc:
            _raise_or_log(exc, is_strict)


def index_name(kind: str, name: str) -> Flow[None]:
    """Add a chat, a mailbox or a broadcast to the dashboard's index of its kind; see `keyspace.index_key`."""
    key = keyspace.index_key(kind)
    yield from write(
        [
            Command("ZADD", key, _order(), name, retry=True),
            Command("ZREMRANGEBYRANK", key, 0, -MAX_INDEXED - 1, retry=True),
            Command("PEXPIRE", key, TTL_MS, retry=True),
        ]
    )


def unindex_name(kind: str, name: str) -> Flow[None]:
    """Remove a name from the dashboard's index of its kind."""
    yield from write([Command("ZREM", keyspace.index_key(kind), name, retry=True)])


def _order() -> int:
    """Return the score of an entry: indexes are read from the latest on. Nothing else depends on this clock."""
    return int(time.time() * 1_000)


def _raise_or_log(error: RedisError, is_strict: bool) -> None:
    if is_strict:
        raise error
    if should_log_failure("index of messaging"):
        logger.warning("An index of messaging was not written; run manage.py reconcile_messaging: %s", error)
