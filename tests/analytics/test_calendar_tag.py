"""``{% sign_in_calendar %}`` in templates: the SVG, the table, locales, errors."""

from __future__ import annotations

import logging
import re
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import AnonymousUser
from django.template import Context, Engine, TemplateSyntaxError
from django.utils import timezone, translation
from django.utils.translation import gettext_lazy

from django_redis_components.analytics import SignIns
from django_redis_components.analytics.year_calendar import year_calendar
from tests.support import Store, run_async

pytestmark = pytest.mark.integration

TODAY = date(2026, 11, 24)


def render(source: str, **context: object) -> str:
    engine = Engine(builtins=["django_redis_components.templatetags.redis_components"])
    return engine.from_string(source).render(Context(context))


def signed_on(year: int, *days: date) -> list[bool]:
    first = date(year, 1, 1)
    return [first + timedelta(days=number) in days for number in range((date(year + 1, 1, 1) - first).days)]


@pytest.mark.contract
def test_days_of_the_user_are_shown(store: Store) -> None:
    sign_ins = SignIns("check-in")
    for day in (date(2025, 2, 3), date(2025, 2, 4), date(2025, 12, 31), date(2024, 12, 31)):
        sign_ins.sign_in(7, at=day)
    sign_ins.sign_in(8, at=date(2025, 5, 5))

    html = render('{% sign_in_calendar user site="check-in" year=2025 %}', user=7)

    assert html.count("drc-day-on") == 3
    assert html.count("drc-day-off") == 362
    assert html.count("Signed in on 3 of 365 days. Longest streak: 2 days.") == 2
    assert "<title>Feb. 3, 2025: signed in</title>" in html
    assert "<title>May 5, 2025: no sign-in</title>" in html
    assert '<tr><th scope="row">February</th><td>2</td><td>3–4</td></tr>' in html
    assert '<tr><th scope="row">March</th><td>0</td><td>–</td></tr>' in html


def test_anonymous_visitor_gets_nothing(redis_server: Store) -> None:
    assert render("{% sign_in_calendar user.pk year=2025 %}|", user=AnonymousUser()) == "|"


@pytest.mark.parametrize("source", ["{% sign_in_calendar %}", "{% sign_in_calendar missing year=2025 %}"])
def test_tag_without_a_user_says_what_it_takes(source: str) -> None:
    with pytest.raises(
        TemplateSyntaxError, match=r"has no user.*\{% sign_in_calendar request\.user\.pk %\}.*days=days"
    ):
        render(source)


@pytest.mark.parametrize("days", ["", "abc", 5, [True]])
def test_days_that_are_not_those_of_the_year_raise(days: object) -> None:
    with pytest.raises(ValueError, match=r"^days=.*: expected the 365 of 2025, as SignIns\.ayear returns them\.$"):
        render("{% sign_in_calendar days=days year=2025 %}", days=days)


def test_site_may_be_a_lazy_text(redis_server: Store) -> None:
    SignIns("check-in").sign_in(7, at=date(2025, 2, 3))

    html = render("{% sign_in_calendar 7 site=site year=2025 %}", site=gettext_lazy("check-in"))

    assert html.count("drc-day-on") == 1


def test_svg_has_title_and_description_and_no_inline_style_or_script(redis_server: Store) -> None:
    html = render("{% sign_in_calendar 7 year=2025 %}")

    [labels] = re.findall(r'<svg [^>]*role="img" aria-labelledby="([^"]+)"', html)
    assert len(labels.split()) == 2
    assert all(f'id="{each}"' in html for each in labels.split())
    assert not re.search(r"style=|<style|<script|\son\w+=", html)
    assert '<th scope="col">Month</th>' in html
    assert "<caption>Sign-ins of 2025</caption>" in html


def test_stylesheet_is_included_once(redis_server: Store) -> None:
    html = render("{% sign_in_calendar_media %}{% sign_in_calendar 7 %}{% sign_in_calendar 8 %}")

    assert html.count("analytics.css") == 1
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids)) == 4


