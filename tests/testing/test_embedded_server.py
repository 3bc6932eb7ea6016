"""`embedded_server()` and the fixture ``redis_components_server``."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from django_redis_components.core.client import connections
from django_redis_components.core.settings import conf
from django_redis_components.locks import Lock
from django_redis_components.messaging import Mailbox
from django_redis_components.ratelimits import RateLimit
from django_redis_components.testing import EmbeddedServer, embedded_server
from tests.conftest import components_settings
from tests.support import Store


@pytest.fixture(autouse=True)
def _settings(settings: Any) -> None:
    """The settings of a site whose servers cannot be reached."""
    settings.REDIS_COMPONENTS = {
        "PREFIX": "site",
        "CONNECTIONS": {
            "default": {"URL": "redis://127.0.0.1:1/0", "SOCKET_TIMEOUT": 7},
            "chats": {"URL": "redis://127.0.0.1:1/0", "PASSWORD": "secret"},
        },
        "CATALOG": False,
        "LIVE_EVENTS": False,
        "RATELIMITS": {"COUNT_HITS": False},
    }


def test_components_use_the_server(redis_components_server: EmbeddedServer) -> None:
    raw = redis.Redis.from_url(redis_components_server.url)

    with Lock("stock"):
        assert list(raw.scan_iter("site:*stock*"))


def test_aliases_have_databases_of_their_own(redis_components_server: EmbeddedServer) -> None:
    Mailbox("ada", using="chats").send("hello")

    assert Mailbox("ada").unread() == 0
    assert Mailbox("ada", using="chats").unread() == 1


def test_other_settings_stay(redis_components_server: EmbeddedServer) -> None:
    settings = conf.settings()

    assert (settings.prefix, settings.connections["default"].socket_timeout_s) == ("site", 7)
    assert settings.connections["chats"].password is None


def test_each_block_begins_without_data_and_without_cached_denials() -> None:
    limit = RateLimit("login", "1/h")

    for _ in range(2):
        with embedded_server():
            assert limit.hit("ada")
            assert not limit.hit("ada")


def test_inner_block_uses_the_data_of_the_outer_one() -> None:
    with embedded_server() as outer:
        Mailbox("ada").send("hello")
        with embedded_server() as inner:
            assert Mailbox("ada").unread() == 1
        assert Mailbox("ada").unread() == 1
        assert inner is outer


def test_flush_deletes_the_data_of_all_aliases(redis_components_server: EmbeddedServer) -> None:
    Mailbox("ada", using="chats").send("hello")

    redis_components_server.flush()

    assert Mailbox("ada", using="chats").unread() == 0


def test_settings_and_clients_are_restored_after_the_block() -> None:
    before = conf.settings().connections["default"]

    with embedded_server():
        inside = connections.client()

    assert conf.settings().connections["default"] == before
    assert connections.client() is not inside


def test_server_listens_on_no_port(redis_components_server: EmbeddedServer) -> None:
    raw = redis.Redis.from_url(redis_components_server.url, decode_responses=True)

    assert raw.config_get("port") == {"port": "0"}


def test_flush_forgets_cached_denials(redis_components_server: EmbeddedServer) -> None:
    limit = RateLimit("login", "1/h")
    limit.hit("ada")
    assert not limit.hit("ada")

    redis_components_server.flush()

    assert limit.hit("ada")


def test_flush_after_the_block_deletes_nothing_on_the_server_of_the_site(own_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = components_settings(own_server)
    own_server.raw.set("kept", "1")
    with embedded_server() as server:
        raw = redis.Redis.from_url(server.url)
        raw.set("left", "1")

    server.flush()

    assert own_server.raw.get("kept") == b"1"
    assert raw.dbsize() == 0
