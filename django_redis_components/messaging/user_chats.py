"""All chats of a user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Call, Flow, arun, run
from django_redis_components.messaging import arguments, keyspace, user_index
from django_redis_components.messaging.arguments import User, check_user
from django_redis_components.messaging.chat import ChatState, state_of
from django_redis_components.messaging.message import Messages, fetched
from django_redis_components.messaging.scripts import FETCH, UNREAD

#: Calls of one round trip.
CHUNK = 100

_Pending = list[tuple[str, Messages]]


def chats(user: User, *, using: str = "default") -> list[str]:
    """Return the ids of a user's chats, that with the latest message first. At most 1,000."""
    return list(run(connections.client(using), _states(user)))


async def achats(user: User, *, using: str = "default") -> list[str]:
    """See `chats`."""
    return list(await arun(connections.aclient(using), _states(user)))


def unread_counts(user: User, *, using: str = "default") -> dict[str, int]:
    """Return the number of unread messages in each of a user's chats, that with the latest message first."""
    return _counts(run(connections.client(using), _states(user)))


async def aunread_counts(user: User, *, using: str = "default") -> dict[str, int]:
    """See `unread_counts`."""
    return _counts(await arun(connections.aclient(using), _states(user)))


def pending(user: User, limit: int = 50, *, using: str = "default") -> _Pending:
    """Return the messages after the last seen one in all chats of a user, chats without any left out.

    Args:
        user: the user.
        limit: most messages of each chat, 1 to 1,000.

    Returns:
        Pairs of chat id and messages.
    """
    return run(connections.client(using), _pending(user, limit))


async def apending(user: User, limit: int = 50, *, using: str = "default") -> _Pending:
    """See `pending`."""
    return await arun(connections.aclient(using), _pending(user, limit))


def _states(user: User) -> Flow[dict[str, ChatState]]:
    name = check_user(user)
    ids = yield from user_index.chat_ids(name)
    replies = yield from _replies(name, ids, [UNREAD(chat=keyspace.chat_key(one), user=name) for one in ids])
    found = [(chat_id, state_of(reply)) for chat_id, reply in replies]
    return dict(sorted(found, key=lambda pair: -pair[1].last_ms))


def _counts(states: dict[str, ChatState]) -> dict[str, int]:
    return {chat_id: state.unread for chat_id, state in states.items()}


def _pending(user: User, limit: int) -> Flow[_Pending]:
    name = check_user(user)
    arguments.check_count(limit, "limit", 1, arguments.MAX_FETCH)
    ids = yield from user_index.chat_ids(name)
    calls = [FETCH(chat=keyspace.chat_key(one), user=name, after="", limit=limit) for one in ids]
    replies = yield from _replies(name, ids, calls)
    found = [(chat_id, fetched(reply)) for chat_id, reply in replies]
    return [(chat_id, messages) for chat_id, messages in found if messages]


def _replies(user: str, ids: Sequence[str], calls: Sequence[Call]) -> Flow[list[tuple[str, Any]]]:
    """Return the reply for each chat. Chats of which the user is no member any more are removed from the index."""
    found, stale = [], []
    for start in range(0, len(calls), CHUNK):
        replies = yield Batch(calls[start : start + CHUNK])
        for chat_id, reply in zip(ids[start:], replies, strict=False):
            if isinstance(reply, int):
                stale.append(chat_id)
            else:
                found.append((chat_id, reply))
    for chat_id in stale:
        yield from user_index.remove_chat(chat_id, [user])
    return found
