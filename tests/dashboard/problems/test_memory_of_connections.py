"""The page of memory of a site with several connections: each has its figures, and one that is away hides no other."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from django.test import Client

from django_redis_components.dashboard.problems import keyspace, of_connections
from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from tests.conftest import components_settings
from tests.dashboard.support import Page, client_of, text_of
from tests.support import Store
from tests.support.stores import Stores
from tests.taskqueue.shards.support import two_servers
from tools.localserver import free_port

pytestmark = pytest.mark.django_db

MEMORY = "/admin/django_redis_components/memory/"


@pytest.fixture
def root() -> Client:
    return client_of("superuser")


def data(client: Client, url: str = MEMORY) -> dict[str, Any]:
    found: dict[str, Any] = client.get(url, {"format": "json"}).json()
    return found


def page(client: Client, url: str = MEMORY) -> str:
    response = client.get(url)
    assert response.status_code == 200, response.content
    return response.content.decode()


def sections(client: Client) -> list[str]:
    """Return the text of each connection's section."""
    found = re.findall(r'<section [^>]*data-drc-live="connection-\d+">.*?</section>', page(client), re.S)
    return [text_of(section) for section in found]


def watch() -> None:
    watcher = ProblemWatcher("default")
    watcher.round()
    watcher.stop()


def other_database(store: Store, number: int = 1) -> str:
    return f"{store.url.rpartition('/')[0]}/{number}"


def nowhere() -> str:
    return f"redis://127.0.0.1:{free_port()}/0"


def test_page_of_one_connection_has_no_sections(redis_server: Store, root: Client) -> None:
    assert sections(root) == []
    assert data(root).keys().isdisjoint({"connections", "error", "shards"})
    assert 'class="drc-tiles" data-drc-live="tiles"' in page(root)


def test_alias_of_the_same_database_is_not_shown(redis_server: Store, root: Client, settings: Any) -> None:
    settings.REDIS_COMPONENTS = components_settings(redis_server, same=redis_server.url)

    assert sections(root) == []
    assert "connections" not in data(root)


def test_each_server_has_its_figures_growth_and_keys(
    redis_server: Store, own_server: Store, root: Client, settings: Any
) -> None:
    settings.REDIS_COMPONENTS = components_settings(redis_server, other=own_server.url)
    own_server.raw.config_set("maxmemory", 1_000_000_000)
    own_server.raw.config_set("maxmemory-policy", "volatile-lru")
    own_server.raw.set("session:abc", "x" * 50_000)
    watch()
    key = keyspace.key("connections")
    stored = json.loads(redis_server.raw.get(key))
    hour_ago = [time.time() - 3_600, 1_000]
    stored["other"]["memory"][1]["used"] = [hour_ago, [time.time(), 500_000_000]]
    redis_server.raw.set(key, json.dumps(stored))

    first, second = sections(root)
    [other] = data(root)["connections"]

    assert first.startswith(f"Connection default 127.0.0.1:{redis_server.url.rpartition(':')[2].partition('/')[0]} ")
    assert second.startswith("Connection other 127.0.0.1:")
    assert "of 953.7\xa0MB" in second.replace(" MB", "\xa0MB")
    assert "volatile-lru" in second
    assert "Full in 1 h" in second
    assert "session:abc" in second
    assert "session:abc" not in first
    assert (other["alias"], other["maxmemory"], other["error"]) == ("other", 1_000_000_000, None)
    assert other["maxmemory_policy"] == "volatile-lru"
    assert other["growth_per_hour"] == pytest.approx(500_000_000, rel=0.01)
    assert other["full_in"] == pytest.approx(3_600, rel=0.01)
    assert other["largest_keys"][0]["key"] == "session:abc"
    assert other["measured_keys"] == other["keys"] == own_server.raw.dbsize()


