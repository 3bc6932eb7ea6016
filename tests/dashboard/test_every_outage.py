"""Every page during each kind of outage: what is wrong, what to do, and no other page of the admin affected."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.conftest import components_settings
from tests.dashboard.support import text_of
from tests.dashboard.urls_of_pages import ADMIN, EXAMPLES, VERBS, address_of, fill
from tests.support import Store
from tests.support.proxy import Proxy
from tools.localserver import free_port

pytestmark = pytest.mark.django_db

#: Pages and confirmations that do not read Redis: they work without it.
WITHOUT_REDIS = {
    "action/",
    "queues/_verb/pause/<path:object_id>/",
    "queues/_verb/resume/<path:object_id>/",
    "queues/_verb/pause_group/<path:object_id>/",
    "queues/_verb/resume_group/<path:object_id>/",
    "indexes/",
}
WITHOUT_REDIS |= {route for route in VERBS if route.startswith("schedule/")} | {
    f"ratelimit/{verb}" for verb in ("", "reset/", "block/", "unblock/")
}
#: Pages and confirmations that read Redis, but call no script for some or all of it.
WITHOUT_SCRIPTS = {"queues/_verb/restore/<path:object_id>/", "analytics/", "messaging/", "files/", "liveevent/"}
WITHOUT_SCRIPTS |= {"incident/", "memory/", "taskclass/_verb/enqueue/<path:object_id>/"}
RIGHTS = ("on", ">secret", "~*", "+@all")


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def use(settings: Any, store: Store, url: str) -> None:
    settings.REDIS_COMPONENTS = {**components_settings(store), "CONNECTIONS": {"default": {"URL": url}}}


def as_user(store: Store, settings: Any, *rights: str) -> None:
    """Connect as a user with these rights, beside those of all commands."""
    store.raw.execute_command("ACL", "SETUSER", "limited", "reset", *RIGHTS, *rights)
    use(settings, store, re.sub("//", "//limited:secret@", store.url, count=1))


@contextmanager
def stopped(store: Store, settings: Any) -> Iterator[None]:
    use(settings, store, f"redis://127.0.0.1:{free_port()}/0")
    yield


@contextmanager
def stalled(store: Store, settings: Any) -> Iterator[None]:
    pid = store.raw.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def slow(store: Store, settings: Any) -> Iterator[None]:
    with Proxy(store.url) as proxy:
        proxy.delay(30)
        use(settings, store, proxy.url)
        yield


@contextmanager
def wrong_password(store: Store, settings: Any) -> Iterator[None]:
    use(settings, store, re.sub("//", "//default:wrong@", store.url, count=1))
    store.raw.execute_command("ACL", "SETUSER", "default", "resetpass", ">right")
    try:
        yield
    finally:
        store.raw.execute_command("ACL", "SETUSER", "default", "nopass")


@contextmanager
def without_scripts(store: Store, settings: Any) -> Iterator[None]:
    as_user(store, settings, "-@scripting")
    yield


#: Outages by name: what makes it, and the texts that a page shows.
OUTAGES: dict[str, tuple[Callable[[Store, Any], AbstractContextManager[None]], tuple[str, ...]]] = {
    "stopped": (stopped, ("Cannot connect to Redis. Check that the server is running",)),
    "stalled": (stalled, ("Cannot connect to Redis.", "Redis did not reply in time.")),
    "slow": (slow, ("Cannot connect to Redis.", "Redis did not reply in time.")),
    "wrong password": (wrong_password, ("Redis authentication failed. Check the connection’s username and password",)),
    "without scripts": (
        without_scripts,
        (
            "The Redis user lacks a permission. Grant the command named in the message",
            "Cannot read queues and workers: The Redis user lacks a permission.",
        ),
    ),
}


@pytest.mark.parametrize("outage", OUTAGES)
def test_each_page_says_what_is_wrong_and_what_to_do(
    outage: str, own_server: Store, settings: Any, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = fill(own_server)
    enter, texts = OUTAGES[outage]
    read_s, connect_s = (0.05, 0.2) if enter in (stalled, slow) else (30.0, 30.0)  # the others reply: however late
    monkeypatch.setattr("django_redis_components.dashboard.clients.READ_S", read_s)
    monkeypatch.setattr("django_redis_components.dashboard.clients.CONNECT_S", connect_s)
    wrong = []

    with enter(own_server, settings):
        for route, query in EXAMPLES.items():
            response = root.get(address_of(route, query, known))
            shown = text_of(response.content.decode())
            is_unaffected = route in WITHOUT_REDIS or (route in WITHOUT_SCRIPTS and enter is without_scripts)
            if is_unaffected and response.status_code == 200:
                continue
            if response.status_code not in (200, 503) or not any(text in shown for text in texts):
                wrong.append((route, response.status_code, shown[-300:]))
        others = [root.get(address).status_code for address in ("/admin/", "/admin/auth/user/")]

    assert wrong == []
    assert others == [200, 200]


def statuses(root: Client, known: dict[str, Any]) -> dict[str, int]:
    """Return the status of each page and confirmation that is not 200."""
    found = {route: root.get(address_of(route, query, known)).status_code for route, query in EXAMPLES.items()}
    return {route: status for route, status in found.items() if status != 200}


def pause_text(root: Client) -> str:
    """Return the text of the response to a change, which Redis must have rejected."""
    response = root.post(f"{ADMIN}queues/_verb/pause/mail/")
    assert response.status_code == 503
    return text_of(response.content.decode())


def test_pages_do_not_need_info(own_server: Store, settings: Any, root: Client) -> None:
    known = fill(own_server)

    as_user(own_server, settings, "-info")

    assert statuses(root, known) == {}


def test_pages_of_a_full_server_are_readable(own_server: Store, root: Client) -> None:
    known = fill(own_server)

    own_server.raw.config_set("maxmemory", 1)

    assert statuses(root, known) == {}
    text = "The memory of Redis is full: it rejects writes. Raise maxmemory, or remove data that is not needed."
    assert text in pause_text(root)


def test_pages_of_a_replica_are_readable(own_server: Store, root: Client) -> None:
    known = fill(own_server)

    own_server.raw.execute_command("REPLICAOF", "127.0.0.1", free_port())

    assert statuses(root, known) == {}
    text = (
        "This server is a replica, which rejects writes. Set the connection’s URL to the primary, or use redis+sentinel"
    )
    assert text in pause_text(root)


def test_pages_of_an_emptied_server_say_that_the_object_is_gone(own_server: Store, root: Client) -> None:
    known = fill(own_server)

    own_server.raw.flushall()
    own_server.raw.script_flush()

    of_objects = {route for route in EXAMPLES if route.startswith(("task/", "taskflow/"))} | {
        "queues/<path:object_id>/",
        "schedule/edit/",
        "ratelimit/reset/",
        "ratelimit/block/",
        "ratelimit/unblock/",
        "incident/acknowledge/",
        "incident/withdraw/",
    }
    assert statuses(root, known) == dict.fromkeys(of_objects, 404)
    shown = text_of(root.get(address_of("task/<path:object_id>/", "", known)).content.decode())
    assert f"No task {known['ready']}" in shown
