"""Crashes, lost replies and races: no member misses a message."""

from __future__ import annotations

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.messaging import Chat, ChatDoesNotExist, Retention
from tests.messaging.members import names_of
from tests.support import Proxy, Store, eventually, run_together
from tests.support.processes import Child, Children

USERS, COUNT, FLOOR = "abcd", 300, 20


def test_no_member_misses_a_message_with_lost_replies_and_killed_processes(proxy: Proxy, children: Children) -> None:
    kept = Retention(keep_last=FLOOR, keep_for=0, max_messages=100_000)
    chat = Chat.create("a", list("bcd"), "first", retention=kept)
    total = len(USERS) * COUNT + 1
    proxy.drop_random(0.01)

    def start(user: str) -> Child:
        return children.call("tests.messaging.members:talk", chat.id, user, COUNT, total)

    running = {user: start(user) for user in USERS}
    output = dict.fromkeys(USERS, "")
    for turn, user in enumerate("abca"):
        eventually(lambda least=(turn + 1) * 150: Chat(chat.id).info("a").last_id >= least)
        assert running[user].returncode is None
        running[user].kill()
        running[user].wait()  # until all that it has printed is read
        output[user] += running[user].output + "\n"
        running[user] = start(user)
    for user, child in running.items():
        child.result(120)
        output[user] += child.output

    logs = {user: received(text) for user, text in output.items()}
    assert proxy.dropped > 10
    assert all("truncated" not in text for text in output.values())
    assert all(set(log) == set(range(1, total + 1)) for log in logs.values())
    assert logs["a"] == logs["b"] == logs["c"] == logs["d"]
    sent = {f"{user} {number}" for user in USERS for number in range(COUNT)}
    assert sorted(logs["a"].values()) == sorted({"first", *sent})
    assert chat.members() == dict.fromkeys(USERS, total)
    assert [one.id for one in chat.fetch("a", after=0)] == list(range(total - FLOOR + 1, total + 1))


def received(output: str) -> dict[int, str]:
    """Return body by id of the messages that a process has printed; the ids of one process grow."""
    found = {}
    for line in output.splitlines():
        if line.startswith("got "):
            _, number, body = line.split(" ", 2)
            assert found.setdefault(int(number), body) == body
    return found


def test_threads_that_send_and_acknowledge_miss_nothing(redis_server: Store) -> None:
    chat = Chat.create(0, range(1, 4), "x", retention=Retention(keep_last=0, keep_for=0))

    def talk(user: int) -> list[int]:
        ids: list[int] = []
        for _ in range(50):
            chat.send(user, user)
            messages = chat.fetch(user, limit=3)
            ids += [message.id for message in messages]
            chat.ack(user, ids[-1])
        while messages := chat.fetch(user):
            ids += [message.id for message in messages]
            chat.ack(user, ids[-1])
        return ids

    received_ids = run_together(4, talk)
    for user, ids in enumerate(received_ids):
        ids += [message.id for message in chat.fetch(user, limit=200)]  # what others sent after it had read all

    assert received_ids == [list(range(1, 202))] * 4


@pytest.mark.parametrize("part", [b"chat"])
def test_a_lost_reply_repeats_nothing(proxy: Proxy, part: bytes) -> None:
    proxy.drop_next_reply(after=part)
    chat = Chat.create("a", ["b"], 1, chat_id="room", using="proxied")
    proxy.drop_next_reply(after=part)
    assert chat.send("a", 2) == 2
    proxy.drop_next_reply(after=part)
    chat.ack("a", 1)
    proxy.drop_next_reply(after=part)
    chat.edit_message("a", 1, "one")
    proxy.drop_next_reply(after=part)
    chat.delete_message("a", 2)
    proxy.drop_next_reply(after=part)
    assert [one.body for one in chat.fetch("b")] == ["one"]
    proxy.drop_next_reply(after=part)
    chat.leave("a")

    assert proxy.dropped == 7
    assert chat.members() == {"b": 0}


def test_errors_of_redis_are_raised_and_pass(proxy: Proxy) -> None:
    chat = Chat.create("a", ["b"], 1, using="proxied")
    proxy.stop_accepting()
    proxy.cut()

    with pytest.raises(ConnectionError):
        chat.send("a", 2, key="k")
    proxy.accept_again()

    assert chat.send("a", 2, key="k") == 2


def test_of_a_send_and_a_leave_at_once_the_send_is_first_or_refused(redis_server: Store) -> None:
    for turn in range(20):
        chat = Chat.create("a", [], 1, chat_id=f"room {turn}")

        def act(number: int, chat: Chat = chat) -> str:
            try:
                return str(chat.send("a", 2)) if number else str(chat.leave("a"))
            except ChatDoesNotExist:
                return "refused"

        assert run_together(2, act)[1] in ("2", "refused")
    assert [key for key in names_of(redis_server) if b":chat:" in key] == []
