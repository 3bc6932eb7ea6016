"""The template tags of counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.template import Context, RequestContext, Template, TemplateSyntaxError
from django.test import RequestFactory
from django.utils.translation import gettext_lazy

from django_redis_components.analytics import PageViews, UniqueVisitors, safeguard
from django_redis_components.analytics.dates import site_date
from tests.support import Store


@pytest.fixture(autouse=True)
def _working() -> None:
    safeguard.SAFEGUARD.reset()


def render(text: str, path: str = "/items/7/", **values: Any) -> str:
    context = RequestContext(RequestFactory().get(path), values)
    return Template("{% load redis_components %}" + text).render(context)


def test_views_and_visitors_of_a_page(store: Store) -> None:
    today = site_date()
    for day, times in ((today, 2), (today - timedelta(days=6), 3), (today - timedelta(days=7), 4)):
        for _ in range(times):
            PageViews().hit("/items/7/", at=day)
    UniqueVisitors("default", page="/items/7/").add("anna", "bert", at=today)
    PageViews("shop").hit("/items/7/", at=today)

    assert render("{% page_views %} {% page_views days=7 %} {% page_views days=8 as views %}{{ views }}") == "2 5 9"
    assert render('{% page_views "/other/" %}') == "0"
    assert render('{% page_views page=item site="shop" %}', item="/items/7/") == "1"
    assert render("{% page_visitors days=30 %}") == "2"


def test_visitors_of_several_days_tell_whether_they_are_a_sum(
    redis_server: Store, configure: Callable[..., None]
) -> None:
    text = "{% page_visitors days=7 as found %}{{ found }}{% if not found.is_unique %} daily visitors{% endif %}"
    UniqueVisitors("default", page="/items/7/").add("anna", at=site_date())

    assert render(text) == "1 daily visitors"
    configure(VISITOR_IDENTITY="cookie")
    assert render(text) == "1"


def test_page_is_shown_without_redis(caplog: pytest.LogCaptureFixture) -> None:
    assert render("[{% page_views %}{% page_visitors days=7 %}]") == "[]"

    assert len(caplog.records) == 1


def test_tag_needs_a_page_or_a_request() -> None:
    with pytest.raises(TemplateSyntaxError, match="The tag has no page and the context has no request"):
        Template("{% load redis_components %}{% page_views %}").render(Context())


@pytest.mark.parametrize("days", [0, 401, "'7'"])
def test_invalid_days_raise(days: object) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^days={days}: expected an integer from 1 to 400\.$"):
        render(f"{{% page_views days={days} %}}")


@pytest.mark.parametrize("tag", ["page_views", "page_visitors"])
@pytest.mark.parametrize("page", ["", 5])
def test_invalid_page_raises(tag: str, page: object) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^page={page!r}: expected a "):
        render(f"{{% {tag} page %}}", page=page)


@pytest.mark.parametrize("tag", ["page_views", "page_visitors"])
def test_page_and_site_may_be_lazy_texts(redis_server: Store, tag: str) -> None:
    PageViews("shop").hit("/items/7/", at=site_date())
    UniqueVisitors("shop", page="/items/7/").add("anna", at=site_date())

    found = render(f"{{% {tag} page site=site %}}", page=gettext_lazy("/items/7/"), site=gettext_lazy("shop"))

    assert found == "1"
