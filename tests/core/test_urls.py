"""Endpoints of connection URLs, and the errors of invalid ones."""

from __future__ import annotations

import socket
import sys
from typing import Any

import pytest
from redis.connection import Connection, SSLConnection

from django_redis_components.core.client.endpoint import Endpoint, Node
from django_redis_components.core.client.urls import from_url
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings.sections import ConnectionSettings


def parsed(url: str) -> Endpoint:
    return from_url("tasks", url, ConnectionSettings(url=url))


def problem(url: str) -> str:
    """Return the error of a URL, without the path of the setting."""
    with pytest.raises(ConfigurationError) as caught:
        parsed(url)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    where = 'REDIS_COMPONENTS["CONNECTIONS"]["tasks"]["URL"]'
    assert str(caught.value).startswith(where)
    return str(caught.value).removeprefix(where).removeprefix(": ")


@pytest.mark.parametrize(
    ("url", "kind", "transport", "seeds", "options"),
    [
        ("redis://", "standalone", "tcp", [("localhost", 6379)], {}),
        ("redis://h", "standalone", "tcp", [("h", 6379)], {}),
        ("redis://h:7000/3", "standalone", "tcp", [("h", 7000)], {"db": 3}),
        ("redis://h/?db=4", "standalone", "tcp", [("h", 6379)], {"db": 4}),
        ("redis://h/3?db=4", "standalone", "tcp", [("h", 6379)], {"db": 4}),
        ("redis://[::1]:7000/0", "standalone", "tcp", [("::1", 7000)], {"db": 0}),
        ("redis://[::1]", "standalone", "tcp", [("::1", 6379)], {}),
        ("redis://:p%40ss@h", "standalone", "tcp", [("h", 6379)], {"password": "p@ss"}),
        ("redis://me:p:w@h", "standalone", "tcp", [("h", 6379)], {"username": "me", "password": "p:w"}),
        ("redis://me@h", "standalone", "tcp", [("h", 6379)], {"username": "me"}),
        ("redis://h?socket_timeout=9&max_connections=4&retry_on_timeout=yes", "standalone", "tcp", [("h", 6379)], {}),
        ("redis://h?socket_keepalive=no", "standalone", "tcp", [("h", 6379)], {"socket_keepalive": False}),
        ("rediss://h:7001", "standalone", "tls", [("h", 7001)], {}),
        (
            "rediss://h?ssl_cert_reqs=none&ssl_check_hostname=false",
            "standalone",
            "tls",
            [("h", 6379)],
            {"ssl_cert_reqs": "none", "ssl_check_hostname": False},
        ),
        ("unix:///run/redis.sock", "standalone", "unix", [("/run/redis.sock", 0)], {}),
        (
            "unix://me:pw@/run/my%20redis.sock?db=2",
            "standalone",
            "unix",
            [("/run/my redis.sock", 0)],
            {"username": "me", "password": "pw", "db": 2},
        ),
        ("redis+cluster://a:7000,b,[::1]:7002", "cluster", "tcp", [("a", 7000), ("b", 6379), ("::1", 7002)], {}),
        ("redis+cluster://me:pw@a/0", "cluster", "tcp", [("a", 6379)], {"username": "me", "password": "pw", "db": 0}),
        ("redis+cluster://a?ssl=true&ssl_ca_path=/ca", "cluster", "tls", [("a", 6379)], {"ssl_ca_path": "/ca"}),
        ("redis+cluster://a?ssl=false", "cluster", "tcp", [("a", 6379)], {}),
    ],
)
def test_url_is_parsed(
    url: str, kind: str, transport: str, seeds: list[tuple[str, int]], options: dict[str, Any]
) -> None:
    endpoint = parsed(url)

    assert (endpoint.kind, endpoint.transport) == (kind, transport)
    assert list(endpoint.seeds) == [Node(*seed) for seed in seeds]
    assert endpoint.options == options
    assert endpoint.sentinel_options == {}


def test_sentinel_url_has_sentinels_service_database_and_logins() -> None:
    endpoint = parsed("redis+sentinel://me:pw@a:7000,b/main/2?sentinel_username=you&sentinel_password=p2")

    assert (endpoint.kind, endpoint.service, endpoint.database) == ("sentinel", "main", 2)
    assert endpoint.seeds == (Node("a", 7000), Node("b", 26379))
    assert endpoint.options == {"username": "me", "password": "pw", "db": 2}
    assert endpoint.sentinel_options == {"username": "you", "password": "p2"}


def test_sentinels_use_the_tls_options_of_the_master() -> None:
    endpoint = parsed("redis+sentinel://a/main?ssl=yes&ssl_ca_certs=/ca.pem&sentinel_ssl_certfile=/mine.pem")

    assert endpoint.transport == "tls"
    assert endpoint.options == {"ssl_ca_certs": "/ca.pem"}
    assert endpoint.sentinel_options == {"ssl_ca_certs": "/ca.pem", "ssl_certfile": "/mine.pem"}


