"""`manage.py redis analytics`: reports, exports, and what is erased of a user."""

from __future__ import annotations

import csv
import io
from datetime import date, timedelta
from uuid import UUID

import pytest

from django_redis_components.analytics import Events, PageViews, Ranking, SignIns, UniqueVisitors, flush
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.stored_cohorts import stored_cohorts_flow
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from tests.management.support import command_data, refusal, run_command
from tests.support import Store

DAY = date(2026, 11, 20)
NEXT = date(2026, 11, 21)


@pytest.fixture
def counted(redis_server: Store) -> None:
    for page, day, times in (("/a/", DAY, 3), ("/b/", DAY, 1), ("/a/", NEXT, 2)):
        for _ in range(times):
            PageViews().hit(page, at=day)
    UniqueVisitors("default").add("anna", "bert", at=DAY)
    UniqueVisitors("default").add("carl", at=NEXT)
    SignIns("default").sign_in(7, at=DAY)
    Events("signup").mark(7, at=DAY)
    Events("signup").mark(8, at=DAY)


def lines(*words: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(run_command("redis", "analytics", "export", *words), newline="")))


@pytest.mark.usefixtures("counted")
def test_report_shows_days_pages_and_sums() -> None:
    shown = run_command("redis", "analytics", "report", "--days", "2", "--end", "2026-11-21")

    assert [line.split() for line in shown.splitlines()[:3]] == [
        ["DAY", "VIEWS", "VISITORS", "SIGN-INS"],
        ["2026-11-20", "4", "2", "1"],
        ["2026-11-21", "2", "1", "0"],
    ]
    assert "6 views, ≈ 3 visitors (sum over the periods of their ids), 1 sign-in" in shown
    assert "Pages\n           5  /a/\n           1  /b/\n" in shown
    data = command_data("redis", "analytics", "report", "--days", "2", "--end", "2026-11-21")
    assert (data["views"], data["visitors"], data["visitors_are_unique"]) == (6, 3, False)
    assert data["days"][0] == {"day": "2026-11-20", "views": 4, "visitors": 2, "sign_ins": 1}


def test_range_ends_today_by_default(redis_server: Store) -> None:
    PageViews().hit_later("/now/")
    flush()

    data = command_data("redis", "analytics", "report")

    assert (len(data["days"]), data["days"][-1]["day"]) == (30, site_date().isoformat())
    assert data["pages"] == {"/now/": 1}


@pytest.mark.usefixtures("counted")
def test_exports_have_a_row_for_each_name_and_day() -> None:
    options = ("--days", "2", "--end", "2026-11-21")

    assert lines("days", *options) == [
        ["day", "views", "visitors", "sign_ins"],
        ["2026-11-20", "4", "2", "1"],
        ["2026-11-21", "2", "1", "0"],
    ]
    assert lines("pages", *options)[1:] == [
        ["2026-11-20", "/a/", "3"],
        ["2026-11-20", "/b/", "1"],
        ["2026-11-21", "/a/", "2"],
    ]
    assert lines("events", *options)[1:] == [["2026-11-20", "signup", "2"], ["2026-11-21", "signup", "0"]]
    assert lines("sources", *options) == [["day", "dimension", "value", "views"]]
    data = command_data("redis", "analytics", "export", "pages", *options)
    assert data["rows"][0] == {"day": "2026-11-20", "page": "/a/", "views": 3}


@pytest.mark.parametrize("page", ["=1+2", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "＝1", "＋1", "－1", "＠A1"])
def test_formulas_are_neutralized(redis_server: Store, page: str) -> None:
    PageViews().hit(page, at=DAY)

    assert lines("pages", "--days", "1", "--end", "2026-11-20")[1][1] == f"'{page}"
    assert (
        command_data("redis", "analytics", "export", "pages", "--days", "1", "--end", "2026-11-20")["rows"][0]["page"]
        == page
    )


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("/a;=1+2", "/a;'=1+2"),
        ('/a; "＝1', "/a; '\"＝1"),
        ("/a\n@A1", "/a\n'@A1"),
        ("\t=1", "\t'=1"),
        ("  =1", "  '=1"),
        (" \t\n＋1", " \t\n'＋1"),
        ("\xa0-1", "\xa0'-1"),
        ("\u3000＠A1", "\u3000'＠A1"),
        (' "=1', " '\"=1"),
        (" 1", " 1"),
        ("/a;b-c=d", "/a;b-c=d"),
    ],
)
def test_formulas_after_a_semicolon_are_neutralized(redis_server: Store, page: str, written: str) -> None:
    PageViews().hit(page, at=DAY)

    assert lines("pages", "--days", "1", "--end", "2026-11-20")[1][1] == written


