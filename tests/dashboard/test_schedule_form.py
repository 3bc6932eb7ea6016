"""The form that adds and edits schedules: what it stores, what it refuses and what it does not show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_redis_components.taskqueue import Schedules, schedules
from django_redis_components.taskqueue.schedules import schedule as declared
from tests.dashboard.support import HOSTILE, Page, browser, dump, text_of
from tests.support import Store
from tests.taskqueue.support import base_key
from tests.taskqueue.tasks import echo, note

pytestmark = pytest.mark.django_db

SCHEDULES = "/admin/django_redis_components/schedule/"
EDIT = f"{SCHEDULES}edit/"
NEW: dict[str, Any] = {
    "name": "nightly", "task": note.name, "every": "", "cron": "30 3 * * *", "tz": "Europe/Rome", "args": '["x"]',
    "kwargs": "{}", "misfire": "once", "max_age": "", "jitter": "",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_schedules() -> Iterator[None]:
    before = dict(declared.schedules)
    declared.schedules.clear()
    yield
    declared.schedules.clear()
    declared.schedules.update(before)


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", "view_action", "change_schedule", "view_task_arguments")


def fields(client: Client, **query: str) -> dict[str, str]:
    """Return the values of the form's text fields."""
    inputs = Page(client.get(EDIT, query).content.decode()).all("input")
    return {each["name"]: each.get("value") or "" for each in inputs if "drc" not in each["name"]}


def stored(store: Store) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = store.raw.hgetall(base_key(store, "added_schedules"))
    return found


def test_schedule_is_added_and_logged(redis_server: Store, operator: Client) -> None:
    assert "/schedule/edit/" in operator.get(SCHEDULES).content.decode()
    before = dump(redis_server)
    assert operator.get(EDIT).status_code == 200
    assert dump(redis_server) == before, "the form writes nothing"

    response = operator.post(EDIT, NEW, follow=True)

    assert "Saved: nightly" in text_of(response.content.decode())
    assert [(each.name, each.task, each.times, each.is_added) for each in schedules()] == [
        ("nightly", note.name, "cron 30 3 * * *", True)
    ]
    assert b'"tz":"Europe/Rome","args":["x"]' in stored(redis_server)[b"nightly"]
    [entry] = LogEntry.objects.all()
    assert entry.change_message == f"Add schedule 'nightly': {note.name}, cron 30 3 * * *: done."


def test_schedule_is_edited(redis_server: Store, operator: Client) -> None:
    Schedules().add("nightly", note, cron="30 3 * * *", args=["x"], jitter=5)
    values = fields(operator, name="nightly")
    assert (values["name"], values["cron"], values["jitter"]) == ("nightly", "30 3 * * *", "5")

    changes = {"cron": "", "tz": "", "every": "90", "name": "other", "args": '["y"]'}
    response = operator.post(f"{EDIT}?name=nightly", NEW | changes)

    assert response.status_code == 302
    assert [(each.name, each.times) for each in schedules()] == [("nightly", "every 90 s")], "the name stays"
    assert b'"args":["y"]' in stored(redis_server)[b"nightly"]
    assert LogEntry.objects.get().change_message == f"Edit schedule 'nightly': {note.name}, every 90 s: done."


def test_arguments_require_their_permission_and_are_kept(redis_server: Store) -> None:
    Schedules().add("nightly", note, cron="30 3 * * *", args=["secret"])
    client = browser("view_overview", "change_schedule")

    html = client.get(EDIT, {"name": "nightly"}).content.decode()
    client.post(f"{EDIT}?name=nightly", NEW | {"args": '["replaced"]'})

    assert "secret" not in html
    assert "show_arguments" not in html
    assert b'"args":["secret"]' in stored(redis_server)[b"nightly"]


def test_task_is_not_changed_while_its_arguments_are_hidden(redis_server: Store) -> None:
    Schedules().add("nightly", note, cron="30 3 * * *", args=["secret"])

    for client in (browser("view_overview", "change_schedule"), browser("change_schedule", "view_task_arguments")):
        changed = {name: value for name, value in NEW.items() if name not in ("args", "kwargs")} | {"task": echo.name}
        client.post(f"{EDIT}?name=nightly", changed)

        assert [each.task for each in schedules()] == [note.name]
        assert b'"args":["secret"]' in stored(redis_server)[b"nightly"]


