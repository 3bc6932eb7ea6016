"""The page of analytics in a real browser: accessible, dark, narrow, right to left, and without JavaScript."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Page, expect

from django_redis_components.analytics import (
    Events,
    PageViews,
    Ranking,
    SignIns,
    UniqueVisitors,
    flush,
    roll_up_cohorts,
    roll_up_retention,
)
from django_redis_components.analytics.dates import site_date
from django_redis_components.bloom import BloomFilter
from tests.browser.support import ready_site, sign_in, violations
from tests.support import Store

ANALYTICS = "/admin/django_redis_components/analytics/"


@pytest.fixture
def site(
    live_server: Any, redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch, catalogued: None
) -> Iterator[str]:
    address = ready_site(live_server)
    today = site_date()
    for ago in range(10):
        UniqueVisitors("default").add(*range(ago + 5), at=today - timedelta(days=ago))
        PageViews().hit("/items/7/", at=today - timedelta(days=ago))
        for user in range(ago, 12):
            SignIns("default").sign_in(user, at=today - timedelta(days=ago))
            Events("active").mark(user, at=today - timedelta(days=ago))
    Events("signup").mark(7, at=today - timedelta(days=9))
    roll_up_retention(SignIns("default"), days=10)
    roll_up_cohorts(Events("signup"), Events("active"), unit="week", periods=4)
    ranking, known = Ranking("quiz"), BloomFilter("known", 100)
    ranking.add("anna", 30)
    known.add(1)
    with settings_of_the_middleware(settings):
        for path in ("/admin/login/", "/admin/login/?utm_source=letter"):
            Client().get(path, headers={"Referer": "https://example.org/", "User-Agent": "Mozilla/5.0 (X11)"})
        flush()
    yield address
    del ranking, known


def settings_of_the_middleware(settings: Any) -> Any:
    from django.test import override_settings

    name = "django_redis_components.analytics.AnalyticsMiddleware"
    return override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, name])


@pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [
        ("light", 1280, {"locale": "zh-CN"}),
        ("dark", 360, {"locale": "ar"}),
        ("light", 360, {"java_script_enabled": False}),
    ],
    ids=["light, Chinese", "dark, narrow, right to left", "without JavaScript"],
)
def test_page_is_accessible_and_fits(
    scheme: str, width: int, options: dict[str, Any], site: str, open_page: Callable[..., Page]
) -> None:
    page = open_page(scheme, width, **options)
    sign_in(page, site, f"{ANALYTICS}?user=7&period=7d&page=/items/7/&step1=signup&step2=active")

    expect(page.locator(".drc-panel")).to_have_count(13)
    expect(page.locator(".drc-panel-note")).to_have_count(0)
    if options.get("java_script_enabled", True):
        for details in page.locator("details.drc-details").all():
            details.locator("summary").press("Enter")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.get_by_role("rowheader", name="example.org")).to_be_visible()
    expect(page.get_by_role("rowheader", name="anna")).to_be_visible()


def test_range_and_filter_take_a_click_each(site: str, open_page: Callable[..., Page]) -> None:
    page = open_page(width=1280)
    sign_in(page, site, ANALYTICS)
    views = page.get_by_role("region", name="Page views")

    page.get_by_role("link", name="7 days").click()
    expect(views.get_by_text("Views in 7 days")).to_be_visible()
    page.get_by_role("link", name="/items/7/").click()
    expect(page.get_by_text("Page: /items/7/")).to_be_visible()

    expect(views.locator("dd").last).to_contain_text("7")
    expect(page.get_by_role("link", name="7 days")).to_have_attribute("aria-current", "true")
    expect(page.get_by_text("Not stored by page: these are the counts of all pages.").first).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    expect(page).to_have_url(f"{site}{ANALYTICS}?period=7d")
    page.get_by_label("From", exact=True).fill(str(site_date() - timedelta(days=2)))
    page.get_by_role("button", name="Show range").click()
    expect(views.get_by_text("Views in 3 days")).to_be_visible()


def test_csv_is_a_download(site: str, open_page: Callable[..., Page]) -> None:
    page = open_page(width=1280)
    sign_in(page, site, ANALYTICS)

    with page.expect_download() as download:
        page.get_by_role("link", name="Download CSV").click()

    assert download.value.suggested_filename == "analytics.csv"
    assert download.value.path().read_text().startswith("panel,item,count,count_before")


@pytest.mark.usefixtures("refreshing")
def test_countries_have_names_that_survive_a_refresh(
    site: str, open_page: Callable[..., Page], redis_server: Store
) -> None:
    today, key = site_date(), f"{redis_server.prefix}:analytics:{{default}}:dm:country"
    for code, views in {"FR": 3, "ZZ": 1, "": 4}.items():
        redis_server.raw.zadd(f"{key}:{today:%Y%m%d}", {code: views})
    page = open_page(width=1280)
    sign_in(page, site, f"{ANALYTICS}?period=today")
    expect(page.get_by_role("rowheader", name="FR France")).to_be_visible()
    expect(page.get_by_role("rowheader", name="Unknown")).to_be_visible()

    redis_server.raw.zadd(f"{key}:{today:%Y%m%d}", {"DE": 9, "FR": 1, "": 11})

    expect(page.get_by_role("rowheader", name="DE Germany")).to_be_visible()
    expect(page.get_by_role("rowheader", name="FR France")).to_be_visible()


def test_two_columns_are_balanced_and_empty_panels_are_lines(site: str, open_page: Callable[..., Page]) -> None:
    page = open_page(width=1280)
    sign_in(page, site, ANALYTICS)

    boxes = page.evaluate(
        """[...document.querySelectorAll(".drc-balanced > .drc-panel")].map((panel) => {
            const { x, y, width, height } = panel.getBoundingClientRect();
            return { x, y, width, height, name: panel.dataset.drcLive, folded: panel.classList.contains("drc-folded") };
        })"""
    )

    narrow = [box for box in boxes if box["width"] < 700 and not box["folded"]]
    by_column: dict[float, list[dict[str, Any]]] = {}
    for box in narrow:
        by_column.setdefault(box["x"], []).append(box)
    assert len(by_column) == 2
    holes = [
        after["y"] - before["y"] - before["height"]
        for column in by_column.values()
        for before, after in itertools.pairwise(column)
    ]
    assert max(holes) < 40
    ends = [column[-1]["y"] + column[-1]["height"] for column in by_column.values()]
    assert abs(ends[0] - ends[1]) < max(box["height"] for box in narrow)
    for box in boxes:
        assert not box["folded"] or box["height"] < 50, box