def test_export_has_all_pages_of_a_day(redis_server: Store) -> None:
    key = f"{redis_server.prefix}:analytics:{{default}}:pv:20261120"
    redis_server.raw.zadd(key, {"": 5_000, **{f"/{number}/": number + 1 for number in range(2_500)}})

    found = lines("pages", "--days", "1", "--end", "2026-11-20")[1:]

    assert found == [["2026-11-20", f"/{number}/", str(number + 1)] for number in reversed(range(2_500))]


def test_page_names_cannot_break_a_row(redis_server: Store) -> None:
    PageViews().hit('a,"b"\n2026-01-01,c,9', at=DAY)

    assert lines("pages", "--days", "1", "--end", "2026-11-20")[1:] == [["2026-11-20", 'a,"b"\n2026-01-01,c,9', "1"]]


def test_nothing_of_a_forgotten_user_is_left(redis_server: Store) -> None:
    today = site_date()
    for user in (7, 8):
        for ago in range(3):
            SignIns("default").sign_in(user, at=today - timedelta(days=ago))
            Events("signup").mark(user, at=today - timedelta(days=ago))
        Ranking("quiz").add(user, 5)

    shown = run_command("redis", "analytics", "forget", "7", "--ranking", "quiz", "--yes")

    assert shown.startswith("User 7: deleted the sign-ins, ")
    assert SignIns("default").count(7) == 0
    assert SignIns("default").total(at=today) == 1
    assert not any(Events("signup").did(7, unit=unit) for unit in ("day", "week", "month"))
    assert Events("signup").day().count() == 1
    assert [row.member for row in Ranking("quiz").top(limit=5)] == ["8"]
    assert command_data("redis", "analytics", "forget", "7", "--yes")["sign_ins"] == 0


def test_forget_reaches_every_event_of_a_site(redis_server: Store) -> None:
    names = [f"event {number:02}" for number in range(60)]
    for name in names:
        Events(name).mark(7, at=DAY)

    assert command_data("redis", "analytics", "forget", "7", "--yes")["events"] == 180

    assert not any(Events(name).did(7, unit="month", at=DAY) for name in names)
    assert len(lines("events", "--days", "1", "--end", "2026-11-20")) == 61


def test_forget_reaches_every_period_of_a_ranking(redis_server: Store) -> None:
    board = Ranking("quiz", units=("all", "day", "week", "month"))
    for at in (DAY, date(2019, 1, 1)):
        board.add(7, 5, at=at)
        board.add(8, 5, at=at)

    assert command_data("redis", "analytics", "forget", "7", "--ranking", "quiz", "--yes")["scores"] == 7

    for at in (DAY, date(2019, 1, 1)):
        assert [[row.member for row in board.top(limit=5, unit=unit, at=at)] for unit in board.units] == [["8"]] * 4


def test_forget_refuses_ids_of_the_wrong_kind(redis_server: Store) -> None:
    Events("signup", site="mapped", mapped=True).mark(42, at=DAY)
    Events("signup", site="plain").mark(0, at=DAY)

    assert refusal("redis", "analytics", "forget", "0", "--site", "mapped", "--yes", code=2) == (
        "Site 'mapped' maps ids of users to numbers: pass --mapped. Without it an ID is read as a number, which belongs"
        " to another user."
    )
    assert refusal("redis", "analytics", "forget", "0", "--site", "plain", "--mapped", "--yes", code=2) == (
        "Site 'plain' maps no ids of users to numbers: omit --mapped."
    )
    assert Events("signup", site="mapped", mapped=True).did(42, unit="day", at=DAY)
    assert Events("signup", site="plain").did(0, unit="day", at=DAY)


