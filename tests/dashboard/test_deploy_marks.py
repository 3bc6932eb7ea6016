"""Deploys in the charts of the overview, of a queue, a task class and a limit, and as the beginning of errors."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from django_redis_components.core import keys
from django_redis_components.dashboard.charts import ChartPanel, Point, bar_chart
from django_redis_components.dashboard.deploy_marks import MAX_MARKS, marked, marks_of, time_after_deploy
from django_redis_components.ratelimits import RateLimit
from django_redis_components.taskqueue.stats.deploys import Deploy
from tests.dashboard.addresses import LIMITS
from tests.dashboard.queue_pages import url_of as queue_url
from tests.dashboard.support import URL, browser, client_of, fail_with, now_ms, settle_tasks, text_of, write_minute
from tests.support import Store
from tests.taskqueue.support import base_key
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.django_db

#: Ten minutes, each with a task.
FIRST = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
STARTS = [FIRST + timedelta(minutes=number) for number in range(10)]
CHART = bar_chart([Point(at.isoformat(timespec="minutes"), "", "", 1) for at in STARTS], "", 5)


def deploy(version: str, seconds: float) -> Deploy:
    return Deploy(version, FIRST + timedelta(seconds=seconds))


def write_deploys(store: Store, **seconds_ago: float) -> None:
    now = now_ms(store)
    versions = {version.replace("_", "."): now - ago * 1_000 for version, ago in seconds_ago.items()}
    store.raw.zadd(base_key(store, "deploys"), versions)


def test_mark_is_at_the_time_of_the_deploy() -> None:
    marks = marks_of(CHART, [deploy("1.0", -60), deploy("1.1", 0), deploy("1.2", 330), deploy("1.3", 700)])

    assert [(mark.x, mark.text.partition(" ")[0]) for mark in marks] == [("0.00%", "1.1"), ("55.00%", "1.2")]


def test_mark_has_the_date_in_a_chart_of_several_days() -> None:
    days = [Point((FIRST + timedelta(days=number)).isoformat(), "", "", 1) for number in range(3)]

    [mark] = marks_of(bar_chart(days, "", 1), [deploy("1.1", 86_400 * 1.5)])

    assert mark.x == "50.00%"
    assert re.fullmatch(r"1\.1 \(.*28.*\)|1\.1 \(.*27.*\)", mark.text)


def test_latest_marks_are_kept() -> None:
    marks = marks_of(CHART, [deploy(f"1.{number}", number) for number in range(30)])

    assert len(marks) == MAX_MARKS
    assert marks[-1].text.startswith("1.29")


def test_chart_without_a_length_has_no_marks() -> None:
    one = bar_chart([Point(FIRST.isoformat(), "", "", 1)], "", 1)

    assert (marks_of(None, [deploy("1", 0)]), marks_of(one, [deploy("1", 0)])) == ([], [])
    [panel] = marked([ChartPanel("id", "", "", "", "", "", None)], [deploy("1", 0)])
    assert list(panel.marks) == []


@pytest.mark.usefixtures("catalogued")
def test_deploys_are_marked_in_the_chart_of_a_limit_without_another_round_trip(
    redis_server: Store,
) -> None:
    limit = RateLimit("login", "5/m")
    limit.hit("ada")
    minute = now_ms(redis_server) // 60_000 - 30  # a chart begins with its first datum
    hits = keys.key("ratelimits", limit.policy.id, "hits", str(minute // 60))
    redis_server.raw.hset(hits, f"{minute}a", 7)
    viewer, url = browser("view_ratelimit"), f"{LIMITS}?limit={limit.policy.id}"
    assert "2 round trips" in text_of(viewer.get(url).content.decode())
    write_deploys(redis_server, v1_2=7_200, v1_3=600)

    text = text_of(viewer.get(url).content.decode())

    assert re.search(r"v1\.3 \(\d\d:\d\d\)", text)
    assert "v1.2" not in text
    assert "2 round trips" in text


@pytest.mark.usefixtures("catalogued")
def test_limits_are_shown_while_deploys_cannot_be_read(redis_server: Store) -> None:
    limit = RateLimit("login", "5/m")
    limit.hit("ada")
    redis_server.raw.set(base_key(redis_server, "deploys"), "not ours")

    response = browser("view_ratelimit").get(LIMITS, {"limit": limit.policy.id})

    assert (response.status_code, "login" in response.content.decode()) == (200, True)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (65, "First seen 1 min 5 s after the deploy of 1.1."),
        (0, "First seen < 1 s after the deploy of 1.1."),
        (-5, ""),
        (3_601, ""),
    ],
)
def test_error_states_the_time_since_the_latest_deploy_of_the_hour_before(seconds: float, expected: str) -> None:
    deploys = [deploy("1.0", -86_400), deploy("1.1", 0)]

    assert time_after_deploy(FIRST + timedelta(seconds=seconds), deploys) == expected


def test_overview_and_queue_mark_the_deploys_of_the_last_hour(redis_server: Store) -> None:
    note.enqueue_many([((number,), {}) for number in range(3)])
    settle_tasks("succeeded")
    write_minute(redis_server, "default", ago=4, succeeded=1)  # a chart begins with its first datum
    redis_server.raw.set(base_key(redis_server, "rollup"), now_ms(redis_server) // 60_000 - 10)
    write_deploys(redis_server, v1_0=9_000, v1_1=120)
    viewer = client_of("staff with the permission")

    for address in (URL, queue_url("default")):
        page = viewer.get(address).content.decode()
        assert re.search(r"Deploys: v1\.1 \(\d\d:\d\d\)", text_of(page)), address
        assert page.count('<line class="drc-deploy" x1="') >= 2, address
    data: dict[str, Any] = viewer.get(URL, {"format": "json"}).json()
    assert [each["version"] for each in data["deploys"]] == ["v1.0", "v1.1"]


def test_page_of_a_task_class_marks_the_deploys_of_three_hours(redis_server: Store) -> None:
    note.enqueue("x")
    settle_tasks("succeeded")
    write_deploys(redis_server, v1_0=9_000, v1_1=1_200)

    page = text_of(
        client_of("staff with the permission")
        .get(f"/admin/django_redis_components/taskclass/{note.name}/")
        .content.decode()
    )

    assert re.search(r"Deploys: v1\.0 \(\d\d:\d\d\) ?, v1\.1 \(\d\d:\d\d\)", page)


def test_problem_of_failing_tasks_states_the_deploy_before_its_error(redis_server: Store, viewer: Client) -> None:
    write_deploys(redis_server, v1_1=70)
    fail_with(*["mail server is away"] * 25)
    write_minute(redis_server, "default", failed=25)

    page = text_of(viewer.get(URL).content.decode())

    assert re.search(
        r"first seen .* LookupError: mail server is away\..* First seen 1 min 1\d s after the deploy", page
    )


def test_page_of_an_error_states_the_deploy_before_it(redis_server: Store, viewer: Client) -> None:
    write_deploys(redis_server, v1_1=70)
    fail_with("no mail", queue="mail")

    response = viewer.get("/admin/django_redis_components/failure/")

    assert re.search(r"First seen 1 min 1\d s after the deploy of v1\.1\.", text_of(response.content.decode()))
    data = viewer.get("/admin/django_redis_components/failure/", {"format": "json"}).json()
    assert data["selected"]["after_deploy"].startswith("First seen 1 min")


@pytest.fixture
def viewer() -> Client:
    return browser("view_overview", "view_failure")


def test_hostile_version_is_escaped_and_cut(redis_server: Store, viewer: Client) -> None:
    redis_server.raw.zadd(base_key(redis_server, "deploys"), {"<b>" + "x" * 1_000: now_ms(redis_server) - 70_000})
    fail_with("no mail", queue="mail")

    page = viewer.get("/admin/django_redis_components/failure/").content.decode()

    assert "<b>xxx" not in page
    assert "x" * 101 not in page
