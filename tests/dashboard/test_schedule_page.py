"""The page of schedules: states, outcomes, the next 24 hours, and its changes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_redis_components.core.client import connections
from django_redis_components.dashboard.schedules.calendar import runs_by_hour
from django_redis_components.dashboard.schedules.change_views import VERBS
from django_redis_components.taskqueue import ScheduleInfo, Schedules, schedules
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.schedules import schedule as declared
from django_redis_components.taskqueue.shards import home
from tests.dashboard.addresses import SCHEDULES
from tests.dashboard.support import HOSTILE, Page, browser, dump, settle_tasks, text_of
from tests.support import Store
from tests.taskqueue.schedulers import HOUR, announced, next_round, waiting
from tests.taskqueue.support import base_key, server_ms
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_schedules() -> Iterator[None]:
    before = dict(declared.schedules)
    declared.schedules.clear()
    yield
    declared.schedules.clear()
    declared.schedules.update(before)


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", *{verb.permission for verb in VERBS.values()})


def fill(store: Store) -> None:
    """Two added schedules, of which one has run and failed; and scheduled tasks."""
    Schedules().add("hourly report", note, every=3_600, args=["x"])
    Schedules().add("nightly", note, every=86_400, args=["y"])
    poller = Poller(home(), connections.client())
    announced(poller, store, "hourly report", last_ms=int(server_ms(store)) - 2 * HOUR)
    next_round(poller)
    settle_tasks("failed")
    Schedules().pause("nightly", author="ada")
    note.using(run_after=2 * 3_600).enqueue("later")


def test_page_shows_states_outcomes_and_the_next_hours(redis_server: Store, operator: Client) -> None:
    fill(redis_server)
    before = dump(redis_server)

    response = operator.get(SCHEDULES)
    text = text_of(response.content.decode())
    found = operator.get(SCHEDULES, {"format": "json"}).json()

    assert dump(redis_server) == before, "the page writes nothing"
    assert re.search(r"hourly report every 3600 s on added at run time in .{2,12} [\d:]+ failed default", text)
    assert re.search(
        r"nightly every 86400 s paused paused (?:< 1|\d+) s ago by ada, added at run time – – – default",
        text.replace("&lt;", "<"),
    )
    assert re.search(r"Due in the next 24 hours .*1 scheduled task · 2[34] runs of periodic tasks", text)
    assert [each["state"] for each in found["schedules"]] == ["on", "paused"]
    assert (sum(found["due"]["hours"]), found["due"]["hours"][2]) in ((1, 1), (1, 0))
    assert (found["cost"]["commands"], found["cost"]["round_trips"]) == (3, 1)


def test_schedule_is_run_paused_resumed_and_removed(redis_server: Store, operator: Client) -> None:
    fill(redis_server)
    url = f"{SCHEDULES}{{}}/?name=hourly+report"
    assert "Its next run does not change." in text_of(operator.get(url.format("run")).content.decode())
    assert waiting(redis_server) == []

    done = [
        text_of(operator.post(f"{SCHEDULES}{verb}/", {"name": "hourly report"}, follow=True).content.decode())
        for verb in ("run", "pause", "pause", "resume", "resume", "remove", "remove", "run", "pause")
    ]

    for text, expected in zip(
        done,
        [
            "Enqueued: task ", "Paused: hourly report", "It was paused already", "Resumed: hourly report", "Not paused",
            "Removed: hourly report", "Not removed", "Not enqueued", "There is no such schedule any more.",
        ],
        strict=True,
    ):  # fmt: skip
        assert expected in text
    assert len(waiting(redis_server)) == 1
    assert [each.name for each in schedules()] == ["nightly"]
    entries = [entry.change_message for entry in LogEntry.objects.order_by("pk")]
    assert entries[1] == "Pause schedule 'hourly report': done."
    assert entries[5] == "Remove schedule 'hourly report': done."


def test_page_shows_limits_options_and_one_time(redis_server: Store, operator: Client) -> None:
    start = datetime(2040, 1, 2, 3, 4, tzinfo=UTC)
    Schedules().add("once", note, at=start, args=["x"], options={"queue_name": "mail", "priority": 5})
    Schedules().add("some", note, every=60, args=["x"], start=start, end=start.replace(year=2041), count=1_000)
    next_round(Poller(home(), connections.client()))

    text = text_of(operator.get(SCHEDULES).content.decode())

    assert "once Jan. 2, 2040 04:04 on added at run time in" in text
    assert "mail priority 5" in text
    assert "added at run time, 0 of 1,000 runs, from Jan. 2, 2040 04:04:00, until Jan. 2, 2041 04:04:00" in text


def test_many_schedules_are_searched_and_shown_in_parts(redis_server: Store, operator: Client) -> None:
    Schedules().add("needle & thread", note, every=60, args=["x"])
    one = redis_server.raw.hget(base_key(redis_server, "added_schedules"), "needle & thread")
    names = {f"s{number:03}": one for number in range(250)}
    redis_server.raw.hset(base_key(redis_server, "added_schedules"), mapping=names)

    first = operator.get(SCHEDULES).content.decode()
    [more] = [each["href"] for each in Page(first).all("a") if "after=" in (each.get("href") or "")]
    second = operator.get(f"{SCHEDULES}{more}").content.decode()
    found = operator.get(SCHEDULES, {"q": "NEEDLE"}).content.decode()
    nothing = operator.get(SCHEDULES, {"q": "<b>"}).content.decode()

    assert "1 to 200 of 251" in text_of(first)
    assert "51 schedules that are not on this page are not counted." in text_of(first)
    assert ("s198" in first, "s199" in first, "s199" in second, "s249" in second) == (True, False, True, True)
    assert ("More schedules" in second, "First page" in second) == (False, True)
    assert ("needle &amp; thread" in found, "s001" in found) == (True, False)
    assert "No schedule matches." in text_of(nothing)
    assert operator.get(SCHEDULES, {"q": "x" * 300}).status_code == 400
    assert operator.get(SCHEDULES, {"format": "json"}).json()["total"] == 251


@pytest.mark.parametrize("verb", VERBS)
def test_each_change_requires_its_permission(verb: str, redis_server: Store, operator: Client, settings: Any) -> None:
    fill(redis_server)
    address, permission = f"{SCHEDULES}{verb}/?name=nightly", VERBS[verb].permission
    others = browser("view_overview", *{each.permission for each in VERBS.values()} - {permission})

    for client, status in ((browser(), 403), (others, 403), (browser(permission), 403), (Client(), 302)):
        assert client.get(address).status_code == status
        assert client.post(address).status_code == status
    assert operator.get(address).status_code == 200
    assert address not in others.get(SCHEDULES).content.decode()
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"READ_ONLY": True}}
    assert operator.post(address).status_code == 403
    assert LogEntry.objects.count() == 0


@pytest.mark.parametrize("name", [*HOSTILE, "", "x" * 300, "a{b}", "\0"])
def test_hostile_names_are_refused_or_escaped(name: str, redis_server: Store, operator: Client) -> None:
    clean = Page(operator.get(SCHEDULES).content.decode())
    for verb in VERBS:
        for send in (operator.get, operator.post):
            assert send(f"{SCHEDULES}{verb}/", {"name": name}, follow=True).status_code in (200, 400, 409)
    stored = name.encode("utf-8", "replace")
    redis_server.raw.hset(base_key(redis_server, "added_schedules"), stored, b'{"task":"%s","every":60}' % stored)
    redis_server.raw.hset(base_key(redis_server, "paused_schedules"), stored, b"9" * 40 + b" " + stored)

    page = Page(operator.get(SCHEDULES).content.decode())

    assert len(page.all("script")) == len(clean.all("script"))
    assert page.all("img") == clean.all("img")


def test_outage_is_the_designed_503(own_server: Store, operator: Client) -> None:
    own_server.servers[0].kill()

    assert operator.get(SCHEDULES).status_code == 503
    assert operator.post(f"{SCHEDULES}pause/", {"name": "nightly"}).status_code in (302, 503)


def info(times: str, state: Any = "on") -> ScheduleInfo:
    at = datetime(2026, 11, 23, tzinfo=UTC)
    return ScheduleInfo("s", "t", "q", times, "once", True, at, None, None, None, None, at, state)


def test_page_computes_the_times_of_two_schedules_that_run_each_minute_and_remembers_them() -> None:
    first_at = datetime(2026, 11, 24, 8, tzinfo=UTC)
    found = [info(f"cron {minutes} * * * * (UTC)") for minutes in ("*", "0-59", "*/1")]

    _runs, not_counted = runs_by_hour(found, first_at, 24)

    assert not_counted <= 1
    assert runs_by_hour(found, first_at, 24) == ([180] * 24, 0)


def test_runs_are_counted_by_hour() -> None:
    first_at = datetime(2026, 11, 23, 8, tzinfo=UTC)

    def counts(*found: ScheduleInfo) -> tuple[list[int], int]:
        return runs_by_hour(found, first_at, 4)

    assert counts(info("every 60 s"), info("every 5400 s")) == ([60, 61, 61, 60], 0)
    assert counts(info("cron 30 9,11 * * * (UTC)"), info("every 60 s", "paused")) == ([0, 1, 0, 1], 0)
    assert counts(info("cron */5 * * * * (Europe/Rome)")) == ([12, 12, 12, 12], 0)
    hour, half = timedelta(hours=1), timedelta(minutes=30)
    limited = dataclasses.replace(info("every 60 s"), start=first_at + half, end=first_at + 2 * hour + half)
    assert counts(limited) == ([30, 60, 31, 0], 0)
    assert counts(dataclasses.replace(limited, count=50, sent=10)) == ([30, 10, 0, 0], 0)
    nightly = dataclasses.replace(info("cron 30 9,11 * * * (UTC)"), end=first_at + 2 * hour)
    assert counts(nightly) == ([0, 1, 0, 0], 0)
    once = info("at 2026-11-23T10:15:00.000+00:00")
    assert counts(dataclasses.replace(once, next_at=first_at + 2.25 * hour)) == ([0, 0, 1, 0], 0)
    assert counts(dataclasses.replace(once, next_at=first_at - hour, state="late")) == ([1, 0, 0, 0], 0)
    for wrong in (
        "",
        "every x s",
        "every 0.0001 s",
        "every " + "9" * 400 + " s",
        "cron x (UTC)",
        "cron * * * * * (Nowhere)",
    ):
        assert counts(info(wrong)) == ([0] * 4, 1)
