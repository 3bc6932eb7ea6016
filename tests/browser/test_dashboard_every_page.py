"""Every page and confirmation of the dashboard in two looks: accessible, as wide as the screen, without errors.

One look is in Chinese, without a text in English. The other is from right to left; Arabic has no translations, so its
texts are the English ones. Each page is laid out on a wide and on a narrow screen, which is cheaper than opening it;
axe sees it on one of them, and on the other one in the other look.

What a confirmation refuses is shown in one look: the next confirmation is shown in the other one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from django_redis_components.dashboard.page import Page as DashboardPage
from tests.browser.support import HEIGHT, NARROW, WIDE, authenticate, faults, ready_site
from tests.browser.windows import Complaints
from tests.dashboard.action_pages import write_entries
from tests.dashboard.urls_of_pages import ADMIN, confirmations, fill, pages
from tests.support import Store

#: Tests per look: each opens every n-th page.
PARTS = 2

#: Pages of errors, and their statuses.
ERRORS = {"overview/?sort=nothing": 400, "queues/missing/": 404, "queues/%7Bmail%7D/": 404, "task/missing/": 404}


@pytest.fixture
def site(live_server: Any, redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    site = ready_site(live_server)
    monkeypatch.setattr(DashboardPage, "refresh_s", 60)
    return site


in_both_looks = pytest.mark.parametrize(
    ("scheme", "width", "language", "direction"),
    [("light", WIDE, "zh-hans", "ltr"), ("dark", NARROW, "ar", "rtl")],
    ids=["light, Chinese", "dark, narrow, right to left"],
)


@in_both_looks
def test_pages_of_errors_are_accessible_and_fit(
    scheme: str,
    width: int,
    language: str,
    direction: str,
    site: str,
    open_page: Callable[..., Page],
    complaints: Complaints,
) -> None:
    for status in (400, 404):
        complaints.expect_status(status)
    page = open_page(scheme, width, HEIGHT)
    authenticate(page, site, language)

    problems = {}

    for path, status in ERRORS.items():
        response = page.goto(f"{site}{ADMIN}{path}")
        assert response is not None
        assert response.status == status
        if found := faults(page, resize_back=False):
            problems[path] = found

    assert page.evaluate("document.documentElement.dir") == direction
    assert problems == {}


@pytest.mark.parametrize("part", range(PARTS))
@in_both_looks
def test_every_page_is_accessible_and_fits(
    part: int,
    scheme: str,
    width: int,
    language: str,
    direction: str,
    site: str,
    redis_server: Store,
    open_page: Callable[..., Page],
) -> None:
    known = fill(redis_server)
    page = open_page(scheme, width, HEIGHT)
    authenticate(page, site, language)
    write_entries(3, message="Purge queue 'mail': 2 tasks purged, trash 0123456789abcdef.")
    problems = {}

    for address in [*pages(known), *confirmations(known)][part::PARTS]:
        response = page.goto(site + address)
        status = response.status if response else 0
        found = [] if status == 200 else [f"status {status}"]
        found += faults(page, resize_back=False)
        if found:
            problems[address] = found

    assert page.evaluate("document.documentElement.dir") == direction
    assert problems == {}


@in_both_looks
def test_confirmations_without_what_they_need_are_accessible_and_fit(
    scheme: str,
    width: int,
    language: str,
    direction: str,
    site: str,
    redis_server: Store,
    open_page: Callable[..., Page],
    complaints: Complaints,
) -> None:
    known = fill(redis_server)
    for status in (400, 404):
        complaints.expect_status(status)
    page = open_page(scheme, width, HEIGHT)
    authenticate(page, site, language)
    problems, statuses = {}, []

    for number, address in enumerate(dict.fromkeys(address.partition("?")[0] for address in confirmations(known))):
        query = ("", "?state=gone")[(number + (scheme == "dark")) % 2]
        response = page.goto(f"{site}{address}{query}")
        assert response is not None
        statuses.append(response.status)
        if response.status not in (400, 404):
            continue  # it needs none, and is among the pages above
        if found := faults(page, resize_back=False):
            problems[f"{address}{query}"] = found

    assert page.evaluate("document.documentElement.dir") == direction
    assert problems == {}
    assert statuses.count(400) > 15
    assert set(statuses) <= {200, 400, 404}


@in_both_looks
def test_forms_with_input_that_is_not_accepted_are_accessible_and_fit(
    scheme: str,
    width: int,
    language: str,
    direction: str,
    site: str,
    redis_server: Store,
    open_page: Callable[..., Page],
    complaints: Complaints,
) -> None:
    known = fill(redis_server)
    for status in (400, 404, 409):
        complaints.expect_status(status)
    page = open_page(scheme, width, HEIGHT)
    authenticate(page, site, language)
    problems, refused = {}, 0

    for address in confirmations(known)[scheme == "dark" :: 2]:
        page.goto(site + address)
        # The values of fields of other types are set as text, by hand: a browser empties a number that is none.
        fields = page.locator("main form[method=post] :is(input[type=text], textarea):enabled")
        if not fields.count():
            continue
        with page.expect_navigation() as navigation:
            fields.first.evaluate("(field) => { field.form.noValidate = true }")
            for field in fields.all():
                field.fill("{ not valid")
            fields.first.evaluate("(field) => field.form.submit()")
        refused += navigation.value.status == 409
        if found := faults(page, resize_back=False):
            problems[address] = found

    assert page.evaluate("document.documentElement.dir") == direction
    assert problems == {}
    assert refused >= 1
