"""Mailboxes: order, cursor, acknowledgment, idempotent sends and the limit."""

from __future__ import annotations

import re
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.messaging import Mailbox, mailbox
from tests.messaging.members import names_of
from tests.support import Proxy, Store, eventually, run_async


@pytest.mark.contract
def test_messages_wait_until_they_are_acknowledged(store: Store) -> None:
    box = Mailbox(7)
    assert [box.send("a"), box.send({"b": 1}, sender=9), box.send("c")] == [1, 2, 3]

    fetched = box.fetch()

    assert [(one.id, one.sender, one.body) for one in fetched] == [(1, None, "a"), (2, "9", {"b": 1}), (3, None, "c")]
    assert (fetched.is_truncated, fetched.last_id, box.unread()) == (False, 3, 3)
    assert [one.id for one in box.fetch(after=1, limit=1)] == [2]
    assert [box.ack(2), box.ack(2), box.unread()] == [2, 0, 1]
    assert [box.ack(3), box.unread(), box.send("d")] == [1, 0, 4]
    assert [one.id for one in box.fetch()] == [4]


@pytest.mark.contract
def test_async_methods_behave_like_the_sync_ones(store: Store) -> None:
    box = Mailbox("o")

    async def scene() -> list[object]:
        found = [await box.asend("a"), [one.body for one in await box.afetch()], await box.aunread(), await box.aack(1)]
        await box.adelete()
        return [*found, await box.aunread()]

    assert run_async(scene) == [1, ["a"], 1, 1, 0]
    assert store.keys() == []


@pytest.mark.contract
def test_send_with_a_key_is_idempotent_also_after_an_ack(store: Store) -> None:
    box = Mailbox("o")

    assert [box.send("a", key="k"), box.send("b"), box.ack(2), box.send("a", key="k"), box.unread()] == [1, 2, 2, 1, 0]


@pytest.mark.contract
def test_oldest_messages_are_dropped_beyond_the_limit_and_fetch_says_so(store: Store) -> None:
    box = Mailbox("o", max_messages=2)
    for number in range(1, 5):
        box.send(number)

    assert ([one.body for one in box.fetch()], box.fetch().is_truncated, box.unread()) == ([3, 4], True, 2)
    assert [box.fetch(after=cursor).is_truncated for cursor in (1, 2, 3)] == [True, False, False]


@pytest.mark.contract
def test_keys_expire_after_the_last_use(store: Store) -> None:
    box = Mailbox("o", ttl=3_600)
    box.send("a", key="k")

    ttls = {key.rpartition(b":")[2]: store.raw.pttl(key) for key in names_of(store)}

    assert set(ttls) == {b"log", b"meta", b"keyed", b"mailboxes"}  # the last one is the dashboard's index
    assert 3_500_000 < ttls[b"log"] <= 3_600_000
    assert 86_300_000 < min(ttls[b"keyed"], ttls[b"meta"]) <= max(ttls[b"keyed"], ttls[b"meta"]) <= 86_400_000


@pytest.mark.contract
@pytest.mark.parametrize("acked", [0, 1, 3])
def test_mailbox_whose_counter_was_evicted_continues(store: Store, acked: int) -> None:
    box = Mailbox("o")
    for number in range(3):
        box.send(number)
    box.ack(acked)
    store.raw.delete(*(key for key in names_of(store) if key.endswith(b":meta")))

    received = [one.body for one in box.fetch()]
    next_id = box.send("next")

    assert received == [0, 1, 2][acked:]
    assert [one.body for one in box.fetch()] == [*received, "next"]
    assert (box.ack(next_id), box.unread(), box.send("last")) == (len(received) + 1, 0, next_id + 1)
    assert [one.body for one in box.fetch()] == ["last"]


@pytest.mark.contract
def test_mailbox_whose_counter_was_evicted_can_be_acknowledged(store: Store) -> None:
    box = Mailbox("o")
    box.send("a")
    store.raw.delete(*(key for key in names_of(store) if key.endswith(b":meta")))

    assert (box.ack(1), box.unread(), box.send("b")) == (1, 0, 2)

    assert [one.body for one in box.fetch()] == ["b"]
    assert box.ack(2) == 1


