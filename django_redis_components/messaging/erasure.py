"""Erasure of the data of one user."""

from __future__ import annotations

from typing import NamedTuple

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Command, Flow, Read, arun, run
from django_redis_components.messaging import keyspace, user_index
from django_redis_components.messaging.arguments import User, check_user
from django_redis_components.messaging.mailbox import delete_flow
from django_redis_components.messaging.scripts import ERASE, LEAVE

#: Messages that one script looks at.
CHUNK = 200
#: Chats that one call of `erase_user` looks at.
MAX_CHATS = 1_000


class Erasure(NamedTuple):
    """What `erase_user` has done.

    Attributes:
        chats: chats that were looked at: those of the user, and those that the user has left.
        is_complete: False if there are more chats than the 1,000 that one call looks at, or the user has joined one
            meanwhile: call it again.
    """

    chats: int
    is_complete: bool


def erase_user(user: User, *, using: str = "default") -> Erasure:
    """Leave a user's chats, delete the messages that the user has sent in chats, the mailbox and the indexes.

    After an error call it again: it continues. Run ``reconcile`` first if the index may be incomplete. Messages to
    other users' mailboxes are theirs and remain.
    """
    return run(connections.client(using), _erase_user(user))


async def aerase_user(user: User, *, using: str = "default") -> Erasure:
    """See `erase_user`."""
    return await arun(connections.aclient(using), _erase_user(user))


def _erase_user(user: User) -> Flow[Erasure]:
    name = check_user(user)
    indexes = [keyspace.chats_key(name), keyspace.left_key(name)]
    found = yield Batch([Read("ZREVRANGE", key, 0, MAX_CHATS - 1) for key in indexes])
    ids = list(dict.fromkeys(chat_id.decode() for part in found for chat_id in part))[:MAX_CHATS]
    for chat_id in ids:
        # Leave first: a message of the user that is sent meanwhile is refused, or erased.
        remaining = yield LEAVE(chat=keyspace.chat_key(chat_id), user=name)
        yield from _erase_messages(chat_id, name)
        yield Command("ZREM", keyspace.left_key(name), chat_id, retry=True)
        yield from user_index.remove([(chat_id, name)], is_strict=True)
        if not remaining:
            yield from user_index.unindex_name("all", chat_id)
    yield from delete_flow(name)
    left = yield Batch([Read("EXISTS", key) for key in indexes])
    return Erasure(len(ids), not any(left))


def _erase_messages(chat_id: str, user: str) -> Flow[None]:
    after = 0
    while True:
        last = yield ERASE(chat=keyspace.chat_key(chat_id), user=user, after=after, count=CHUNK)
        if not last:
            return
        after = last
