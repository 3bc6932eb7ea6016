"""The scripts of messaging. All may be retried: by token, by absolute value, or because they only read."""

from __future__ import annotations

from enum import IntEnum

from django_redis_components.core.scripts import LuaScript


class ChatFault(IntEnum):
    """Replies of the scripts of chats that are errors."""

    no_chat = -1
    not_member = -2
    no_message = -3
    not_sender = -4


def _chat(name: str, *args: str, reads_only: bool = False) -> LuaScript:
    return LuaScript("messaging", f"chat/{name}", keys=("chat",), args=args, idempotent=True, reads_only=reads_only)


def _mailbox(name: str, *args: str, reads_only: bool = False) -> LuaScript:
    return LuaScript(
        "messaging", f"mailbox/{name}", keys=("mailbox",), args=args, idempotent=True, reads_only=reads_only
    )


def _presence(name: str, *args: str, reads_only: bool = False) -> LuaScript:
    return LuaScript(
        "messaging", f"presence/{name}", keys=("presence",), args=args, idempotent=True, reads_only=reads_only
    )


CREATE = _chat(
    "create",
    "token",
    "creator",
    "body",
    "keep_last",
    "keep_for_ms",
    "max_messages",
    "max_bytes",
    "max_age_ms",
    "ttl_ms",
    "members*",
)
SEND = _chat("send", "sender", "body", "token", "token_ttl_s")
FETCH = _chat("fetch", "user", "after", "before", "limit", reads_only=True)
ACK = _chat("ack", "user", "id")
UNREAD = _chat("unread", "user", reads_only=True)
SUMMARY = _chat("summary", "limit", reads_only=True)
JOIN = _chat("join", "user", "history", "max_members")
LEAVE = _chat("leave", "user")
EDIT_MESSAGE = _chat("edit_message", "user", "id", "body", "token")
DELETE = _chat("delete", "created")
DELETE_MESSAGE = _chat("delete_message", "user", "id")
ERASE = _chat("erase", "user", "after", "count")

MAILBOX_SEND = _mailbox("send", "sender", "body", "token", "token_ttl_s", "max_messages", "max_bytes", "ttl_ms")
MAILBOX_FETCH = _mailbox("fetch", "after", "limit", reads_only=True)
MAILBOX_ACK = _mailbox("ack", "id", "limit", "ttl_ms")

PRESENCE_TOUCH = _presence("touch", "user", "ttl_ms", "max_users")
PRESENCE_USERS = _presence("users", "max_users", reads_only=True)

#: Of a chat or a mailbox: their logs have the same fields.
TOP_SENDER = LuaScript("messaging", "top_sender", keys=("log",), args=("limit", "max_bytes"), reads_only=True)
