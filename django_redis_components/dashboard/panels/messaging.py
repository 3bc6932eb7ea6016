"""The panel of chats: members, messages, how far the members have read, and memory."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext_lazy

from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.panel import Panel
from django_redis_components.messaging import keyspace

#: Chats that are read, those that were created last. Each takes 4 commands.
MAX_CHATS = 12
#: Entries whose size is measured to estimate that of a log.
SAMPLES = 5


@dataclasses.dataclass(frozen=True, slots=True)
class ChatRow:
    """A chat.

    Attributes:
        id: of the chat.
        members: their number.
        sent: messages that were sent.
        stored: those that were not trimmed.
        lag: messages that the member who has read least has not read.
        behind: that member.
        bytes: memory of the log, estimated.
    """

    id: str
    members: int
    sent: int
    stored: int
    lag: int
    behind: str
    bytes: int


class ChatsPanel(Panel):
    """The newest chats."""

    name = "chats"
    title = gettext_lazy("Chats")
    page = "messaging"
    order = 10
    template_name = "django_redis_components/dashboard/panels/chats.html"

    def read(self) -> Flow[list[ChatRow]]:
        """Read the newest chats in two round trips."""
        found = yield Read("ZREVRANGE", keyspace.index_key(), 0, MAX_CHATS - 1)
        ids = [chat_id.decode() for chat_id in found]
        if not ids:
            return []
        replies = yield Batch([request for chat_id in ids for request in _requests(chat_id)])
        size = len(replies) // len(ids)
        rows = [_row(chat_id, replies[at * size : (at + 1) * size]) for at, chat_id in enumerate(ids)]
        return [row for row in rows if row is not None]

    def context(self, value: list[ChatRow]) -> dict[str, Any]:
        """Return the rows of the table."""
        return {
            "rows": [
                {
                    "id": row.id,
                    "members": number(row.members),
                    "sent": number(row.sent),
                    "stored": number(row.stored),
                    "lag": number(row.lag),
                    "behind": row.behind,
                    "memory": filesizeformat(row.bytes),
                }
                for row in value
            ],
            "limit": MAX_CHATS,
        }

    def data(self, value: list[ChatRow]) -> list[dict[str, Any]]:
        """Return the chats."""
        return [dataclasses.asdict(row) for row in value]


def _requests(chat_id: str) -> list[Command]:
    log, members, meta = (keyspace.chat_key(chat_id, part) for part in ("log", "members", "meta"))
    return [
        Read("HMGET", meta, "seq", "trimmed"),
        Read("ZCARD", members),
        Read("ZRANGE", members, 0, 0, "WITHSCORES"),
        Read("MEMORY", "USAGE", log, "SAMPLES", SAMPLES, key=log),
    ]


def _row(chat_id: str, replies: list[Any]) -> ChatRow | None:
    """Return the row of a chat; None if it has been deleted or has expired."""
    (seq, trimmed), members, last, size = replies
    if seq is None or not last:
        return None
    sent = int(seq)
    stored, lag = sent - int(trimmed), sent - int(float(last[1]))
    return ChatRow(chat_id, members, sent, stored, lag, last[0].decode(), size or 0)
