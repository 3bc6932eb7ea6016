"""The range of the page of analytics, what it is compared with, its filter by page and source, and its CSV."""

from __future__ import annotations

import csv
import html
import html as html_text
import io
import re
from datetime import date, timedelta
from typing import Any

import pytest
from django.test import Client

from django_redis_components.analytics import (
    OTHER,
    Events,
    PageViews,
    SignIns,
    UniqueVisitors,
    flush,
    roll_up_cohorts,
)
from django_redis_components.analytics.buffer import BUFFER, View
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.view_counters import Dimension
from django_redis_components.analytics.visitors import page_calls
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch
from django_redis_components.dashboard.bounded_client import MAX_COMMANDS
from django_redis_components.dashboard.panels.comparison import change, compare, range_name
from django_redis_components.dashboard.panels.selection import parse_selection
from tests.dashboard.support import HOSTILE, SIGN_INS_OFF, Page, browser, text_of
from tests.support import Store
from tools.localserver import free_port

pytestmark = pytest.mark.django_db

ANALYTICS = "/admin/django_redis_components/analytics/"
TODAY = date(2026, 11, 26)


@pytest.fixture
def viewer(settings: Any) -> Client:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, **SIGN_INS_OFF}
    return browser("view_analytics")


@pytest.fixture
def november(monkeypatch: pytest.MonkeyPatch) -> date:
    """A fixed day, so that months have known lengths."""
    for module in ("selection", "comparison"):
        monkeypatch.setattr(f"django_redis_components.dashboard.panels.{module}.site_date", lambda: TODAY)
    return TODAY


def page(client: Client, **query: str) -> str:
    response = client.get(ANALYTICS, query)
    assert response.status_code == 200, response.content
    return response.content.decode()


def text(client: Client, **query: str) -> str:
    return text_of(page(client, **query)).replace("\N{NO-BREAK SPACE}", " ")


def figures(client: Client, **query: str) -> dict[str, Any]:
    found = client.get(ANALYTICS, {"format": "json", **query}).json()
    assert found["errors"] == {}
    panels: dict[str, Any] = found["panels"]
    return panels


def view(name: str, times: int, day: date) -> None:
    for _ in range(times):
        PageViews().hit(name, at=day)


def view_from(store: Store, dimension: Dimension, value: str, times: int, day: date) -> None:
    """Count views by a value on a day, as `AnalyticsMiddleware` stores them."""
    week = f"{day.isocalendar()[0]}W{day.isocalendar()[1]:02}"
    for label in (f"{day:%Y%m%d}", week, f"{day:%Y%m}"):
        key = f"{store.prefix}:analytics:{{default}}:dm:{dimension}:{label}"
        store.raw.zincrby(key, times, value)
        store.raw.zincrby(key, times, "")


@pytest.mark.parametrize(
    ("query", "days", "before"),
    [
        ({}, ("2026-10-28", "2026-11-26"), ("2026-09-28", "2026-10-27")),
        ({"period": "today"}, ("2026-11-26", "2026-11-26"), ("2026-11-25", "2026-11-25")),
        ({"period": "7d"}, ("2026-11-20", "2026-11-26"), ("2026-11-13", "2026-11-19")),
        ({"period": "month"}, ("2026-11-01", "2026-11-26"), ("2026-10-01", "2026-10-26")),
        ({"period": "last-month"}, ("2026-10-01", "2026-10-31"), ("2026-09-01", "2026-09-30")),
        ({"period": "month", "compare": "year"}, ("2026-11-01", "2026-11-26"), ("2025-11-01", "2025-11-26")),
        ({"period": "month", "compare": "none"}, ("2026-11-01", "2026-11-26"), None),
        ({"start": "2026-09-01", "end": "2026-10-31"}, ("2026-09-01", "2026-10-31"), ("2026-07-01", "2026-08-31")),
        ({"start": "2026-10-10", "end": "2026-10-03"}, ("2026-10-03", "2026-10-10"), ("2026-09-25", "2026-10-02")),
        ({"start": "2026-11-20", "end": "2026-12-24"}, ("2026-11-20", "2026-11-26"), ("2026-11-13", "2026-11-19")),
        ({"start": "2026-11-20"}, ("2026-11-20", "2026-11-26"), ("2026-11-13", "2026-11-19")),
        ({"end": "2026-11-20"}, ("2026-11-20", "2026-11-20"), ("2026-11-19", "2026-11-19")),
        ({"start": "2026-01-01", "end": "2026-11-26"}, ("2026-01-01", "2026-11-26"), None),
    ],
    ids=lambda value: "&".join(f"{key}={each}" for key, each in value.items()) if isinstance(value, dict) else "",
)
def test_ranges_are_compared_with_the_one_before(
    november: date, query: dict[str, str], days: tuple[str, str], before: tuple[str, str] | None
) -> None:
    found = parse_selection(query)

    assert tuple(map(str, found.days)) == days
    assert (found.before and tuple(map(str, found.before))) == before
    assert parse_selection(found.parameters) == found


