"""Messages, as fetches return them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.core.units import moment_of_ms


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """A message.

    Attributes:
        id: 1, 2, 3 … in the order of the chat or mailbox.
        sender: id of the user who sent it, as text; None for a mailbox's message without a sender.
        body: any JSON value.
        sent_at: the server's time.
        edited_at: time of the last edit; None without one.
    """

    id: int
    sender: str | None
    body: Any
    sent_at: datetime
    edited_at: datetime | None = None


class Messages(list[Message]):
    """The messages of one fetch, in order of id: a list with the state of the log.

    Attributes:
        is_truncated: whether messages after the cursor that the user may see were removed, or the cursor is of an older
            chat or mailbox with the same name: show what was fetched as a new beginning.
        last_id: id of the last message that was sent, 0 for none.
        last_seen: the user's last seen id; of a mailbox, the cursor.
        revision: number of edits and deletions. Fetch messages again that are shown when it changes.
        epoch: differs from that of an older chat or mailbox with the same name, whose cursors have no meaning any more;
            empty before the first message of a mailbox.
        is_cut: whether there are more messages: the limit, or about 1 MiB, was reached. Continue after the last one;
            with `before`, before the first one.
    """

    def __init__(
        self,
        messages: Iterable[Message] = (),
        *,
        is_truncated: bool,
        last_id: int,
        last_seen: int,
        revision: int = 0,
        epoch: str = "",
        is_cut: bool = False,
    ) -> None:
        super().__init__(messages)
        self.is_truncated = is_truncated
        self.last_id = last_id
        self.last_seen = last_seen
        self.revision = revision
        self.epoch = epoch
        self.is_cut = is_cut


def read_entries(entries: Sequence[Any], edits: Sequence[bytes] = ()) -> list[Message]:
    """Return the messages of entries of a stream, with their edits (``b"<milliseconds>:<id>:<body>"``)."""
    replaced = {}
    for edit in edits:
        edited_ms, id_, body = edit.split(b":", 2)
        replaced[int(id_)] = (body, moment_of_ms(edited_ms))
    return [_message(entry_id, fields, replaced) for entry_id, fields in entries]


def fetched(reply: list[Any]) -> Messages:
    """Return the messages of a reply of `FETCH`."""
    seq, seen, is_truncated, revision, epoch, is_cut, entries, edits = reply
    return Messages(
        read_entries(entries, edits),
        is_truncated=bool(is_truncated),
        last_id=seq,
        last_seen=seen,
        revision=revision,
        epoch=epoch.decode(),
        is_cut=bool(is_cut),
    )


def _message(entry_id: bytes, fields: Sequence[bytes], replaced: dict[int, tuple[bytes, datetime]]) -> Message:
    id_, sender = int(entry_id.partition(b"-")[0]), fields[1].decode()
    body, edited_at = replaced.get(id_, (fields[3], None))
    return Message(id_, sender or None, serialization.decode(body), moment_of_ms(fields[5]), edited_at)
