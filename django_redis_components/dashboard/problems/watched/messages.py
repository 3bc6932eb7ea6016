"""Flooded chats, and mailboxes that drop unread messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.watched.check import WatchedCheck
from django_redis_components.messaging import keyspace

#: Newest chats and mailboxes that are read.
MAX_CHATS = MAX_MAILBOXES = 50
#: Messages per minute from which a chat is flooded: ten people who type as fast as they can send fewer.
FLOOD_PER_MINUTE = 300


def read(facts: ProblemFacts) -> Flow[dict[str, Any]]:
    """Return what was sent so far, messages per minute of each flooded chat, and mailboxes that have dropped more."""
    before = facts.watched.get("messages") or {"at": 0.0, "sent": {}, "dropped": {}}
    chats, owners = yield Batch(
        [
            Read("ZREVRANGE", keyspace.index_key("all"), 0, MAX_CHATS - 1),
            Read("ZREVRANGE", keyspace.index_key("mailboxes"), 0, MAX_MAILBOXES - 1),
        ]
    )
    ids, names = [each.decode() for each in chats], [each.decode() for each in owners]
    replies = (yield Batch(_requests(ids, names))) if ids or names else []
    sent = {chat: int(seq) for chat, [seq] in zip(ids, replies[: len(ids)], strict=True) if seq is not None}
    dropped = {owner: int(values[0] or 0) for owner, values in zip(names, replies[len(ids) :: 2], strict=True)}
    unread = dict(zip(names, replies[len(ids) + 1 :: 2], strict=True))
    now = facts.at.timestamp()
    minutes = max((now - before["at"]) / 60, 0.1)
    rates = {
        chat: round((count - before["sent"][chat]) / minutes) for chat, count in sent.items() if chat in before["sent"]
    }
    return {
        "at": now,
        "sent": sent,
        "dropped": dropped,
        "floods": [[chat, rate] for chat, rate in rates.items() if rate >= FLOOD_PER_MINUTE],
        "full": [
            [owner, unread[owner]] for owner, last in dropped.items() if last > before["dropped"].get(owner, last)
        ],
    }


def find(found: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield flooded chats, and mailboxes that drop messages."""
    for chat, rate in found["floods"]:
        text = _("Chat %(chat)s receives %(count)s messages per minute.") % {"chat": chat, "count": number(rate)}
        advice = _('A member or a program floods it. MESSAGING["SEND_RATES"] limits what the views accept.')
        yield Problem("chat_flood", text, advice, subject=chat)
    for owner, unread in found["full"]:
        text = _("The mailbox of %(owner)s drops messages: %(count)s are not acknowledged.") % {
            "owner": owner,
            "count": number(unread),
        }
        yield Problem("mailbox_full", text, _("Its owner does not read. Check the program that should."), subject=owner)


def _requests(chats: list[str], owners: list[str]) -> list[Any]:
    requests = [Read("HMGET", keyspace.chat_key(chat, "meta"), "seq") for chat in chats]
    for owner in owners:
        requests.append(Read("HMGET", keyspace.mailbox_key(owner, "meta"), "dropped"))
        requests.append(Read("XLEN", keyspace.mailbox_key(owner, "log")))
    return requests


CHECK = WatchedCheck("messages", read, find)