def test_arguments_are_shown_by_a_request_that_is_logged(redis_server: Store, operator: Client) -> None:
    Schedules().add("nightly", note, cron="30 3 * * *", args=["secret"])
    html = operator.get(EDIT, {"name": "nightly"}).content.decode()
    assert "secret" not in html
    assert 'name="show_arguments"' in html

    shown = operator.post(f"{EDIT}?name=nightly", NEW | {"show_arguments": ""}).content.decode()

    assert "secret" in shown
    assert 'name="show_arguments"' not in shown
    assert LogEntry.objects.get().change_message == "Show arguments of schedule 'nightly': shown."


def test_arguments_are_not_shown_without_the_permission(redis_server: Store) -> None:
    Schedules().add("nightly", note, cron="30 3 * * *", args=["secret"])
    client = browser("view_overview", "change_schedule")

    for form in ({"show_arguments": ""}, NEW | {"show_arguments": "", "args": "[1"}, NEW | {"args": "[1", "cron": ""}):
        response = client.post(f"{EDIT}?name=nightly", form)

        assert "secret" not in response.content.decode()
    assert not LogEntry.objects.exists()


LIMITED: dict[str, Any] = {
    "start": "2040-01-02T03:04", "end": "2041-01-02T03:04", "count": "10", "queue_name": "mail", "priority": "5",
    "expires": "90", "options": '{"max_attempts": 3}',
}  # fmt: skip


def test_limits_and_options_are_stored_and_logged(redis_server: Store, operator: Client) -> None:
    operator.post(EDIT, NEW | LIMITED)

    definition = json.loads(stored(redis_server)[b"nightly"])
    assert {name: definition[name] for name in ("start", "end", "count")} == {
        "start": "2040-01-02T02:04:00.000+00:00", "end": "2041-01-02T02:04:00.000+00:00", "count": 10,
    }  # fmt: skip
    assert definition["options"] == {"max_attempts": 3, "queue_name": "mail", "priority": 5, "expires": 90.0}
    assert LogEntry.objects.get().change_message == (
        f"Add schedule 'nightly': {note.name}, cron 30 3 * * *, start 2040-01-02T03:04:00+01:00,"
        " end 2041-01-02T03:04:00+01:00, count 10, max_attempts 3, queue_name mail, priority 5, expires 90.0: done."
    )
    values = fields(operator, name="nightly")
    shown = {name: value for name, value in LIMITED.items() if name != "options"}
    assert {name: values[name] for name in shown} == shown
    assert "max_attempts" in operator.get(EDIT, {"name": "nightly"}).content.decode()


def test_limits_are_changed_and_taken_away(redis_server: Store, operator: Client) -> None:
    operator.post(EDIT, NEW | LIMITED)

    operator.post(f"{EDIT}?name=nightly", NEW | dict.fromkeys(LIMITED, "") | {"priority": "0", "count": "3"})

    definition = json.loads(stored(redis_server)[b"nightly"])
    assert (definition["count"], definition["options"]) == (3, {"priority": 0})
    assert {"start", "end"}.isdisjoint(definition)


