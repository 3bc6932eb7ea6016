"""The page of analytics: visitors, sign-ins and top pages."""

from __future__ import annotations

import random
import re
from datetime import date, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from django_redis_components.analytics import (
    OTHER,
    AnalyticsMiddleware,
    Events,
    PageViews,
    SignIns,
    UniqueVisitors,
    flush,
)
from django_redis_components.analytics.dates import site_date
from tests.dashboard.support import HOSTILE, SIGN_INS_OFF, Page, browser, dump, text_of
from tests.support import Store

pytestmark = pytest.mark.django_db

ANALYTICS = "/admin/django_redis_components/analytics/"


@pytest.fixture
def viewer() -> Client:
    return browser("view_analytics")


def figures(client: Client, **query: str) -> dict[str, Any]:
    response = client.get(ANALYTICS, {"format": "json", **query})
    assert response.status_code == 200, response.content
    assert response.json()["errors"] == {}
    panels: dict[str, Any] = response.json()["panels"]
    return panels


def text(client: Client, **headers: str) -> str:
    response = client.get(ANALYTICS, headers=headers)
    assert response.status_code == 200, response.content
    return text_of(response.content.decode())


def fill() -> None:
    today = site_date()
    for ago in range(30):
        UniqueVisitors("default").add(*range(ago + 1), at=today - timedelta(days=ago))
        SignIns("default").sign_in(500 + ago, at=today - timedelta(days=ago))


def test_visitors_and_sign_ins_have_charts_and_tables(redis_server: Store, viewer: Client) -> None:
    fill()
    commands = 85

    html = viewer.get(ANALYTICS).content.decode()

    page, shown = Page(html), text_of(html)
    charts = [svg for svg in page.all("svg") if svg.get("class") == "drc-chart"]
    ids = {attributes["id"] for _, attributes in page.tags if attributes.get("id")}
    assert len(charts) == len(page.all("figure")) == 2
    assert all(set((svg["aria-labelledby"] or "").split()) <= ids for svg in charts)
    assert all(section["aria-labelledby"] in ids for section in page.all("section"))
    assert len(page.all("rect")) == 60
    assert shown.count("Peak: ") == 4  # in each chart's desc, and below it
    assert re.search(r"Visitors by day Peak: \d+ \(\w+\.? \d+, \d{4}\) · Today so far: 1", shown)
    assert html.count('<tr><th scope="row"><time datetime=') == 60
    assert "HyperLogLog estimates, standard error ±0.81 %." in shown
    assert "Daily visitors, sum of 30 days" in shown
    assert "ids rotate daily (VISITOR_IDENTITY “hash”)" in shown
    assert re.search(rf"{commands} commands · 1 round trip · [\d.]+ ms · read at ", shown)


def test_visitors_match_pfcount(store: Store, viewer: Client) -> None:
    today = timezone.localdate()
    visitors = UniqueVisitors("default")
    for ago in range(31):
        visitors.add(*range(ago * 10, ago * 10 + 20 + ago), at=today - timedelta(days=ago))

    found = figures(viewer)["visitors"]

    days = [today - timedelta(days=ago) for ago in range(29, -1, -1)]
    keys = [f"{store.prefix}:analytics:{{default}}:uv:{day:%Y%m%d}" for day in days]
    by_day = [store.raw.pfcount(key) for key in keys]
    assert found["days"] == {day.isoformat(): count for day, count in zip(days, by_day, strict=True)}
    assert found["today"] == by_day[-1]
    assert (found["range_days"], found["standard_error"]) == (30, 0.0081)
    assert (found["is_unique"], found["range"]) == (False, store.raw.pfcount(*keys))


def test_stable_visitor_ids_count_once_in_30_days(store: Store, viewer: Client, settings) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "ANALYTICS": {"VISITOR_IDENTITY": "user"}}
    today = timezone.localdate()
    for ago in range(5):
        UniqueVisitors("default").add("anna", f"guest {ago}", at=today - timedelta(days=ago))

    found = figures(viewer)["visitors"]

    assert (found["range"], found["is_unique"], found["today"]) == (6, True, 2)


def test_sign_ins_match_bitcount(store: Store, viewer: Client) -> None:
    today = timezone.localdate()
    rnd = random.Random(3)
    for ago in range(30):
        for user in rnd.sample(range(200), rnd.randrange(20)):
            SignIns("default").sign_in(user, at=today - timedelta(days=ago))

    found = figures(viewer)["sign-ins"]

    for day, count in found["days"].items():
        key = f"{store.prefix}:analytics:{{default}}:si:d:{day.replace('-', '')}"
        assert count == store.raw.bitcount(key), day
    assert found["today"] == store.raw.bitcount(f"{store.prefix}:analytics:{{default}}:si:d:{today:%Y%m%d}")
    assert len(found["days"]) == 30