def test_cursor_of_an_expired_mailbox_starts_anew(redis_server: Store) -> None:
    box = Mailbox("o")
    box.send("a")

    fetched = box.fetch(after=5)

    assert ([one.body for one in fetched], fetched.is_truncated) == (["a"], True)


def test_a_key_is_remembered_for_a_day_although_the_mailbox_has_expired(redis_server: Store) -> None:
    box = Mailbox("o", ttl=0.001)
    ids = [box.send("a", key="k"), box.send("b")]
    eventually(lambda: box.unread() == 0)

    assert box.send("a", key="k") == 1

    assert (ids, box.fetch(), box.fetch().is_truncated) == ([1, 2], [], True)
    assert (Mailbox("o").send("c"), box.fetch(after=2).is_truncated, box.fetch(after=1).is_truncated) == (
        3,
        False,
        True,
    )


@pytest.mark.contract
def test_a_fetch_after_the_ack_of_dropped_messages_is_not_truncated(store: Store) -> None:
    box = Mailbox("o", max_messages=1)
    box.send("dropped")
    box.send("b")
    assert box.fetch().is_truncated is True

    box.ack(2)

    assert box.fetch().is_truncated is False
    box.send("c")
    assert ([one.body for one in box.fetch()], box.fetch().is_truncated) == (["c"], False)


def test_an_ack_removes_many_messages_in_bounded_steps(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "MAX_REMOVED", 10)
    box = Mailbox("o")
    for number in range(30):
        box.send(number)
    calls = redis_server.raw.info("commandstats")["cmdstat_evalsha"]["calls"]

    assert (box.ack(25), box.unread()) == (25, 5)

    assert redis_server.raw.info("commandstats")["cmdstat_evalsha"]["calls"] - calls == 3
    assert (box.fetch()[0].id, box.fetch().is_truncated) == (26, False)


def test_a_lower_limit_drops_many_messages_in_bounded_steps(redis_server: Store) -> None:
    large, small = Mailbox("o", max_messages=20_000), Mailbox("o", max_messages=10)
    for number in range(10_020):
        large.send(number)

    small.send("last")

    assert (small.unread(), small.fetch().is_truncated) == (21, True)
    assert (small.send("last"), small.unread()) == (10_022, 10)


def test_a_mailbox_that_was_deleted_has_another_epoch(redis_server: Store) -> None:
    box = Mailbox("o")
    epochs = [box.fetch().epoch]
    for _ in range(2):
        box.send("a")
        epochs.append(box.fetch().epoch)
    box.delete()
    box.send("a")
    epochs.append(box.fetch().epoch)

    assert epochs[0] == ""
    assert epochs[1] == epochs[2] != epochs[3] != ""


def test_an_ack_of_an_older_mailbox_removes_nothing(redis_server: Store) -> None:
    box = Mailbox("o")
    box.send("a")

    assert (box.ack(500), box.unread()) == (0, 1)


def test_a_lost_reply_sends_no_message_twice(proxy: Proxy) -> None:
    box = Mailbox("o", using="proxied")
    box.send("a")
    proxy.drop_next_reply(after=b"mailbox")

    assert box.send("b") == 2

    assert (proxy.dropped, [one.body for one in box.fetch()]) == (1, ["a", "b"])


def test_errors_of_redis_are_raised(proxy: Proxy) -> None:
    proxy.stop_accepting()

    with pytest.raises(ConnectionError):
        Mailbox("o", using="proxied").send("a")


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda: Mailbox(None), TypeError, "owner=None: expected a string, an integer or a UUID"),  # type: ignore[arg-type]
        (lambda: Mailbox("o", max_messages=0), ValueError, "max_messages=0: expected an integer from 1 to"),
        (lambda: Mailbox("o", ttl=-1), ValueError, "ttl=-1: expected a number of seconds above 0"),
        (lambda: Mailbox("o").fetch(after=-1), ValueError, "after=-1"),
        (lambda: Mailbox("o").ack(-1), ValueError, "id=-1"),
        (lambda: Mailbox("o").send({1: 2}), TypeError, "body has the key 1: JSON objects have strings as keys."),
        (lambda: Mailbox("o").send("x", sender="a{"), ValueError, "braces are not accepted"),
    ],
    ids=[str(number) for number in range(7)],
)
def test_bad_arguments_are_refused(act: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        act()