def test_last_day_of_a_month_is_compared_with_the_whole_month_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for last, before in ((date(2026, 11, 30), date(2026, 10, 31)), (date(2026, 3, 30), date(2026, 2, 28))):
        monkeypatch.setattr("django_redis_components.dashboard.panels.selection.site_date", lambda day=last: day)

        assert parse_selection({"period": "month"}).before == (before.replace(day=1), before)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("period=year", "period='year': expected one of today, 7d, 30d, month, last-month, custom."),
        ("compare=x", "compare='x': expected one of before, year, none."),
        ("start=soon", "start='soon': expected a day as YYYY-MM-DD."),
        ("end=2026-13-01", "end='2026-13-01': expected a day as YYYY-MM-DD."),
        ("start=2025-11-26&end=2026-11-26", "2025-11-26 to 2026-11-26 are 366 days"),
        ("start=2025-11-25&end=2026-11-26", "2025-11-25 to 2026-11-26 are 367 days: expected at most 366."),
        ("start=2025-01-01&end=2025-01-02", "start='2025-01-01': expected a day from 2025-10-23 on: earlier counts"),
        ("source=color:red", "source='color:red': expected one of referrer, utm_source, device, country, a colon and"),
        ("source=country", "source='country': expected one of"),
        ("format=xml", "format='xml': expected one of html, fragment, json, csv."),
    ],
)
def test_parameter_that_is_not_valid_is_answered_with_400(
    redis_server: Store, viewer: Client, november: date, query: str, error: str
) -> None:
    response = viewer.get(f"{ANALYTICS}?{query}")

    if "are 366 days" in error:
        assert response.status_code == 200
        return
    assert response.status_code == 400
    assert error in html.unescape(response.content.decode())


def test_this_month_against_last_month_takes_one_click(redis_server: Store, viewer: Client, november: date) -> None:
    view("/a/", 12, date(2026, 11, 3))
    view("/a/", 10, date(2026, 10, 3))
    view("/a/", 5, date(2026, 10, 30))
    [link] = re.findall(r'<a href="([^"]*)"[^>]*>This month</a>', page(viewer))

    found = viewer.get(ANALYTICS + html_text.unescape(link)).content.decode()

    shown = text_of(found).replace("\N{NO-BREAK SPACE}", " ")
    assert "Nov 1 – Nov 26, compared with Oct 1 – Oct 26" in shown
    assert "Views in 26 days 12 +20 % against Oct 1 – Oct 26 (10)" in shown
    assert '<bdi class="drc-change-up">+20 %</bdi>' in found
    assert "/a/ 12 100.00 % +20 %" in shown
    [current] = re.findall(r'<a href="[^"]*" aria-current="true">([^<]*month)</a>', found)
    assert current == "This month"


