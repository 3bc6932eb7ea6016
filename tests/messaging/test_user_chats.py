"""All chats of a user: the index, pending messages, erasure and reconciliation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import call_command

from django_redis_components.messaging import (
    Chat,
    ChatNotFound,
    Mailbox,
    achats,
    aerase_user,
    apending,
    areconcile,
    aunread_counts,
    chats,
    erase_user,
    pending,
    reconcile,
    unread_counts,
)
from django_redis_components.messaging.keyspace import chats_key
from tests.messaging.members import names_of
from tests.support import Proxy, Store, eventually, run_async


def bodies(found: list[Any]) -> list[tuple[str, list[Any]]]:
    return [(chat_id, [message.body for message in messages]) for chat_id, messages in found]


@pytest.mark.contract
def test_pending_returns_what_is_new_in_all_chats(store: Store) -> None:
    one, two, three = (Chat.create("a", ["b"], name, name) for name in ("one", "two", "three"))
    one.send("b", "again")
    two.ack("b", 1)
    three.leave("b")

    assert sorted(bodies(pending("b"))) == [("one", ["one", "again"])]
    assert [len(messages) for _, messages in pending("b", limit=1)] == [1]
    assert sorted(chats("a")) == ["one", "three", "two"]
    assert unread_counts("b") == {"one": 2, "two": 0}
    assert bodies(pending("nobody")) == []


@pytest.mark.contract
def test_async_functions_behave_like_the_sync_ones(store: Store) -> None:
    async def scene() -> list[object]:
        await Chat.acreate("a", ["b"], 1, "room")
        found = [await achats("b"), bodies(await apending("b")), await aunread_counts("b"), (await areconcile()).chats]
        await aerase_user("b")
        return [*found, await achats("b")]

    assert run_async(scene) == [["room"], [("room", [1])], {"room": 1}, 1, []]


def test_the_chat_with_the_latest_message_is_first(redis_server: Store) -> None:
    first, _ = Chat.create("a", [], 1, "first"), Chat.create("a", [], 1, "second")

    def order() -> list[str]:
        first.send("a", 2)
        return chats("a")

    eventually(lambda: order() == ["first", "second"])  # times are in milliseconds


@pytest.mark.contract
def test_deleted_and_expired_chats_disappear_from_the_index(store: Store) -> None:
    Chat.create("a", ["b"], 1, "deleted").delete()
    Chat.create("a", ["b"], 1, "expired")
    Chat.create("a", ["b"], 1, "kept")
    for part in ("log", "members", "meta"):
        store.raw.delete(f"{store.prefix}:messaging:{{expired}}:chat:{part}")

    assert (chats("a"), bodies(pending("b"))) == (["kept"], [("kept", [1])])
    assert store.raw.zrange(chats_key("a"), 0, -1) == [b"kept"]


@pytest.mark.contract
def test_reconcile_repairs_the_indexes_of_users(store: Store) -> None:
    for number in range(3):
        Chat.create("a", ["b*"], number, f"room {number}")
    store.raw.delete(chats_key("b*"))
    store.raw.zadd(chats_key("a"), {"other": 1})

    done = reconcile()

    assert (done.chats, done.added, done.removed) == (3, 3, 1)
    assert sorted(chats("b*")) == sorted(chats("a")) == ["room 0", "room 1", "room 2"]
    assert (reconcile().added, reconcile().removed) == (0, 0)


def test_the_command_reports_what_it_repaired(redis_server: Store, capsys: pytest.CaptureFixture[str]) -> None:
    Chat.create("a", ["b"], 1, "room")
    redis_server.raw.delete(chats_key("b"))

    call_command("reconcile_messaging", "--json")

    assert json.loads(capsys.readouterr().out) == {"chats": 1, "added": 1, "removed": 0}
    call_command("reconcile_messaging")
    assert "1 chats, 0 entries added, 0 removed" in capsys.readouterr().out


def test_a_lost_write_of_the_index_is_logged_and_the_chat_exists(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.drop_next_reply(after=chats_key("a").encode(), times=100)

    chat = Chat.create("a", ["b"], 1, using="proxied")

    assert chat.members() == {"a": 0, "b": 0} or proxy.dropped
    assert "run manage.py reconcile_messaging" in caplog.text


@pytest.mark.contract
def test_erasure_removes_messages_membership_and_mailbox_of_a_user(store: Store) -> None:
    shared, left, own = (
        Chat.create("a", others, "of a", name) for name, others in (("shared", ["b"]), ("left", ["b"]), ("own", []))
    )
    for number in range(450):
        shared.send("a" if number % 2 else "b", number)
    shared.edit_message("a", 1, "edited")
    left.leave("a")
    Mailbox("a").send("x")

    done = erase_user("a")

    assert (done.chats, done.is_complete) == (3, True)
    assert {message.sender for message in shared.fetch("b", limit=1_000)} == {"b"}
    assert (len(shared.fetch("b", limit=1_000)), shared.unread("b"), len(left.fetch("b"))) == (225, 225, 0)
    assert (list(shared.members()), chats("a"), Mailbox("a").unread()) == (["b"], [], 0)
    with pytest.raises(ChatNotFound):
        own.fetch("a")
    assert [key for key in names_of(store) if b"{a}" in key] == []
    assert erase_user("a").chats == 0
