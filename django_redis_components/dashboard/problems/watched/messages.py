"""Flooded chats, and mailboxes that drop unread messages."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core import keys
from django_redis_components.core.protocol import Batch, Call, Flow, Read
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.watched.check import WatchedCheck

#: Chats, and mailboxes, that are read: as many as the index has.
MAX_READ = 1_000
#: Newest messages of a log whose senders are counted, and the bytes after which no more are read: a chunk of ten may
#: exceed them.
MAX_NEWEST, MAX_NEWEST_BYTES = 100, 262_144
#: Messages per minute from which a chat is flooded: ten people who type as fast as they can send fewer.
FLOOD_PER_MINUTE = 300
#: Milliseconds since its last message for which a chat is counted: a flooded one has several in each round.
ACTIVE_MS = 120_000
#: Most chats that are counted, and most floods and full mailboxes that are stored.
MAX_COUNTED, MAX_FOUND = 200, 50


def read(facts: ProblemFacts) -> Flow[dict[str, Any]]:
    """Return what was sent so far in each active chat, what mailboxes have dropped, and what is wrong.

    A flood is a list: chat, messages per minute, the sender of most of the newest messages, how many of them, and how
    many were looked at. All chats and mailboxes of the index are read: 1,000 of each at most.
    """
    before = facts.watched.get("messages") or {"at": 0.0, "sent": {}, "dropped": None}
    chats, owners = yield Batch(
        [Read("ZREVRANGE", keys.key("messaging", "index", kind), 0, MAX_READ - 1) for kind in ("all", "mailboxes")]
    )
    if not chats and not owners:
        return {"at": facts.at.timestamp(), "sent": {}, "dropped": {}, "floods": [], "full": []}
    from django_redis_components.messaging import keyspace  # a site without chats needs none of it

    requests = [Read("HMGET", keyspace.chat_key(chat.decode(), "meta"), "seq", "last_at") for chat in chats]
    requests += [Read("HMGET", keyspace.mailbox_key(owner.decode(), "meta"), "dropped") for owner in owners]
    replies = iter((yield Batch(requests)) if requests else [])
    sent, dropped = _sent(chats, replies, facts), {}
    for owner, [last] in zip(owners, replies, strict=True):
        if int(last or 0):
            dropped[owner.decode()] = int(last)
    return {
        "at": facts.at.timestamp(),
        "sent": sent,
        "dropped": dropped,
        "floods": (yield from _floods(sent, before, facts)),
        "full": (yield from _full(dropped, before["dropped"])),
    }


def top_sender(log: str) -> Call:
    """Return the request for the sender of most of the newest messages of a log."""
    from django_redis_components.messaging.scripts import TOP_SENDER

    return TOP_SENDER(log=log, limit=MAX_NEWEST, max_bytes=MAX_NEWEST_BYTES)


def find(found: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield flooded chats, and mailboxes that drop messages."""
    for chat, rate, *top in found["floods"]:
        text = _("Chat %(chat)s receives %(count)s messages per minute.") % {"chat": chat, "count": number(rate)}
        advice = _('A member or a program floods it. MESSAGING["SEND_RATES"] limits what the views accept.')
        yield Problem("chat_flood", text, " ".join([*_top(*top), advice]), subject=chat)
    for owner, unread in found["full"]:
        text = ngettext(
            "The mailbox of %(owner)s drops messages: %(count)s is not acknowledged.",
            "The mailbox of %(owner)s drops messages: %(count)s are not acknowledged.",
            unread,
        ) % {"owner": owner, "count": number(unread)}
        yield Problem("mailbox_full", text, _("Its owner does not read. Check the program that should."), subject=owner)


def _top(sender: str = "", count: int = 0, newest: int = 0) -> Iterator[str]:
    if sender:
        yield _("%(sender)s has sent %(count)s of its %(total)s newest messages.") % {
            "sender": sender,
            "count": number(count),
            "total": number(newest),
        }


def _sent(chats: list[bytes], replies: Iterator[Any], facts: ProblemFacts) -> dict[str, int]:
    """Return the messages that were sent so far in each chat with messages in the last minutes."""
    since_ms = facts.at.timestamp() * 1_000 - ACTIVE_MS
    active = [
        (float(last_at or 0), chat.decode(), int(seq))
        for chat, [seq, last_at] in zip(chats, islice(replies, len(chats)), strict=True)
        if seq is not None and float(last_at or 0) > since_ms
    ]
    return {chat: seq for _at, chat, seq in heapq.nlargest(MAX_COUNTED, active)}


def _floods(sent: dict[str, int], before: Any, facts: ProblemFacts) -> Flow[list[Any]]:
    minutes = max((facts.at.timestamp() - before["at"]) / 60, 0.1)
    rates = {chat: round((count - before["sent"].get(chat, count)) / minutes) for chat, count in sent.items()}
    flooded = heapq.nlargest(
        MAX_FOUND, [chat for chat in rates if rates[chat] >= FLOOD_PER_MINUTE], key=lambda chat: rates[chat]
    )
    if not flooded:
        return []
    from django_redis_components.messaging import keyspace

    tops = yield Batch([top_sender(keyspace.chat_key(chat, "log")) for chat in flooded])
    return [
        [chat, rates[chat], *((top[0].decode(errors="replace"), *top[1:3]) if isinstance(top, list) else ())]
        for chat, top in zip(flooded, tops, strict=True)
    ]


def _full(dropped: dict[str, int], before: dict[str, int] | None) -> Flow[list[Any]]:
    """Return the mailboxes that have dropped messages since the last round, each with its unacknowledged messages."""
    if before is None:
        return []
    owners = [owner for owner, last in dropped.items() if last > before.get(owner, 0)][:MAX_FOUND]
    if not owners:
        return []
    from django_redis_components.messaging import keyspace

    lengths = yield Batch([Read("XLEN", keyspace.mailbox_key(owner, "log")) for owner in owners])
    return [list(each) for each in zip(owners, lengths, strict=True)]


CHECK = WatchedCheck("messages", read, find, is_of_connection=True)
