"""The group chat of each sale: its seller, its buyer, and the members whom they add.

A message is ``{"text": …}`` or an event, ``{"event": "sold" | "added" | "left", "member": id}``. Members may also send
texts with the package's JSON view, behind `is_text`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.db import transaction
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from redis.exceptions import RedisError

from django_redis_components.messaging import (
    Chat,
    ChatDoesNotExist,
    ChatExists,
    Message,
    NotMember,
    forget_user,
    unread_counts,
)
from example_project.market.models import Item, Member

#: Messages that a page shows, besides the unread ones.
SHOWN = 100

#: Characters of a text at most.
MAX_TEXT = 2_000

#: Messages that a page shows at most: as many as one fetch returns.
SHOWN_AT_MOST = 1_000

#: Chats on the list of a member's chats.
CHATS = 30

#: Text of each event. The page's script fills in the same names.
EVENTS = {
    "sold": _("%(sender)s bought this item."),
    "added": _("%(sender)s added %(member)s."),
    "left": _("%(sender)s left the chat."),
}

_PREFIX = "sale-"


@dataclass(frozen=True)
class ChatLine:
    """A message, as a page shows it.

    Attributes:
        id: the id of the message.
        sender: the name of the sender.
        text: what the member wrote, or the text of the event.
        sent_at: when it was sent.
        is_event: whether it is an event.
        is_own: whether the reader sent it.
    """

    id: int
    sender: str
    text: str
    sent_at: datetime
    is_event: bool
    is_own: bool


@dataclass(frozen=True)
class ChatSummary:
    """A chat in the list of a member's chats. ``last`` is the last message, if it is still there."""

    item: Item
    unread: int
    last: ChatLine | None


def chat_id(item_id: int) -> str:
    """Return the id of the chat of a sale."""
    return f"{_PREFIX}{item_id}"


def open_chat(item: Item) -> None:
    """Create the chat of a sold item, unless it exists. Its first message is the sale, which the buyer has seen."""
    with suppress(ChatExists):
        chat = Chat.create(item.buyer_id, [item.seller_id], {"event": "sold"}, chat_id=chat_id(item.pk))
        chat.ack(item.buyer_id, 1)


def is_member(item_id: int, user: Member) -> bool:
    """Return whether the user is a member of the chat of a sale; False while Redis is unavailable."""
    try:
        _chat(item_id).unread(user.pk)
    except (ChatDoesNotExist, NotMember, RedisError):
        return False
    return True


def is_text(request_body: bytes) -> bool:
    """Return whether the request of a member to the package's JSON view sends a text, and nothing else."""
    try:
        data = json.loads(request_body)
    except (ValueError, RecursionError):
        return False
    body = data.get("body") if isinstance(data, dict) else None
    text = body.get("text") if isinstance(body, dict) and len(body) == 1 else None
    return isinstance(text, str) and 0 < len(text.strip()) <= len(text) <= MAX_TEXT


def read(item_id: int, user: Member) -> tuple[list[ChatLine], int]:
    """Return the newest messages and all unread ones, in order, and the revision. Mark the messages as read.

    Raises:
        ChatDoesNotExist: the chat does not exist, or all members have left.
        NotMember: the user is not a member.
    """
    chat = _chat(item_id)
    state = chat.info(user.pk)
    after = min(state.last_seen, max(0, state.last_id - SHOWN))
    messages = chat.fetch(user.pk, after=after, limit=SHOWN_AT_MOST)
    if messages:
        chat.ack(user.pk, messages[-1].id)
    names = _names_in(messages)
    return [_line(message, user, names) for message in messages], messages.revision


def send(item_id: int, user: Member, text: str, form_key: str) -> None:
    """Send a message once, even if its form is sent twice. See `read` for the exceptions.

    The text is part of the key: a browser's Back button returns the form with its old key, and a changed text is a
    new message.
    """
    key = hashlib.sha256(f"{form_key}\0{text}".encode()).hexdigest()
    _chat(item_id).send(user.pk, {"text": text}, key=key)


