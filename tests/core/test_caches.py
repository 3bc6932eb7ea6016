"""Endpoints of django-redis caches: server, credentials, TLS and Sentinels."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from django_redis.pool import ConnectionFactory
from redis.connection import Connection, SSLConnection

from django_redis_components import checks
from django_redis_components.core.client import connections
from django_redis_components.core.client.caches import caches_on
from django_redis_components.core.client.endpoint import Endpoint, Node
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.protocol import Command
from tests.support import Store

pytestmark = pytest.mark.integration

BACKEND = "django_redis.cache.RedisCache"
WHERE = 'REDIS_COMPONENTS["CONNECTIONS"]["default"]["CACHE"] = \'pages\''


class OwnConnection(Connection):
    """A site's own connection class, with an option that redis-py does not know."""

    def __init__(self, *, color: str = "red", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.color = color


@pytest.fixture(autouse=True)
def _no_pools_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """django-redis keeps pools by URL for the whole process, whatever the options."""
    monkeypatch.setattr(ConnectionFactory, "_pools", {})


def cached(settings: Any, location: Any, backend: str = BACKEND, **options: Any) -> Endpoint:
    """Return the endpoint of a cache with this location and these options."""
    settings.CACHES = {
        **settings.CACHES,
        "pages": {"BACKEND": backend, "LOCATION": location, "OPTIONS": options, "KEY_PREFIX": "not-ours"},
    }
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"CACHE": "pages"}}}
    return connections.endpoint("default")


def test_client_uses_the_server_of_the_cache(redis_server: Store, settings: Any) -> None:
    cached(settings, redis_server.url)

    assert connections.client().execute(Command("SET", f"{redis_server.prefix}:k", "v", "PX", 60_000)) == b"OK"
    assert redis_server.raw.get(f"{redis_server.prefix}:k") == b"v"


def test_host_port_database_and_login_come_from_the_cache(settings: Any) -> None:
    endpoint = cached(settings, "redis://h:7000/3", USERNAME="me", PASSWORD="pw", SOCKET_TIMEOUT=99)

    assert (endpoint.kind, endpoint.transport, endpoint.seeds) == ("standalone", "tcp", (Node("h", 7000),))
    assert (endpoint.options["username"], endpoint.options["password"], endpoint.database) == ("me", "pw", 3)
    assert endpoint.sync_connection(endpoint.seeds[0]).socket_timeout == 5.0


def test_login_comes_from_the_location(settings: Any) -> None:
    options = cached(settings, "redis://me:p%40ss@h").options

    assert (options["username"], options["password"]) == ("me", "p@ss")


def test_tls_options_come_from_the_cache(settings: Any) -> None:
    pool = {"ssl_cert_reqs": "none", "ssl_check_hostname": False}
    endpoint = cached(settings, "rediss://h:7001", CONNECTION_POOL_KWARGS=pool)

    assert endpoint.transport == "tls"
    assert endpoint.options.items() >= pool.items()
    assert endpoint.sync_connection(endpoint.seeds[0]).check_hostname is False


def test_unix_socket_comes_from_the_cache(settings: Any) -> None:
    endpoint = cached(settings, "unix:///run/redis.sock?db=2", PASSWORD="pw")

    assert (endpoint.transport, endpoint.seeds, endpoint.database) == ("unix", (Node("/run/redis.sock", 0),), 2)
    assert endpoint.sync_connection(endpoint.seeds[0]).path == "/run/redis.sock"


def test_first_of_several_locations_is_the_primary(settings: Any) -> None:
    assert cached(settings, ["redis://primary:1", "redis://replica:2"]).seeds == (Node("primary", 1),)


def test_option_of_a_custom_connection_class_is_ignored(settings: Any) -> None:
    pool = {"connection_class": OwnConnection, "color": "blue"}
    endpoint = cached(settings, "redis://h", CONNECTION_POOL_KWARGS=pool)

    assert "color" not in endpoint.options
    assert type(endpoint.sync_connection(endpoint.seeds[0])) is Connection


def test_sentinel_cache_becomes_a_sentinel_endpoint(settings: Any) -> None:
    endpoint = cached(
        settings,
        "redis://main/2",
        CLIENT_CLASS="django_redis.client.SentinelClient",
        CONNECTION_FACTORY="django_redis.pool.SentinelConnectionFactory",
        SENTINELS=[("a", 26379), ("b", 26380)],
        SENTINEL_KWARGS={"password": "theirs"},
        PASSWORD="pw",
    )

    assert (endpoint.kind, endpoint.service, endpoint.database) == ("sentinel", "main", 2)
    assert endpoint.seeds == (Node("a", 26379), Node("b", 26380))
    assert endpoint.options["password"] == "pw"
    assert endpoint.sentinel_options == {"password": "theirs"}


