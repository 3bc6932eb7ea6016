"""All chats of a user: the index, pending messages, erasure and reconciliation."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from django.core.management import call_command
from redis.exceptions import ConnectionError

from django_redis_components.messaging import (
    Chat,
    ChatDoesNotExist,
    ChatExists,
    Mailbox,
    NotMember,
    achats,
    aforget_user,
    apending,
    areconcile,
    aunread_counts,
    chats,
    forget_user,
    pending,
    reconcile,
    unread_counts,
    user_chats,
)
from django_redis_components.messaging.keyspace import chats_key
from django_redis_components.messaging.user_index import MAX_CHATS
from tests.messaging.members import names_of
from tests.support import Proxy, Store, eventually, run_async, run_together


def bodies(found: list[Any]) -> list[tuple[str, list[Any]]]:
    return [(chat_id, [message.body for message in messages]) for chat_id, messages in found]


@pytest.mark.contract
def test_pending_returns_what_is_new_in_all_chats(store: Store) -> None:
    one, two, three = (Chat.create("a", ["b"], name, chat_id=name) for name in ("one", "two", "three"))
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
        await Chat.acreate("a", ["b"], 1, chat_id="room")
        found = [await achats("b"), bodies(await apending("b")), await aunread_counts("b"), (await areconcile()).chats]
        await aforget_user("b")
        return [*found, await achats("b")]

    assert run_async(scene) == [["room"], [("room", [1])], {"room": 1}, 1, []]


def test_the_chat_with_the_latest_message_is_first(redis_server: Store) -> None:
    first, _ = Chat.create("a", [], 1, chat_id="first"), Chat.create("a", [], 1, chat_id="second")

    def order() -> list[str]:
        first.send("a", 2)
        return chats("a")

    eventually(lambda: order() == ["first", "second"])  # times are in milliseconds


@pytest.mark.contract
def test_deleted_and_expired_chats_disappear_from_the_index(store: Store) -> None:
    Chat.create("a", ["b"], 1, chat_id="deleted").delete()
    Chat.create("a", ["b"], 1, chat_id="expired")
    Chat.create("a", ["b"], 1, chat_id="kept")
    for part in ("log", "members", "meta"):
        store.raw.delete(f"{store.prefix}:messaging:{{expired}}:chat:{part}")

    assert (chats("a"), bodies(pending("b"))) == (["kept"], [("kept", [1])])
    assert store.raw.zrange(chats_key("a"), 0, -1) == [b"kept"]


@pytest.mark.contract
def test_reconcile_repairs_the_indexes_of_users(store: Store) -> None:
    for number in range(3):
        Chat.create("a", ["b*"], number, chat_id=f"room {number}")
    store.raw.delete(chats_key("b*"))
    store.raw.zadd(chats_key("a"), {"other": 1})

    done = reconcile()

    assert (done.chats, done.added, done.removed) == (3, 3, 1)
    assert sorted(chats("b*")) == sorted(chats("a")) == ["room 0", "room 1", "room 2"]
    assert (reconcile().added, reconcile().removed) == (0, 0)


def test_reconcile_passes_keys_that_are_not_text(redis_server: Store) -> None:
    for end in (b"}:chat:members", b"}:chats"):
        redis_server.raw.set(f"{redis_server.prefix}:messaging:{{".encode() + b"\xff" + end, "")

    done = reconcile()

    assert (done.chats, done.added, done.removed) == (0, 0, 0)


def test_the_command_reports_what_it_repaired(redis_server: Store, capsys: pytest.CaptureFixture[str]) -> None:
    Chat.create("a", ["b"], 1, chat_id="room")
    redis_server.raw.delete(chats_key("b"))

    call_command("reconcile_messaging", "--json")

    assert json.loads(capsys.readouterr().out) == {"chats": 1, "added": 1, "removed": 0}
    call_command("reconcile_messaging")
    assert "1 chat, 0 entries added, 0 removed" in capsys.readouterr().out


def test_a_lost_write_of_the_index_is_logged_and_the_chat_exists(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.drop_next_reply(after=chats_key("a").encode(), times=100)

    chat = Chat.create("a", ["b"], 1, using="proxied")

    assert chat.members() == {"a": 0, "b": 0} or proxy.dropped
    assert "run manage.py reconcile_messaging" in caplog.text


def test_an_index_that_cannot_be_written_fails_the_reconciliation(proxy: Proxy, redis_server: Store) -> None:
    Chat.create("a", ["b"], 1, chat_id="room")
    redis_server.raw.delete(chats_key("b"))
    proxy.drop_next_reply(after=b"ZADD", times=100)

    with pytest.raises(ConnectionError):
        reconcile(using="proxied")

    proxy.drop_next_reply(times=0)
    redis_server.raw.delete(chats_key("b"))
    assert reconcile(using="proxied").added == 1


def test_all_entries_of_an_index_are_reconciled_and_a_read_beyond_its_limit_is_logged(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.raw.zadd(chats_key("a"), {f"stale {number}": number for number in range(MAX_CHATS + 5)})

    assert chats("a") == []

    assert "User 'a' has more than 10000 chats: the others are not read." in caplog.text
    assert redis_server.raw.zcard(chats_key("a")) == 5
    assert reconcile().removed == 5


@pytest.mark.contract
def test_a_repeated_creation_adds_the_members_to_the_index(store: Store) -> None:
    Chat.create("a", ["b"], 1, chat_id="room")
    store.raw.delete(chats_key("a"))  # the process died before it wrote the index

    for creator in ("a", "other"):
        with pytest.raises(ChatExists):
            Chat.create(creator, [], 1, chat_id="room")

    assert (chats("a"), store.raw.exists(chats_key("other"))) == (["room"], 0)


def test_a_member_who_leaves_and_joins_at_once_finds_the_chat(redis_server: Store) -> None:
    chat = Chat.create("a", ["b"], 1, chat_id="room")

    def act(number: int) -> None:
        if number:
            chat.join("b")
        else:
            chat.leave("b")

    for _ in range(100):
        run_together(2, act)
        assert chats("b") == ["room"] * ("b" in chat.members())


def test_a_leave_that_cannot_be_noted_for_the_erasure_is_not_done(proxy: Proxy) -> None:
    chat = Chat.create("a", ["b"], 1, chat_id="room", using="proxied")
    proxy.drop_next_reply(after=b"ZADD", times=100)

    with pytest.raises(ConnectionError):
        chat.leave("b")

    assert list(Chat("room").members()) == ["a", "b"]


def test_pending_returns_a_bounded_number_of_messages(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_chats, "MAX_PENDING", 5)
    for name in ("first", "second", "third"):
        chat = Chat.create("a", ["b"], 1, chat_id=name)
        chat.send("a", 2)
    eventually(lambda: chat.send("a", 3) and chats("b")[0] == "third")  # times are in milliseconds

    found = pending("b", limit=3)

    assert (found[0][0], [len(messages) for _, messages in found]) == ("third", [3, 2])
    for chat_id, messages in found:
        Chat(chat_id).ack("b", messages[-1].id)
    assert sum(len(messages) for _, messages in pending("b", limit=1)) == sum(map(bool, unread_counts("b").values()))


def test_pending_reads_no_more_chats_after_a_number_of_bytes(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_chats, "MAX_PENDING_BYTES", 100)
    for name in ("first", "second"):
        chat = Chat.create("a", ["b"], 1, chat_id=name)
        for number in range(150):
            chat.send("a", number)
    chat.edit_message("a", 1, "edited")

    assert [(chat_id, len(messages)) for chat_id, messages in pending("b", limit=200)] == [("second", 151)]


def test_no_message_survives_that_a_user_sends_during_the_erasure(redis_server: Store) -> None:
    chat = Chat.create("a", ["b"], 1, chat_id="room")
    for number in range(1_000):
        chat.send("b", number)

    def act(number: int) -> None:
        if number:
            forget_user("a")
            return
        with suppress(NotMember):
            while True:
                chat.send("a", "x")

    run_together(2, act)

    cursor, senders = 0, set()
    while messages := chat.fetch("b", after=cursor, limit=1_000):
        cursor = messages[-1].id
        senders |= {message.sender for message in messages}
    assert senders == {"b"}


def test_forgetting_covers_more_chats_than_are_read_at_once(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_redis_components.messaging.erasure.MAX_CHATS", 10)
    for number in range(25):
        Chat.create("a", ["b"], number, chat_id=f"room {number}").leave("a")

    assert (forget_user("a"), forget_user("a")) == (25, 0)
    assert [len(Chat(f"room {number}").fetch("b")) for number in (0, 24)] == [0, 0]


@pytest.mark.contract
def test_erasure_removes_messages_membership_and_mailbox_of_a_user(store: Store) -> None:
    shared, left, own = (
        Chat.create("a", others, "of a", chat_id=name)
        for name, others in (("shared", ["b"]), ("left", ["b"]), ("own", []))
    )
    for number in range(450):
        shared.send("a" if number % 2 else "b", number)
    shared.edit_message("a", 1, "edited")
    left.leave("a")
    Mailbox("a").send("x")

    done = forget_user("a")

    assert done == 4, "three chats and the mailbox"
    assert {message.sender for message in shared.fetch("b", limit=1_000)} == {"b"}
    assert (len(shared.fetch("b", limit=1_000)), shared.unread("b"), len(left.fetch("b"))) == (225, 225, 0)
    assert (list(shared.members()), chats("a"), Mailbox("a").unread()) == (["b"], [], 0)
    with pytest.raises(ChatDoesNotExist):
        own.fetch("a")
    assert [key for key in names_of(store) if b"{a}" in key] == []
    assert forget_user("a") == 0
