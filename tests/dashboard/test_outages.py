"""Pages during an outage of Redis: 503 in the admin's layout, and recovery."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)

from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.exceptions import ConfigurationError, UnsupportedServer
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.outages import outage_of
from django_redis_components.dashboard.overview.snapshot import read_overview_snapshot
from tests.dashboard.support import URL, client_of, text_of, write_queue
from tests.support import Store, eventually, skip_missing
from tools.localserver import LocalServer, ServerError, free_port, old_redis_binary

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


def outage_text(client: Client) -> str:
    """Return the text of the page, which must be a 503 inside the admin's frame; figures and fragment agree."""
    for query in ("?format=json", "?format=fragment", ""):
        response = client.get(URL + query)
        assert (response.status_code, response["Retry-After"]) == (503, "5")
    html = response.content.decode()
    assert 'id="user-tools"' in html
    assert "data-drc-outage" in html
    text = text_of(html)
    assert "Traceback" not in text
    return text


def use(settings: Any, url: str, **options: Any) -> None:
    settings.REDIS_COMPONENTS = {"PREFIX": "outage", "CONNECTIONS": {"default": {"URL": url, **options}}}


def test_connection_refused(settings, viewer: Client) -> None:
    port = free_port()
    use(settings, f"redis://user:secret@127.0.0.1:{port}/0")

    text = outage_text(viewer)

    assert "Cannot connect to Redis." in text
    assert "Check that the server is running and accepts connections from this host." in text
    assert f"127.0.0.1:{port} (connection &#x27;default&#x27;)" in text
    assert "secret" not in text
    assert "somebody" not in text


def test_wrong_password(redis_server: Store, settings, viewer: Client) -> None:
    use(settings, redis_server.url.replace("//", "//unknown:wrong-secret@"))

    text = outage_text(viewer)

    assert "Redis authentication failed." in text
    assert "Check the connection’s username and password in REDIS_COMPONENTS." in text
    assert "wrong-secret" not in text


def test_unsupported_server_version(tmp_path: Path, settings, viewer: Client) -> None:
    try:
        binary = old_redis_binary()
    except ServerError as exc:
        skip_missing(str(exc))
    server = LocalServer(binary, directory=tmp_path / "old", die_with_parent=True).start()
    use(settings, server.url)

    try:
        text = outage_text(viewer)
    finally:
        server.kill()

    assert "The Redis server is too old. Redis 7.0 or Valkey 7.2 is required." in text
    assert "Redis 6.2" in text


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """A server that lets everybody connect and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"


def test_server_without_greeting_times_out(settings, viewer: Client, monkeypatch) -> None:
    monkeypatch.setattr("django_redis_components.dashboard.clients.READ_S", 0.05)
    with silent_server() as url:
        use(settings, url)
        text = outage_text(viewer)

    assert "Cannot connect to Redis." in text
    assert "Timeout reading from" in text


def test_stalled_server_times_out(own_server: Store, viewer: Client, monkeypatch) -> None:
    monkeypatch.setattr("django_redis_components.dashboard.clients.READ_S", 0.05)
    eventually(lambda: viewer.get(URL).status_code == 200)  # a busy machine may be slower at first
    pid = own_server.raw.info("server")["process_id"]

    os.kill(pid, signal.SIGSTOP)
    try:
        error = viewer.get(URL, {"format": "json"}).json()["error"]
        text = outage_text(viewer)
    finally:
        os.kill(pid, signal.SIGCONT)

    assert (error["code"], error["title"]) == ("timeout", "Redis did not reply in time.")
    assert "Cannot connect to Redis." in text  # a new connection is not even greeted
    eventually(lambda: viewer.get(URL).status_code == 200)


def test_page_recovers_with_the_server(own_server: Store, viewer: Client) -> None:
    write_queue(own_server, "mail", ready=2)
    assert "mail No worker 2" in text_of(viewer.get(URL).content.decode())

    own_server.servers[0].kill()
    assert "Cannot connect to Redis." in outage_text(viewer)
    own_server.servers[0].start()

    assert "mail No worker 2" in text_of(viewer.get(URL).content.decode())


def test_fork_does_not_share_connections(redis_server: Store, children) -> None:
    write_queue(redis_server, "mail", ready=2)

    seen = children.call("tests.dashboard.test_outages:read_beside_a_fork").result()

    assert seen == ["child 2", "parent 2", True]


def read_beside_a_fork() -> list[object]:
    """Return what parent and child read, and whether the child's client is another. Runs in a separate process."""
    before = read_overview_snapshot()
    mine = clients.client("default")
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        depth = read_overview_snapshot().queues.queues[0].ready
        os.write(into, f"child {depth} {clients.client('default') is not mine}".encode())
        os._exit(0)
    os.waitpid(pid, 0)
    child, depth, other = os.read(out, 100).decode().split()
    return [f"{child} {depth}", f"parent {before.queues.queues[0].ready}", other == "True"]