def test_all_panels_of_the_range_show_the_same_days(redis_server: Store, viewer: Client) -> None:
    today = site_date()
    for ago, count in {0: 1, 6: 2, 7: 4, 13: 3, 14: 50}.items():
        day = today - timedelta(days=ago)
        UniqueVisitors("default").add(*range(100 * ago, 100 * ago + count), at=day)
        view("/a/", count, day)
        view_from(redis_server, "device", "mobile", count, day)
        for user in range(count):
            SignIns("default").sign_in(1_000 + user, at=day)

    found = figures(viewer, period="7d")

    assert (found["traffic"]["range"], found["traffic"]["before"], len(found["traffic"]["days"])) == (3, 7, 7)
    assert (found["visitors"]["range"], found["visitors"]["before"], len(found["visitors"]["days"])) == (3, 7, 7)
    assert (found["sign-ins"]["range"], found["sign-ins"]["before"], len(found["sign-ins"]["days"])) == (3, 7, 7)
    assert found["top-pages"]["total"] == 3
    assert found["top-pages"]["pages"] == [{"page": "/a/", "views": 3, "before": 7, "visitors": 0}]
    assert found["sources"]["device"] == {"total": 3, "values": {"mobile": 3}}


@pytest.mark.parametrize(
    ("count", "before", "text_"),
    [(1_204, 1_075, "+12 %"), (1, 3, "−67 %"), (103, 100, "+3.0 %"), (5, 5, "±0.0 %"), (50, 5, "+900 %"), (5, 0, "")],
)
def test_change_has_a_sign(count: int, before: int, text_: str) -> None:
    assert change(count, before).replace("\N{NO-BREAK SPACE}", " ") == text_


def test_comparison_names_a_whole_month(november: date) -> None:
    found = compare(1_204, 1_075, (date(2026, 10, 1), date(2026, 10, 31)))
    nothing = compare(1_204, 0, (date(2025, 10, 1), date(2025, 10, 31)))

    assert found is not None
    assert (found.text, found.kind) == ("against October (1,075)", "up")
    assert nothing is not None
    assert (nothing.change, nothing.text) == ("", "0 in October 2025")
    assert compare(3, None, None) is None
    assert range_name((TODAY, TODAY)) == "Nov. 26, 2026"


def test_what_is_not_kept_is_not_compared(redis_server: Store, viewer: Client, november: date, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "ANALYTICS": {"TTL": 40 * 86_400}}

    assert "Oct 28 – Nov 26, not compared: earlier counts are not kept" in text(viewer)
    assert figures(viewer)["traffic"]["before"] is None


@pytest.mark.parametrize(
    ("query", "intervals", "note"),
    [
        ({"start": "2026-09-01", "end": "2026-10-31"}, 9, "Bars are whole weeks."),
        ({"start": "2026-02-10", "end": "2026-10-31"}, 9, "Bars are whole months."),
    ],
)
def test_long_ranges_have_weeks_or_months(
    redis_server: Store, viewer: Client, november: date, query: dict[str, str], intervals: int, note: str
) -> None:
    for day in (date(2026, 8, 31), date(2026, 9, 1), date(2026, 10, 31), date(2026, 11, 1)):
        view("/a/", 1, day)
        SignIns("default").sign_in(7, at=day)
        UniqueVisitors("default").add(7, at=day)

    found = viewer.get(ANALYTICS, {"format": "json", **query}).json()
    panels = found["panels"]

    is_long = query["start"] < "2026-08"
    expected = 3 if is_long else 2
    assert (panels["traffic"]["range"], panels["sign-ins"]["range"], panels["visitors"]["range"]) == (
        expected,
        expected,
        panels["visitors"]["range"],
    )
    assert len(panels["traffic"]["days"]) == len(panels["visitors"]["days"]) == intervals
    assert found["cost"]["commands"] <= MAX_COMMANDS
    assert found["cost"]["round_trips"] <= 3
    assert note in text(viewer, **query)


