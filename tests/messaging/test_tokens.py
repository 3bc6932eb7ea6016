"""Tokens of sent messages: what is sent again adds nothing, whatever else was sent, and whatever the clock says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_redis_components.messaging import Chat, Mailbox
from django_redis_components.messaging.keyspace import chat_key, mailbox_key
from tests.support import Proxy, Store, eventually
from tests.support.clocks import ServerClock

#: Tokens with a key that a chat or mailbox keeps, of those that are older than a minute.
MAX_TOKENS = 10_000

Send = Callable[[str | None, str], int]


def sender_of(kind: str) -> Send:
    """Return a function that sends a message with a key through a connection."""
    if kind == "mailbox":
        return lambda key, using: Mailbox("o", max_messages=100, using=using).send("x", key=key)
    Chat.create("a", [], "x", chat_id="room")
    return lambda key, using: Chat("room", using=using).send("a", "x", key=key)


def step(stepped_server: tuple[Store, ServerClock], seconds: int) -> None:
    """Set the clock of the server, which it reads after a moment."""
    store, clock = stepped_server
    before = store.raw.time()[0]
    clock.step(seconds)
    eventually(lambda: abs(store.raw.time()[0] - before - seconds) < 30)


@pytest.mark.parametrize("kind", ["chat", "mailbox"])
def test_many_keys_evict_no_token_that_a_repeated_call_needs(proxy: Proxy, kind: str) -> None:
    send = sender_of(kind)
    first = send("first", "default")
    for number in range(MAX_TOKENS):
        send(str(number), "default")

    proxy.drop_next_reply(after=kind.encode())
    last = send(None, "proxied")

    assert (proxy.dropped, last) == (1, first + MAX_TOKENS + 1)
    assert send(None, "default") == last + 1
    assert send("first", "default") == first


def test_older_keys_are_bounded_and_the_newest_are_kept(stepped_server: tuple[Store, ServerClock]) -> None:
    store, _ = stepped_server
    send = sender_of("chat")
    ids = [send(str(number), "default") for number in range(MAX_TOKENS + 20)]
    step(stepped_server, 120)

    for _ in range(3):
        send("another", "default")

    assert store.raw.zcard(chat_key("room", "keyed")) == MAX_TOKENS
    assert send(str(MAX_TOKENS + 19), "default") == ids[-1]
    assert send("0", "default") > ids[-1]
    step(stepped_server, 86_400)
    for number in range(MAX_TOKENS // 1_000 + 1):
        send(f"next day {number}", "default")
    assert store.raw.zcard(chat_key("room", "keyed")) == MAX_TOKENS // 1_000 + 1
    assert store.raw.zcard(chat_key("room", "sent")) == 0


@pytest.mark.parametrize("kind", ["chat", "mailbox"])
def test_a_server_whose_clock_is_behind_stores_what_is_sent(
    stepped_server: tuple[Store, ServerClock], kind: str
) -> None:
    store, _ = stepped_server
    step(stepped_server, 1_700_000_000 - store.raw.time()[0])
    send = sender_of(kind)

    ids = [send(None, "default"), send("k", "default"), send("k", "default"), send(None, "default")]

    assert [id_ - ids[0] for id_ in ids] == [0, 1, 1, 2]
    key = chat_key("room", "log") if kind == "chat" else mailbox_key("o", "log")
    assert store.raw.xlen(key) == ids[-1] > 0
