"""Who gets in, through which URLs, in which admin sites."""

from __future__ import annotations

import io
import json

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_redis_components.dashboard.models import Overview
from tests.dashboard.support import ROLES, URL, client_of
from tests.support import Store

pytestmark = pytest.mark.django_db

LOGIN = "/admin/login/?next="

#: Every kind of URL that a model has in the admin.
PATHS = ["", "add/", "1/change/", "1/delete/", "1/history/", "1/", "1/2/3/", "a%2Fb/change/", "_3C/history/", "x" * 500]


@pytest.mark.parametrize("role", ROLES)
def test_the_page_is_for_those_with_the_permission(role: str, redis_server: Store) -> None:
    response = client_of(role).get(URL)

    if role in ("anonymous", "member with the permission"):
        assert (response.status_code, response["Location"]) == (302, f"{LOGIN}{URL}")
    else:
        assert response.status_code == (403 if role == "staff" else 200)


@pytest.mark.parametrize("query", ["?format=json", "?format=fragment"])
@pytest.mark.parametrize("role", ROLES)
def test_figures_and_fragment_need_the_same_permission(role: str, query: str, redis_server: Store) -> None:
    client = client_of(role)

    assert client.get(URL + query).status_code == client.get(URL).status_code


@pytest.mark.parametrize("role", ROLES)
def test_the_index_of_the_admin_shows_the_entry_to_those_alone(role: str) -> None:
    client = client_of(role)

    shown = "Redis operations" in client.get("/admin/").content.decode()

    assert shown == (role in ("staff with the permission", "superuser"))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("role", ROLES)
def test_no_url_of_the_model_is_a_server_error(role: str, path: str, redis_server: Store) -> None:
    client = client_of(role)

    for method in (client.get, client.head, client.post):
        assert method(URL + path).status_code in (200, 301, 302, 403, 404, 405)


def test_links_to_single_objects_lead_to_the_page(redis_server: Store) -> None:
    client = client_of("staff with the permission")

    for path in ("1/change/", "1/history/", "1/"):
        response = client.get(URL + path)
        assert (response.status_code, response["Location"]) == (302, URL)


def test_nobody_adds_or_deletes(redis_server: Store) -> None:
    client = client_of("superuser")

    assert [client.get(URL + path).status_code for path in ("add/", "1/delete/")] == [403, 403]


def test_the_page_takes_no_post(redis_server: Store) -> None:
    client = client_of("superuser")

    assert client.post(URL).status_code == 405


def test_the_recent_actions_of_the_admin_lead_somewhere(redis_server: Store) -> None:
    client = client_of("superuser")
    entry = LogEntry(
        content_type=ContentType.objects.get_for_model(Overview),
        object_id="mail/1",
        object_repr="mail",
        action_flag=CHANGE,
    )

    response = client.get(f"/admin/{entry.get_admin_url().removeprefix('/admin/')}", follow=True)

    assert response.status_code == 200
    assert response.redirect_chain == [(URL, 302)]


def test_no_page_asks_the_database_for_the_model(redis_server: Store) -> None:
    client = client_of("superuser")

    with CaptureQueriesContext(connection) as queries:
        for path in ("", "1/change/", "1/history/", "?format=json"):
            client.get(URL + path)

    assert [query["sql"] for query in queries if "django_redis_components" in query["sql"]] == []


def test_the_model_has_no_rows_for_whoever_goes_through_all_models() -> None:
    out = io.StringIO()

    call_command("dumpdata", "django_redis_components", stdout=out)
    call_command("dumpdata", "django_redis_components", use_base_manager=True, stdout=out)

    assert "".join(out.getvalue().split()) == "[][]"
    assert list(Overview.objects.all()) == []
    assert str(Overview()) == "Redis operations overview"


def test_the_model_has_one_permission() -> None:
    content_type = ContentType.objects.get_for_model(Overview)

    assert [permission.codename for permission in content_type.permission_set.all()] == ["view_overview"]


@pytest.mark.urls("tests.dashboard.sites")
@pytest.mark.parametrize("site", ["ops", "shop"])
def test_any_admin_site_can_have_it(site: str, redis_server: Store) -> None:
    client = client_of("staff with the permission")
    url = reverse("admin:django_redis_components_overview_changelist", current_app=site)

    response = client.get(url)

    assert url == f"/{site}/django_redis_components/overview/"
    assert response.status_code == 200
    html = response.content.decode()
    other = "shop" if site == "ops" else "ops"
    assert f'href="/{site}/django_redis_components/"' in html
    assert f"/{other}/" not in html
    assert client.get(f"{url}1/change/")["Location"] == url


@pytest.mark.urls("tests.dashboard.sites")
def test_a_site_sends_to_its_own_login(redis_server: Store, settings) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    url = "/shop/django_redis_components/overview/"

    response = Client().get(url)

    assert (response.status_code, response["Location"]) == (302, f"/shop/login/?next={url}")


@pytest.mark.parametrize("role", ROLES)
def test_it_works_where_every_view_requires_a_login(role: str, redis_server: Store, settings) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    settings.LOGIN_URL = "/somewhere/else/"

    response = client_of(role).get(URL)

    assert response.status_code == {"anonymous": 302, "member with the permission": 302, "staff": 403}.get(role, 200)
    if response.status_code == 302:
        assert response["Location"] == f"{LOGIN}{URL}"


def test_the_entry_can_be_left_out_of_the_default_site(redis_server: Store, children) -> None:
    found = children.call("tests.dashboard.test_access:is_registered", env=_settings(AUTOREGISTER=False)).result()

    assert found is False


def test_wrong_settings_do_not_keep_the_site_from_starting(children) -> None:
    found = children.call("tests.dashboard.test_access:is_registered", env=_settings(AUTOREGISTR=False)).result()

    assert found is True


def is_registered() -> bool:
    """Called in a child, whose settings differ."""
    from django.contrib import admin

    return admin.site.is_registered(Overview)


def _settings(**dashboard: object) -> dict[str, str]:
    from django.conf import settings

    return {"TEST_REDIS_COMPONENTS": json.dumps({**settings.REDIS_COMPONENTS, "DASHBOARD": dashboard})}
