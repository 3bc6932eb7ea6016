"""`assert_message_sent()`: messages of chats and mailboxes in tests."""

from __future__ import annotations

from typing import Any

from django_redis_components.messaging import Chat, Mailbox, Message
from django_redis_components.messaging.arguments import MAX_ID, check_user

#: Most messages that are compared.
LIMIT = 1_000


def assert_message_sent(
    to: Chat | Mailbox, body: Any = None, *, sender: Any = None, count: int | None = None
) -> list[Message]:
    """Assert that a message was sent to a chat or a mailbox. It stays unread.

    Args:
        to: where. Of a chat, the last 1,000 messages that its members may see are compared; of a mailbox, the first
            1,000 that are not acknowledged.
        body: exact value that it must have; None matches any.
        sender: exact sender that it must have; None matches any.
        count: exact number of matches; None means at least one.

    Returns:
        The matching messages, in order of id.

    Raises:
        AssertionError: it was not sent; the message lists what was.
        ChatDoesNotExist: there is no such chat.
    """
    sent = _sent(to)
    who = None if sender is None else check_user(sender, "sender")
    found = [message for message in sent if _matches(message, body, who)]
    if len(found) != count if count is not None else not found:
        raise AssertionError(_failure(to, body, who, count, len(found), sent))
    return found


def _sent(to: Chat | Mailbox) -> list[Message]:
    if isinstance(to, Mailbox):
        return list(to.fetch(limit=LIMIT))
    if not isinstance(to, Chat):
        raise TypeError(f"{to!r}: expected a Chat or a Mailbox.")
    found: dict[int, Message] = {}
    for member in to.members() or ["nobody"]:  # without members there is no chat: `fetch` says so
        found |= {message.id: message for message in to.fetch(member, before=MAX_ID, limit=LIMIT)}
    return [found[id] for id in sorted(found)]


def _matches(message: Message, body: Any, sender: str | None) -> bool:
    return (body is None or message.body == body) and (sender is None or message.sender == sender)


def _failure(
    to: Chat | Mailbox, body: Any, sender: str | None, count: int | None, found: int, sent: list[Message]
) -> str:
    what = "a message" if body is None else repr(body)
    by = "" if sender is None else f" by {sender!r}"
    times = "was not sent" if count is None else f"was sent {found} times, not {count} times,"
    lines = [f"  {message.id}  {message.sender!r}: {message.body!r}" for message in sent]
    listed = "\n".join(["These were:", *lines]) if sent else "No message was."
    return f"{what} {times} to {to!r}{by}. {listed}"
