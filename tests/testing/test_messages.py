"""`assert_message_sent()`."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.messaging import Chat, ChatDoesNotExist, Mailbox
from django_redis_components.testing import assert_message_sent

pytestmark = pytest.mark.usefixtures("redis_server")


def test_returns_the_messages_of_a_chat_and_leaves_them_unread() -> None:
    chat = Chat.create("ada", ["bob"], "hello", chat_id="lobby")
    chat.send("bob", "hello")

    found = assert_message_sent(chat, "hello", sender="bob", count=1)

    assert [(message.id, message.sender) for message in found] == [(2, "bob")]
    assert len(assert_message_sent(chat, "hello", count=2)) == 2
    assert chat.unread("ada") == 2


def test_messages_that_only_some_members_may_see_are_compared() -> None:
    chat = Chat.create("ada", [], "before", chat_id="lobby")
    chat.join("bob")

    assert_message_sent(chat, "before")


def test_failure_lists_what_was_sent_to_a_chat() -> None:
    chat = Chat.create("ada", [], "hello", chat_id="lobby")

    with pytest.raises(AssertionError) as caught:
        assert_message_sent(chat, "bye", sender="ada")

    assert str(caught.value).splitlines() == [
        "'bye' was not sent to <Chat 'lobby'> by 'ada'. These were:",
        "  1  'ada': 'hello'",
    ]


def test_count_is_exact() -> None:
    box = Mailbox("ada")
    with pytest.raises(AssertionError, match=r"^a message was not sent to <Mailbox 'ada'>\. No message was\.$"):
        assert_message_sent(box)
    assert assert_message_sent(box, count=0) == []
    box.send({"n": 1})

    assert_message_sent(box, {"n": 1}, count=1)
    with pytest.raises(AssertionError, match="was sent 1 times, not 2 times, to <Mailbox 'ada'>"):
        assert_message_sent(box, {"n": 1}, count=2)


def test_chat_that_does_not_exist_raises() -> None:
    with pytest.raises(ChatDoesNotExist):
        assert_message_sent(Chat("lobby"))


def test_other_objects_are_refused() -> None:
    nothing: Any = "lobby"
    with pytest.raises(TypeError, match="expected a Chat or a Mailbox"):
        assert_message_sent(nothing)