@pytest.mark.parametrize(
    ("scheme", "kwargs", "of_nodes", "of_sentinels"),
    [
        ("rediss", None, SSLConnection, Connection),
        ("rediss", {"ssl": True, "ssl_ca_certs": "/theirs"}, SSLConnection, SSLConnection),
        ("redis", {"ssl": True, "ssl_ca_certs": "/theirs", "username": "you"}, Connection, SSLConnection),
    ],
)
def test_sentinels_of_a_cache_use_tls_as_it_says(
    settings: Any, scheme: str, kwargs: Any, of_nodes: type, of_sentinels: type
) -> None:
    endpoint = cached(
        settings,
        f"{scheme}://main/2",
        CONNECTION_FACTORY="django_redis.pool.SentinelConnectionFactory",
        SENTINELS=[("a", 26379)],
        SENTINEL_KWARGS=kwargs,
        CONNECTION_POOL_KWARGS={"ssl_ca_certs": "/ours"} if scheme == "rediss" else {},
    )

    assert type(endpoint.sync_connection(endpoint.seeds[0])) is of_nodes
    connection = endpoint.sync_connection(endpoint.seeds[0], sentinel=True)
    assert type(connection) is of_sentinels
    assert getattr(connection, "ca_certs", "/theirs") == "/theirs"
    assert connection.username == (kwargs or {}).get("username")


def test_client_of_a_sentinel_cache_finds_the_master(sentinel_server: Store, settings: Any) -> None:
    sentinel = sentinel_server.servers[2]
    cached(
        settings,
        "redis://drc-tests/0",
        CONNECTION_FACTORY="django_redis.pool.SentinelConnectionFactory",
        SENTINELS=[("127.0.0.1", sentinel.port)],
    )

    key = f"{sentinel_server.prefix}:k"
    assert connections.client().execute(Command("SET", key, "v", "PX", 60_000)) == b"OK"
    assert sentinel_server.raw.get(key) == b"v"


def test_sharded_cache_is_an_error(settings: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        cached(settings, ["redis://a", "redis://b"], CLIENT_CLASS="django_redis.client.ShardClient")

    assert str(caught.value) == f'{WHERE}: ShardClient has no single primary: give a "URL"'


@pytest.mark.parametrize(
    ("location", "options", "text"),
    [
        ("", {}, "Missing connections string"),
        ("redis://h", {"CLIENT_CLASS": "no.such.Client"}, "No module named 'no'"),
        ("redis://h", {"SOCKET_TIMEOUT": "5"}, "Socket timeout should be float or integer"),
        ("redis://:pass/word@h", {}, "the port in LOCATION is not a number"),
        (Path("/run/redis.sock"), {}, "'PosixPath' object has no attribute 'split'"),
        ("redis://h", {"CONNECTION_POOL_KWARGS": {"db": "one"}}, "the database is 'one': expected an integer from 0"),
        ("redis://h", {"CONNECTION_POOL_KWARGS": {"encoding": "nope"}}, "unknown encoding: nope"),
        ("rediss://h?ssl_cert_reqs=maybe", {}, "Invalid SSL Certificate Requirements Flag: maybe"),
    ],
)
def test_error_of_an_invalid_cache_gives_the_reason(
    settings: Any, location: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        cached(settings, location, **options)

    assert str(caught.value) == f"{WHERE}: {text}"


def test_function_for_connections_of_threads_is_refused_on_an_event_loop(redis_server: Store, settings: Any) -> None:
    called = []

    def connect(connection: Any) -> None:
        called.append(connection)
        connection.on_connect()

    cached(settings, redis_server.url, CONNECTION_POOL_KWARGS={"redis_connect_func": connect})

    assert connections.client().execute(Command("PING")) == b"PONG"
    assert called
    with pytest.raises(ConfigurationError, match="event loops cannot use redis_connect_func"):
        asyncio.run(aping())


def test_validation_by_ocsp_is_refused_on_an_event_loop(settings: Any) -> None:
    cached(settings, "rediss://h", CONNECTION_POOL_KWARGS={"ssl_validate_ocsp": True})

    with pytest.raises(ConfigurationError, match="event loops cannot use ssl_validate_ocsp"):
        asyncio.run(aping())


async def aping() -> Any:
    return await connections.aclient().execute(Command("PING"))


@pytest.mark.parametrize("location", [Path("/x"), [], None, 7])
@pytest.mark.parametrize("backend", [BACKEND, "django.core.cache.backends.redis.RedisCache"])
def test_cache_with_an_odd_location_does_not_stop_the_checks(settings: Any, backend: str, location: Any) -> None:
    settings.CACHES = {**settings.CACHES, "odd": {"BACKEND": backend, "LOCATION": location}}
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://h"}}}

    assert caches_on(connections.endpoint("default")) == []
    assert checks.check_shared_database() == []


def test_other_cache_backend_is_an_error(settings: Any) -> None:
    backend = "django.core.cache.backends.redis.RedisCache"

    with pytest.raises(ConfigurationError) as caught:
        cached(settings, "redis://h", backend)

    assert (
        str(caught.value)
        == f'{WHERE} is a {backend}: expected django_redis.cache.RedisCache, or a "URL" instead of "CACHE".'
    )