@pytest.mark.parametrize("name", ["/b/ ", " ", "/b\n", "ä" * 100, "/" + "x" * 500])
def test_click_on_a_page_shows_its_views(redis_server: Store, viewer: Client, name: str) -> None:
    view("/a/", 1, site_date())
    view(name, 2, site_date())
    link = re.findall(r'<a href="([^"]*page=[^"]*)"><bdi>', page(viewer))[0]

    found = viewer.get(f"{ANALYTICS}{html_text.unescape(link)}&format=json").json()

    assert (found["errors"], found["panels"]["traffic"]["range"]) == ({}, 2)


def test_pages_beyond_the_maximum_are_shown_as_others(redis_server: Store, viewer: Client) -> None:
    view(OTHER, 2, site_date())
    [link] = re.findall(r'<a href="([^"]*)"><bdi>others</bdi></a>', page(viewer))

    found = viewer.get(ANALYTICS + html_text.unescape(link)).content.decode()

    assert "Page: others Show all" in text_of(found)
    assert OTHER not in text_of(found)
    assert figures(viewer)["top-pages"]["pages"][0]["page"] == OTHER


def test_page_filters_views_and_visitors(redis_server: Store, viewer: Client) -> None:
    today = site_date()
    view("/a/", 3, today)
    view("/b/", 4, today)
    SignIns("default").sign_in(7)
    with_visitors = page_calls("default", {"/a/": [b"1", b"2"], "/b/": [b"1"]}, today)
    Batch(with_visitors).perform(connections.client())
    [link] = re.findall(r'<a href="([^"]*)"><bdi>/a/</bdi></a>', page(viewer, period="7d"))

    found = viewer.get(ANALYTICS + html_text.unescape(link)).content.decode()
    panels = figures(viewer, period="7d", page="/a/")

    assert (panels["traffic"]["range"], panels["visitors"]["range"]) == (3, 2)
    assert panels["top-pages"]["total"] == 7
    shown = text_of(found)
    assert "Page: /a/ Show all" in shown
    assert "Sign-ins Not stored by page: these are the counts of all pages." in shown
    assert "Visitors in the last 5 minutes" not in shown
    assert 'class="drc-name drc-chosen"' in found
    # A click on the chosen page, or on "Show all", shows all again.
    assert html_text.unescape(re.findall(r'<a href="([^"]*)"><bdi>/a/</bdi></a>', found)[0]) == "?period=7d"
    assert html_text.unescape(re.findall(r'<a href="([^"]*)">Show all</a>', found)[0]) == "?period=7d"


def test_source_filters_views_only(redis_server: Store, viewer: Client) -> None:
    view("/a/", 5, site_date())
    view_from(redis_server, "referrer", "example.org", 2, site_date())
    view_from(redis_server, "country", "ZZ", 1, site_date())
    view_from(redis_server, "country", "FR", 4, site_date())
    UniqueVisitors("default").add(1)
    [link] = re.findall(r'<a href="([^"]*)"><bdi>example.org</bdi></a>', page(viewer))

    found = viewer.get(ANALYTICS + html_text.unescape(link)).content.decode()

    shown = text_of(found)
    assert figures(viewer, source="referrer:example.org")["traffic"]["range"] == 2
    assert "Source: example.org Show all" in shown
    assert shown.count("Not stored by source: these are the counts of all sources.") == 3
    assert '<bdi data-drc-country="FR">FR</bdi>' in found
    assert "<bdi>Unknown</bdi>" in found


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_filter_is_escaped(name: str, redis_server: Store, viewer: Client) -> None:
    view(name, 1, site_date())
    view_from(redis_server, "referrer", name, 1, site_date())
    clean = Page(page(viewer))

    for query in ({"page": name}, {"source": f"referrer:{name}"}):
        found = Page(page(viewer, **query))
        for tag in ("b", "script", "img"):
            assert len(found.all(tag)) == len(clean.all(tag)), (query, tag)


