"""The panels of chats, mailboxes and broadcasts."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from django_redis_components.dashboard.panels.messaging import (
    MAX_BEHIND,
    MAX_BROADCASTS,
    MAX_CHATS,
    MAX_MAILBOXES,
    MIN_NEWEST,
)
from django_redis_components.dashboard.problems.watched.messages import MAX_NEWEST_BYTES
from django_redis_components.messaging import Broadcast, Chat, Mailbox, Retention, forget_user, keyspace
from tests.dashboard.support import browser, text_of
from tests.support import Store

pytestmark = pytest.mark.django_db

MESSAGING = "/admin/django_redis_components/messaging/"


@pytest.fixture
def viewer() -> Client:
    return browser("view_messaging")


def rows_of(client: Client, panel: str, key: str) -> dict[str, Any]:
    reply = client.get(MESSAGING, {"format": "json"}).json()
    assert reply["panels"][panel] is not None, reply["errors"]
    return {row[key]: row for row in reply["panels"][panel]}


@pytest.mark.contract
def test_chats_show_the_lag_of_members_and_memory(store: Store, viewer: Client) -> None:
    chat = Chat.create("a", ["<late>"], 1, chat_id="<room>", retention=Retention(keep_last=0, keep_for=0))
    for number in range(2, 6):
        chat.send("a", number)
    chat.ack("a", 5)
    chat.ack("<late>", 2)
    Chat.create("a", [], 1, chat_id="deleted").delete()

    rows = rows_of(viewer, "chats", "id")

    assert rows["<room>"].pop("bytes") > 100
    assert rows == {
        "<room>": {"id": "<room>", "members": 2, "sent": 5, "stored": 3, "lag": {"<late>": 3, "a": 0}, "flood": None}
    }
    page = viewer.get(MESSAGING).content.decode()
    assert " 2 5 3 &lt;late&gt;: 3, a: 0 " in text_of(page)
    assert "<late>" not in page


@pytest.mark.contract
def test_chats_count_neither_trimmed_nor_deleted_messages(store: Store, viewer: Client) -> None:
    chat = Chat.create("a", ["late"], 1, chat_id="room", retention=Retention(keep_last=0, keep_for=0, max_messages=3))
    for number in range(2, 6):
        chat.send("a", number)
    chat.delete_message("a", 4)
    chat.ack("a", 5)

    row = rows_of(viewer, "chats", "id")["room"]

    assert (row["sent"], row["stored"], row["lag"]) == (5, 2, {"late": 2, "a": 0})
    assert row["lag"] == {user: chat.unread(user) for user in ("late", "a")}


def test_only_the_newest_chats_and_the_last_members_are_read(redis_server: Store, viewer: Client) -> None:
    assert rows_of(viewer, "chats", "id") == {}
    Chat.create("a", [f"member {number}" for number in range(MAX_BEHIND + 1)], 1, chat_id="large")
    assert "member 0: 1" in text_of(viewer.get(MESSAGING).content.decode())
    assert ", 2 more " in text_of(viewer.get(MESSAGING).content.decode())
    for number in range(MAX_CHATS):
        Chat.create("a", [], 1, chat_id=f"room {number}")

    rows = rows_of(viewer, "chats", "id")

    assert len(rows) == MAX_CHATS
    page = text_of(viewer.get(MESSAGING).content.decode())
    assert f"1 to {MAX_CHATS} of {MAX_CHATS + 1} · Newest first." in page
    assert "There are no chats." not in page


@pytest.mark.contract
def test_mailboxes_show_unread_and_dropped_messages(store: Store, viewer: Client) -> None:
    box = Mailbox("<jeff>", max_messages=3)
    for number in range(1, 6):
        box.send(number)
    box.ack(4)
    Mailbox("deleted").send(1)
    Mailbox("deleted").delete()
    Mailbox("erased").send(1)
    forget_user("erased")

    rows = rows_of(viewer, "mailboxes", "owner")

    assert rows["<jeff>"].pop("bytes") > 50
    assert rows == {"<jeff>": {"owner": "<jeff>", "sent": 5, "unread": 1, "dropped": 2, "flood": None}}
    assert "&lt;jeff&gt; 5 1 2 " in text_of(viewer.get(MESSAGING).content.decode())


def test_only_the_newest_mailboxes_are_read(redis_server: Store, viewer: Client) -> None:
    assert "There are no mailboxes." in text_of(viewer.get(MESSAGING).content.decode())
    for number in range(MAX_MAILBOXES + 1):
        Mailbox(number).send(1)

    assert len(rows_of(viewer, "mailboxes", "owner")) == MAX_MAILBOXES


@pytest.mark.contract
def test_sender_of_a_flood_is_named_with_its_share(store: Store, viewer: Client) -> None:
    chat, box = Chat.create("<ada>", ["kim"], chat_id="room"), Mailbox("kim")
    for number in range(120):
        chat.send("kim" if number % 10 == 0 else "<ada>", number)
        box.send(number, sender=None if number % 4 else "ada")

    chats, boxes = rows_of(viewer, "chats", "id"), rows_of(viewer, "mailboxes", "owner")
    page = text_of(viewer.get(MESSAGING).content.decode())

    assert chats["room"]["flood"] == {"sender": "<ada>", "count": 90, "newest": 100}
    assert boxes["kim"]["flood"] == {"sender": "", "count": 75, "newest": 100}
    assert "&lt;ada&gt;: 90 of 100 newest" in page
    assert "no sender: 75 of 100 newest" in page


def test_few_or_slow_messages_are_no_flood(redis_server: Store, viewer: Client) -> None:
    few = Chat.create("ada", ["kim"], chat_id="few")
    for number in range(MIN_NEWEST - 1):
        few.send("ada", number)
    Chat.create("ada", ["kim"], 1, chat_id="slow")
    log = keyspace.chat_key("slow", "log")
    for number in range(2, 102):
        redis_server.raw.xadd(log, {"s": "ada", "b": "1", "t": 1_700_000_000_000 + number * 250}, id=f"{number}-0")

    rows = rows_of(viewer, "chats", "id")

    assert [rows[name]["flood"] for name in ("few", "slow")] == [None, None]
    assert "Flooded by" not in text_of(viewer.get(MESSAGING).content.decode())


def test_large_messages_of_a_flood_are_read_up_to_a_number_of_bytes(redis_server: Store, viewer: Client) -> None:
    chat = Chat.create("ada", ["kim"], chat_id="room")
    for _ in range(40):
        chat.send("ada", "x" * (MAX_NEWEST_BYTES // 15))

    assert rows_of(viewer, "chats", "id")["room"]["flood"] == {"sender": "ada", "count": 20, "newest": 20}


@pytest.mark.contract
def test_broadcasts_show_their_subscribers(store: Store, viewer: Client) -> None:
    with Broadcast("prices").subscribe(), Broadcast("news").subscribe():
        rows = rows_of(viewer, "broadcasts", "channel")
        page = text_of(viewer.get(MESSAGING).content.decode())

    assert {channel: row["subscribers"] for channel, row in rows.items()} == {"prices": 1, "news": 1}
    assert "prices 1 " in page


def test_only_the_latest_subscriptions_are_read(redis_server: Store, viewer: Client) -> None:
    assert "No process has subscribed to a broadcast." in text_of(viewer.get(MESSAGING).content.decode())
    for number in range(MAX_BROADCASTS + 1):
        with Broadcast(f"channel {number}").subscribe():
            pass

    assert len(rows_of(viewer, "broadcasts", "channel")) == MAX_BROADCASTS