def test_top_pages_are_those_of_the_range_with_their_share(store: Store, viewer: Client) -> None:
    for number in range(12):
        for _ in range(number + 1):
            PageViews().hit(f"/items/{number}/")
    PageViews().hit("/yesterday/", at=timezone.localdate() - timedelta(days=1))
    PageViews().hit("/long ago/", at=timezone.localdate() - timedelta(days=31))

    found = figures(viewer)["top-pages"]
    [today] = [figures(viewer, period="today")["top-pages"]]

    assert (found["total"], len(found["pages"])) == (79, 10)
    assert today["total"] == 78
    assert found["pages"][0] == {"page": "/items/11/", "views": 12, "before": 0, "visitors": 0}
    shown = text(viewer)
    assert "Top pages Page Views Share Visitors /items/11/ 12 15.19 %" in shown
    assert "All pages 79" in shown
    assert "/long ago/" not in shown


@pytest.mark.parametrize("name", [*HOSTILE, OTHER, "x" * 5_000])
def test_hostile_page_names_are_escaped(name: str, redis_server: Store, viewer: Client) -> None:
    clean = Page(viewer.get(ANALYTICS).content.decode())
    PageViews().hit(name)

    page = Page(viewer.get(ANALYTICS).content.decode())

    for tag in ("b", "script", "img"):
        assert len(page.all(tag)) == len(clean.all(tag)), tag
    assert figures(viewer)["top-pages"]["pages"][0]["page"][:100] == name[:100]


def test_empty_site_shows_next_steps(redis_server: Store, viewer: Client, settings) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, **SIGN_INS_OFF}
    redis_server.delete_keys()

    shown = text(viewer)

    assert "No visitors in this period. To count visitors, append this to MIDDLEWARE:" in shown
    assert "No sign-ins in this period. Logins are counted automatically. To count others:" in shown
    assert "No page views in this period. To count page views, append this to MIDDLEWARE:" in shown
    assert "No page views in this period. The middleware counts the linking site, the campaign" in shown


class OwnMiddleware(AnalyticsMiddleware):
    """A site may override a part of it."""


@pytest.mark.parametrize(
    "installed",
    [
        "django_redis_components.analytics.AnalyticsMiddleware",
        "django_redis_components.analytics.middleware.AnalyticsMiddleware",
        f"{__name__}.OwnMiddleware",
    ],
)
def test_site_with_the_middleware_is_not_advised_to_add_it(
    installed: str, redis_server: Store, viewer: Client, settings
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, installed]
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "ANALYTICS": {"EXCLUDE_PATHS": ["/"]}}
    redis_server.delete_keys()

    shown = text(viewer)

    assert "No visitors in this period." in shown
    assert shown.count("No page views in this period.") == 3
    assert "append this to MIDDLEWARE" not in shown
    assert "django_redis_components.analytics.AnalyticsMiddleware" not in shown


@pytest.mark.parametrize("use_tz", [True, False])
def test_it_works_with_and_without_time_zones(use_tz: bool, redis_server: Store, viewer: Client, settings) -> None:
    settings.USE_TZ = use_tz
    fill()

    assert "Dates are in Europe/Berlin." in text(viewer)


def test_simplified_chinese(redis_server: Store, viewer: Client) -> None:
    fill()

    assert "HyperLogLog 估计值，标准误差 ±0.81%。" in text(viewer, **{"Accept-Language": "zh-hans"})


def test_unreadable_counter_fails_only_its_panels(redis_server: Store, viewer: Client) -> None:
    fill()
    redis_server.raw.set(f"{redis_server.prefix}:analytics:{{default}}:pv:{timezone.localdate():%Y%m%d}", "no zset")

    response = viewer.get(ANALYTICS)

    assert response.status_code == 200
    shown = text_of(response.content.decode())
    assert "Top pages Redis returned an error. (WRONGTYPE" in shown
    assert "Visitors by day" in shown
    found = viewer.get(ANALYTICS, {"format": "json"}).json()
    assert (found["panels"]["top-pages"], list(found["errors"])) == (None, ["traffic", "top-pages"])


@pytest.mark.contract
def test_page_writes_nothing(store: Store, viewer: Client) -> None:
    fill()
    PageViews().hit("/")
    text(viewer)  # PFCOUNT keeps its result within the HyperLogLog, once
    before = dump(store)

    for query in ("", "?format=json", "?format=fragment"):
        assert viewer.get(ANALYTICS + query).status_code == 200

    assert dump(store) == before


