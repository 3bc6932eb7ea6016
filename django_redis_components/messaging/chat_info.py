"""The state of a chat for one member."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class ChatInfo:
    """The state of a chat for one member.

    Attributes:
        unread: messages after the last seen one.
        last_id: id of the last message that was sent.
        last_seen: the member's last seen id.
        revision: number of edits and deletions.
        last_ms: when the last message was sent, in milliseconds since 1970.
        epoch: differs from that of an older chat with the same id.
    """

    unread: int
    last_id: int
    last_seen: int
    revision: int
    last_ms: int
    epoch: str


def info_of(reply: list[Any]) -> ChatInfo:
    """Return the state of a reply of `UNREAD`."""
    unread, last_id, last_seen, revision, last_ms, epoch = reply
    return ChatInfo(unread, last_id, last_seen, revision, last_ms, epoch.decode())
