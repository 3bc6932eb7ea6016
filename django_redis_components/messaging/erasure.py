"""Erasure of the data of one user."""

from __future__ import annotations

from typing import NamedTuple

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Command, Flow, Read, arun, run
from django_redis_components.messaging import keyspace, user_index
from django_redis_components.messaging.arguments import User, check_user
from django_redis_components.messaging.mailbox import delete_flow
from django_redis_components.messaging.scripts import ERASE, LEAVE

#: Messages that one call looks at.
CHUNK = 200


class Erasure(NamedTuple):
    """What `erase_user` has done.

    Attributes:
        chats: chats that were looked at: those of the user, and those that the user has left.
        is_complete: False if the user had more chats than one call looks at: call it again.
    """

    chats: int
    is_complete: bool


def erase_user(user: User, *, using: str = "default") -> Erasure:
    """Delete the messages that a user has sent in chats, leave these, and delete the user's mailbox and indexes.

    Run ``reconcile`` first if the index may be incomplete. Messages to other users' mailboxes are theirs and remain.
    """
    return run(connections.client(using), _erase_user(user))


async def aerase_user(user: User, *, using: str = "default") -> Erasure:
    """See `erase_user`."""
    return await arun(connections.aclient(using), _erase_user(user))


def _erase_user(user: User) -> Flow[Erasure]:
    name = check_user(user)
    limit = user_index.MAX_CHATS
    indexes = [keyspace.chats_key(name), keyspace.left_key(name)]
    replies = yield Batch([Read("ZREVRANGE", key, 0, limit - 1) for key in indexes])
    ids = dict.fromkeys(chat_id.decode() for found in replies for chat_id in found)
    for chat_id in ids:
        yield from _erase_messages(chat_id, name)
        remaining = yield LEAVE(chat=keyspace.chat_key(chat_id), user=name)
        if not remaining:
            yield from user_index.remove_chat(chat_id, [], is_deleted=True)
    for key, found in zip(indexes, replies, strict=True):
        if found:
            yield Command("ZREM", key, *found, retry=True)
    yield from delete_flow(name)
    return Erasure(len(ids), all(len(found) < limit for found in replies))


def _erase_messages(chat_id: str, user: str) -> Flow[None]:
    after = 0
    while True:
        last = yield ERASE(chat=keyspace.chat_key(chat_id), user=user, after=after, count=CHUNK)
        if not last:
            return
        after = last