def test_csv_has_what_is_shown(redis_server: Store, viewer: Client) -> None:
    today = site_date()
    view("/a/", 2, today)
    view("=HYPERLINK(1)", 1, today)
    view_from(redis_server, "device", "mobile", 3, today)
    SignIns("default").sign_in(7)
    [link] = re.findall(r'<a class="drc-csv" href="([^"]*)" download>Download CSV</a>', page(viewer, period="7d"))

    response = viewer.get(ANALYTICS + html_text.unescape(link))

    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"] == 'attachment; filename="analytics.csv"'
    head, *rows = csv.reader(io.StringIO(response.content.decode(), newline=""))
    assert head == ["panel", "item", "count", "count_before"]
    assert ["traffic", str(today), "3", ""] in rows
    assert ["traffic", "", "3", "0"] in rows
    assert ["top-pages", "/a/", "2", "0"] in rows
    assert ["top-pages", "'=HYPERLINK(1)", "1", "0"] in rows
    assert ["sources", "device:mobile", "3", "0"] in rows
    assert ["sign-ins", str(today), "1", ""] in rows
    assert [row[0] for row in rows if row[1].startswith("20")].count("visitors") == 7


def test_csv_requires_the_permission_of_the_page(redis_server: Store, viewer: Client) -> None:
    other = browser("view_overview")

    assert other.get(ANALYTICS, {"format": "csv"}).status_code == 403
    overview = other.get("/admin/django_redis_components/overview/", {"format": "csv"})
    assert overview.status_code == 400
    assert overview.content == b"format='csv': expected one of html, fragment, json."


def test_csv_without_redis_is_the_page_of_the_outage(viewer: Client, settings: Any) -> None:
    unreachable = {"CONNECTIONS": {"default": {"URL": f"redis://127.0.0.1:{free_port()}"}}}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, **unreachable}

    response = viewer.get(ANALYTICS, {"format": "csv"})

    assert (response.status_code, response["Content-Type"]) == (503, "text/html; charset=utf-8")
    assert "</html>" in response.content.decode()
    assert "Content-Disposition" not in response


def test_stored_cohorts_are_chosen_on_the_page(redis_server: Store, viewer: Client) -> None:
    for number in range(5):
        roll_up_cohorts(Events(f"event {number}"), Events("active"), periods=1)
    first = page(viewer)
    assert len(figures(viewer)["cohorts"]) == 3
    assert '<option value="event 0:active:week">event 0, then active, by week</option>' in first

    chosen = figures(viewer, cohorts="event 0:active:week")["cohorts"]

    assert [table["first"] for table in chosen] == ["event 0"]
    assert '<option value="event 0:active:week" selected>' in page(viewer, cohorts="event 0:active:week")
    assert len(figures(viewer, cohorts="unknown")["cohorts"]) == 3


def test_links_and_forms_keep_the_rest_of_the_selection(redis_server: Store, viewer: Client) -> None:
    found = page(viewer, period="7d", user="7", page="/a/")

    links = [html_text.unescape(each) for each in re.findall(r'<a href="(\?[^"]*)"', found)]
    assert "?period=month&page=%2Fa%2F&user=7" in links
    assert "?period=7d&compare=year&page=%2Fa%2F&user=7" in links
    calendar = found[found.index('aria-labelledby="drc-panel-sign-in-calendar"') :]
    assert '<input type="hidden" name="period" value="7d">' in calendar
    assert 'type="hidden" name="user"' not in calendar


def test_panels_without_data_are_one_line_each_below_the_others(redis_server: Store, viewer: Client) -> None:
    view("/a/", 1, site_date())

    found = page(viewer)

    sections = re.findall(r'<section class="(drc-panel[^"]*)" aria-labelledby="drc-panel-([^"]*)"', found)
    folded = [name for css, name in sections if css == "drc-panel drc-folded"]
    assert folded[:3] == ["visitors", "sign-ins", "sources"]
    assert {"retention", "cohorts", "events"} <= set(folded)
    assert [name for _css, name in sections][-len(folded) :] == folded
    assert "traffic" not in folded