def test_forget_asks_first(redis_server: Store) -> None:
    SignIns("default").sign_in(7, at=DAY)

    assert "No terminal to ask for confirmation" in refusal("redis", "analytics", "forget", "7")
    assert SignIns("default").count(7) == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("report", "--days", "401"), "argument --days: 401: expected an integer from 1 to 400."),
        (("report", "--end", "20.11."), "argument --end: '20.11.': expected a date as YYYY-MM-DD."),
        (("rollup", "--days", "61"), "argument --days: 61: expected an integer from 1 to 60."),
        (("export", "users"), "invalid choice: 'users'"),
    ],
)
def test_invalid_arguments_are_named(words: tuple[str, ...], problem: str) -> None:
    assert problem in refusal("redis", "analytics", *words)


@pytest.mark.parametrize("verb", [("report",), ("export", "days")])
def test_range_before_the_calendar_is_an_invalid_argument(redis_server: Store, verb: tuple[str, ...]) -> None:
    text = "30 days until 0001-01-05: expected a first day from 0001-01-01 on."

    assert refusal("redis", "analytics", *verb, "--end", "0001-01-05", code=2) == text


def test_range_at_the_end_of_the_calendar_is_shown(redis_server: Store) -> None:
    assert "9999-12-31" in run_command("redis", "analytics", "report", "--end", "9999-12-31")


def test_forget_with_an_invalid_argument_deletes_nothing(redis_server: Store) -> None:
    SignIns("default").sign_in(7)
    Events("paid").mark(7)

    assert "braces" in refusal("redis", "analytics", "forget", "7", "--yes", "--ranking", "a{b")
    assert "expected an integer" in refusal("redis", "analytics", "forget", "9" * 5_000, "--yes", code=2)

    assert (SignIns("default").count(7), Events("paid").did(7)) == (1, True)


def test_outage_exits_with_3() -> None:
    assert refusal("redis", "analytics", "report", code=3).startswith("Redis is unavailable: ")


def test_forget_accepts_any_id_with_mapped_ids(redis_server: Store) -> None:
    user = UUID(int=2**100)
    SignIns("default", mapped=True).sign_in(user)
    Events("signup", mapped=True).mark(user)

    assert "ID 'anna': expected an integer. Ids of other kinds need --mapped." in refusal(
        "redis", "analytics", "forget", "anna", "--yes", code=2
    )
    run_command("redis", "analytics", "forget", str(user), "--mapped", "--yes")

    assert SignIns("default", mapped=True).count(user) == 0
    assert not Events("signup", mapped=True).did(user)
    assert redis_server.raw.hexists(f"{redis_server.prefix}:analytics:{{default}}:ids", str(user)) is False


def test_rollup_stores_retention(redis_server: Store) -> None:
    today = site_date()
    for ago in range(3):
        SignIns("default").sign_in(7, at=today - timedelta(days=ago))

    shown = run_command("redis", "analytics", "rollup", "--days", "2")

    assert shown == "Retention of default, 2 days: stored 3 numbers.\n"
    assert command_data("redis", "analytics", "rollup", "--days", "2") == {"site": "default", "added": 0, "cohorts": 0}


def test_rollup_stores_cohorts(redis_server: Store) -> None:
    Events("signup").mark(7)
    Events("active").mark(7)

    shown = run_command("redis", "analytics", "rollup", "--cohorts", "signup", "active")

    assert shown.splitlines()[1] == "Cohorts of signup and active: stored 8 weeks."


def test_rollup_of_an_event_that_was_never_marked_stores_the_others_and_fails(redis_server: Store) -> None:
    Events("signup").mark(7)
    Events("active").mark(7)
    pairs = ("--cohorts", "sign_up", "active", "--cohorts", "signup", "active")

    problem = refusal("redis", "analytics", "rollup", *pairs)

    assert (
        problem
        == "No event 'sign_up' was marked at the site 'default'. Did you mean 'signup'? Its cohorts are not stored."
    )
    assert run(connections.client(), stored_cohorts_flow("default", 3))[0] == ["signup:active:week"]
