"""Bytes of messages: what is kept, and what one call reads, is bounded by bytes and not only by a number."""

from __future__ import annotations

import random
from typing import Any

import pytest

from django_redis_components.messaging import Chat, Mailbox, Messages, Retention, forget_user, pending
from django_redis_components.messaging.arguments import MAX_BODY_BYTES
from django_redis_components.messaging.subscriber import ChannelListener
from tests.support import Store

pytestmark = pytest.mark.integration

#: A body of 64 KiB as JSON.
LARGE = "x" * (MAX_BODY_BYTES - 2)
#: Bytes that a fetch may return: 1 MiB, and a step of 16 messages.
MOST = 2 * 1024 * 1024


def size_of(messages: Messages) -> int:
    return sum(len(message.body) for message in messages)


def stored(store: Store, chat: Chat) -> tuple[int, int]:
    """Return the bytes of a chat: those that the log and the edits have, and those that the scripts count."""
    key = f"{store.prefix}:messaging:{{{chat.id}}}:chat"
    bodies = [fields[b"b"] for _, fields in store.raw.xrange(f"{key}:log")]
    edits = store.raw.zrange(f"{key}:edits", 0, -1)
    return sum(map(len, [*bodies, *edits])), int(store.raw.hget(f"{key}:meta", "bytes"))


@pytest.mark.contract
def test_a_fetch_of_large_messages_ends_after_about_1_mib(store: Store) -> None:
    chat = Chat.create("a", ["b"], LARGE)
    for _ in range(79):
        chat.send("a", LARGE)

    found, after, parts = [], 0, 0
    while True:
        messages = chat.fetch("b", after=after, limit=1_000)
        assert size_of(messages) <= MOST
        found, parts, after = found + [one.id for one in messages], parts + 1, messages[-1].id
        if not messages.is_cut:
            break

    assert (found, parts) == (list(range(1, 81)), 5)


def test_older_messages_are_read_in_steps_too(redis_server: Store) -> None:
    chat = Chat.create("a", ["b"], LARGE)
    for number in range(40):
        chat.send("a", LARGE if number % 2 else number)

    found: list[int] = []
    before, is_cut = 42, True
    while is_cut:
        messages = chat.fetch("b", before=before, limit=1_000)
        assert len(str([one.body for one in messages])) <= MOST
        found, before, is_cut = [one.id for one in messages] + found, messages[0].id, messages.is_cut

    assert found == list(range(1, 42))


def test_edits_count_as_bytes_of_a_fetch(redis_server: Store) -> None:
    chat = Chat.create("a", ["b"], 0)
    for number in range(30):
        chat.send("a", number)
    for number in range(1, 32):
        chat.edit_message("a", number, LARGE)

    messages = chat.fetch("b", after=0, limit=1_000)

    assert (messages.is_cut, size_of(messages) <= MOST) == (True, True)
    assert chat.fetch("b", after=messages[-1].id, limit=1_000).is_cut is False


def test_a_mailbox_is_read_in_steps(redis_server: Store) -> None:
    box = Mailbox("o")
    for _ in range(20):
        box.send(LARGE)

    first = box.fetch(limit=1_000)
    rest = box.fetch(after=first[-1].id, limit=1_000)

    assert (len(first), first.is_cut, len(rest), rest.is_cut) == (16, True, 4, False)
    assert box.fetch(limit=20).is_cut is True
    assert box.fetch(after=10, limit=10).is_cut is False


def test_a_fetch_says_whether_the_limit_cut_it(redis_server: Store) -> None:
    chat = Chat.create("a", ["b"], 1)
    for number in range(2, 6):
        chat.send("a", number)
    chat.delete_message("a", 5)

    def cut(**options: Any) -> bool:
        return chat.fetch("b", **options).is_cut

    assert [cut(after=0, limit=3), cut(after=0, limit=4), cut(after=0, limit=5)] == [True, False, False]
    assert [cut(before=5, limit=3), cut(before=5, limit=4), cut(before=3, limit=2)] == [True, False, False]


@pytest.mark.contract
def test_a_chat_keeps_no_more_than_its_bytes(store: Store) -> None:
    chat = Chat.create("a", ["b"], LARGE, retention=Retention(max_bytes=1_000_000))
    for _ in range(40):
        chat.send("a", LARGE)

    assert stored(store, chat)[0] <= 1_000_000
    kept = chat.fetch("b", limit=1_000)
    assert ([one.id for one in kept], kept.is_truncated) == (list(range(27, 42)), True)
    assert chat.unread("b") == 15


def test_a_chat_of_the_default_keeps_16_mib(redis_server: Store) -> None:
    chat = Chat.create("a", ["b"], LARGE)
    for _ in range(300):
        chat.send("a", LARGE)

    assert chat.unread("b") == 256