def test_growth_continues_after_an_outage(redis_server: Store, own_server: Store, root: Client, settings: Any) -> None:
    def change_port(url: str) -> None:
        settings.REDIS_COMPONENTS = components_settings(redis_server, other=url)
        watch()

    change_port(own_server.url)
    key = keyspace.key("connections")
    stored = json.loads(redis_server.raw.get(key))
    hour_ago = [time.time() - 3_600, 1_000]
    stored["other"]["memory"][1]["used"] = [hour_ago]
    redis_server.raw.set(key, json.dumps(stored))

    for url in (nowhere(), nowhere(), own_server.url):
        change_port(url)

    [other] = data(root)["connections"]
    assert other["growth_per_hour"] > 0
    assert json.loads(redis_server.raw.get(key))["other"]["memory"][1]["used"][0] == hour_ago


def test_another_database_of_a_server_has_its_keys_only(redis_server: Store, root: Client, settings: Any) -> None:
    settings.REDIS_COMPONENTS = components_settings(redis_server, other=other_database(redis_server))

    _, second = sections(root)

    assert "Another database of the server of connection default" in second
    assert "Growth" not in second
    assert data(root)["connections"][0]["server_of"] == "default"


def test_connection_that_is_away_is_shown_beside_the_others(redis_server: Store, root: Client, settings: Any) -> None:
    settings.REDIS_COMPONENTS = components_settings(redis_server, away=nowhere(), other=other_database(redis_server))

    first, away, other = sections(root)
    found = data(root)

    assert "Used" in first
    assert "Cannot connect to Redis. Check that the server is running" in away
    assert "Keys" in other
    assert found["used"] > 0
    assert [each["error"] and each["error"]["code"] for each in found["connections"]] == ["unreachable", None]
    assert found["connections"][0]["keys"] is None


def test_others_are_shown_while_the_connection_of_the_dashboard_is_away(
    redis_server: Store, root: Client, settings: Any
) -> None:
    configured = components_settings(redis_server, other=redis_server.url)
    configured["CONNECTIONS"]["default"] = {"URL": nowhere()}
    settings.REDIS_COMPONENTS = configured

    first, second = sections(root)
    found = data(root)

    assert "Cannot connect to Redis." in first
    assert "What was measured is stored on connection default, which is away." in second
    assert found["error"]["code"] == "unreachable"
    assert found["connections"][0]["used"] > 0


def test_page_is_unavailable_if_no_connection_answers(redis_server: Store, root: Client, settings: Any) -> None:
    configured = components_settings(redis_server, other=nowhere())
    configured["CONNECTIONS"]["default"] = {"URL": nowhere()}
    settings.REDIS_COMPONENTS = configured

    assert root.get(MEMORY).status_code == 503
    assert data(root)["error"]["code"] == "unreachable"


def test_connections_beyond_those_that_are_watched_are_named(redis_server: Store, root: Client, settings: Any) -> None:
    count = of_connections.MAX_CONNECTIONS + 2
    urls = {f"c{number}": other_database(redis_server, number) for number in range(1, count + 1)}
    settings.REDIS_COMPONENTS = components_settings(redis_server, **urls)

    assert len(sections(root)) == 1 + of_connections.MAX_CONNECTIONS
    assert "Not watched: c9, c10." in text_of(page(root))
    assert data(root)["unwatched_connections"] == ["c9", "c10"]


def test_url_of_a_shard_shows_its_connection_only(stores: Stores, root: Client, settings: Any) -> None:
    with two_servers(stores, settings) as shards:
        shards.b.raw.set("session:abc", "x" * 50_000)
        watch()

        links = {each["href"] for each in Page(page(root)).all("a")}
        assert {f"{MEMORY}_in/b/", f"{MEMORY}_in/default/"} <= links
        assert len(sections(root)) == 2
        assert data(root, f"{MEMORY}_in/b/")["largest_keys"][0]["key"] == "session:abc"
        assert "session:abc" in page(root, f"{MEMORY}_in/b/")
        assert "session:abc" not in page(root, f"{MEMORY}_in/default/")

        shards.server_b.kill()

        assert root.get(f"{MEMORY}_in/b/").status_code == 503
        assert "1 of 2 shards read." in text_of(page(root))
        assert ["Used" in section for section in sections(root)] == [True, False]

        shards.server_b.start()
        shards.server_a.kill()

        text = text_of(page(root, f"{MEMORY}_in/b/"))
        assert "What was measured is stored on connection default, which is away." in text