def member_names(item_id: int, user: Member) -> dict[str, str]:
    """Return the name of each member by id. See `read` for the exceptions."""
    members = _chat(item_id).members()
    if str(user.pk) not in members:
        raise NotMember(chat_id(item_id), str(user.pk))
    return dict(sorted(_names(members).items(), key=lambda pair: pair[1]))


def add_member(item_id: int, user: Member, member: Member) -> bool:
    """Add a member, who may read the newest messages; return whether the member is new. See `read` for the exceptions.

    What was sent before does not count as unread.
    """
    if str(member.pk) in member_names(item_id, user):
        return False
    chat = _chat(item_id)
    chat.join(member.pk, history=SHOWN)
    chat.ack(member.pk, chat.info(user.pk).last_id)
    chat.send(user.pk, {"event": "added", "member": str(member.pk)})
    return True


def leave(item_id: int, user: Member) -> None:
    """Leave the chat; the last member deletes it. See `read` for the exceptions."""
    chat = _chat(item_id)
    chat.send(user.pk, {"event": "left"})
    chat.leave(user.pk)


def delete_with_item(instance: Item, **_kwargs: object) -> None:
    """Delete the chat of an item that was deleted. A failure is logged; the list of chats omits such a chat."""
    transaction.on_commit(_chat(instance.pk).delete, robust=True)


def erase_member(instance: Member, **_kwargs: object) -> None:
    """Erase the messages and memberships of a deleted member."""
    transaction.on_commit(partial(forget_user, instance.pk), robust=True)


def summaries(user: Member) -> list[ChatSummary]:
    """Return the chats of a member, that with the latest message first."""
    counts = {
        int(chat_id.removeprefix(_PREFIX)): count
        for chat_id, count in unread_counts(user.pk).items()
        if chat_id.startswith(_PREFIX)
    }
    items = Item.objects.select_related("seller", "buyer").in_bulk(list(counts)[:CHATS])
    messages = {pk: _last_message(pk, user) for pk in counts if pk in items}
    names = _names_in(message for message in messages.values() if message)
    return [
        ChatSummary(items[pk], counts[pk], _line(message, user, names) if message else None)
        for pk, message in messages.items()
    ]


def unread_total(user: Member) -> int | None:
    """Return the number of unread messages in all chats of a member; None while Redis is unavailable."""
    try:
        return sum(unread_counts(user.pk).values())
    except RedisError:
        return None


def _chat(item_id: int) -> Chat:
    return Chat(chat_id(item_id))


def _last_message(item_id: int, user: Member) -> Message | None:
    chat = _chat(item_id)
    try:
        messages = chat.fetch(user.pk, after=max(0, chat.info(user.pk).last_id - 1), limit=1)
    except (ChatDoesNotExist, NotMember):  # the user left meanwhile
        return None
    return messages[0] if messages else None


def _line(message: Message, reader: Member, names: Mapping[str, str]) -> ChatLine:
    body = message.body if isinstance(message.body, dict) else {}
    sender, member = (names.get(str(pk), gettext("A former member")) for pk in (message.sender, body.get("member")))
    event = EVENTS.get(str(body.get("event")))
    return ChatLine(
        id=message.id,
        sender=sender,
        text=str(event) % {"sender": sender, "member": member} if event else str(body.get("text", "")),
        sent_at=message.sent_at,
        is_event=event is not None,
        is_own=message.sender == str(reader.pk),
    )


def _names_in(messages: Iterable[Message]) -> dict[str, str]:
    """Return the names of all members that occur in messages."""
    ids = set()
    for message in messages:
        ids.add(str(message.sender))
        if isinstance(message.body, dict):
            ids.add(str(message.body.get("member")))
    return _names(ids)


def _names(ids: Iterable[str]) -> dict[str, str]:
    """Return names by id. Ids in messages may be any text."""
    pks = [int(pk) for pk in ids if pk.isascii() and pk.isdecimal() and len(pk) < 19]
    return {str(pk): str(member) for pk, member in Member.objects.in_bulk(pks).items()}