def test_edits_trim_the_oldest_messages(redis_server: Store) -> None:
    chat = Chat.create("a", ["b"], 0, retention=Retention(max_bytes=200_000))
    for number in range(1, 10):
        chat.send("a", number)

    for number in (10, 9, 8):
        chat.edit_message("a", number, LARGE)
    assert chat.unread("b") == 10
    chat.edit_message("a", 7, LARGE)

    assert (stored(redis_server, chat)[0] <= 200_000, [one.id for one in chat.fetch("b")]) == (True, [8, 9, 10])
    chat.edit_message("a", 10, LARGE)  # the same size
    assert [one.id for one in chat.fetch("b")] == [8, 9, 10]


def test_a_message_that_is_larger_than_the_limit_is_kept_alone(redis_server: Store) -> None:
    chat = Chat.create("a", ["b"], "x" * 100, retention=Retention(max_bytes=50))
    chat.send("a", "y" * 100)
    box = Mailbox("o", max_bytes=50)
    box.send("x" * 100)
    box.send("y" * 100)

    assert [one.body[0] for one in chat.fetch("b")] == ["y"]
    assert ([one.body[0] for one in box.fetch()], box.fetch().is_truncated) == (["y"], True)


@pytest.mark.contract
def test_a_mailbox_keeps_no_more_than_its_bytes(store: Store) -> None:
    box = Mailbox("o", max_bytes=10 * MAX_BODY_BYTES)
    for _ in range(25):
        box.send(LARGE)
    first = box.fetch(limit=1_000)
    assert ([one.id for one in first], first.is_truncated) == (list(range(16, 26)), True)

    assert box.ack(20) == 5
    for _ in range(5):
        box.send(LARGE)

    found = box.fetch(limit=1_000)
    assert ([one.id for one in found], found.is_truncated) == (list(range(21, 31)), False)


def test_an_ack_of_large_messages_removes_all_of_them(redis_server: Store) -> None:
    box = Mailbox("o")
    for _ in range(50):
        box.send(LARGE)

    assert (box.ack(49), box.unread(), box.fetch()[0].id, box.fetch().is_truncated) == (49, 1, 50, False)


def test_an_expired_log_of_a_mailbox_counts_no_more(redis_server: Store) -> None:
    box = Mailbox("o", max_bytes=10)
    box.send("12345")
    redis_server.raw.delete(f"{redis_server.prefix}:messaging:{{o}}:mailbox:log")

    box.send("abcdef")

    assert [one.body for one in box.fetch()] == ["abcdef"]


def test_a_large_chat_is_erased_in_steps(redis_server: Store) -> None:
    chat = Chat.create("a", ["b"], LARGE)
    for _ in range(40):
        chat.send("a", LARGE)
    chat.edit_message("a", 3, LARGE)

    forget_user("a")

    assert (stored(redis_server, chat), chat.unread("b")) == ((0, 0), 0)


@pytest.mark.parametrize("seed", range(3))
def test_the_counted_bytes_are_those_of_the_messages_and_edits(redis_server: Store, seed: int) -> None:
    choose = random.Random(seed)
    kept = Retention(max_bytes=600, max_messages=20, keep_last=3, keep_for=0)
    chat = Chat.create("a", ["b"], "", chat_id=f"chat {seed}", retention=kept)

    for _ in range(150):
        ids = [one.id for one in chat.fetch("a", after=0)]
        body = "x" * choose.randint(0, 60)
        match choose.randint(0, 9):
            case 0 | 1 | 2 | 3 | 4:
                chat.send("a", body)
            case 5 | 6 | 7:
                chat.edit_message("a", choose.choice(ids), body)
            case 8 if len(ids) > 1:
                chat.delete_message("a", choose.choice(ids[:-1]))
            case _:
                for user in "ab":
                    chat.ack(user, choose.choice(ids))
        actual, counted = stored(redis_server, chat)
        assert actual == counted
        assert actual <= 600 or len(chat.fetch("a", after=0)) == 1


def test_pending_reads_each_chat_in_part(redis_server: Store) -> None:
    for name in ("one", "two"):
        chat = Chat.create("a", ["b"], LARGE, chat_id=name)
        for _ in range(39):
            chat.send("a", LARGE)

    found = pending("b", limit=1_000)

    assert [(len(messages), messages.is_cut) for _, messages in found] == [(16, True), (16, True)]


@pytest.mark.parametrize("value", [0, -1, 2**31, True, "1", 1.5])
def test_bytes_that_are_not_accepted(value: Any) -> None:
    text = f"max_bytes={value!r}: expected an integer from 1 to 1073741824."
    for make in (lambda: Retention(max_bytes=value), lambda: Mailbox("o", max_bytes=value)):
        with pytest.raises((TypeError, ValueError)) as caught:
            make()
        assert str(caught.value) == text


def test_a_subscription_that_is_not_read_keeps_4_mib() -> None:
    listener = ChannelListener("news", keeps_payloads=True)
    for _ in range(100):
        listener.notify(b"x" * MAX_BODY_BYTES)
    kept = sum(len(payload) for payload in iter(listener.pop, None))

    assert (kept, listener.dropped) == (4 * 1024 * 1024, 36)
    for number in range(1_001):
        listener.notify(b"%d" % number)
    assert (listener.pop(), listener.dropped) == (b"1", 37)