def test_site_and_this_year_are_the_defaults(redis_server: Store) -> None:
    SignIns("default", mapped=True).sign_in(UUID(int=5))

    html = render("{% sign_in_calendar user %}", user=UUID(int=5))

    assert html.count("drc-day-on") == 1
    assert html.count("drc-day-today") == 1
    today = timezone.localdate()
    assert html.count("drc-day-later") == (date(today.year, 12, 31) - today).days


def test_days_of_an_async_view_are_not_read_again(settings: Any) -> None:
    html = render("{% sign_in_calendar days=days year=2025 %}", days=signed_on(2025, date(2025, 1, 1)))

    assert html.count("drc-day-on") == 1


@pytest.mark.contract
def test_year_equals_its_async_twin(store: Store) -> None:
    SignIns("site").sign_in(7, at=date(2024, 12, 31))

    found = run_async(lambda: SignIns("site").ayear(7, 2024))

    assert found == SignIns("site").year(7, 2024) == signed_on(2024, date(2024, 12, 31))
    assert len(found) == 366


def test_unavailable_redis_is_a_note_and_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        html = render("{% sign_in_calendar 7 %}")

    assert "Sign-ins are not available at the moment." in html
    assert "<svg" not in html
    assert "Redis is unavailable, the calendar of sign-ins is not shown: " in caplog.text


def test_refused_read_is_a_note_and_a_log_line(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    SignIns("default").sign_in(7)
    written = redis_server.keys()
    for key in written:
        redis_server.raw.delete(key)
        redis_server.raw.lpush(key, "written by another program")

    html = render("{% sign_in_calendar 7 %}")

    assert "Sign-ins are not available at the moment." in html
    assert "Redis refused the request, the calendar of sign-ins is not shown: WRONGTYPE" in caplog.text


@pytest.mark.parametrize("year", [2019, 2100, 0])
def test_year_out_of_range_raises(redis_server: Store, year: int) -> None:
    with pytest.raises(ValueError, match=r"^year=\d+: expected an integer from 2020 to 2099\.$"):
        render("{% sign_in_calendar 7 year=year %}", year=year)


def test_text_of_the_user_is_escaped(redis_server: Store) -> None:
    assert "<b>" not in render("{% sign_in_calendar user %}", user="<b>")


@pytest.mark.parametrize(("language", "first"), [("en", 6), ("de", 0), ("fa", 5)])
def test_week_begins_as_in_the_locale(language: str, first: int) -> None:
    with translation.override(language):
        calendar = year_calendar(2026, [False] * 365, TODAY)

    days = {date(2026, 1, 1) + timedelta(days=number): each for number, each in enumerate(calendar.days)}
    top = {day.weekday() for day, each in days.items() if each.y == min(one.y for one in calendar.days)}
    assert len(top) == 1
    assert top == {first}
    for day, each in days.items():
        following = days.get(day + timedelta(days=7))
        assert following is None or (following.x, following.y) == (each.x + 13, each.y)
    assert calendar.width >= max(each.x for each in calendar.days) + 10


def test_names_are_those_of_the_locale() -> None:
    with translation.override("de"):
        calendar = year_calendar(2026, [False] * 365, TODAY)

    assert [each.text for each in calendar.months][:3] == ["Jan", "Feb", "Mär"]
    assert [each.text for each in calendar.weekdays] == ["Di", "Do", "Sa"]
    assert [each.name for each in calendar.rows][-1] == "November"


@pytest.mark.parametrize("year", [2024, 2026])
def test_every_day_has_its_own_place(year: int) -> None:
    length = (date(year + 1, 1, 1) - date(year, 1, 1)).days
    calendar = year_calendar(year, [False] * length, TODAY)

    assert len({(each.x, each.y) for each in calendar.days}) == length
    assert max(each.y for each in calendar.days) + 10 <= calendar.height


def test_days_after_today_are_no_missed_days() -> None:
    calendar = year_calendar(2026, signed_on(2026, date(2026, 1, 1)), date(2026, 1, 2))

    assert calendar.summary == "Signed in on 1 of 2 days. Longest streak: 1 day."
    assert [each.kind for each in calendar.days[:4]] == ["on", "off", "later", "later"]
    assert [each.is_today for each in calendar.days[:3]] == [False, True, False]
    assert len(calendar.rows) == 1