def test_buffered_views_by_source_are_what_the_tests_above_store(redis_server: Store) -> None:
    """`view_from` writes keys by hand; this is what the buffer of the middleware writes."""
    BUFFER.record("default", "default", View("/a/", device="mobile"))
    flush()
    made = {key for key in redis_server.keys() if b":dm:" in key}  # noqa: SIM118 - a Store is no dict
    redis_server.delete_keys()

    view_from(redis_server, "device", "mobile", 1, site_date())

    assert {key for key in redis_server.keys() if b":dm:" in key} == made  # noqa: SIM118


def test_event_that_is_not_counted_by_day_is_no_step_of_a_funnel(redis_server: Store, viewer: Client) -> None:
    for user in range(4):
        Events("view").mark(user)
        Events("hourly", units=["hour"]).mark(user)
        Events("buy").mark(user // 2)
    query = {"step1": "view", "step2": "hourly", "step3": "buy"}

    shown = text(viewer, **query)

    assert "view 4 100 % 100 % buy 2 50.0 % 50.0 %" in shown.replace("\N{NO-BREAK SPACE}", " ")
    assert "Not counted by day, week and month, and left out: hourly" in shown
    assert figures(viewer, **query)["funnel"] == [
        {"event": "view", "users": 4}, {"event": "buy", "users": 2}, {"event": "hourly", "users": None},
    ]  # fmt: skip
    two = {"step1": "view", "step2": "hourly"}
    assert "Not counted by day, week and month, and left out: hourly" in text(viewer, **two)
    assert figures(viewer, **two)["funnel"] == [{"event": "hourly", "users": None}]


def test_funnel_needs_only_the_units_that_cover_the_range(redis_server: Store, viewer: Client) -> None:
    for event in ("view", "buy"):
        Events(event, units=["day"]).mark(1)
    query = {"step1": "view", "step2": "buy"}

    assert [row["users"] for row in figures(viewer, period="today", **query)["funnel"]] == [1, 1]
    assert [row["users"] for row in figures(viewer, period="last-month", **query)["funnel"]] == [None, None]


def test_event_without_stored_periods_has_no_users(redis_server: Store, viewer: Client) -> None:
    Events("buy").mark(1)
    Events("view").mark(1)
    Events("view").delete()
    redis_server.raw.zadd(f"{redis_server.prefix}:analytics:{{default}}:ev", {"view": 0})  # an event of long ago

    funnel = figures(viewer, step1="view", step2="buy")["funnel"]

    assert [row["users"] for row in funnel] == [0, 0]


def test_funnel_is_chosen_on_the_page(redis_server: Store, viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 'Funnel A funnel needs two events. Mark one: Events("signup").mark(user_id)' in text(viewer)
    for number, event in enumerate(("<view>", "cart", "buy")):
        for user in range(12 - 4 * number):
            Events(event).mark(user, at=site_date() - timedelta(days=user % 3))
    Events("buy").mark(900)
    assert "Choose two events or more." in text(viewer)

    query = {"step1": "<view>", "step2": "cart", "step3": "buy", "step4": "unknown"}
    found = page(viewer, **query)

    assert figures(viewer, **query)["funnel"] == [
        {"event": "<view>", "users": 12}, {"event": "cart", "users": 8}, {"event": "buy", "users": 4},
    ]  # fmt: skip
    assert figures(viewer, period="today", **query)["funnel"][0]["users"] == 4
    shown = text_of(found).replace("\N{NO-BREAK SPACE}", " ")
    assert "&lt;view&gt; 12 100 % 100 % cart 8 66.7 % 66.7 % buy 4 50.0 % 33.3 %" in shown
    assert "Users who did all steps so far in " in shown
    assert '<option value="cart" selected>cart</option>' in found
    assert "<view>" not in found
    monkeypatch.setattr("django_redis_components.analytics.range_counts.MAX_FUNNEL_BYTES", 3)
    assert "Too many users for a page. Count them in Python:" in text(viewer, **query)
    assert figures(viewer, **query)["funnel"] is None
