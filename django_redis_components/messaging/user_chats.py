"""All chats of a user."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from django_redis_components.core.arguments import check_int
from django_redis_components.core.chunks import chunks
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Call, Flow, arun, run
from django_redis_components.messaging import arguments, keyspace, user_index
from django_redis_components.messaging.arguments import User, check_user
from django_redis_components.messaging.chat_info import ChatInfo, info_of, sent_ms
from django_redis_components.messaging.message import Messages, fetched
from django_redis_components.messaging.scripts import FETCH, UNREAD

#: Calls of one round trip, and messages unless one chat has more: with the largest bodies 16 MiB.
CHUNK = 100
CHUNK_MESSAGES = 256
#: Messages that `pending` returns at most, and bytes of bodies after which it reads no more.
MAX_PENDING = 10_000
MAX_PENDING_BYTES = 16 * 1024 * 1024


def chats(user: User, *, using: str = "default") -> list[str]:
    """Return the ids of a user's chats, that with the latest message first. At most 10,000."""
    return list(run(connections.client(using), _states(user)))


async def achats(user: User, *, using: str = "default") -> list[str]:
    """See `chats`."""
    return list(await arun(connections.aclient(using), _states(user)))


def unread_counts(user: User, *, using: str = "default") -> dict[str, int]:
    """Return the number of unread messages in each of a user's chats, that with the latest message first.

    Pages show them: while Redis is slow or unavailable, it raises `RedisError` after `PAGE_TIMEOUT` at most.
    """
    return _counts(run(connections.page_client(using), _states(user)))


async def aunread_counts(user: User, *, using: str = "default") -> dict[str, int]:
    """See `unread_counts`."""
    return _counts(await arun(connections.apage_client(using), _states(user)))


def pending(user: User, *, limit: int = 50, using: str = "default") -> list[tuple[str, Messages]]:
    """Return the messages after the last seen one in all chats of a user, chats without any left out.

    The chat with the latest message is first. At most 10,000 messages are returned, and after 16 MiB no further chats
    are read: acknowledge the messages and call it again for the others.

    Args:
        user: the user.
        limit: most messages of each chat, 1 to 1,000.

    Returns:
        Pairs of chat id and messages.
    """
    return run(connections.client(using), _pending(user, limit))


async def apending(user: User, *, limit: int = 50, using: str = "default") -> list[tuple[str, Messages]]:
    """See `pending`."""
    return await arun(connections.aclient(using), _pending(user, limit))


def _states(user: User) -> Flow[dict[str, ChatInfo]]:
    name = check_user(user)
    ids = yield from user_index.chat_ids(name)
    found = []
    for some in chunks(ids, CHUNK):
        calls = {one: UNREAD(chat=keyspace.chat_key(one), user=name) for one in some}
        replies = yield from _replies(name, calls)
        found += [(sent_ms(reply), chat_id, info_of(reply)) for chat_id, reply in replies.items()]
    return {chat_id: info for _, chat_id, info in sorted(found, key=itemgetter(0), reverse=True)}


def _counts(states: dict[str, ChatInfo]) -> dict[str, int]:
    return {chat_id: state.unread for chat_id, state in states.items()}


def _pending(user: User, limit: int) -> Flow[list[tuple[str, Messages]]]:
    name = check_user(user)
    check_int(limit, "limit", 1, arguments.MAX_FETCH)
    states = yield from _states(name)
    fetched_chats, size = [], 0
    for part in _parts(states, limit):
        calls = {
            one: FETCH(chat=keyspace.chat_key(one), user=name, after="", before="", limit=part[one]) for one in part
        }
        replies = yield from _replies(name, calls)
        fetched_chats += [(chat_id, fetched(reply)) for chat_id, reply in replies.items()]
        size += sum(map(_size, replies.values()))
        if size > MAX_PENDING_BYTES:
            break
    return [(chat_id, messages) for chat_id, messages in fetched_chats if messages]


def _parts(states: dict[str, ChatInfo], limit: int) -> list[dict[str, int]]:
    """Return the chats to read in each round trip, with the number of messages of each."""
    parts: list[dict[str, int]] = [{}]
    remaining, size = MAX_PENDING, 0
    for chat_id, state in states.items():
        count = min(state.unread, limit, remaining)
        if not count:
            continue
        if size + count > CHUNK_MESSAGES or len(parts[-1]) == CHUNK:
            parts.append({})
            size = 0
        parts[-1][chat_id] = count
        remaining, size = remaining - count, size + count
    return parts


def _size(reply: list[Any]) -> int:
    """Return the bytes of the bodies in a reply of `FETCH`."""
    *_, entries, edits = reply
    return sum(len(fields[3]) for _, fields in entries) + sum(map(len, edits))


def _replies(user: str, calls: dict[str, Call]) -> Flow[dict[str, Any]]:
    """Return the reply for each chat. Chats of which the user is no member any more are removed from the index."""
    replies = yield Batch(list(calls.values()))
    found = dict(zip(calls, replies, strict=True))
    yield from user_index.remove([(chat_id, user) for chat_id, reply in found.items() if isinstance(reply, int)])
    return {chat_id: reply for chat_id, reply in found.items() if not isinstance(reply, int)}