@pytest.mark.parametrize(
    ("query", "of_nodes", "of_sentinels", "options"),
    [
        ("ssl=true&ssl_ca_certs=/ca&sentinel_ssl=false", SSLConnection, Connection, {}),
        ("sentinel_ssl=true&sentinel_ssl_ca_certs=/ca", Connection, SSLConnection, {"ssl_ca_certs": "/ca"}),
    ],
)
def test_sentinels_may_use_tls_when_the_nodes_do_not(
    query: str, of_nodes: type, of_sentinels: type, options: dict[str, str]
) -> None:
    endpoint = parsed(f"redis+sentinel://a/main?{query}")

    assert type(endpoint.sync_connection(endpoint.seeds[0])) is of_nodes
    assert type(endpoint.sync_connection(endpoint.seeds[0], sentinel=True)) is of_sentinels
    assert endpoint.sentinel_options == options


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", " has no scheme: expected one of redis://, rediss://, unix://, redis+sentinel://, redis+cluster://."),
        ("h:6379", " has no scheme: expected one of redis://, rediss://, unix://, redis+sentinel://, redis+cluster://."),
        ("http", " has no scheme: expected one of redis://, rediss://, unix://, redis+sentinel://, redis+cluster://."),
        ("redis://h/cache", "the path is not a database number"),
        ("redis://h/1/2", "the path is not a database number"),
        ("redis://h/-1", "the path is not a database number"),
        ("redis://h?db=one", "the value of db is not understood"),
        ("redis+cluster://h?ssl=perhaps", "the value of ssl is not understood"),
        ("redis://a,b", "expected one host"),
        ("redis+cluster://", "a host is missing"),
        ("redis+cluster://a,,b", "a host is missing"),
        ("redis+cluster://a/1", "a Cluster has database 0 only"),
        ("redis+sentinel://a", "the service is missing: expected redis+sentinel://host:port,host:port/service/database"),
        ("redis+sentinel://a/main/x", "the path is not a database number"),
        ("unix://run/redis.sock", "the path of the socket is missing: expected unix:///path/to/socket"),
        ("unix://me:pw@", "the path of the socket is missing: expected unix:///path/to/socket"),
        ("redis://h?sokcet_keepalive=1", "unknown option 'sokcet_keepalive'. Did you mean 'socket_keepalive'?"),
        ("redis://h?zzz=1", "unknown option 'zzz'"),
        ("redis://h?ssl=true", "unknown option 'ssl': the scheme of TLS is rediss://"),
        ("redis://h?credential_provider=x", "option 'credential_provider' cannot be text"),
        ("redis://h?redis_connect_func=x", "option 'redis_connect_func' cannot be text"),
        ("redis://h?socket_keepalive_options=x", "option 'socket_keepalive_options' cannot be text"),
        ("redis://h?socket_type=1", "option 'socket_type' cannot be text"),
        ("rediss://h?ssl_ocsp_context=x", "option 'ssl_ocsp_context' cannot be text"),
        ("rediss://h?ssl_validate_ocsp=perhaps", "the value of ssl_validate_ocsp is not understood"),
        ("rediss://h?ssl_min_version=3", "Unsupported TLS/SSL version 0x3"),
        ("redis://h?encoding=nope", "unknown encoding: nope"),
        ("redis://h?encoding_errors=nope", "unknown error handler name 'nope'"),
        ("redis://h?socket_read_size=0", "socket_read_size is 0: expected an integer from 1"),
        ("redis://h?db=-1", "the database is -1: expected an integer from 0"),
        ("redis://h/99999999999", "the database is 99999999999: expected an integer from 0"),
        ("redis+sentinel://a/m?sentinel_socket_type=1", "option 'sentinel_socket_type' cannot be text"),
        ("redis://h?ssl_ca_certs=/ca", "unknown option 'ssl_ca_certs'"),
        ("unix:///s?socket_keepalive=1", "unknown option 'socket_keepalive'. Did you mean 'socket_read_size'?"),
        (
            "redis+sentinel://a/main?sentinel_pasword=x",
            "unknown option 'sentinel_pasword'. Did you mean 'sentinel_password'?",
        ),
        ("redis://h?host=other", "unknown option 'host'"),
        ("rediss://h?ssl_cert_reqs=maybe", "Invalid SSL Certificate Requirements Flag: maybe"),
        (
            "redis+sentinel://a/main?ssl=1&sentinel_ssl_cert_reqs=maybe",
            "Invalid SSL Certificate Requirements Flag: maybe",
        ),
        ("redis://[::1", "Invalid IPv6 URL"),
    ],
)  # fmt: skip
def test_error_of_an_invalid_url_gives_the_reason(url: str, text: str) -> None:
    assert problem(url) == text


@pytest.mark.parametrize("url", ["redis://:pa/ss@h:1", "redis://me:pa#ss@h:1", "redis://:pa?ss@h:1", "redis://h:99999"])
def test_unescaped_password_is_not_shown(url: str) -> None:
    text = problem(url)

    assert "pa" not in text.replace("password", "")
    assert text == "the port is not a number from 1 to 65535 (write / # ? @ in a password as %2F %23 %3F %40)"


def test_repr_of_an_endpoint_hides_the_password() -> None:
    endpoint = parsed("redis+cluster://me:secret@a:7000,b:7001")

    assert str(endpoint) == "a:7000, b:7001 (connection 'tasks')"
    assert repr(endpoint) == "<Endpoint cluster a:7000, b:7001 (connection 'tasks')>"
    assert str(parsed("unix://:secret@/run/s")) == "/run/s (connection 'tasks')"


def test_url_of_a_unix_socket_is_refused_where_python_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    monkeypatch.setattr(sys, "platform", "win32")

    assert problem("unix:///run/redis.sock") == "Python has no Unix sockets on win32: expected redis:// or rediss://"
