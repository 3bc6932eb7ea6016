"""Changes by `manage.py redis` are listed on the page of actions."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from django_redis_components.core.client import connections
from django_redis_components.core.keys import digest
from django_redis_components.core.protocol import run
from django_redis_components.dashboard.actions.commands import LoggedCommand, read_commands
from django_redis_components.management.commands.redis import Command
from django_redis_components.ratelimits import RateLimit
from tests.dashboard.support import client_of, hit_recorded, write_queue
from tests.management.support import command_data, refusal, run_command
from tests.support import Store

pytestmark = pytest.mark.django_db

ACTIONS = "/admin/django_redis_components/action/"


def logged() -> list[LoggedCommand]:
    return run(connections.client("default"), read_commands("default"))


def run_from_command_line(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Run a command as `manage.py` does, which would close the test's database at the end."""
    monkeypatch.setattr(sys, "argv", list(words))
    monkeypatch.setattr(Command, "_called_from_command_line", True)
    call_command(*words[1:], stdout=io.StringIO())


def test_change_is_listed_with_its_outcome(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write_queue(redis_server, "mail", ready=2)
    argv = ["manage.py", "redis", "queues", "pause", "mail", "--reason", "a <b> move"]
    run_from_command_line(monkeypatch, *argv)
    root: Client = client_of("superuser")

    [entry] = logged()
    assert entry.command == "redis queues pause mail --reason 'a <b> move'"
    assert entry.outcome.startswith("Queue 'mail' is paused.")
    assert " on " in entry.author
    html = root.get(ACTIONS).content.decode()
    assert "redis queues pause mail --reason &#x27;a &lt;b&gt; move&#x27;" in html
    assert "Queue &#x27;mail&#x27; is paused." in html
    [data] = root.get(ACTIONS, {"format": "json"}).json()["commands"]
    assert data["author"] == entry.author


def test_command_that_only_reads_is_not_listed(redis_server: Store) -> None:
    run_command("redis", "queues", "status")
    command_data("redis", "locks", "list")

    assert logged() == []


def test_failed_change_is_listed_with_the_reason(redis_server: Store) -> None:
    refusal("redis", "queues", "restore", "mail", "0123456789abcdef")

    [entry] = logged()
    assert entry.command == "redis queues restore"
    assert "nothing to restore" in entry.outcome


def test_erasure_does_not_name_whose_data_is_erased(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    argv = ["manage.py", "redis", "analytics", "forget", "4711", "--yes"]
    run_from_command_line(monkeypatch, *argv)

    [entry] = logged()
    assert entry.command == "redis analytics forget"
    assert "4711" not in entry.outcome


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (["--text", "ada@example.com"], "--text …"),
        (["--text=ada@example.com"], "--text=…"),
        (["--tex", "ada@example.com"], "--tex …"),
        (["--text", "kim@example.com", "--text", "ada@example.com"], "--text … --text …"),
        (["--error", "no account ada@example.com", "--name", "note"], "--error … --name note"),
        (["--err=ada@example.com"], "--err=…"),
    ],
)
def test_filters_by_arguments_and_errors_are_listed_without_their_text(
    words: list[str], written: str, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_from_command_line(monkeypatch, "manage.py", "redis", "tasks", "retry", *words, "--queue", "mail")

    [entry] = logged()
    assert entry.command == f"redis tasks retry {written} --queue mail"
    assert "example.com" not in entry.outcome


@pytest.mark.parametrize("words", [("reset", "--yes"), ("block", "--yes"), ("unblock",)])
def test_key_of_a_limit_is_listed_as_its_hash(
    words: tuple[str, ...], redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hit_recorded(RateLimit("login", "2/h"), "ada@example.com")
    verb, *options = words

    with contextlib.suppress(CommandError):  # the key is not blocked
        run_from_command_line(monkeypatch, "manage.py", "redis", "limits", verb, "login", "ada@example.com", *options)

    [entry] = logged()
    key = f"hash:{digest('ada@example.com')}"
    assert entry.command == " ".join(["redis", "limits", verb, "login", key, *options])
    assert f"ey '{key}' of limit 'login'" in entry.outcome
    assert "ada" not in entry.outcome


def test_log_is_bounded(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_redis_components.dashboard.actions.commands.MAX_KEPT", 3)
    for _ in range(5):
        call_command("redis", "queues", "resume", "mail", "--json", stdout=sys.stderr)

    [key] = redis_server.raw.keys(f"{redis_server.prefix}:problems:*:commands")
    assert redis_server.raw.llen(key) == 3
    assert 0 < redis_server.raw.ttl(key) <= 90 * 86_400
