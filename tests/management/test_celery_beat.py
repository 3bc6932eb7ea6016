"""`redis schedules import-celery-beat`: what the tables of django-celery-beat become."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from django_redis_components.management.jobs.celery_beat import read_translations
from django_redis_components.taskqueue import ScheduleInfo, cron, schedules
from django_redis_components.taskqueue.schedules import schedule as declared
from tests.management.support import command_data, refusal, run_command
from tests.support import Store
from tests.taskqueue.support import base_key
from tests.taskqueue.tasks import add, note

pytestmark = pytest.mark.django_db

#: The tables of django-celery-beat 2.9.0, by name: columns and types. Its app is not installed.
TABLES = {
    "intervalschedule": "id integer PRIMARY KEY, every integer, period varchar(24)",
    "crontabschedule": (
        "id integer PRIMARY KEY, minute varchar(240), hour varchar(96), day_of_month varchar(124),"
        " month_of_year varchar(64), day_of_week varchar(64), timezone varchar(63)"
    ),
    "clockedschedule": "id integer PRIMARY KEY, clocked_time {moment}",
    "periodictask": (
        "id integer PRIMARY KEY, name varchar(200), task varchar(200), interval_id integer, crontab_id integer,"
        " solar_id integer, clocked_id integer, args text, kwargs text, queue varchar(200), exchange varchar(200),"
        " routing_key varchar(200), headers text, priority integer, expires {moment}, expire_seconds integer,"
        " one_off {flag}, start_time {moment}, enabled {flag}, last_run_at {moment}, total_run_count integer,"
        " date_changed {moment}, description text"
    ),
}
SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)


@pytest.fixture(autouse=True)
def _no_schedules() -> Iterator[None]:
    before = dict(declared.schedules)
    declared.schedules.clear()
    yield
    declared.schedules.clear()
    declared.schedules.update(before)


@pytest.fixture
def tables() -> None:
    on_postgres = connection.vendor == "postgresql"
    types = {
        "moment": "timestamp with time zone" if on_postgres else "datetime",
        "flag": "boolean" if on_postgres else "bool",
    }
    with connection.cursor() as cursor:
        for name, columns in TABLES.items():
            cursor.execute(f"CREATE TABLE django_celery_beat_{name} ({columns.format(**types)})")


def insert(table: str, **values: Any) -> int:
    """Insert a row under the next id, and return that."""
    name = f"django_celery_beat_{table}"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {name}")  # noqa: S608 - constants
        row = {"id": cursor.fetchone()[0] + 1, **values}
        marks = ", ".join(["%s"] * len(row))
        sql = f"INSERT INTO {name} ({', '.join(row)}) VALUES ({marks})"  # noqa: S608 - constants
        cursor.execute(sql, list(row.values()))
    found: int = row["id"]
    return found


def entry(name: str, **values: Any) -> None:
    given: dict[str, Any] = {"task": note.name, "args": '["x"]', "kwargs": "{}", "headers": "{}", "one_off": False}
    insert("periodictask", name=name, **{**given, "enabled": True, "total_run_count": 0, "description": "", **values})


def every(amount: int, period: str) -> dict[str, int]:
    return {"interval_id": insert("intervalschedule", every=amount, period=period)}


def crontab(fields: str, timezone: str = "Europe/Rome") -> dict[str, int]:
    names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    values = dict(zip(names, fields.split("|"), strict=True))
    return {"crontab_id": insert("crontabschedule", timezone=timezone, **values)}


def clocked(at: datetime) -> dict[str, int]:
    return {"clocked_id": insert("clockedschedule", clocked_time=at)}


def named(name: str) -> ScheduleInfo:
    [found] = [each for each in schedules() if each.name == name]
    return found


def outcomes(*words: str, code: int = 0) -> dict[str, str]:
    """Return the error, or else the notes, of each entry."""
    data = command_data("redis", "schedules", "import-celery-beat", *words, code=code)
    return {each["name"]: each["error"] or ", ".join(each["notes"]) for each in data["entries"]}


def test_entries_become_schedules(redis_server: Store, tables: None) -> None:
    entry("interval", **every(2, "hours"), queue="mail", expire_seconds=90)
    entry("crontab", **crontab("30|3|*|*|mon,wed"), task=add.name, args="[]", kwargs='{"a": 1, "b": 2}')
    entry("names", **crontab("0, 30|*/2|*|*|monday-friday", "UTC"))
    entry("clocked", **clocked(SOON), one_off=True)
    entry("limited", **every(1, "days"), start_time=SOON, expires=SOON + timedelta(days=9), one_off=True)
    entry("off", **every(90, "seconds"), enabled=False)

    assert run_command("redis", "schedules", "import-celery-beat").endswith("Added 6, replaced 0.\n")

    found = {each.name: each for each in schedules()}
    assert {name: each.times for name, each in found.items()} == {
        "interval": "every 7200 s",
        "crontab": "cron 30 3 * * mon,wed",
        "names": "cron 0,30 */2 * * mon-fri",
        "clocked": f"at {SOON.isoformat(timespec='milliseconds')}",
        "limited": "every 86400 s",
        "off": "every 90 s",
    }
    assert (found["interval"].queue_name, found["interval"].options["expires"]) == ("mail", 90)
    assert (found["limited"].start, found["limited"].end) == (SOON, SOON + timedelta(days=9))
    assert found["limited"].count == 1
    assert (found["off"].state, found["off"].paused_by) == ("paused", "celery beat")
    definition = redis_server.raw.hget(base_key(redis_server, "added_schedules"), "crontab")
    assert b'"tz":"Europe/Rome","args":[],"kwargs":{"a":1,"b":2}' in definition


def test_what_has_no_equivalent_is_named_and_the_rest_is_imported(redis_server: Store, tables: None) -> None:
    daily = every(1, "days")
    entry("good", **daily)
    entry("sun", solar_id=1)
    entry("both days", **crontab("0|0|13|*|fri"))
    entry("fast", **every(500_000, "microseconds"))
    entry("period", **every(1, "weeks"))
    entry("unknown", **daily, task="shop.tasks.gone")
    entry("cleanup", **daily, task="celery.backend_cleanup")
    entry("past", **clocked(datetime(2020, 1, 1, tzinfo=UTC)), one_off=True)
    entry("ended", **daily, expires=datetime(2020, 1, 1, tzinfo=UTC))
    entry("done", **daily, one_off=True, enabled=False, total_run_count=1)
    entry("arguments", **daily, args="[1")
    entry("too many", **daily, args="[1, 2]")
    entry("none")
    entry("dangling", interval_id=99)
    entry("a{b}", **daily)
    entry("zone", **crontab("0|0|*|*|*", "Mars/Base"))
    expected = {
        "sun": "a solar schedule: a task that computes the next time can enqueue itself with run_after.",
        "both days": "day of month 13 and day of week fri: Celery requires both to match, and cron either.",
        "fast": "every=0.5: expected at least a second",
        "period": "period 'weeks': expected one of days, hours, minutes, seconds, microseconds.",
        "unknown": "the task 'shop.tasks.gone' is not registered in this process.",
        "cleanup": "a task of Celery itself.",
        "past": "nothing is due from now on.",
        "ended": "nothing is due from now on.",
        "done": "it has run once, as it should.",
        "arguments": "its args are not JSON (",
        "too many": "does not take these arguments",
        "none": "expected one of interval, crontab and clocked.",
        "dangling": "its interval schedule 99 does not exist.",
        "a{b}": "braces are not accepted",
        "zone": "tz='Mars/Base' is not a time zone.",
    }

    error = refusal("redis", "schedules", "import-celery-beat", "--dry-run")
    assert error == "No equivalent for 13 of 16 entries: see the table."
    assert schedules() == []
    refusal("redis", "schedules", "import-celery-beat")

    assert [each.name for each in schedules()] == ["good"]
    found = {each.name: each.error for each in read_translations("default", "default") if not each.new}
    assert found.keys() == expected.keys()
    for name, text in expected.items():
        assert text in found[name]


def test_arguments_that_are_nested_too_deeply_do_not_stop_the_others(redis_server: Store, tables: None) -> None:
    entry("deep", **every(1, "days"), args="[" * 100_000)
    entry("plain", **every(1, "days"))

    deep, plain = read_translations("default", "default")

    assert deep.error.startswith("its args are not JSON (")
    assert plain.error == ""


def test_what_is_left_out_is_noted(redis_server: Store, tables: None) -> None:
    entry("s", **every(1, "days"), priority=5, routing_key="mail.high", exchange="", headers='{"a": 1}')

    notes = outcomes("--dry-run")["s"]

    assert notes == "priority=5 is left out, routing_key='mail.high' is left out, headers='{\"a\": 1}' is left out"
    assert "ok, priority=5 is left out" in run_command("redis", "schedules", "import-celery-beat", "--dry-run")


def test_import_again_replaces(redis_server: Store, tables: None) -> None:
    entry("s", **every(1, "days"))
    entry("one", **every(1, "days"), one_off=True)

    first, second = (run_command("redis", "schedules", "import-celery-beat").splitlines()[-1] for _ in range(2))

    assert (first, second) == ("Added 2, replaced 0.", "Added 0, replaced 2.")


def test_dry_run_writes_nothing(redis_server: Store, tables: None) -> None:
    entry("s", **every(1, "days"))

    text = run_command("redis", "schedules", "import-celery-beat", "--dry-run")

    assert text.endswith("Nothing was imported (dry run). Would add 1 and replace 0.\n")
    assert schedules() == []


def test_missing_tables_and_databases_are_named(redis_server: Store) -> None:
    assert refusal("redis", "schedules", "import-celery-beat", code=2) == (
        "Database 'default' has no table django_celery_beat_periodictask. Name that of beat by --database."
    )
    error = refusal("redis", "schedules", "import-celery-beat", "--database", "beat", code=2)
    assert error.startswith("There is no database 'beat' in DATABASES: default")


def test_tables_without_entries(redis_server: Store, tables: None) -> None:
    assert run_command("redis", "schedules", "import-celery-beat") == "Added 0, replaced 0.\n"


def test_entries_that_need_nothing_here_are_no_problem(redis_server: Store, tables: None) -> None:
    entry("good", **every(1, "days"))
    entry("celery.backend_cleanup", **crontab("0|4|*|*|*"), task="celery.backend_cleanup")

    text = run_command("redis", "schedules", "import-celery-beat")

    assert "not needed: a task of Celery itself." in text
    assert [each.name for each in schedules()] == ["good"]


def test_an_entry_that_the_code_has_as_a_schedule_is_not_imported(redis_server: Store, tables: None) -> None:
    cron("0 2 * * MON", tz="Europe/Rome", name="nightly", args=["x"])(note)
    entry("same", **crontab("0|2|*|*|monday"))
    entry("another zone", **crontab("0|2|*|*|monday", "UTC"))
    entry("other arguments", **crontab("0|2|*|*|monday"), args='["y"]')
    entry("another task", **crontab("0|2|*|*|monday"), task=add.name, args="[1, 2]")

    found = outcomes()

    assert found.pop("same") == "the code has the schedule 'nightly'."
    assert set(found.values()) == {""}
    assert {each.name for each in schedules()} == {"nightly", *found}
