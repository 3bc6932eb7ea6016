"""Names of users and chats by the function of the site: one call for each kind, guarded and escaped."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from django_redis_components.analytics import SignIns
from django_redis_components.core import circuit_breaker
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import display_names
from django_redis_components.dashboard.display_names import MAX_CALLS, MAX_NAME, find_names
from django_redis_components.messaging import Chat, Mailbox
from tests.dashboard.support import Page, browser, text_of
from tests.support import Store
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db

MESSAGING = "/admin/django_redis_components/messaging/"
ANALYTICS = "/admin/django_redis_components/analytics/"
#: What `names` returns for each kind: a mapping, an exception, or an event that it waits for.
RESULTS: dict[str, Any] = {}
CALLS: list[tuple[str, list[str]]] = []


def names(kind: str, ids: list[str]) -> Any:
    """The function of the site."""
    CALLS.append((kind, list(ids)))
    result = RESULTS[kind]
    if isinstance(result, threading.Event):
        result.wait(60)
        return {}
    if isinstance(result, threading.Barrier):
        result.wait(60)
        return {id_: f"{kind} {id_}" for id_ in ids}
    if isinstance(result, BaseException):
        raise result
    return result


@pytest.fixture
def named(settings: Any) -> Iterator[dict[str, Any]]:
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "DASHBOARD": {"NAMES": "tests.dashboard.test_display_names.names"},
    }
    RESULTS.update({"user": {}, "chat": {}})
    CALLS.clear()
    yield RESULTS
    RESULTS.clear()


def write() -> None:
    Chat.create("7", ["8"], 1, chat_id="room")
    Chat.create("8", ["9"], 1, chat_id="hall")
    Mailbox("7").send("hello")


@pytest.fixture
def viewer() -> Client:
    return browser("view_messaging", "view_analytics")


def shown(viewer: Client, url: str = MESSAGING) -> str:
    response = viewer.get(url)
    assert response.status_code == 200
    return response.content.decode()


def test_chats_members_and_owners_have_names_by_one_call_for_each_kind(
    redis_server: Store, viewer: Client, named: dict[str, Any]
) -> None:
    write()
    named["user"] = {"7": "Ada", 8: "Bert"}
    named["chat"] = {"room": "Kitchen"}

    page = text_of(shown(viewer))

    assert sorted((kind, sorted(ids)) for kind, ids in CALLS) == [("chat", ["hall", "room"]), ("user", ["7", "8", "9"])]
    assert "Kitchen room" in page
    assert "Bert (8): " in page
    assert "Ada 7 1 1" in page  # the mailbox
    assert "9: 0" in page or "9: 1" in page


def test_sender_of_a_flood_has_a_name(redis_server: Store, viewer: Client, named: dict[str, Any]) -> None:
    chat = Chat.create("7", ["8"], chat_id="room")
    for number in range(20):
        chat.send("7", number)
    named["user"] = {"7": "Ada"}

    assert "Ada (7): 20 of 20 newest" in text_of(shown(viewer))


def test_json_has_ids_only(redis_server: Store, viewer: Client, named: dict[str, Any]) -> None:
    write()
    named["user"] = {"7": "Ada"}

    found = viewer.get(MESSAGING, {"format": "json"})

    assert found.json()["errors"] == {}
    assert "Ada" not in found.content.decode()
    assert CALLS == []


def test_names_are_escaped_and_cut(redis_server: Store, viewer: Client, named: dict[str, Any]) -> None:
    write()
    clean = Page(shown(viewer))
    named["user"] = {"7": "<script>alert(1)</script>", "8": "B" * 500, "9": "a\nb\ud800"}
    named["chat"] = {"room": "<img src=x>"}

    html = shown(viewer)

    for tag in ("script", "img"):
        assert len(Page(html).all(tag)) == len(clean.all(tag))
    assert f"{'B' * (MAX_NAME - 1)}… (8)" in html
    assert "a\\nb\\ud800 (9)" in html


@pytest.mark.parametrize("result", [ValueError("no table"), SystemExit(1), None, ["7"], {"7": None}])
def test_function_that_fails_leaves_the_ids(
    redis_server: Store, viewer: Client, named: dict[str, Any], result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    write()
    named["user"] = result
    named["chat"] = {"room": "Kitchen"}

    with caplog.at_level(logging.WARNING, "django_redis_components.dashboard"):
        page = text_of(shown(viewer))

    assert "Kitchen room" in page
    assert "8: " in page
    if result != {"7": None}:
        assert "tests.dashboard.test_display_names.names('user', …) failed, so ids are shown: " in caplog.text


def test_function_that_does_not_exist_leaves_the_ids(redis_server: Store, viewer: Client, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"NAMES": "tests.missing.names"}}
    write()

    assert "room" in text_of(shown(viewer))


def test_late_function_leaves_the_ids(
    redis_server: Store, named: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(display_names, "LIMIT_S", 0.02)
    write()
    free = named["user"] = threading.Event()
    try:
        with caplog.at_level(logging.WARNING, "django_redis_components.dashboard"):
            for _ in range(MAX_CALLS):
                assert find_names({"user": ["7"]}).text_of("user", "7") == "7"
            circuit_breaker.forget_failures()
            assert find_names({"user": ["7"]}).text_of("user", "7") == "7"
        running = [each for each in threading.enumerate() if each.name == "redis-components-names"]
        assert len(running) == MAX_CALLS
        assert "names('user', …) has not returned within 0.02 s, so ids are shown." in caplog.text
        assert "names has not returned from earlier calls, so ids are shown." in caplog.text
    finally:
        free.set()
        eventually(lambda: _none_runs())
    named["user"] = {"7": "Ada"}
    monkeypatch.setattr(display_names, "LIMIT_S", 60.0)
    assert find_names({"user": ["7"]}).text_of("user", "7") == "Ada (7)"


def test_kinds_are_asked_at_the_same_time(
    redis_server: Store, named: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display_names, "LIMIT_S", 5.0)
    named["user"] = named["chat"] = threading.Barrier(2)

    found = find_names({"user": ["7"], "chat": ["room"]})

    assert (found.name_of("user", "7"), found.name_of("chat", "room")) == ("user 7", "chat room")


def test_warnings_are_logged_once_a_minute_for_each_kind(
    redis_server: Store, named: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    named["user"] = named["chat"] = ValueError("no table")

    with caplog.at_level(logging.WARNING, "django_redis_components.dashboard"):
        for _ in range(3):
            find_names({"user": ["7"], "chat": ["room"]})

    assert sorted(record.getMessage().partition(", …")[0][-7:] for record in caplog.records) == ["('chat'", "('user'"]


def test_call_that_cannot_start_or_close_its_connections_leaves_the_ids_and_the_next_one_works(
    redis_server: Store, viewer: Client, named: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    write()
    named["user"] = {"7": "Ada"}
    for owner, method in ((threading.Thread, "start"), (display_names.connections, "close_all")):
        with monkeypatch.context() as broken:
            broken.setattr(owner, method, fail)
            for _ in range(MAX_CALLS + 1):
                assert find_names({"user": ["7"]}).text_of("user", "7") == "7"
        assert find_names({"user": ["7"]}).text_of("user", "7") == "Ada (7)"


def _none_runs() -> None:
    assert not [each for each in threading.enumerate() if each.name == "redis-components-names"]


def test_sign_ins_of_a_user_have_the_name(redis_server: Store, viewer: Client, named: dict[str, Any]) -> None:
    SignIns("default", mapped=True).sign_in(UUID(int=9))
    named["user"] = {UUID(int=9): "Ada <b>"}

    page = shown(viewer, f"{ANALYTICS}?user={UUID(int=9)}")

    assert f"Ada &lt;b&gt; ({UUID(int=9)})" in page
    [call] = CALLS
    assert call == ("user", [str(UUID(int=9))])


def test_nothing_is_called_without_ids_or_setting(
    redis_server: Store, viewer: Client, named: dict[str, Any], settings: Any
) -> None:
    shown(viewer)
    shown(viewer, ANALYTICS)
    assert CALLS == []

    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {}}
    write()
    shown(viewer)
    assert CALLS == []


def test_setting_is_a_path(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"NAMES": names}}

    with pytest.raises(ConfigurationError, match=r"\[\"NAMES\"\] = <function names .*: expected None or "):
        conf.settings()


def test_page_of_a_member_without_permission_calls_nothing(redis_server: Store, named: dict[str, Any]) -> None:
    write()

    assert Client().get(MESSAGING).status_code == 302
    assert CALLS == []
