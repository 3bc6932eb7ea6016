"""The declarations of the pages: what follows from them, and that what they name exists."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.template.loader import get_template
from django.test import Client

from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import Page
from django_redis_components.dashboard.pages import PAGES, page_of
from tests.support import Store

FOLDER = "django_redis_components/dashboard"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.slug)
def test_page_names_templates_and_hooks_that_exist(page: Page) -> None:
    for name in ("page.html", "fragment.html"):
        get_template(f"{FOLDER}/{page.templates}/{name}")

    assert all(callable(hook) for hook in (page.parse, page.read, page.data, page.context, page.url_of, page.missing))
    assert all(callable(view) for _verb, view in page.verb_views.values())
    assert page_of(page.slug) is page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.slug)
def test_verbs_need_permissions_of_a_page_and_log_objects_of_theirs(page: Page) -> None:
    known = {codename for each in PAGES for codename, _name in each.permissions}

    for verb, _view in page.verb_views.values():
        assert verb.permission in known
        assert verb.model is MODELS[page.slug]


@pytest.mark.django_db
def test_permissions_follow_from_the_pages() -> None:
    expected = {codename for page in PAGES for codename, _name in page.permissions}
    expected |= {f"view_{page.slug}" for page in PAGES if not page.permission}

    found = Permission.objects.filter(content_type__app_label="django_redis_components")

    assert {each.codename for each in found if each.content_type.model in MODELS} == expected


@pytest.mark.django_db
def test_tabs_are_the_pages_in_their_order(redis_server: Store) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))

    tabs = client.get("/admin/django_redis_components/overview/").context["tabs"]

    shown = [page.slug for page in PAGES if page.has_tab]
    assert [tab.url.split("/")[-2] for tab in tabs] == shown
    assert [tab.is_current for tab in tabs] == [slug == "overview" for slug in shown]
