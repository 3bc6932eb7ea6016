"""Endpoints: the connections they make, and which of them are the same database."""

from __future__ import annotations

import pytest
import redis
from redis import connection as sync_connections
from redis.asyncio import connection as async_connections

from django_redis_components.core.client.endpoint import Endpoint, naming_server
from django_redis_components.core.client.urls import from_url
from django_redis_components.core.settings.sections import ConnectionSettings


def parsed(url: str, **settings: float) -> Endpoint:
    return from_url("default", url, ConnectionSettings(url=url, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://h", "Connection"),
        ("rediss://h", "SSLConnection"),
        ("unix:///s", "UnixDomainSocketConnection"),
        ("redis+cluster://h", "Connection"),
        ("redis+sentinel://h/main?ssl=true", "SSLConnection"),
    ],
)
def test_transport_selects_the_sync_and_the_async_connection_class(url: str, name: str) -> None:
    endpoint = parsed(url)

    assert type(endpoint.sync_connection(endpoint.seeds[0])) is getattr(sync_connections, name)
    assert type(endpoint.async_connection(endpoint.seeds[0])) is getattr(async_connections, name)


def test_connection_has_the_timeouts_of_the_settings_and_never_retries() -> None:
    endpoint = parsed("redis://me:pw@h:7000/3?socket_timeout=99", socket_timeout_s=1.5, connect_timeout_s=0.5)

    for connection in (endpoint.sync_connection(endpoint.seeds[0]), endpoint.async_connection(endpoint.seeds[0])):
        assert (connection.host, connection.port, connection.db) == ("h", 7000, 3)
        assert (connection.username, connection.password) == ("me", "pw")
        assert (connection.socket_timeout, connection.socket_connect_timeout) == (1.5, 0.5)
        assert connection.retry.get_retries() == 0
        assert connection.protocol == 2


def test_library_version_is_looked_up_once() -> None:
    endpoint = parsed("redis://h")

    one, other = endpoint.sync_connection(endpoint.seeds[0]), endpoint.async_connection(endpoint.seeds[0])

    assert one.driver_info is other.driver_info
    assert (one.driver_info.name, one.driver_info.lib_version) == ("redis-py", redis.__version__)


def test_library_name_of_the_settings_is_sent() -> None:
    endpoint = parsed("redis://h?lib_name=shop&lib_version=7")

    driver = endpoint.sync_connection(endpoint.seeds[0]).driver_info

    assert (driver.name, driver.lib_version) == ("shop", "7")


def test_sentinel_connection_has_its_own_login_and_no_database() -> None:
    endpoint = parsed("redis+sentinel://:pw@a:7000/main/2?sentinel_password=theirs")

    connection = endpoint.sync_connection(endpoint.seeds[0], sentinel=True)

    assert (connection.password, connection.db) == ("theirs", 0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("redis://h:6379/0", "redis://H"),
        ("redis://localhost/1", "rediss://me:pw@127.0.0.1:6379/1"),
        ("redis://[::1]", "redis://"),
        ("unix:///s?db=1", "unix:///s?db=1"),
        ("redis+sentinel://a,b/main/1", "redis+sentinel://b:26379,c/main/1"),
        ("redis+cluster://a:1,b:2", "redis+cluster://b:2"),
        ("redis+cluster://a:1,b:2", "redis://b:2/0"),
    ],
)
def test_equivalent_urls_are_the_same_database(one: str, other: str) -> None:
    assert parsed(one).same_database(parsed(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("redis://h/0", "redis://h/1"),
        ("redis://h:1", "redis://h:2"),
        ("redis://a", "redis://b"),
        ("unix:///s?db=1", "unix:///s"),
        ("unix:///s", "unix:///t"),
        ("redis+sentinel://a/main", "redis+sentinel://a/other"),
        ("redis+sentinel://a/main/1", "redis+sentinel://a/main"),
        ("redis+cluster://a:1", "redis+cluster://b:1"),
    ],
)
def test_different_databases_are_distinguished(one: str, other: str) -> None:
    assert not parsed(one).same_database(parsed(other))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("redis://h/0", "redis://h/1", True),
        ("unix:///s?db=1", "unix:///s", True),
        ("redis+sentinel://a/main/1", "redis+sentinel://a/main", True),
        ("redis+sentinel://a/main", "redis+sentinel://a/other", False),
        ("redis://h:1", "redis://h:2", False),
    ],
)
def test_databases_of_one_server_are_recognized(one: str, other: str, is_same: bool) -> None:
    assert parsed(one).same_server(parsed(other)) is is_same


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("redis://10.0.0.2:6380/0", "redis-cli -h 10.0.0.2 -p 6380"),
        ("redis://cache/3", "redis-cli -n 3 -h cache -p 6379"),
        ("rediss://:hidden@cache:6390", "redis-cli --tls --askpass -h cache -p 6390"),
        ("redis://app%20one:hidden@cache", "redis-cli --user ADMINISTRATOR --askpass -h cache -p 6379"),
        ("redis://default:hidden@cache", "redis-cli --user default --askpass -h cache -p 6379"),
        ("unix:///run/redis.sock?db=2", "redis-cli -n 2 -s /run/redis.sock"),
        ("redis+cluster://c1:7000,c2:7000", "redis-cli --cluster call c1:7000"),
        ("redis+cluster://app:hidden@c1:7000", "redis-cli --user ADMINISTRATOR --askpass --cluster call c1:7000"),
        ("redis+sentinel://s1:26379,s2:26379/mymaster/1", "redis-cli -n 1 -h PRIMARY-OF-mymaster"),
    ],
)
def test_command_of_redis_cli_names_the_server_and_no_password(url: str, command: str) -> None:
    assert parsed(url).redis_cli() == command


def test_only_commands_of_redis_cli_name_the_server() -> None:
    cli = parsed("redis://cache").redis_cli()

    assert (
        naming_server("redis-cli TYPE KEY, then redis-cli UNLINK KEY", cli) == f"{cli} TYPE KEY, then {cli} UNLINK KEY"
    )
    assert naming_server("python manage.py runworker redis-cli", cli) == "python manage.py runworker redis-cli"
