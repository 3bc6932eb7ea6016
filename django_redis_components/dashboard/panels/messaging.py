"""The panels of messaging: chats, mailboxes, and the subscribers of broadcasts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Batch, Call, Command, Flow, Read
from django_redis_components.dashboard.display_names import Kind, Names
from django_redis_components.dashboard.elements import Cell
from django_redis_components.dashboard.formats import listed, number
from django_redis_components.dashboard.list_counts import CountedRows
from django_redis_components.dashboard.panel import NamingPanel, Panel
from django_redis_components.dashboard.problems.watched.messages import FLOOD_PER_MINUTE, top_sender
from django_redis_components.dashboard.table import Column, Table
from django_redis_components.messaging import keyspace
from django_redis_components.messaging.scripts import SUMMARY
from django_redis_components.messaging.user_index import MAX_INDEXED

#: Names that are read, the latest: 3 commands for each chat, 4 for each mailbox, 1 for each broadcast.
MAX_CHATS, MAX_MAILBOXES, MAX_BROADCASTS = 12, 8, 12
#: Members of each chat that are listed, those who have read least.
MAX_BEHIND = 5
#: Fewest of the newest messages of a chat or mailbox that show a flood.
MIN_NEWEST = 10
#: Entries whose size is measured to estimate that of a log.
SAMPLES = 5

Row = TypeVar("Row")

_TABLE = "django_redis_components/dashboard/panels/table.html"


@dataclasses.dataclass(frozen=True, slots=True)
class Flood:
    """Who sent most of the newest messages of a flooded chat or mailbox.

    Attributes:
        sender: id of the user; "" for messages without a sender.
        count: messages of the sender among the newest.
        newest: the newest messages that were read.
    """

    sender: str
    count: int
    newest: int


@dataclasses.dataclass(frozen=True, slots=True)
class ChatRow:
    """A chat.

    Attributes:
        id: of the chat.
        members: their number.
        sent: messages that were sent.
        stored: those that were neither trimmed nor deleted.
        lag: unread messages of each of the members who have read least, the largest number first.
        bytes: memory of the log, estimated.
        flood: who sent most of the newest messages; None if the chat is not flooded.
    """

    id: str
    members: int
    sent: int
    stored: int
    lag: dict[str, int]
    bytes: int
    flood: Flood | None


@dataclasses.dataclass(frozen=True, slots=True)
class MailboxRow:
    """A mailbox.

    Attributes:
        owner: of the mailbox.
        sent: messages that were sent.
        unread: those that are not acknowledged.
        dropped: the id up to which messages were dropped, because there were too many; 0 for none.
        bytes: memory of the messages, estimated.
        flood: who sent most of the newest messages; None if the mailbox is not flooded.
    """

    owner: str
    sent: int
    unread: int
    dropped: int
    bytes: int
    flood: Flood | None


@dataclasses.dataclass(frozen=True, slots=True)
class BroadcastRow:
    """A broadcast and the number of processes that are subscribed."""

    channel: str
    subscribers: int


class ChatsPanel(NamingPanel):
    """The newest chats."""

    name = "chats"
    title = gettext_lazy("Chats")
    page = "messaging"
    order = 10
    template_name = _TABLE

    def read(self) -> Flow[CountedRows[ChatRow]]:
        """Read the newest chats in two round trips."""
        return _read_each("all", MAX_CHATS, _chat_requests, _chat_row)

    def ids(self, value: CountedRows[ChatRow]) -> dict[Kind, list[str]]:
        """Return the chats, the senders of floods, and the members who have read least."""
        return {
            "chat": [row.id for row in value],
            "user": [*_senders(value), *(member for row in value for member in row.lag)],
        }

    def named_context(self, value: CountedRows[ChatRow], names: Names) -> dict[str, Any]:
        """Return the table."""
        table = Table(
            [*_chat_columns(names), *_flood_column(value, names)],
            note=value.note(_("Newest first."), _("Members who have read least are listed.")),
            empty=_("There are no chats."),
        )
        return table.context(value)


class MailboxesPanel(NamingPanel):
    """The newest mailboxes."""

    name = "mailboxes"
    title = gettext_lazy("Mailboxes")
    page = "messaging"
    order = 15
    template_name = _TABLE

    def read(self) -> Flow[CountedRows[MailboxRow]]:
        """Read the newest mailboxes in two round trips."""
        return _read_each("mailboxes", MAX_MAILBOXES, _mailbox_requests, _mailbox_row)

    def ids(self, value: CountedRows[MailboxRow]) -> dict[Kind, list[str]]:
        """Return the owners, and the senders of floods."""
        return {"user": [*_senders(value), *(row.owner for row in value)]}

    def named_context(self, value: CountedRows[MailboxRow], names: Names) -> dict[str, Any]:
        """Return the table."""
        columns = [*_mailbox_columns(names), *_flood_column(value, names)]
        return Table(columns, note=value.note(_("Newest first.")), empty=_("There are no mailboxes.")).context(value)


class BroadcastsPanel(Panel):
    """The broadcasts to which processes subscribed last."""

    name = "broadcasts"
    title = gettext_lazy("Broadcasts")
    page = "messaging"
    order = 20
    template_name = _TABLE

    def read(self) -> Flow[CountedRows[BroadcastRow]]:
        """Read the subscribers in two round trips."""
        return _read_each("broadcasts", MAX_BROADCASTS, _broadcast_requests, _broadcast_row)

    def context(self, value: CountedRows[BroadcastRow]) -> dict[str, Any]:
        """Return the table."""
        note = value.note(_("Those with the latest subscriptions first."), _("A process subscribes once."))
        empty = _("No process has subscribed to a broadcast.")
        return Table(_BROADCASTS, note=note, empty=empty).context(value)


def _read_each(
    kind: str,
    limit: int,
    requests_of: Callable[[str], Sequence[Call | Command]],
    row_of: Callable[[str, Sequence[Any]], Row | None],
) -> Flow[CountedRows[Row]]:
    """Read the latest names of an index, then each of them in one batch. Those that do not exist have no row."""
    key = keyspace.index_key(kind)
    found, total = yield Batch([Read("ZREVRANGE", key, 0, limit - 1), Read("ZCARD", key)])
    names = [name.decode() for name in found]
    replies = (yield Batch([request for name in names for request in requests_of(name)])) if names else []
    size = len(replies) // max(len(names), 1)
    rows = [row_of(name, replies[index * size : (index + 1) * size]) for index, name in enumerate(names)]
    listed_rows = CountedRows(row for row in rows if row is not None)
    listed_rows.total, listed_rows.is_least = total - rows.count(None), total >= MAX_INDEXED
    return listed_rows


def _chat_requests(chat_id: str) -> list[Call | Command]:
    summary = SUMMARY(chat=keyspace.chat_key(chat_id), limit=MAX_BEHIND)
    log = keyspace.chat_key(chat_id, "log")
    return [summary, _memory(log), top_sender(log)]


def _chat_row(chat_id: str, replies: Sequence[Any]) -> ChatRow | None:
    summary, size, top = replies
    if isinstance(summary, int):  # there is no such chat any more
        return None
    sent, members, stored, unread = summary
    lag = {name.decode(): count for name, count in pairs_of(unread)}
    return ChatRow(chat_id, members, sent, stored, lag, size or 0, _flood(top))


def _lag(row: ChatRow, names: Names) -> str:
    texts = [
        _("%(member)s: %(count)s") % {"member": names.text_of("user", member), "count": number(lag)}
        for member, lag in row.lag.items()
    ]
    if row.members > len(texts):
        texts.append(_("%(count)s more") % {"count": number(row.members - len(texts))})
    return listed(texts)


def _mailbox_requests(owner: str) -> list[Call | Command]:
    log = keyspace.mailbox_key(owner, "log")
    meta = Read("HMGET", keyspace.mailbox_key(owner, "meta"), "seq", "dropped")
    return [meta, Read("XLEN", log), _memory(log), top_sender(log)]


def _mailbox_row(owner: str, replies: Sequence[Any]) -> MailboxRow | None:
    (seq, dropped), unread, size, top = replies
    return None if seq is None else MailboxRow(owner, int(seq), unread, int(dropped or 0), size or 0, _flood(top))


def _broadcast_requests(channel: str) -> list[Command]:
    key = keyspace.broadcast_key(channel)
    return [Read("PUBSUB", "SHARDNUMSUB", key, key=key)]


def _broadcast_row(channel: str, replies: Sequence[Any]) -> BroadcastRow:
    ((_channel, subscribers),) = replies
    return BroadcastRow(channel, subscribers)


def _memory(key: str) -> Command:
    return Read("MEMORY", "USAGE", key, "SAMPLES", SAMPLES, key=key)


def _flood(reply: Any) -> Flood | None:
    """Return who sent most of the newest messages, if these were sent as fast as a flood."""
    if isinstance(reply, int):  # there are none
        return None
    sender, count, newest, lasted_ms = reply
    if newest < MIN_NEWEST or newest * 60_000 < FLOOD_PER_MINUTE * lasted_ms:
        return None
    return Flood(sender.decode("utf-8", "replace"), count, newest)


def _senders(rows: Sequence[ChatRow] | Sequence[MailboxRow]) -> list[str]:
    return [row.flood.sender for row in rows if row.flood]


def _flood_column(rows: Sequence[ChatRow] | Sequence[MailboxRow], names: Names) -> list[Column[Any]]:
    """Return the column of the senders of floods; none without a flood."""
    if not any(row.flood for row in rows):
        return []
    return [Column("flood", _("Flooded by"), lambda row: _flood_text(row.flood, names), "whole")]


def _flood_text(flood: Flood | None, names: Names) -> str:
    if flood is None:
        return ""
    sender = names.text_of("user", flood.sender) or _("no sender")
    return _("%(sender)s: %(count)s of %(total)s newest") % {
        "sender": sender,
        "count": number(flood.count),
        "total": number(flood.newest),
    }


def _chat_columns(names: Names) -> list[Column[ChatRow]]:
    return [
        Column("id", _("Chat"), lambda row: _named_cell(names, "chat", row.id), "name"),
        Column("members", _("Members"), lambda row: row.members),
        Column("sent", _("Sent"), lambda row: row.sent),
        Column("stored", _("Stored"), lambda row: row.stored),
        Column("lag", _("Unread, by member"), lambda row: _lag(row, names), "whole"),
        Column("bytes", _("Memory"), lambda row: filesizeformat(row.bytes)),
    ]


def _mailbox_columns(names: Names) -> list[Column[MailboxRow]]:
    return [
        Column("owner", _("Owner"), lambda row: _named_cell(names, "user", row.owner), "name"),
        Column("sent", _("Sent"), lambda row: row.sent),
        Column("unread", _("Unread"), lambda row: row.unread),
        Column("dropped", _("Dropped up to"), lambda row: row.dropped or None),
        Column("bytes", _("Memory"), lambda row: filesizeformat(row.bytes)),
    ]


def _named_cell(names: Names, kind: Kind, id_: str) -> Cell:
    name = names.name_of(kind, id_)
    return Cell(name, note=id_) if name else Cell(id_)


_BROADCASTS: list[Column[BroadcastRow]] = [
    Column("channel", gettext_lazy("Channel"), lambda row: row.channel, "name"),
    Column("subscribers", gettext_lazy("Subscribed processes"), lambda row: row.subscribers),
]
