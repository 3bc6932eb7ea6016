"""Every URL of the dashboard: permissions of each role and verb, cost, and a Redis user that may only read."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.test import Client

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.dashboard.admin import ADMINS
from django_redis_components.dashboard.bounded_client import MAX_COMMANDS
from django_redis_components.dashboard.links import SHARD_PREFIX
from tests.dashboard.support import browser, dump
from tests.dashboard.urls_of_pages import PAGES, VERBS, Route, confirmations, everything, fill, pages, routes
from tests.deploy.redis_users import redis_users
from tests.support import Store

pytestmark = pytest.mark.django_db

VIEWS = (
    "view_overview",
    "view_failure",
    "view_lock",
    "view_ratelimit",
    "view_action",
    "view_analytics",
    "view_indexes",
    "view_messaging",
    "view_files",
    "view_liveevent",
    "view_incident",
    "view_memory",
)
CHANGES = tuple(dict.fromkeys(permission for permission, _query in VERBS.values()))
#: Permissions that open no URL: a page shows more with them.
DETAILS = ("view_ratelimit_keys",)
#: Most round trips of a page, and of a confirmation.
ROUND_TRIPS = 3
#: Most bytes of a response with the data of `fill`.
MAX_BYTES = 250_000
#: Roles: the user's permissions. None: not signed in.
ROLES: dict[str, tuple[str, ...] | None] = {
    "anonymous": None,
    "staff": (),
    "viewer": VIEWS,
    "changes only": CHANGES,
}


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def test_every_url_is_listed() -> None:
    """A new page or verb must be added to `urls_of_pages`: all tests of this file and others read it."""
    assert {route.path for route in routes() if not route.is_generic} == PAGES.keys() | VERBS.keys()


def test_every_url_has_a_form_that_names_a_shard_with_the_same_guards() -> None:
    for model in ADMINS:
        urls = {str(each.pattern): each.callback for each in admin.site.get_model_admin(model).get_urls()}
        plain = {route: view for route, view in urls.items() if not route.startswith(SHARD_PREFIX)}

        assert plain
        assert urls == plain | {f"{SHARD_PREFIX}<str:shard_name>/{route}": view for route, view in plain.items()}


def test_every_permission_is_listed() -> None:
    models = [model._meta.model_name for model in ADMINS]
    found = Permission.objects.filter(content_type__app_label="django_redis_components", content_type__model__in=models)

    assert {each.codename for each in found} == {*VIEWS, *CHANGES, *DETAILS}


@pytest.mark.unmeasured
@pytest.mark.parametrize("role", ROLES)
def test_each_role_gets_what_its_permissions_allow(role: str, redis_server: Store) -> None:
    permissions, known = ROLES[role], fill(redis_server)
    client = Client() if permissions is None else browser(*permissions)
    before = dump(redis_server)

    assert list(_unexpected(client, permissions, everything(known))) == []
    assert_nothing_written(redis_server, before)


@pytest.mark.unmeasured
@pytest.mark.parametrize("permission", [*VIEWS, *CHANGES])
def test_each_permission_is_enough_and_needed_for_its_urls(permission: str, redis_server: Store) -> None:
    """A permission only ever adds: what all others together do not open, none of them opens."""
    known = fill(redis_server)
    needed = (permission,) if permission in VIEWS else (*VIEWS, permission)
    others = tuple(each for each in (*VIEWS, *CHANGES) if each != permission)
    own = [each for each in everything(known) if permission in _permissions_of(each[0])]
    opened = [each for each in own if set(_permissions_of(each[0])) <= set(needed)]
    allowed, refused = browser(*needed), browser(*others)
    before = dump(redis_server)

    assert opened
    assert list(_unexpected(allowed, needed, opened)) == []
    assert list(_unexpected(refused, others, own)) == []
    assert_nothing_written(redis_server, before)


def _permissions_of(route: Route) -> tuple[str, ...]:
    verb = VERBS.get(route.path)
    return (route.view_permission, verb[0]) if verb else (route.view_permission,)


def _unexpected(
    client: Client, permissions: tuple[str, ...] | None, addresses: Iterable[tuple[Route, str]]
) -> Iterator[tuple[str, str, int]]:
    """Yield the routes, methods and statuses that these permissions do not explain."""
    for route, address in addresses:
        for method in ("get", "post"):
            if method == "post" and route.path in VERBS and set(_permissions_of(route)) <= set(permissions or ()):
                continue  # it would change the data
            status = getattr(client, method)(address).status_code
            if not _is_expected(route, method, permissions, status):
                yield route.path, method, status


def _is_expected(route: Route, method: str, permissions: tuple[str, ...] | None, status: int) -> bool:
    if permissions is None:
        return status == 302
    verb = VERBS.get(route.path)
    if method == "post" and verb is None:
        return status == 405
    if route.view_permission not in permissions or (verb and verb[0] not in permissions):
        return status == 403
    return status in ((200, 302, 403) if route.is_generic else (200, 302))


@pytest.mark.unmeasured
@pytest.mark.parametrize("role", [*(f"{view} only" for view in VIEWS), "viewer"])
def test_each_link_of_a_page_may_be_opened(role: str, redis_server: Store) -> None:
    known = fill(redis_server)
    client = browser(*(VIEWS if role == "viewer" else [role.removesuffix(" only")]))
    links: set[str] = set()
    for address in pages(known):
        response = client.get(address)
        if response.status_code == 200:
            links.update(html.unescape(each) for each in re.findall(r'href="([^"#]*)"', response.content.decode()))

    # One link of those that differ only in the values of their parameters, as those to the pages of a list do.
    kinds = {re.sub(r"=[^&]*", "", link): link for link in sorted(links)}
    own = [link for link in kinds.values() if link.startswith("/admin/django_redis_components/")]
    refused = {link: status for link in own if (status := client.get(link).status_code) not in (200, 302)}

    assert "" not in links
    assert refused == {}
    assert own


@pytest.mark.parametrize("method", ["get", "post"])
def test_read_only_forbids_every_verb(method: str, redis_server: Store, root: Client, settings: Any) -> None:
    known = fill(redis_server)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"READ_ONLY": True}}
    before = dump(redis_server)

    found = Counter(getattr(root, method)(address).status_code for address in confirmations(known))
    shown = Counter(root.get(address).status_code for address in pages(known))

    assert found == {403: len(VERBS)}
    assert shown.keys() == {200}
    assert_nothing_written(redis_server, before)


def test_post_without_a_csrf_token_is_rejected_by_every_verb(redis_server: Store) -> None:
    known = fill(redis_server)
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))
    before = dump(redis_server)

    found = Counter(client.post(address).status_code for address in confirmations(known))

    assert found == {403: len(VERBS)}
    assert_nothing_written(redis_server, before)


@pytest.mark.parametrize("form", ["html", "json", "fragment"])
def test_every_url_is_read_by_a_user_that_may_not_write(
    form: str, redis_server: Store, settings: Any, root: Client
) -> None:
    known = fill(redis_server)
    name = f"reader-{redis_server.prefix}"
    rights = redis_users()["dashboard"].rights_with(redis_server.prefix)
    redis_server.raw.execute_command("ACL", "SETUSER", name, ">secret", *rights)
    url = re.sub("//", f"//{name}:secret@", redis_server.url, count=1)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}
    before = dump(redis_server)
    addresses = [*pages(known), *(confirmations(known) if form == "html" else [])]

    try:
        answers = {address: root.get(with_format(address, form)) for address in addresses}
    finally:
        redis_server.raw.execute_command("ACL", "DELUSER", name)

    assert {address: answer.status_code for address, answer in answers.items() if answer.status_code != 200} == {}
    denied = ("Cannot read", "lacks a permission", "no permissions", "NOPERM")
    assert [address for address, answer in answers.items() if any(text in str(answer.content) for text in denied)] == []
    assert_nothing_written(redis_server, before)


def test_every_url_is_read_within_its_budget(
    redis_server: Store, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, sent = fill(redis_server), []
    execute, execute_many = SyncClient.execute, SyncClient.execute_many
    monkeypatch.setattr(SyncClient, "execute", lambda client, request: sent.append(1) or execute(client, request))
    monkeypatch.setattr(
        SyncClient, "execute_many", lambda client, all_: sent.append(len(all_)) or execute_many(client, all_)
    )
    wrong = []

    for address in [*pages(known), *confirmations(known)]:
        sent.clear()
        response = root.get(address)
        assert response.status_code == 200, address
        if len(sent) > ROUND_TRIPS or sum(sent) > MAX_COMMANDS or len(response.content) > MAX_BYTES:
            wrong.append((address, len(sent), sum(sent), len(response.content)))

    assert wrong == []


def with_format(address: str, form: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}format={form}"


def assert_nothing_written(store: Store, before: dict[bytes, tuple[bytes, bool]]) -> None:
    """Raise AssertionError if a key was written. Keys may have expired since."""
    changed = dump(store).items() - before.items()
    assert changed == set()
