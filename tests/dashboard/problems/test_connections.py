"""Components on another connection than that of the dashboard are watched, too."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from django.core import mail
from django.test import Client

from django_redis_components.dashboard.problems import incidents, keyspace
from django_redis_components.dashboard.problems.watched import locks, messages
from django_redis_components.locks import Lock
from django_redis_components.messaging import Chat, Mailbox
from django_redis_components.ratelimits import RateLimit
from django_redis_components.ratelimits.hit_counts import COUNTER
from tests.conftest import components_settings
from tests.dashboard.problems.support import watched, without_persistence
from tests.dashboard.support import URL, client_of
from tests.ratelimits.support import count_hits, send_counts_by_hand
from tests.support import Store, eventually
from tests.support.clocks import ServerClock
from tools.localserver import free_port

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogued")]


@pytest.fixture
def viewer(monkeypatch: pytest.MonkeyPatch, redis_server: Store, settings: Any) -> Client:
    """A viewer of a site with a further connection: another database of the server."""
    without_persistence(monkeypatch)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": both_databases(redis_server)}
    return client_of("superuser")


def both_databases(store: Store) -> dict[str, Any]:
    """Return the connections of a site that uses another database of the server, too."""
    found: dict[str, Any] = components_settings(store, other=store.url.rpartition("/")[0] + "/1")["CONNECTIONS"]
    return found


def test_misconfigured_connection_ends_no_round_and_hides_no_page(viewer: Client, settings: Any) -> None:
    configured = settings.REDIS_COMPONENTS
    assert watched(viewer) == []
    connections = {**configured["CONNECTIONS"], "odd": {"CACHE": "missing"}}
    settings.REDIS_COMPONENTS = {**configured, "CONNECTIONS": connections}
    assert watched(viewer) == [], "of a connection that none has watched"

    settings.REDIS_COMPONENTS = {**configured, "CONNECTIONS": {**connections, "other": {"CACHE": "missing"}}}

    assert watched(viewer) == [], "of one that was watched before"


def test_lock_of_another_connection_whose_holder_keeps_others_waiting(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "WAITED_S", 0.0)
    held = Lock("order:17", using="other")
    held.acquire()
    waiter = threading.Thread(target=lambda: Lock("order:17", using="other").acquire(blocking_timeout=60))
    waiter.start()
    eventually(lambda: held.inspect().waiting == 1)
    try:
        [found] = watched(viewer, rounds=2)
        page = viewer.get(URL).content.decode()
    finally:
        held.release()
        waiter.join()

    assert found["id"] == "lock_waiters:other/lock::order:17"
    assert found["text"].startswith("Connection other: 1 caller waits for order:17, which ")
    assert found["command"] == "python manage.py redis locks release --using other --kind lock order:17"
    assert "/lock/release/?using=other&amp;" in page, "the row has the button of this lock"


def test_wait_on_a_server_with_another_clock_is_measured_by_its_own(
    stepped_server: tuple[Store, ServerClock], viewer: Client, redis_server: Store, settings: Any
) -> None:
    home, clock = stepped_server
    clock.step(90_000)
    settings.REDIS_COMPONENTS = components_settings(home, other=redis_server.url)
    held = Lock("order:17", using="other")
    held.acquire()
    waiter = threading.Thread(target=lambda: Lock("order:17", using="other").acquire(blocking_timeout=60))
    waiter.start()
    eventually(lambda: held.inspect().waiting == 1)
    try:
        found = watched(viewer, rounds=2)
        page = viewer.get(URL, {"format": "json"}).json()["problems"]
    finally:
        held.release()
        waiter.join()

    assert "lock_waiters" not in {each["code"] for each in (*found, *page)}


def test_limit_of_another_connection_that_denies_most_hits(
    viewer: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_counts_by_hand(monkeypatch)
    count_hits(settings)
    limit = RateLimit("login", "1/m", using="other")
    for _ in range(150):
        limit.hit("192.0.2.7")
    COUNTER.flush()

    [found] = watched(viewer)

    assert found["id"] == "limit_denies:other/login"
    assert found["text"] == "Connection other: Rate limit login denied 99.33 % of 150 hits in the last 5 min."


def test_flooded_chat_and_full_mailbox_of_another_connection(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    chat, box = Chat.create("ada", ["kim"], using="other"), Mailbox("kim", max_messages=2, using="other")
    box.send(1)
    chat.send("ada", "hello")
    assert watched(viewer) == []
    monkeypatch.setattr(messages, "FLOOD_PER_MINUTE", 20)

    for number in range(30):
        chat.send("ada", f"again {number}")
        box.send(number)
    found = {each["code"]: each for each in watched(viewer)}

    assert set(found) == {"chat_flood", "mailbox_full"}
    assert found["chat_flood"]["text"].startswith(f"Connection other: Chat {chat.id} receives ")
    assert found["mailbox_full"]["text"].startswith("Connection other: The mailbox of kim drops messages: 2 ")


def test_memory_of_another_connection_is_measured_and_its_growth_is_a_problem(
    viewer: Client, redis_server: Store
) -> None:
    Mailbox("kim", using="other").send("x" * 3_000)

    assert watched(viewer) == []

    key = keyspace.key("connections")
    stored = json.loads(redis_server.raw.get(key))
    _, found = stored["other"]["memory"]
    assert found["whole"]["components"]["messaging"][0] > 3_000
    assert found["used"][0][1] > 0

    hour_ago = [time.time() - 3_600, 1_000]
    stored["other"]["memory"][1] |= {"used": [hour_ago, [time.time(), 900_000_000]], "most": 1_000_000_000}
    redis_server.raw.set(key, json.dumps(stored))
    found = viewer.get(URL, {"format": "json"}).json()["problems"]

    [text] = [each["text"] for each in found if each["code"] == "memory_growth"]
    assert text.startswith("Connection other: Redis grows by 858.3\xa0MB per hour")


def test_connection_that_is_away_is_a_problem(viewer: Client, redis_server: Store, settings: Any) -> None:
    url = f"redis://127.0.0.1:{free_port()}/0"
    settings.REDIS_COMPONENTS = components_settings(redis_server, away=url)

    [found] = watched(viewer)

    assert found["code"] == "redis_unreachable"
    assert found["severity"] == "critical"
    assert found["text"].startswith("Connection away: ")


def test_connection_that_fails_by_turns_is_one_incident(
    viewer: Client, redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents, "END_AFTER_S", 0.0)
    refused = f"redis://127.0.0.1:{free_port()}/1"
    login = f"redis://nobody:wrong@{redis_server.url.rpartition('/')[0].rpartition('/')[2]}/1"
    found = []
    for url in (refused, login) * 2:
        configured = components_settings(redis_server, other=url)
        settings.REDIS_COMPONENTS = {**configured, "NOTIFICATIONS": {"EMAILS": ["ops@example.org"]}}
        found += watched(viewer)

    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": both_databases(redis_server)}
    assert watched(viewer) == []

    assert [each["code"] for each in found] == ["redis_unreachable", "redis_login"] * 2
    assert {each["id"] for each in found} == {"redis_outage:other/"}
    assert len({each["started_at"] for each in found}) == 1
    subjects = [each.subject for each in mail.outbox]
    assert [subject.partition(":")[0] for subject in subjects] == ["Problem", "Resolved"]


def test_alias_of_the_same_database_is_watched_once(viewer: Client, redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = components_settings(redis_server, same=redis_server.url)

    assert watched(viewer) == []
    assert redis_server.raw.get(keyspace.key("connections")) is None


def test_what_another_program_has_written_is_ignored(viewer: Client, redis_server: Store) -> None:
    redis_server.raw.set(keyspace.key("connections"), '{"other": [1, 2], "gone": {"locks": [1, {}]}}')

    assert [each["code"] for each in viewer.get(URL, {"format": "json"}).json()["problems"]] == []
