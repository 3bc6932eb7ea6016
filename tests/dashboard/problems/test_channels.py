"""Channels of notifications that fail: the page of incidents shows their state, and the overview names them."""

from __future__ import annotations

import json
from typing import Any

import django
import pytest
from django.core.mail import EmailMessage
from django.test import Client
from django.utils.functional import lazystr

from django_redis_components.dashboard.problems import Problem, channels, keyspace, notifications
from django_redis_components.dashboard.problems import rounds as rounds_module
from django_redis_components.dashboard.problems.incidents import (
    NOTIFICATIONS_FAILING,
    WARN_AFTER_S,
    ChannelFailure,
    IncidentState,
    advance,
    record_deliveries,
)
from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from tests.dashboard.problem_rows import rows
from tests.dashboard.problems.support import PAGE, without_persistence
from tests.dashboard.support import client_of, text_of, write_poller, write_queue
from tests.support import Store

pytestmark = pytest.mark.django_db

SECRET = "https://hooks.example.com/services/T0/B1/s3cr3t"


class Mails:
    """A mail backend that raises `error`, or accepts the mails."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.subjects: list[str] = []

    def send(self, mail: EmailMessage) -> None:
        if self.error is not None:
            raise self.error
        self.subjects.append(mail.subject)


@pytest.fixture
def mails(redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Mails:
    """A site with one critical problem, whose only channel is e-mail."""
    without_persistence(monkeypatch)
    write_queue(redis_server, "mail", ready=2)
    write_poller(redis_server)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "NOTIFICATIONS": {"EMAILS": ["ops@example.com"]}}
    monkeypatch.setattr(rounds_module, "CLAIMED_S", 0.0)
    found = Mails()
    monkeypatch.setattr(EmailMessage, "send", lambda mail: found.send(mail))
    return found


@pytest.fixture
def root() -> Client:
    return client_of("superuser")


def channel_of(client: Client) -> dict[str, Any]:
    [found] = client.get(PAGE, {"format": "json"}).json()["channels"]
    assert isinstance(found, dict)
    return found


def text_of_page(client: Client) -> str:
    return text_of(client.get(PAGE).content.decode())


def test_page_says_that_no_notifications_are_configured(redis_server: Store, root: Client) -> None:
    assert "No notifications are configured. Add channels to REDIS_COMPONENTS:" in text_of_page(root)
    assert "docs/" not in text_of_page(root)
    assert root.get(PAGE, {"format": "json"}).json()["channels"] == []


def test_page_shows_pending_deliveries_and_the_last_error_of_a_channel(mails: Mails, root: Client) -> None:
    mails.error = ConnectionRefusedError("no mail server")
    watcher = ProblemWatcher("default")
    watcher.round()
    first = channel_of(root)
    watcher.round()

    again = channel_of(root)

    assert (again["name"], again["waiting"]) == ("e-mail", 1)
    assert again["error"] == "ConnectionRefusedError: no mail server"
    assert again["failing_since"] == first["failing_since"]
    assert again["failed_at"] > first["failed_at"]
    assert "e-mail ConnectionRefusedError: no mail server" in text_of_page(root)


def test_channel_that_delivers_again_has_no_error(mails: Mails, root: Client) -> None:
    mails.error = ConnectionRefusedError("no mail server")
    watcher = ProblemWatcher("default")
    watcher.round()
    mails.error = None
    watcher.round()

    assert channel_of(root) == {"name": "e-mail", "waiting": 0, "error": "", "failing_since": None, "failed_at": None}
    assert len(mails.subjects) == 1


def test_channel_that_has_failed_for_minutes_is_a_problem_and_does_not_announce_itself(
    mails: Mails, root: Client, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    mails.error = ConnectionRefusedError("no mail server")
    watcher = ProblemWatcher("default")
    watcher.round()
    assert not [row for row in rows(root) if "Notifications by" in row.text]
    monkeypatch.setattr(channels, "FAILED_S", 0.0)
    watcher.round()

    [row] = [row for row in rows(root) if "Notifications by e-mail have failed since" in row.text]

    assert "ConnectionRefusedError: no mail server" in row.text
    assert "1 notification waits." in row.text
    assert row.links["Show notifications"] == f"{PAGE}#drc-channels"
    stored = json.loads(redis_server.raw.get(keyspace.key("incidents")))
    assert [each["incident"]["code"] for each in stored["pending"]] == ["no_worker"]


def test_failing_channel_is_announced_by_those_that_work() -> None:
    failing = {"slack 1": ChannelFailure(100.0, 400.0, "TimeoutError")}
    problem = Problem(NOTIFICATIONS_FAILING, "Notifications by slack 1 have failed.", "", subject="slack 1")
    state = IncidentState(failures=failing)

    state, _ = advance(state, [problem], 500.0, channels=["slack 1", "e-mail"])
    state, _ = advance(state, [problem], 500.0 + WARN_AFTER_S, channels=["slack 1", "e-mail"])

    assert [each.channels for each in state.pending] == [("e-mail",)]


def test_failure_of_a_channel_that_is_configured_no_more_is_forgotten() -> None:
    state = record_deliveries(IncidentState(), {"slack 1": "TimeoutError", "e-mail": ""}, 100.0)
    assert list(state.failures) == ["slack 1"]

    state, _ = advance(state, [], 200.0, channels=["e-mail"])

    assert state.failures == {}


@pytest.mark.parametrize("field", ["since", "at", "error"])
def test_failure_with_a_field_of_another_type_counts_as_nothing(field: str) -> None:
    state = record_deliveries(IncidentState(), {"slack 1": "TimeoutError"}, 100.0)
    stored = json.loads(json.dumps(state.encode()))
    assert IncidentState.parse(stored) == state
    stored["failures"]["slack 1"][field] = [3]

    assert IncidentState.parse(stored) == IncidentState()


@pytest.mark.parametrize("options", [None, {}, {"password": None}, {"password": 7}])
def test_options_of_e_mail_without_a_password_as_text_hide_nothing(options: Any, settings: Any) -> None:
    settings.MAILERS = {"default": {**settings.MAILERS["default"], "OPTIONS": options}}

    assert notifications.error_text(ValueError("refused 7 times")) == "ValueError: refused 7 times"


class Unreadable:
    """An object that no operation reads."""

    def __repr__(self) -> str:
        return "Unreadable"

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)


ODD = [None, 7, "smtp", ["smtp"], {"default": None}, {"default": "smtp"}, {"default": ["smtp"]}, Unreadable()]


@pytest.mark.parametrize("mailers", [*ODD, *({"default": {"OPTIONS": each}} for each in ODD)], ids=repr)
def test_odd_settings_of_e_mail_do_not_keep_an_error_from_being_shown(mailers: Any, settings: Any) -> None:
    settings.MAILERS = mailers

    assert notifications.error_text(ValueError("refused 7 times")) == "ValueError: refused 7 times"


@pytest.mark.skipif(django.VERSION >= (6, 1), reason="Django 6.1 has the passwords in MAILERS")
@pytest.mark.parametrize("password", [None, 7, b"pa55word", ["pa55word"], Unreadable()], ids=repr)
def test_odd_password_of_e_mail_does_not_keep_an_error_from_being_shown(password: Any, settings: Any) -> None:
    settings.EMAIL_HOST_PASSWORD = password

    assert notifications.error_text(ValueError("refused 7 times")) == "ValueError: refused 7 times"


@pytest.mark.skipif(django.VERSION >= (6, 1), reason="Django 6.1 has the passwords in MAILERS")
def test_text_of_an_error_has_no_lazy_password(settings: Any) -> None:
    settings.EMAIL_HOST_PASSWORD = lazystr("pa55word")

    assert notifications.error_text(ValueError("password pa55word")) == "ValueError: password …"


@pytest.mark.skipif(django.VERSION >= (6, 1), reason="Django 6.1 has the passwords in MAILERS")
def test_text_of_an_error_has_no_password_of_the_older_setting(settings: Any) -> None:
    settings.EMAIL_HOST_PASSWORD = "pa55word"

    assert notifications.error_text(ValueError("password pa55word")) == "ValueError: password …"


@pytest.mark.parametrize(
    "text",
    [f"unknown url: {SECRET}", "404 for /services/T0/B1/s3cr3t", "rejected: user ops, password pa55word", "x" * 9_000],
)
def test_text_of_an_error_has_no_secret_and_is_short(text: str, settings: Any) -> None:
    settings.MAILERS = {"default": {**settings.MAILERS["default"], "OPTIONS": {"password": "pa55word"}}}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "NOTIFICATIONS": {"SLACK": [SECRET]}}

    shown = notifications.error_text(ValueError(text))

    assert shown.startswith("ValueError: ")
    assert "s3cr3t" not in shown
    assert "pa55word" not in shown
    assert len(shown) < 200