def test_the_rest_of_the_admin_does_not_need_redis(settings) -> None:
    use(settings, f"redis://127.0.0.1:{free_port()}/0")
    client = client_of("superuser")

    for path in ("/admin/", "/admin/django_redis_components/", "/admin/auth/user/"):
        assert client.get(path).status_code == 200


def test_invalid_settings_are_reported(settings, viewer: Client) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTION": {}}

    text = outage_text(viewer)

    assert "The connection is misconfigured." in text
    assert "Did you mean &quot;CONNECTIONS&quot;?" in text


def test_unknown_connection_is_reported(redis_server: Store, settings, viewer: Client) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"USING": "defualt"}}

    assert "Did you mean &#x27;default&#x27;?" in outage_text(viewer)


def test_unknown_analytics_connection_fails_only_its_parts(redis_server: Store, settings, viewer: Client) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "ANALYTICS": {"USING": "other"}}

    found = viewer.get(URL, {"format": "json"}).json()

    assert list(found["errors"]) == ["visitors", "sign_ins"]
    assert found["queues"] == []


def test_outage_logs_a_warning_and_sends_no_mail(settings, viewer: Client, caplog) -> None:
    use(settings, f"redis://127.0.0.1:{free_port()}/0")

    viewer.get(URL)

    assert [(record.name, record.levelname) for record in caplog.records] == [
        ("django_redis_components.dashboard", "WARNING")
    ]
    assert caplog.messages[0].startswith("The dashboard cannot be shown (unreachable): Error 111")


def test_outage_as_json(settings, viewer: Client) -> None:
    port = free_port()
    use(settings, f"redis://:secret@127.0.0.1:{port}/0")

    response = viewer.get(URL, {"format": "json"})

    error = response.json()["error"]
    assert (error["code"], error["title"]) == ("unreachable", "Cannot connect to Redis.")
    assert error["address"] == f"127.0.0.1:{port} (connection 'default')"
    assert b"secret" not in response.content


def test_outage_is_hidden_without_permission(settings) -> None:
    use(settings, f"redis://127.0.0.1:{free_port()}/0")

    assert client_of("staff").get(URL).status_code == 403


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), "settings"),
        (UnsupportedServer("Redis 6.2.14", "here"), "too_old"),
        (NoPermissionError("this user has no permissions to run the 'zcard' command"), "permission"),
        (BusyLoadingError("Redis is loading the dataset in memory"), "loading"),
        (ClusterDownError("The cluster is down"), "cluster"),
        (MasterDownError("Link with MASTER is down and replica-serve-stale-data is set to 'no'."), "primary_down"),
        (NotConnected("refused"), "unreachable"),
        (ConnectionError("reset"), "unreachable"),
        (TimeoutError("Timeout reading from socket"), "timeout"),
        (ReadOnlyError("You can't write against a read only replica."), "read_only"),
        (OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "out_of_memory"),
        (ResponseError("unknown command"), "error"),
        (KeyError("host"), "bug"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_each_error_has_a_code_and_advice(error: Exception, code: str) -> None:
    outage = outage_of(error, "here")

    assert outage.code == code
    assert outage.title.endswith(".")
    assert outage.advice.endswith(".")
    assert outage.detail == str(error)
