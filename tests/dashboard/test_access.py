"""Permissions, URLs and admin sites of the dashboard."""

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
from django.utils.module_loading import import_string

from django_redis_components.dashboard.models import MODELS
from tests.dashboard.support import ROLES, URL, client_of
from tests.support import Store
from tests.support.processes import Children

pytestmark = pytest.mark.django_db

LOGIN = "/admin/login/?next="

#: Every kind of URL that a model has in the admin.
PATHS = ["", "add/", "1/change/", "1/delete/", "1/history/", "1/", "1/2/3/", "a%2Fb/change/", "_3C/history/", "x" * 500]


@pytest.mark.parametrize("role", ROLES)
def test_overview_requires_the_permission(role: str, redis_server: Store) -> None:
    response = client_of(role).get(URL)

    if role in ("anonymous", "member with the permission"):
        assert (response.status_code, response["Location"]) == (302, f"{LOGIN}{URL}")
    else:
        assert response.status_code == (403 if role == "staff" else 200)


@pytest.mark.parametrize("query", ["?format=json", "?format=fragment"])
@pytest.mark.parametrize("role", ROLES)
def test_json_and_fragment_require_the_same_permission(role: str, query: str, redis_server: Store) -> None:
    client = client_of(role)

    assert client.get(URL + query).status_code == client.get(URL).status_code


@pytest.mark.parametrize("role", ROLES)
def test_admin_index_lists_the_entry_only_with_permission(role: str) -> None:
    client = client_of(role)

    shown = "Redis operations" in client.get("/admin/").content.decode()

    assert shown == (role in ("staff with the permission", "superuser"))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("role", ROLES)
def test_no_url_of_the_model_is_a_server_error(role: str, path: str, redis_server: Store) -> None:
    client = client_of(role)

    for method in (client.get, client.head, client.post):
        assert method(URL + path).status_code in (200, 301, 302, 403, 404, 405)


def test_object_urls_redirect_to_the_page(redis_server: Store) -> None:
    client = client_of("staff with the permission")

    for path in ("1/change/", "1/history/", "1/"):
        response = client.get(URL + path)
        assert (response.status_code, response["Location"]) == (302, URL)


def test_add_and_delete_are_forbidden(redis_server: Store) -> None:
    client = client_of("superuser")

    assert [client.get(URL + path).status_code for path in ("add/", "1/delete/")] == [403, 403]


def test_page_rejects_post(redis_server: Store) -> None:
    client = client_of("superuser")

    assert client.post(URL).status_code == 405


def test_recent_actions_of_the_admin_link_to_the_page(redis_server: Store) -> None:
    client = client_of("superuser")
    entry = LogEntry(
        content_type=ContentType.objects.get_for_model(MODELS["overview"]),
        object_id="mail/1",
        object_repr="mail",
        action_flag=CHANGE,
    )

    response = client.get(f"/admin/{entry.get_admin_url().removeprefix('/admin/')}", follow=True)

    assert response.status_code == 200
    assert response.redirect_chain == [(URL, 302)]


def test_pages_do_not_query_the_unmanaged_model(redis_server: Store) -> None:
    client = client_of("superuser")

    with CaptureQueriesContext(connection) as queries:
        for path in ("", "1/change/", "1/history/", "?format=json"):
            client.get(URL + path)

    assert [query["sql"] for query in queries if "django_redis_components" in query["sql"]] == []


def test_dumpdata_finds_no_rows() -> None:
    out = io.StringIO()

    call_command("dumpdata", "django_redis_components", stdout=out)
    call_command("dumpdata", "django_redis_components", use_base_manager=True, stdout=out)

    assert "".join(out.getvalue().split()) == "[][]"
    assert list(MODELS["overview"].objects.all()) == []
    assert str(MODELS["overview"]()) == "Redis operations overview"


def test_the_shell_imports_all_models_under_names_of_their_own() -> None:
    paths = {model: f"{model.__module__}.{model.__name__}" for model in MODELS.values()}

    assert {model: import_string(path) for model, path in paths.items()} == {model: model for model in paths}
    assert all(path.startswith("django_redis_components.dashboard.models.Dashboard") for path in paths.values())


def test_the_model_has_one_permission() -> None:
    content_type = ContentType.objects.get_for_model(MODELS["overview"])

    assert [permission.codename for permission in content_type.permission_set.all()] == ["view_overview"]


@pytest.mark.urls("tests.dashboard.sites")
@pytest.mark.parametrize("site", ["ops", "shop"])
def test_dashboard_can_be_registered_in_any_admin_site(site: str, redis_server: Store) -> None:
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
def test_custom_site_redirects_to_its_own_login(redis_server: Store, settings) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    url = "/shop/django_redis_components/overview/"

    response = Client().get(url)

    assert (response.status_code, response["Location"]) == (302, f"/shop/login/?next={url}")


@pytest.mark.parametrize("role", ROLES)
def test_pages_work_with_login_required_middleware(role: str, redis_server: Store, settings) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    settings.LOGIN_URL = "/somewhere/else/"

    response = client_of(role).get(URL)

    assert response.status_code == {"anonymous": 302, "member with the permission": 302, "staff": 403}.get(role, 200)
    if response.status_code == 302:
        assert response["Location"] == f"{LOGIN}{URL}"


def test_autoregister_false_omits_the_default_site(redis_server: Store, children) -> None:
    assert is_registered_with(children, AUTOREGISTER=False) is False


def test_invalid_settings_do_not_prevent_startup(children) -> None:
    assert is_registered_with(children, AUTOREGISTR=False) is True


def is_registered() -> bool:
    """Called in a child, whose settings differ."""
    from django.contrib import admin

    return admin.site.is_registered(MODELS["overview"])


def is_registered_with(children: Children, **dashboard: object) -> object:
    from django.conf import settings

    env = {"TEST_REDIS_COMPONENTS": json.dumps({**settings.REDIS_COMPONENTS, "DASHBOARD": dashboard})}
    return children.call("tests.dashboard.test_access:is_registered", env=env, anew=True).result()
