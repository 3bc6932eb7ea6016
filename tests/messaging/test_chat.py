"""Chats: order, last seen ids, trimming, joins and leaves, edits, and bad input."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.messaging import (
    Chat,
    ChatDoesNotExist,
    ChatExists,
    ChatFull,
    MessageDoesNotExist,
    NotMember,
    NotSender,
    Retention,
    forget_user,
)
from django_redis_components.messaging.creation import MAX_MEMBERS
from django_redis_components.messaging.keyspace import chat_key
from django_redis_components.messaging.scripts import DELETE, EDIT_MESSAGE
from tests.messaging.members import names_of
from tests.support import Store, eventually, run_async, run_together

NO_FLOOR = Retention(keep_last=0, keep_for=0)


def bodies(chat: Chat, user: str, after: int | None = None) -> list[Any]:
    return [message.body for message in chat.fetch(user, after=after)]


def test_info_says_when_the_last_message_was_sent(redis_server: Store) -> None:
    chat = Chat.create("a", ["b"])
    assert chat.info("b").last_at is None

    chat.send("a", "hi")

    assert chat.info("b").last_at == chat.fetch("b")[-1].sent_at


@pytest.mark.contract
def test_members_fetch_messages_in_order_until_they_acknowledge_them(store: Store) -> None:
    chat = Chat.create("jeff", ["jenny"], {"text": "hi"})
    assert [chat.send("jenny", [1, None]), chat.send("jeff", "é")] == [2, 3]

    fetched = chat.fetch("jenny")

    assert [(one.id, one.sender, one.body) for one in fetched] == [
        (1, "jeff", {"text": "hi"}),
        (2, "jenny", [1, None]),
        (3, "jeff", "é"),
    ]
    assert (fetched.is_truncated, fetched.last_id, fetched.last_seen, fetched.revision) == (False, 3, 0, 0)
    assert abs(fetched[0].sent_at - datetime.now(UTC)) < timedelta(minutes=5)
    chat.ack("jenny", 2)
    assert (bodies(chat, "jenny"), chat.unread("jenny"), chat.unread("jeff")) == (["é"], 1, 3)
    assert chat.members() == {"jeff": 0, "jenny": 2}


@pytest.mark.contract
def test_async_methods_behave_like_the_sync_ones(store: Store) -> None:
    async def scene() -> list[object]:
        chat = await Chat.acreate(1, [2], "a", chat_id="room", retention=NO_FLOOR)
        found: list[object] = [await chat.asend(2, "b"), [one.body for one in await chat.afetch(1)]]
        await chat.aedit_message(2, 2, "c")
        await chat.adelete_message(1, 1)
        await chat.ajoin(3, history=2)
        found += [[one.body for one in await chat.afetch(3)], await chat.aunread(3), (await chat.ainfo(3)).revision]
        await chat.aack(1, 2)
        found.append(await chat.amembers())
        await chat.aleave(3)
        await chat.adelete()
        return [*found, await chat.amembers()]

    assert run_async(scene) == [2, ["a", "b"], ["c"], 1, 2, {"1": 2, "2": 0, "3": 0}, {}]
    assert store.keys() == [f"{store.prefix}:messaging:{{3}}:left".encode()]


@pytest.mark.contract
def test_send_with_a_key_is_idempotent_for_its_sender(store: Store) -> None:
    chat = Chat.create("a", ["b"], "first")

    ids = [
        chat.send("a", "x", key="k"),
        chat.send("a", "y"),
        chat.send("a", "x", key="k"),
        chat.send("b", "x", key="k"),
    ]

    assert ids == [2, 3, 2, 4]
    assert bodies(chat, "a") == ["first", "x", "y", "x"]


@pytest.mark.contract
def test_what_all_have_read_is_trimmed_to_the_floor(store: Store) -> None:
    chat = Chat.create("a", ["b", "c"], 1, retention=Retention(keep_last=2, keep_for=0))
    for number in range(2, 7):
        chat.send("a", number)

    chat.ack("a", 5)
    chat.ack("b", 999)
    assert bodies(chat, "b", 0) == [1, 2, 3, 4, 5, 6]
    chat.ack("c", 5)

    fetched = chat.fetch("b", after=0)
    assert ([one.body for one in fetched], fetched.is_truncated) == ([5, 6], True)
    assert chat.fetch("a").is_truncated is False
    chat.ack("c", 3)
    assert chat.members() == {"a": 5, "b": 6, "c": 5}
    assert [chat.send("b", 7), bodies(chat, "a", 0)] == [7, [6, 7]]


def test_many_messages_are_trimmed_in_bounded_steps(redis_server: Store) -> None:
    chat = Chat.create("a", [], 1, retention=Retention(keep_last=0, keep_for=0, max_messages=1_000_000))
    for number in range(10_004):
        chat.send("a", number)

    chat.ack("a", 10_004)

    assert (chat.fetch("a", after=0, limit=1)[0].id, chat.unread("a")) == (10_001, 1)
    chat.ack("a", 10_004)
    assert [message.id for message in chat.fetch("a", after=0)] == [10_005]


def test_messages_younger_than_the_floor_are_kept(redis_server: Store) -> None:
    chat = Chat.create("a", [], 1, retention=Retention(keep_last=0, keep_for=3_600))
    chat.send("a", 2)

    chat.ack("a", 2)

    assert bodies(chat, "a", 0) == [1, 2]


@pytest.mark.contract
def test_an_absent_member_does_not_keep_messages_for_ever(store: Store) -> None:
    chat = Chat.create("a", ["absent"], 1, retention=Retention(keep_last=1, keep_for=0, max_messages=3))
    for number in range(2, 6):
        chat.send("a", number)

    fetched = chat.fetch("absent")

    assert ([one.body for one in fetched], fetched.is_truncated) == ([3, 4, 5], True)
    assert chat.unread("absent") == 3
    chat.ack("absent", 4)
    assert chat.fetch("absent").is_truncated is False


@pytest.mark.contract
def test_old_messages_are_removed_although_unread(store: Store) -> None:
    chat = Chat.create("a", ["b"], 1, retention=Retention(keep_for=0, max_age=0.001))

    def last() -> list[Any]:
        chat.send("a", 2)
        return bodies(chat, "b")

    eventually(lambda: 1 not in last())
    assert chat.fetch("b").is_truncated is True


@pytest.mark.contract
def test_a_member_who_joins_sees_nothing_old_unless_asked(store: Store) -> None:
    chat = Chat.create("a", [], 1)
    chat.send("a", 2)

    chat.join("b")
    chat.join("c", history=1)
    chat.join("d", history=100)
    chat.send("a", 3)
    chat.join("b")

    assert [bodies(chat, user) for user in "bcd"] == [[3], [2, 3], [1, 2, 3]]
    assert chat.fetch("d").is_truncated is False


@pytest.mark.contract
def test_no_cursor_shows_a_member_what_was_sent_before_the_join(store: Store) -> None:
    chat = Chat.create("a", ["leaver"], "old", retention=Retention(keep_last=1, keep_for=0, max_messages=3))
    chat.send("leaver", "older than the join")
    chat.leave("leaver")

    chat.join("new")
    chat.join("asked", history=1)
    chat.join("leaver")
    assert chat.wait_for_message("new", 0, after=0) is False
    assert (chat.fetch("new", after=0).is_truncated, chat.unread("new")) == (False, 0)
    chat.send("a", "new")

    assert [bodies(chat, user, 0) for user in ("new", "leaver")] == [["new"], ["new"]]
    assert bodies(chat, "asked", 0) == ["older than the join", "new"]
    assert bodies(chat, "a", 0) == ["old", "older than the join", "new"]
    assert (bodies(chat, "new", 9), chat.fetch("new", after=9).is_truncated) == (["new"], True)
    for number in range(3):
        chat.send("a", number)
    assert (bodies(chat, "new", 0), chat.fetch("new", after=0).is_truncated) == ([0, 1, 2], True)


@pytest.mark.contract
def test_older_messages_are_loaded_backwards(store: Store) -> None:
    chat = Chat.create("a", ["b"], 1)
    for number in range(2, 7):
        chat.send("a", number)
    chat.join("new", history=3)
    chat.delete_message("a", 4)
    chat.edit_message("a", 5, "five")

    def older(user: str, before: int, limit: int) -> list[Any]:
        return [message.body for message in chat.fetch(user, before=before, limit=limit)]

    assert [older("b", 7, 2), older("b", 5, 2), older("b", 2, 2), older("b", 1, 2)] == [["five", 6], [2, 3], [1], []]
    assert [older("new", 7, 9), older("new", 5, 9), older("b", 99, 1)] == [["five", 6], [], [6]]
    assert chat.fetch("b", before=5).is_truncated is False


@pytest.mark.contract
def test_nothing_brings_a_chat_back_after_its_last_member_left(store: Store) -> None:
    chat = Chat.create("a", ["b"], 1, retention=NO_FLOOR)
    chat.ack("b", 1)
    chat.leave("a")
    assert chat.members() == {"b": 1}
    assert chat.fetch("b", after=0).last_id == 1
    chat.leave("b")
    chat.leave("b")

    for act in (
        lambda: chat.send("b", 2),
        lambda: chat.join("b"),
        lambda: chat.ack("b", 1),
        lambda: chat.fetch("b"),
        lambda: chat.unread("b"),
        lambda: chat.edit_message("b", 1, 2),
        lambda: chat.delete_message("b", 1),
    ):
        with pytest.raises(ChatDoesNotExist, match=f"There is no chat '{chat.id}'. Create it with Chat.create"):
            act()
    assert [key for key in names_of(store) if b":chat:" in key] == []


@pytest.mark.contract
def test_users_who_are_no_members_are_refused(store: Store) -> None:
    chat = Chat.create("a", ["b"], 1, chat_id="room")
    chat.leave("b")

    for act in (
        lambda: chat.send("b", 2),
        lambda: chat.ack("b", 1),
        lambda: chat.fetch("b"),
        lambda: chat.unread("b"),
        lambda: chat.edit_message("b", 1, 2),
        lambda: chat.delete_message("b", 1),
    ):
        with pytest.raises(NotMember, match="User 'b' is not a member of chat 'room'") as raised:
            act()
        assert (raised.value.chat_id, raised.value.user) == ("room", "b")
    assert bodies(chat, "a") == [1]


@pytest.mark.contract
def test_messages_are_edited_and_deleted_by_their_sender(store: Store) -> None:
    chat = Chat.create("a", ["b"], "one")
    chat.send("b", "two")
    chat.send("a", "three")

    chat.edit_message("b", 2, "2:2")
    chat.edit_message("b", 2, {"n": 2})
    chat.delete_message("a", 3)
    chat.delete_message("a", 3)

    fetched = chat.fetch("a")
    assert [(one.id, one.body, one.edited_at is not None) for one in fetched] == [
        (1, "one", False),
        (2, {"n": 2}, True),
    ]
    assert (fetched.revision, chat.unread("a"), fetched.last_id) == (3, 2, 3)
    with pytest.raises(NotSender, match="User 'a' did not send message 2"):
        chat.edit_message("a", 2, "x")
    with pytest.raises(NotSender, match="User 'b' did not send message 1"):
        chat.delete_message("b", 1)
    with pytest.raises(MessageDoesNotExist, match="has no message 3: it was never sent, or deleted, or trimmed"):
        chat.edit_message("a", 3, "x")
    with pytest.raises(MessageDoesNotExist, match="has no message 9"):
        chat.delete_message("a", 9)


@pytest.mark.contract
def test_a_repeated_edit_does_not_replace_a_newer_one(store: Store) -> None:
    chat, client = Chat.create("a", ["b"], "one", chat_id="room"), connections.client("default")
    edit = EDIT_MESSAGE(chat=chat_key("room"), user="a", id=1, body=b'"two"', token=b"t")
    assert client.execute(edit) == 1
    chat.edit_message("a", 1, "three")

    assert client.execute(edit) == 1

    assert (bodies(chat, "b"), chat.fetch("b").revision) == (["three"], 2)


@pytest.mark.contract
def test_edits_and_deletions_are_trimmed_with_their_messages(store: Store) -> None:
    chat = Chat.create("a", [], 1, chat_id="room", retention=NO_FLOOR)
    chat.send("a", 2)
    chat.edit_message("a", 1, "x")
    chat.delete_message("a", 2)

    chat.ack("a", 2)

    assert chat.unread("a") == 0
    parts = {key.rpartition(b":")[2] for key in names_of(store) if b"{room}" in key}
    assert parts.isdisjoint({b"edits", b"deleted"})


@pytest.mark.contract
def test_a_chat_is_created_once(store: Store) -> None:
    def create(number: int) -> str:
        try:
            return Chat.create(number, [], number, chat_id="room").id
        except ChatExists as exc:
            return str(exc)

    outcomes = run_together(4, create)

    assert outcomes.count("room") == 1
    assert "There is a chat 'room' already. Choose another chat_id, or None for a random one." in outcomes
    assert len(Chat("room").members()) == 1


@pytest.mark.contract
def test_all_keys_have_a_ttl_and_expire_together(store: Store) -> None:
    chat = Chat.create("a", ["b"], 1, chat_id="room", retention=Retention(ttl=3_600))
    chat.send("a", 2, key="k")
    chat.edit_message("a", 1, 2)
    chat.delete_message("a", 2)
    chat.leave("b")
    chat.join("c")

    ttls = {key.decode().removeprefix(f"{store.prefix}:messaging:"): store.raw.pttl(key) for key in names_of(store)}

    assert all(ttl > 0 for ttl in ttls.values())
    assert {name for name in ttls if name.startswith("{room}")} == {
        f"{{room}}:chat:{part}" for part in ("log", "members", "meta", "hidden", "edits", "deleted", "sent", "keyed")
    }
    expiries = [ttls[f"{{room}}:chat:{part}"] for part in ("log", "members", "meta", "hidden")]
    assert 3_500_000 < min(expiries) <= max(expiries) <= 3_600_000


def test_cursor_of_an_older_chat_with_the_same_id_starts_anew(redis_server: Store) -> None:
    Chat.create("a", [], 1, chat_id="room").delete()
    chat = Chat.create("a", [], "new", chat_id="room")

    fetched = chat.fetch("a", after=7)

    assert ([one.body for one in fetched], fetched.is_truncated, fetched.last_id) == (["new"], True, 1)


@pytest.mark.contract
def test_a_repeated_deletion_keeps_a_chat_that_was_created_since(store: Store) -> None:
    chat = Chat.create("a", [], 1, chat_id="room")
    delete, client = DELETE(chat=chat_key("room"), created=chat.info("a").epoch), connections.client("default")
    assert client.execute(delete) == 1
    Chat.create("a", [], "new", chat_id="room")

    assert client.execute(delete) == 0

    assert bodies(chat, "a") == ["new"]
    chat.delete()
    chat.delete()
    assert [key for key in names_of(store) if b":chat:" in key] == []


@pytest.mark.contract
def test_a_chat_that_was_created_again_has_another_epoch(store: Store) -> None:
    chat = Chat.create("a", [], 1, chat_id="room")
    before = chat.fetch("a").epoch
    assert before == chat.info("a").epoch != ""
    chat.delete()

    Chat.create("a", [], 1, chat_id="room")

    assert before != chat.fetch("a").epoch == chat.info("a").epoch


def test_a_full_chat_refuses_a_join(redis_server: Store) -> None:
    chat = Chat.create(0, range(1, MAX_MEMBERS), "x", chat_id="room")

    with pytest.raises(ChatFull, match=r"Chat 'room' is full: it has 1,000 members, which is the limit\."):
        chat.join("late")
    chat.join(5)
    assert len(chat.members()) == MAX_MEMBERS
    with pytest.raises(ValueError, match=r"members: 1,001 users with the creator, expected at most 1,000\."):
        Chat.create("a", range(1_000), "x")


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda: Chat(""), ValueError, "chat id is empty"),
        (lambda: Chat("a{b}"), ValueError, "braces are not accepted"),
        (lambda: Chat("x").fetch("a", after=-1), ValueError, "after=-1: expected an integer from 0 to"),
        (lambda: Chat("x").fetch("a", after=True), TypeError, "after=True: expected an integer"),
        (lambda: Chat("x").fetch("a", limit=0), ValueError, "limit=0: expected an integer from 1 to 1000"),
        (lambda: Chat("x").fetch("a", before=0), ValueError, "before=0: expected an integer from 1 to"),
        (
            lambda: Chat("x").fetch("a", after=1, before=2),
            ValueError,
            "after=1, before=2: expected at most one of them.",
        ),
        (lambda: Chat("x").ack("a", -3), ValueError, "id=-3: expected an integer from 0 to"),
        (lambda: Chat("x").ack(None, 3), TypeError, "user=None: expected a string, an integer or a UUID."),
        (lambda: Chat("x").ack("", 3), ValueError, "user is empty"),
        (lambda: Chat("x").join("a", history=-1), ValueError, "history=-1: expected an integer from 0 to"),
        (lambda: Chat("x").send("a", object()), TypeError, "body is a builtins.object: expected JSON"),
        (lambda: Chat("x").send("a", float("nan")), ValueError, "JSON has no NaN"),
        (lambda: Chat("x").send("a", ["漢\udc80"]), ValueError, "body has a lone surrogate: expected text that UTF-8"),
        (lambda: Chat("x").edit_message("a", 1, "\ud83d"), ValueError, "body has a lone surrogate"),
        (lambda: Chat.create("a", ["b"], {"\udfff": "\\ud800"}), ValueError, "body has a lone surrogate"),
        (
            lambda: Chat("x").send("a", "x" * 70_000),
            ValueError,
            "body has 70,002 bytes as JSON: expected at most 65,536",
        ),
        (lambda: Chat("x").send("a", "x", key=""), ValueError, "key is empty"),
        (lambda: Chat("x").edit_message("a", 0, "x"), ValueError, "id=0: expected an integer from 1 to"),
        (lambda: Chat.create("a", "bcd", "x"), TypeError, "members='bcd': expected an iterable of user ids."),
        (
            lambda: Chat.create("a", [None], "x"),
            TypeError,
            "user in members=None: expected a string, an integer or a UUID",
        ),
        (lambda: Retention(keep_last=-1), ValueError, "keep_last=-1: expected an integer from 0 to"),
        (lambda: Retention(keep_last=9, max_messages=3), ValueError, "keep_last=9: expected at most max_messages, 3."),
        (lambda: Retention(keep_for=9, max_age=3), ValueError, "keep_for=9: expected at most max_age, 3."),
        (lambda: Retention(ttl=0), ValueError, "ttl=0: expected a number of seconds above 0"),
    ],
    ids=[str(number) for number in range(25)],
)
def test_bad_arguments_are_refused_before_anything_is_sent(act: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        act()


@pytest.mark.contract
def test_ack_returns_how_many_messages_are_newly_seen(store: Store) -> None:
    chat = Chat.create("a", ["b"], 1)
    for number in range(2, 6):
        chat.send("a", number)
    chat.delete_message("a", 2)

    assert [chat.ack("b", number) for number in (3, 1, 3, 99)] == [2, 0, 0, 2]
    assert run_async(lambda: chat.aack("a", 5)) == 4


@pytest.mark.contract
def test_chat_without_a_body_has_no_message(store: Store) -> None:
    chat = Chat.create("a", ["b"], chat_id="lobby")

    assert (chat.unread("b"), chat.fetch("b"), chat.members()) == (0, [], {"a": 0, "b": 0})
    assert chat.send("b", "first") == 1
    assert [message.body for message in chat.fetch("a")] == ["first"]


def test_chat_is_got_or_created(redis_server: Store) -> None:
    chat, is_created = Chat.get_or_create("lobby", "a", ["b"], "welcome")
    again, is_created_again = Chat.get_or_create("lobby", "c", ["d"], "ignored")
    third, is_created_thrice = run_async(lambda: Chat.aget_or_create("lobby", "c"))

    assert (is_created, is_created_again, is_created_thrice) == (True, False, False)
    assert chat.id == again.id == third.id == "lobby"
    assert again.members() == {"a": 0, "b": 0}
    assert [message.body for message in again.fetch("a")] == ["welcome"]


def test_delete_returns_whether_there_was_a_chat(redis_server: Store) -> None:
    chat = Chat.create("a")

    assert (chat.delete(), chat.delete()) == (True, False)


@pytest.mark.contract
@pytest.mark.parametrize("forget", [lambda: Chat("room").leave("a"), lambda: forget_user("a")], ids=["leave", "forget"])
def test_rest_of_a_chat_whose_meta_was_evicted_is_deleted_when_a_member_leaves(store: Store, forget: Any) -> None:
    Chat.create("a", ["b"], "secret", chat_id="room")
    store.raw.delete(*(key for key in names_of(store) if key.endswith(b":chat:meta")))

    forget()

    assert [key for key in names_of(store) if b"{room}" in key] == []
    assert Chat.create("a", [], "new", chat_id="room").fetch("a")[0].body == "new"
