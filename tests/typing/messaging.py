"""Chats, mailboxes and broadcasts."""

from __future__ import annotations

from typing import assert_type

from django_redis_components.messaging import Broadcast, Chat, Mailbox, Message, Received


async def right() -> None:
    chat, created = await Chat.aget_or_create("lobby", "ada", ["bob", 7])
    assert_type(created, bool)
    assert_type(chat.send("ada", {"text": "hello"}, key="1"), int)
    assert_type(chat.fetch("bob")[0], Message)
    assert_type(Mailbox(7).unread(), int)
    assert_type(Broadcast("news").subscribe().get(1), Received | None)


def wrong() -> None:
    Chat()  # type: ignore[call-arg]
    Chat("lobby").send("ada")  # type: ignore[call-arg]
    Chat("lobby").send("ada", "hello", "key")  # type: ignore[call-arg]
    Mailbox("ada").send("hello", "bob")  # type: ignore[call-arg]
    Chat.create("ada", 7)  # type: ignore[arg-type]
