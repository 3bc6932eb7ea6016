"""The panels of retention, cohorts, rankings and of the sign-ins of a user on the page of analytics."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from django_redis_components.analytics import (
    Events,
    Ranking,
    SignIns,
    aroll_up_cohorts,
    cohorts,
    retention_triangle,
    roll_up_cohorts,
    roll_up_retention,
)
from django_redis_components.analytics.dates import site_date
from django_redis_components.dashboard import Panel, register_panel, unregister_panel
from django_redis_components.dashboard.bounded_client import MAX_COMMANDS
from tests.dashboard.support import HOSTILE, Page, browser, connect, dump, text_of
from tests.support import Store, run_async

pytestmark = pytest.mark.django_db

ANALYTICS = "/admin/django_redis_components/analytics/"


@pytest.fixture
def viewer() -> Client:
    return browser("view_analytics")


def html(client: Client, **query: object) -> str:
    response = client.get(ANALYTICS, query)
    assert response.status_code == 200, response.content
    return response.content.decode()


def figures(client: Client, **query: object) -> dict[str, Any]:
    found = client.get(ANALYTICS, {"format": "json", **query}).json()
    assert found["errors"] == {}
    panels: dict[str, Any] = found["panels"]
    return panels


@pytest.mark.contract
def test_retention_shows_the_stored_numbers(store: Store, viewer: Client) -> None:
    sign_ins, yesterday = SignIns("default"), site_date() - timedelta(days=1)
    for user in range(8):
        sign_ins.sign_in(user, at=yesterday - timedelta(days=2))
        if user < 2:
            sign_ins.sign_in(user, at=yesterday)
    assert "No numbers are stored." in text_of(html(viewer))
    roll_up_retention(sign_ins, days=3)

    page = html(viewer)

    assert re.search(r" 8 100 % 8 0\.0 % 0 25\.0 % 2 ", text_of(page))
    assert 'class="drc-number drc-share-5">100 %' in page
    assert 'class="drc-number drc-share-1">25.0 %' in page
    rows = figures(viewer)["retention"]
    expected = retention_triangle(sign_ins, days=3, end=yesterday)
    assert [(row["size"], tuple(row["later"])) for row in rows] == [(row.size, row.later) for row in expected]


@pytest.mark.contract
def test_cohorts_show_the_tables_that_were_stored(store: Store, viewer: Client) -> None:
    signup, active = Events("signup", units=("day", "week", "month", "hour")), Events("<active>", units=("day", "hour"))
    for user in range(4):
        signup.mark(user)
        if user:
            active.mark(user)
    assert "No table is stored." in text_of(html(viewer))

    table = roll_up_cohorts(signup, active, unit="day", periods=3)
    run_async(lambda: aroll_up_cohorts(signup, active, unit="hour", periods=2))

    assert list(table.rows) == cohorts(signup, active, unit="day", periods=3)
    page = html(viewer)
    shown = text_of(page)
    assert "Users of signup by day, and the share with &lt;active&gt; N days later" in shown
    assert "Users of signup by hour, and the share with &lt;active&gt; N hours later" in shown
    assert re.search(r" 0 – – – .* 0 – – .* 4 75\.0 % 3 ", shown)
    assert "Computed on " in shown
    assert "<active>" not in page
    [day, hour] = figures(viewer)["cohorts"]
    assert [(row["size"], row["later"]) for row in day["rows"]] == [(0, [0, 0, 0]), (0, [0, 0]), (4, [3])]
    assert (hour["unit"], len(hour["rows"])) == ("hour", 2)


def test_cohorts_of_events_whose_names_have_colons_are_shown(redis_server: Store, viewer: Client) -> None:
    first, later = Events("song:played"), Events("week:day:song")
    first.mark(1)
    roll_up_cohorts(first, later, unit="week", periods=1)
    roll_up_cohorts(later, first, unit="day", periods=1)

    tables = figures(viewer)["cohorts"]

    assert [(table["first"], table["later"], table["unit"]) for table in tables] == [
        ("song:played", "week:day:song", "week"),
        ("week:day:song", "song:played", "day"),
    ]
    assert "song:played, then week:day:song, by week" in text_of(html(viewer))


@pytest.mark.parametrize("unit", ["week", "month"])
def test_later_table_replaces_the_one_before(redis_server: Store, viewer: Client, unit: Any) -> None:
    signup, active = Events("signup"), Events("active")
    roll_up_cohorts(signup, active, unit=unit, periods=2)
    signup.mark(1)
    roll_up_cohorts(signup, active, unit=unit, periods=2)

    [table] = figures(viewer)["cohorts"]

    assert table["rows"][-1]["size"] == 1
    assert f"Users of signup by {unit}" in text_of(html(viewer))
    keys = [key for key in redis_server.keys() if b":co" in key]  # noqa: SIM118 - a Store is no dict
    assert len(keys) == 2
    assert all(0 < redis_server.raw.pttl(key) <= 400 * 86_400_000 for key in keys)


def test_tables_of_a_site_are_bounded(redis_server: Store, viewer: Client) -> None:
    active = Events("active")
    for number in range(53):
        roll_up_cohorts(Events(f"event {number:02}"), active, periods=1)

    assert redis_server.raw.zcard(f"{redis_server.prefix}:analytics:{{default}}:co") == 50
    assert [table["first"] for table in figures(viewer)["cohorts"]] == ["event 50", "event 51", "event 52"]


def test_rankings_of_the_site_are_listed(redis_server: Store, settings: Any, catalogued: None, viewer: Client) -> None:
    connect(settings, other=redis_server.url)
    board = Ranking("0 quiz", units=("week", "all"))
    for member, score in {"<anna>": 30.5, "bert": 20, "carl": 20, "dora": 1_000}.items():
        board.add(member, score)
    Ranking("0 empty").count()
    Ranking("0 far", using="other").count()

    page = html(viewer)

    shown = text_of(page)
    assert "0 quiz · this week Rank Member Score 1 dora 1,000 2 &lt;anna&gt; 30.5 3 bert 20 3 carl 20" in shown
    assert "0 empty · all time : No member has a score." in shown
    assert "0 far · all time : on the connection “other”" in shown
    assert "<anna>" not in page
    rows = {row["name"]: row for row in figures(viewer)["rankings"]}
    assert rows["0 quiz"]["members"][0] == {"member": "dora", "score": 1000.0, "rank": 1}


def test_rankings_that_are_not_read_are_listed(
    redis_server: Store, catalogued: None, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_redis_components.dashboard.panels.rankings.MAX_RANKINGS", 1)
    kept = [Ranking("! first"), Ranking("! second")]
    for each in kept:
        each.count()

    rows = {row["name"]: row for row in figures(viewer)["rankings"]}

    assert [rows[each.name]["note"] for each in kept] == ["", "only the first 1 are measured"]


@pytest.mark.contract
def test_sign_ins_of_a_user_are_shown(store: Store, viewer: Client) -> None:
    SignIns("default").sign_in(7, at=date(2025, 3, 4))
    SignIns("default", mapped=True).sign_in(UUID(int=9), at=date(2025, 3, 5))

    page = html(viewer, user="7", year="2025")

    assert page.count("drc-day-on") == 1
    assert "Signed in on 1 of 365 days. Longest streak: 1 day." in text_of(page)
    assert figures(viewer, user=" 7", year="2025")["sign-in-calendar"] == {
        "user": "7", "year": 2025, "days": ["2025-03-04"], "error": "",
    }  # fmt: skip
    assert figures(viewer, user=str(UUID(int=9)), year=2025)["sign-in-calendar"]["days"] == ["2025-03-05"]
    assert "drc-day-on" not in html(viewer)
    ids = [attributes["id"] for _, attributes in Page(page).tags if attributes.get("id")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("year", ["", "x", "1999", "2100", "20255", "²⁰²⁵"])
def test_year_that_is_not_accepted_is_this_year(redis_server: Store, viewer: Client, year: str) -> None:
    assert figures(viewer, user="7", year=year)["sign-in-calendar"]["year"] == site_date().year


@pytest.mark.parametrize("user", [*HOSTILE, "x" * 300, "é" * 150, "{7}", "a\x00b", "7\r\n"])
def test_any_text_for_the_user_is_a_calendar_or_a_note(redis_server: Store, viewer: Client, user: str) -> None:
    clean = Page(html(viewer))

    page = html(viewer, user=user)

    for tag in ("b", "script", "img"):
        assert len(Page(page).all(tag)) == len(clean.all(tag)), tag
    found = figures(viewer, user=user)["sign-in-calendar"]
    assert found["days"] == []
    assert ("drc-calendar-year" in page) is (not found["error"])


@pytest.mark.contract
def test_reading_the_panels_writes_nothing(store: Store, viewer: Client) -> None:
    SignIns("default").sign_in(7, at=site_date() - timedelta(days=2))
    roll_up_retention(SignIns("default"), days=3)
    roll_up_cohorts(Events("signup"), Events("active"))
    board = Ranking("0 board")
    board.add("anna", 1)
    html(viewer)
    before = dump(store)

    found = viewer.get(ANALYTICS, {"user": "7", "format": "json"}).json()

    assert found["errors"] == {}
    assert dump(store) == before
    assert board.count() == 1


def test_full_page_stays_within_the_limits(redis_server: Store, catalogued: None, viewer: Client) -> None:
    for number in range(20):
        Events(f"event {number:02}").mark(7)
        roll_up_cohorts(Events(f"event {number:02}"), Events("event 00"), unit="day", periods=14)
    boards = [Ranking(f"0 board {number}") for number in range(8)]
    for board in boards:
        board.add("anna", 1)
    SignIns("default").sign_in(7)
    roll_up_retention(SignIns("default"))

    found = viewer.get(ANALYTICS, {"user": "7", "format": "json"}).json()

    assert found["errors"] == {}
    assert len(found["panels"]["rankings"]) == len(boards)
    assert found["cost"]["round_trips"] == 3
    assert found["cost"]["commands"] <= MAX_COMMANDS


def test_panel_gets_the_parameters_that_it_names(redis_server: Store) -> None:
    class EchoPanel(Panel):
        name, title, page = "echo", "Echo", "analytics"
        parameters = ("user", "missing")

        def read(self, user: str = "", missing: str = "") -> Any:
            yield from ()
            return [user, missing]

    register_panel(EchoPanel)
    try:
        found = figures(browser("view_analytics"), user="7" * 300, other="x")["echo"]
        EchoPanel.page = "overview"
        overview = browser("view_overview").get(
            "/admin/django_redis_components/overview/", {"format": "json", "user": "8"}
        )
    finally:
        unregister_panel("echo")

    assert found == ["7" * 200, ""]
    assert overview.json()["panels"]["echo"] == ["8", ""]
