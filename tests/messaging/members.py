"""Members of a chat, each in a process that may be killed."""

from __future__ import annotations

from redis.exceptions import RedisError

from django_redis_components.messaging import Chat
from tests.support import Store
from tests.support.child import print_line

#: Messages by which a member may be ahead of the others, so that these are not all sent while one process starts.
LEAD = 10


def talk(chat_id: str, user: str, count: int, total: int) -> None:
    """Send `count` messages while fetching and acknowledging, until there are `total`. Prints each that was fetched.

    A process that starts again sends all messages again, with the same keys.
    """
    chat, number, seen = Chat(chat_id, using="proxied"), 0, Chat(chat_id).members()[user]
    print_line("talking")
    while seen < total:
        try:
            if number < min(count, seen // 4 + LEAD):
                chat.send(user, f"{user} {number}", key=str(number))
                number += 1
            messages = chat.fetch(user)
            if messages.is_truncated:
                print_line("truncated")
            for message in messages:
                print_line("got", message.id, message.body)
            if messages:
                seen = messages[-1].id
                chat.ack(user, seen)
        except RedisError:  # the next loop does it again
            continue


def names_of(store: Store) -> list[bytes]:
    """Return the names of all keys of the test."""
    return list(store.keys())