def test_time_that_is_not_edited_is_kept_to_the_millisecond(redis_server: Store, operator: Client) -> None:
    at = datetime(2040, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    Schedules().add("once", note, at=at, args=["x"])
    values = fields(operator, name="once")
    assert values["at"] == "2040-01-02T04:04", "in Berlin"

    once = NEW | {"cron": "", "tz": "", "at": values["at"]}
    operator.post(f"{EDIT}?name=once", once | {"priority": "5"})
    kept = json.loads(stored(redis_server)[b"once"])["at"]
    operator.post(f"{EDIT}?name=once", once | {"at": "2040-01-02T04:05"})

    assert kept == "2040-01-02T03:04:05.678+00:00"
    assert json.loads(stored(redis_server)[b"once"])["at"] == "2040-01-02T03:05:00.000+00:00"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cron": ""}, "Enter one of interval, cron expression and time."),
        ({"every": "60"}, "Enter one of interval, cron expression and time."),
        ({"every": "0.5", "cron": ""}, "Ensure this value is greater than or equal to 1."),
        ({"cron": "61 * * * *"}, "Schedule 'nightly': cron"),
        ({"tz": "Mars/Base"}, "Mars/Base"),
        ({"cron": "", "every": "60"}, "Schedule 'nightly': tz: an interval has no time zone."),
        ({"task": "tests.nowhere"}, "Select a valid choice."),
        ({"name": "a{b}"}, "a{b}"),
        ({"name": ""}, "This field is required."),
        ({"args": "not JSON"}, "Enter a valid JSON."),
        ({"args": "{}"}, "args={}: expected a list of arguments."),
        ({"kwargs": '{"nothing": 1}'}, "nothing"),
        ({"args": "[1, 2, 3, 4, 5, 6, 7]"}, "too many positional arguments"),
        ({"args": f'["{"x" * 100_000}"]'}, "characters, at most 100,000 are accepted."),
        ({"misfire": "never"}, "Select a valid choice."),
        ({"jitter": "inf"}, "Enter a number."),
        ({"at": "2040-01-01T10:00"}, "Enter one of interval, cron expression and time."),
        (
            {"cron": "", "tz": "", "at": "soon"},
            "Expected date and time, such as 2026-11-22 14:30, up to the year 9999.",
        ),
        ({"cron": "", "tz": "", "at": "2020-01-01T10:00"}, "nothing is due from now on."),
        ({"cron": "", "tz": "", "at": "2040-01-01T10:00", "count": "2"}, "count: a schedule with one time has none."),
        ({"start": "2041-01-01T10:00", "end": "2040-01-01T10:00"}, "expected a time after start="),
        ({"count": "0"}, "Ensure this value is greater than or equal to 1."),
        ({"priority": "500"}, "Ensure this value is less than or equal to 100."),
        ({"queue_name": "a{b}"}, "braces are not accepted"),
        ({"expires": "0"}, "Ensure this value is greater than or equal to 0.001."),
        ({"options": "[1]"}, "Other options of the task: expected a JSON object."),
        ({"options": '{"run_after": 5}'}, "options: 'run_after' is not accepted. Accepted: queue_name,"),
    ],
)
def test_wrong_values_are_refused_and_stay_in_the_form(
    wrong: dict[str, str], message: str, redis_server: Store, operator: Client
) -> None:
    response = operator.post(EDIT, NEW | wrong)

    assert response.status_code == 409
    assert message in text_of(response.content.decode()).replace("&#x27;", "'").replace("&quot;", '"')
    assert 'value="Europe/Rome"' in response.content.decode() or "tz" in wrong
    assert (stored(redis_server), LogEntry.objects.count()) == ({}, 0)


def test_schedule_of_the_code_is_not_edited(redis_server: Store, operator: Client) -> None:
    declared.every(60, name="declared", args=["x"])(note)

    shown = operator.get(EDIT, {"name": "declared"})
    saved = operator.post(EDIT, NEW | {"name": "declared"})

    assert shown.status_code == 404
    assert "No schedule of this name was added at run time." in text_of(shown.content.decode())
    assert saved.status_code == 409
    assert "the code declares a schedule of this name." in saved.content.decode()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_escaped(text: str, redis_server: Store, operator: Client) -> None:
    clean = Page(operator.get(EDIT).content.decode())

    page = Page(operator.post(EDIT, dict.fromkeys(NEW, text)).content.decode())

    assert page.all("img") == clean.all("img")
    assert len(page.all("script")) == len(clean.all("script"))


LAST_TIME = b'{"start": "9999-12-31T23:59:59+00:00", "end": "0001-01-01T00:00:00+14:00"}'


@pytest.mark.parametrize(
    "definition",
    [b"", b"[]", b"7", b"\xff", b'{"task": 7}', b'{"every": {}, "options": 5}', b'{"at": []}', LAST_TIME],
)
def test_damaged_definition_is_refused_or_shown(definition: bytes, redis_server: Store, operator: Client) -> None:
    redis_server.raw.hset(base_key(redis_server, "added_schedules"), b"nightly", definition)

    assert operator.get(EDIT, {"name": "nightly"}).status_code in (200, 400)


def test_outage_is_the_designed_503(own_server: Store, operator: Client) -> None:
    own_server.servers[0].kill()

    assert operator.get(EDIT, {"name": "nightly"}).status_code == 503
    assert operator.post(EDIT, NEW).status_code == 503
