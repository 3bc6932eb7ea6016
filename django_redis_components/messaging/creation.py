"""Creating a chat."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from django_redis_components.core.arguments import check_instance
from django_redis_components.core.protocol import Flow
from django_redis_components.messaging import keyspace, user_index
from django_redis_components.messaging.arguments import User, check_body, check_members, check_user
from django_redis_components.messaging.exceptions import ChatExists
from django_redis_components.messaging.retention import Retention, times_ms
from django_redis_components.messaging.scripts import CREATE

#: Most members of a chat: `Chat.members` reads all of them.
MAX_MEMBERS = 1_000


def create_flow(
    chat_id: str, creator: User, members: Iterable[User], body: Any, retention: Retention | None
) -> Flow[None]:
    """Return the flow of `Chat.create`."""
    first = check_user(creator, "creator")
    users = list(dict.fromkeys([first, *check_members(members)]))
    if len(users) > MAX_MEMBERS:
        raise ValueError(f"members: {len(users):,} users with the creator, expected at most {MAX_MEMBERS:,}.")
    wanted = "a Retention or None"
    kept = Retention() if retention is None else check_instance(retention, "retention", Retention, wanted)
    code = yield CREATE(
        chat=keyspace.chat_key(chat_id),
        token=secrets.token_hex(8),
        creator=first,
        body=b"" if body is None else check_body(body),
        keep_last=kept.keep_last,
        max_messages=kept.max_messages,
        max_bytes=kept.max_bytes,
        members=users,
        **times_ms(kept),
    )
    entries = [(chat_id, member) for member in users]
    if code < 0:
        yield from user_index.restore(entries)  # its creator may have died before it wrote the index
        raise ChatExists(chat_id)
    yield from user_index.add(entries)
    yield from user_index.index_name("all", chat_id)
