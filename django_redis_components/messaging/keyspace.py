"""The keys of messaging."""

from __future__ import annotations

from django_redis_components.core import keys

#: Parts of the keys of a mailbox; the same as in lua/shared/mailbox.lua.
MAILBOX_PARTS = ("log", "meta", "sent", "keyed")


def chat_key(chat_id: str, *parts: str) -> str:
    """Return the base key of a chat, or the key of a part."""
    return keys.key("messaging", chat_id, "chat", *parts)


def mailbox_key(owner: str, *parts: str) -> str:
    """Return the base key of a mailbox, or the key of a part."""
    return keys.key("messaging", owner, "mailbox", *parts)


def chats_key(user: str) -> str:
    """Return the key of the index of a user's chats."""
    return keys.key("messaging", user, "chats")


def left_key(user: str) -> str:
    """Return the key of the chats that a user has left, which may have messages of the user."""
    return keys.key("messaging", user, "left")


def index_key(kind: str = "all") -> str:
    """Return the key of the dashboard's index of chats ("all"), "mailboxes" or "broadcasts"."""
    return keys.key("messaging", "index", kind)


def broadcast_key(channel: str) -> str:
    """Return the channel in Redis of a broadcast, in the slot of its name."""
    return keys.key("messaging", channel, "broadcast")
