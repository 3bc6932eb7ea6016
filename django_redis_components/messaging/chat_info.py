"""The state of a chat for one member."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from django_redis_components.core.units import moment_of_ms


@dataclasses.dataclass(frozen=True, slots=True)
class ChatInfo:
    """The state of a chat for one member.

    Attributes:
        unread: messages after the last seen one.
        last_id: id of the last message that was sent.
        last_seen: the member's last seen id.
        revision: number of edits and deletions.
        last_at: when the last message was sent; None if there is none.
        epoch: differs from that of an older chat with the same id.
    """

    unread: int
    last_id: int
    last_seen: int
    revision: int
    last_at: datetime | None
    epoch: str


def sent_ms(reply: list[Any]) -> int:
    """Return when the last message was sent, by a reply of `UNREAD`: milliseconds since 1970, 0 for none."""
    ms: int = reply[4]
    return ms


def info_of(reply: list[Any]) -> ChatInfo:
    """Return the state of a reply of `UNREAD`."""
    unread, last_id, last_seen, revision, last_ms, epoch = reply
    last_at = moment_of_ms(last_ms) if last_ms else None
    return ChatInfo(unread, last_id, last_seen, revision, last_at, epoch.decode())
