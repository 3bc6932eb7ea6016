"""Erasure of the data of one user."""

from __future__ import annotations

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Command, Flow, Read, arun, run
from django_redis_components.messaging import keyspace, user_index
from django_redis_components.messaging.arguments import User, check_user
from django_redis_components.messaging.mailbox import delete_flow
from django_redis_components.messaging.scripts import ERASE, LEAVE

#: Messages that one script looks at.
CHUNK = 200
#: Chats that are read at once, and how often: a user who joins chats meanwhile must not keep the call busy.
MAX_CHATS, MAX_PASSES = 1_000, 100


def forget_user(user: User, *, using: str = "default") -> int:
    """Leave a user's chats, delete the messages that the user has sent in chats, the mailbox and the indexes.

    After an error call it again: it continues. Run ``reconcile`` first if the index may be incomplete. Messages to
    other users' mailboxes are theirs and remain.

    Returns:
        The number of chats and mailboxes in which something of the user may have been.
    """
    return run(connections.client(using), _forget_user(user))


async def aforget_user(user: User, *, using: str = "default") -> int:
    """See `forget_user`."""
    return await arun(connections.aclient(using), _forget_user(user))


def _forget_user(user: User) -> Flow[int]:
    name, count = check_user(user), 0
    for _ in range(MAX_PASSES):
        found = yield Batch([Read("ZREVRANGE", key, 0, MAX_CHATS - 1) for key in _indexes(name)])
        ids = list(dict.fromkeys(chat_id.decode() for part in found for chat_id in part))
        if not ids:
            break
        for chat_id in ids:
            yield from _forget_in_chat(chat_id, name)
        count += len(ids)
    return count + (yield from delete_flow(name))


def _forget_in_chat(chat_id: str, user: str) -> Flow[None]:
    # Leave first: a message of the user that is sent meanwhile is refused, or erased.
    remaining = yield LEAVE(chat=keyspace.chat_key(chat_id), user=user)
    yield from _erase_messages(chat_id, user)
    yield Command("ZREM", keyspace.left_key(user), chat_id, retry=True)
    yield from user_index.remove([(chat_id, user)], is_strict=True)
    if not remaining:
        yield from user_index.unindex_name("all", chat_id)


def _indexes(user: str) -> list[str]:
    return [keyspace.chats_key(user), keyspace.left_key(user)]


def _erase_messages(chat_id: str, user: str) -> Flow[None]:
    after = 0
    while True:
        last = yield ERASE(chat=keyspace.chat_key(chat_id), user=user, after=after, count=CHUNK)
        if not last:
            return
        after = last
