"""`manage.py redis migrate`: without migrations it says so; one of a test is run, interrupted and continued."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.core.client import connections
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.protocol import Command, Read, run
from django_redis_components.core.settings import conf
from django_redis_components.core.stored_formats import WRITTEN
from django_redis_components.dashboard.actions.commands import read_commands
from django_redis_components.management.redis import migrate
from django_redis_components.management.redis.migrate import FormatMigration
from tests.management.support import command_data, refusal, run_command
from tests.support import Store


def formats_key(store: Store) -> str:
    return f"{store.prefix}:format:{{default}}"


def old_key() -> str:
    return f"{conf.settings().prefix}:bloom:{{old}}"


def logged_commands() -> list[str]:
    return [each.command for each in run(connections.client(), read_commands("default"))]


def count(client: SyncClient) -> int:
    return int(client.execute(Read("LLEN", old_key())))


def convert(client: SyncClient) -> Iterator[int]:
    while (value := client.execute(Command("LPOP", old_key()))) is not None:
        if value == b"broken":
            raise ValueError("cannot convert 'broken'")
        client.execute(Command("SADD", f"{conf.settings().prefix}:bloom:{{new}}", value))
        yield 1


@pytest.fixture
def migration(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> FormatMigration:
    """A release whose filters have format 2, on a server with data of format 1."""
    run_command("redis", "migrate")
    made = FormatMigration("bloom", 2, "filters in one set", count, convert)
    monkeypatch.setattr(migrate, "MIGRATIONS", (made,))
    monkeypatch.setitem(WRITTEN, "bloom", 2)
    redis_server.raw.rpush(f"{redis_server.prefix}:bloom:{{old}}", "a", "b", "c")
    return made


def test_without_migrations_it_says_that_there_is_nothing_to_do(redis_server: Store) -> None:
    printed = run_command("redis", "migrate")

    assert printed.startswith("Nothing to do. Formats: aggregation 1, analytics 1, ")
    assert "search 1" in printed
    assert redis_server.raw.hlen(formats_key(redis_server)) == len(WRITTEN)
    data = command_data("redis", "migrate")
    nothing = {"migrations": [], "indexes": [], "deleted": 0}
    assert data == {"formats": dict(WRITTEN), "dry_run": False, **nothing}


def test_dry_run_writes_nothing(redis_server: Store, migration: FormatMigration) -> None:
    redis_server.raw.delete(formats_key(redis_server))

    printed = run_command("redis", "migrate", "--dry-run")

    assert printed == "bloom to format 2 (filters in one set): 3 objects to convert.\nDry run: nothing was written.\n"
    assert redis_server.raw.llen(f"{redis_server.prefix}:bloom:{{old}}") == 3
    assert not redis_server.raw.exists(formats_key(redis_server))
    assert len(logged_commands()) == 1, "that of the fixture"


def test_migration_converts_all_and_is_done(redis_server: Store, migration: FormatMigration) -> None:
    data = command_data("redis", "migrate")

    assert data["migrations"] == [{"component": "bloom", "format": 2, "objects": 3}]
    assert data["formats"]["bloom"] == 2
    assert logged_commands() == ["redis migrate", "redis migrate"]
    assert redis_server.raw.scard(f"{redis_server.prefix}:bloom:{{new}}") == 3
    assert run_command("redis", "migrate").startswith("Nothing to do. Formats: aggregation 1, ")


def test_interrupted_migration_is_continued(redis_server: Store, migration: FormatMigration) -> None:
    redis_server.raw.rpush(f"{redis_server.prefix}:bloom:{{old}}", "broken", "d")

    errors = io.StringIO()
    with pytest.raises(CommandError, match=r"^cannot convert 'broken'$"):
        call_command("redis", "migrate", stderr=errors)

    assert errors.getvalue() == (
        "bloom to format 2 (filters in one set): stopped after 3 objects. Run the command again to continue.\n"
    )
    assert run_command("redis", "migrate") == "bloom to format 2 (filters in one set): 1 object converted.\n"
    assert redis_server.raw.scard(f"{redis_server.prefix}:bloom:{{new}}") == 4
    assert run_command("redis", "migrate").startswith("Nothing to do.")


def test_number_is_raised_before_anything_is_converted(
    redis_server: Store, migration: FormatMigration, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis_server.raw.lpush(f"{redis_server.prefix}:bloom:{{old}}", "broken")
    refusal("redis", "migrate")

    monkeypatch.setitem(WRITTEN, "bloom", 1)

    assert "bloom has format 2, written by release " in refusal("redis", "migrate")


def test_newer_data_are_refused(redis_server: Store) -> None:
    redis_server.raw.hset(formats_key(redis_server), "search", "2 1.3.0")

    assert "search has format 2, written by release 1.3.0 (this release reads up to 1)" in refusal("redis", "migrate")
    assert "search has format 2" in refusal("redis", "migrate", "--dry-run")


@pytest.mark.django_db
def test_doctor_reports_newer_data_and_pending_migrations(redis_server: Store, migration: FormatMigration) -> None:
    run_command("redis", "migrate", "--dry-run")

    found = doctor_findings()

    assert found["migration_pending"] == {
        "severity": "warning",
        "code": "migration_pending",
        "text": "The data of bloom may be in an older format than 2 (filters in one set). This release reads both; a"
        " later one may not.",
        "fix": "Convert them, while everything runs:",
        "command": "python manage.py redis migrate",
    }
    redis_server.raw.hset(formats_key(redis_server), "search", "2 1.3.0")
    newer = doctor_findings()["data_newer"]
    assert newer["severity"] == "critical"
    assert "search has format 2, written by release 1.3.0" in newer["text"]
    assert newer["fix"] == 'Workers and pollers of this release do not start. See "Upgrades" in the documentation.'


@pytest.mark.django_db
def test_doctor_shows_the_formats_and_writes_none(redis_server: Store) -> None:
    assert doctor_data()["facts"]["formats"] == dict.fromkeys(WRITTEN, 1)
    assert not redis_server.raw.exists(formats_key(redis_server))


def doctor_data() -> Any:
    """Return what doctor prints, whatever the exit code."""
    out = io.StringIO()
    with suppress(SystemExit):
        call_command("redis", "doctor", "--json", stdout=out)
    return json.loads(out.getvalue())


def doctor_findings() -> dict[str, dict[str, str]]:
    return {each["code"]: each for each in doctor_data()["findings"]}