@pytest.mark.parametrize("permission", ["view_overview", "view_indexes"])
def test_page_requires_its_permission(permission: str, redis_server: Store) -> None:
    assert browser(permission).get(ANALYTICS).status_code == 403


def test_read_only_user_is_sufficient(redis_server: Store, viewer: Client, settings) -> None:
    fill()
    PageViews().hit("/")
    name = f"reader-{redis_server.prefix}"
    rights = ["+@read", "-@dangerous", "+info", "+time", "+evalsha_ro", "+eval_ro"]
    redis_server.raw.execute_command("ACL", "SETUSER", name, "on", ">secret", "~*", *rights)
    url = re.sub("//", f"//{name}:secret@", redis_server.url, count=1)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}

    try:
        found = figures(viewer)
    finally:
        redis_server.raw.execute_command("ACL", "DELUSER", name)

    assert (found["visitors"]["today"], found["top-pages"]["total"]) == (1, 1)


def test_events_show_the_users_of_the_current_periods(redis_server: Store, viewer: Client) -> None:
    assert 'No events. Mark one: Events("signup").mark(user_id)' in text(viewer)
    for number in range(11):
        Events(f"event {number:02}").mark(7)
    assert "1 more event is not listed." in text(viewer)
    for number in range(11, 17):
        Events(f"event {number:02}").mark(7)
    Events("event 00").mark(8)
    Events("event 00").mark(9, at=timezone.localdate() - timedelta(days=400))

    shown = text(viewer)

    assert "event 00 2 2 2 event 01 1 1 1" in shown
    assert "7 more events are not listed." in shown
    data = viewer.get(ANALYTICS, {"format": "json"}).json()["panels"]["events"]
    assert data[0] == {"name": "event 00", "day": 2, "week": 2, "month": 2}


def test_events_show_no_number_for_a_period_that_is_not_kept(redis_server: Store, viewer: Client) -> None:
    Events("daily", units=["day"]).mark(7)
    Events("hourly", units=["hour"]).mark(7)
    Events("old").mark(7, at=timezone.localdate() - timedelta(days=100))

    shown = text(viewer)

    assert "daily 1 – – hourly – – – old 0 0 0" in shown
    assert viewer.get(ANALYTICS, {"format": "json"}).json()["panels"]["events"] == [
        {"name": "daily", "day": 1, "week": None, "month": None},
        {"name": "hourly", "day": None, "week": None, "month": None},
        {"name": "old", "day": 0, "week": 0, "month": 0},
    ]


def test_traffic_shows_visitors_and_views(redis_server: Store, viewer: Client, settings) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django_redis_components.analytics.AnalyticsMiddleware"]
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "ANALYTICS": {"EXCLUDE_PATHS": ["/admin/django"]}}
    browsers = {"Mozilla/5.0 (Windows NT 10.0)": "http://example.org/", "Mozilla/5.0 (iPhone) Mobile": ""}
    for agent, referrer in browsers.items():
        assert Client().get("/admin/login/", headers={"User-Agent": agent, "Referer": referrer}).status_code == 200
    PageViews().hit("/old/", at=timezone.localdate() - timedelta(days=3))
    flush()

    shown = text(viewer)

    # The 24 hours include a midnight, after which ids are others, except in the last hour of a day.
    label = "Visitors in 24 hours" + (" (sum of 2 days)" if timezone.localtime().hour < 23 else "")
    assert f"Visitors in the last 5 minutes ≈ 2 {label} ≈ 2 Views today 2 Views in 30 days 3" in shown.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert "Page views by day Peak: 2" in shown
    assert "Top pages Page Views Share Visitors /admin/login/ 2 66.67 % ≈ 2" in shown.replace("\N{NO-BREAK SPACE}", " ")
    assert "Linking site Views Share of 1 example.org 1 100.00 % Device Views Share of 2" in shown
    found = figures(viewer)
    assert found["sources"]["device"] == {"total": 2, "values": {"mobile": 1, "desktop": 1}}
    assert (found["traffic"]["visitors_active"], found["traffic"]["visitors_24_hours"]) == (2, 2)


@pytest.mark.parametrize(
    ("policy", "label"),
    [("hash:week", "Weekly visitors, sum over 30 days"), ("hash:month", "Monthly visitors, sum over 30 days")],
)
def test_sums_of_weeks_and_months_are_labeled(
    redis_server: Store, viewer: Client, settings, policy: str, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "ANALYTICS": {"VISITOR_IDENTITY": policy}}
    monkeypatch.setattr("django_redis_components.dashboard.panels.selection.site_date", lambda: date(2026, 11, 20))
    UniqueVisitors("default").add("anna", at=date(2026, 11, 20))

    assert label in text(viewer)
