"""The page of analytics with cohorts, rankings and the sign-ins of a user, in a real browser."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from django_redis_components.analytics import Events, Ranking, SignIns, roll_up_cohorts, roll_up_retention
from django_redis_components.analytics.dates import site_date
from tests.browser.support import LAYOUT, LOOK_RULES, another_look, sign_in, violations
from tests.support import Store

pytestmark = pytest.mark.django_db

ANALYTICS = "/admin/django_redis_components/analytics/"


@pytest.fixture
def ranking(redis_server: Store, catalogued: None) -> Ranking:
    """Figures for all panels, and a ranking that this process keeps."""
    sign_ins, today = SignIns("default"), site_date()
    signup, active = Events("signup"), Events("active")
    for ago in range(1, 15):
        for user in range(ago, 30, 3):
            sign_ins.sign_in(user, at=today - timedelta(days=ago))
            signup.mark(user, at=today - timedelta(days=ago))
            active.mark(user, at=today - timedelta(days=ago // 2))
    roll_up_retention(sign_ins)
    roll_up_cohorts(signup, active, unit="day", periods=12)
    board = Ranking("quiz")
    for member in ("anna", "bert"):
        board.add(member, 7)
    return board


def test_page_is_accessible(page: Page, site: str, ranking: Ranking) -> None:
    sign_in(page, site, ANALYTICS)

    page.get_by_label("User", exact=True).fill("7")
    page.get_by_role("button", name="Show", exact=True).click()

    expect(page.get_by_role("img", name="Sign-ins of ")).to_be_visible()
    expect(page.get_by_label("User", exact=True)).to_have_value("7")
    expect(page.get_by_role("table", name="Users of signup by day")).to_be_visible()
    expect(page.get_by_role("table", name="quiz · all time")).to_be_visible()
    assert violations(page) == []
    assert page.evaluate(LAYOUT) == []
    for scheme, width in (("dark", 1200), ("light", 320)):
        with another_look(page, scheme, width):
            assert violations(page, LOOK_RULES) == [], (scheme, width)
            assert page.evaluate(LAYOUT) == [], (scheme, width)
