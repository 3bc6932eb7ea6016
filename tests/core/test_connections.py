"""Clients of aliases: every kind of URL, threads, forks and event loops; no connection stays open."""

from __future__ import annotations

import asyncio
import gc
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from django_redis_components.core.client import connections
from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.client.server import parse_info
from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.keys import key
from django_redis_components.core.protocol import Batch, Command, Flow, Read, Wait, arun, run
from django_redis_components.taskqueue.stats.queue_stats import eviction_policy_of
from tests.core.conftest import Driver
from tests.support import Store, eventually, run_async, run_together
from tests.support.clients import client_ids
from tests.support.missing import skip_missing
from tests.support.processes import MEASURED, Children
from tools.localserver import LocalServer, ServerError, redis_binary

pytestmark = pytest.mark.integration

Start = Callable[..., LocalServer]
WHO = Read("CLIENT", "ID", key=None)


def one(request: Any) -> Flow[Any]:
    return (yield request)


def point(settings: Any, url: str, **more: str) -> None:
    entries = {alias: {"URL": each} for alias, each in {"default": url, **more}.items()}
    settings.REDIS_COMPONENTS = {"PREFIX": "connections", "CONNECTIONS": entries}


# Aliases


def test_error_of_an_unknown_alias_suggests_the_nearest_one(settings: Any) -> None:
    point(settings, "redis://h", tasks="redis://h/1")

    with pytest.raises(ConfigurationError) as caught:
        connections.client("taks")

    assert str(caught.value) == "REDIS_COMPONENTS[\"CONNECTIONS\"] has no 'taks'. Did you mean 'tasks'?"


def test_error_of_a_dissimilar_alias_lists_all_aliases(settings: Any) -> None:
    point(settings, "redis://h", tasks="redis://h/1")

    async def main() -> None:
        connections.aclient("zzz")

    with pytest.raises(ConfigurationError) as caught:
        run_async(main)

    assert str(caught.value) == "REDIS_COMPONENTS[\"CONNECTIONS\"] has no 'zzz'. Known aliases: default, tasks."


def test_alias_must_be_a_string(settings: Any) -> None:
    with pytest.raises(TypeError, match=r"^using=None: expected the name of a connection\.$"):
        connections.client(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("client", [connections.page_client, connections.apage_client])
def test_alias_of_a_page_client_must_be_a_string(client: Any, settings: Any) -> None:
    with pytest.raises(TypeError, match=r"^using=\[\]: expected the name of a connection\.$"):
        client([])


def test_invalid_settings_are_raised_at_first_use(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"PREFIKS": "x"}

    with pytest.raises(ConfigurationError, match='Did you mean "PREFIX"'):
        connections.client()


def test_alias_has_one_client_per_process(redis_server: Store, settings: Any) -> None:
    point(settings, redis_server.url, tasks=redis_server.url)

    found = run_together(8, lambda: connections.client())

    assert len(set(map(id, found))) == 1
    assert connections.client("tasks") is not found[0]


def test_change_of_the_settings_replaces_the_client(redis_server: Store, own_server: Store, settings: Any) -> None:
    point(settings, redis_server.url)
    first = connections.client()
    assert run(first, one(Command("SET", "connections:here", 1, "PX", 60_000))) == b"OK"

    point(settings, own_server.url)

    assert connections.client() is not first
    assert run(connections.client(), one(Read("EXISTS", "connections:here"))) == 0


def test_change_of_the_settings_replaces_the_clients_of_a_running_loop(
    redis_server: Store, own_server: Store, settings: Any
) -> None:
    async def main() -> Any:
        point(settings, redis_server.url)
        first = connections.aclient()
        await arun(first, one(Command("SET", "connections:here", 1, "PX", 60_000)))
        connection_id = await arun(first, one(Read("CLIENT", "ID", key=None)))
        assert connections.aclient() is first
        point(settings, own_server.url)
        assert connections.aclient() is not first
        await asyncio.to_thread(eventually, lambda: connection_id not in client_ids(redis_server))
        return await arun(connections.aclient(), one(Read("EXISTS", "connections:here")))

    assert run_async(main) == 0


def test_version_of_the_server_is_read_once(store: Store) -> None:
    client = connections.client()

    info = client.server()

    assert info is client.server()
    assert info.product == ("Redis" if store.name == "redis7" else "Valkey")
    assert info.version >= (7, 0, 0)
    assert str(info) == f"{info.product} {info.fields.get('valkey_version') or info.fields['redis_version']}"


def test_version_of_the_server_is_read_on_an_event_loop(redis_server: Store) -> None:
    async def main() -> tuple[Any, Any]:
        client = connections.aclient()
        return await client.server(), await client.server()

    first, second = run_async(main)

    assert first is second
    assert first.product == "Valkey"


# Kinds of URL


def round_trip(drive: Driver) -> list[Any]:
    name = key("kinds", "n")
    batch = Batch([Command("RPUSH", name, "ding", "dong"), Command("PEXPIRE", name, 60_000)])
    replies = [drive.ask(batch), drive.ask(Wait(name, 30)), drive.ask(Command("LPOP", name))]
    connection = connections.client().pool_for(name).open()
    connection.send("ECHO", "hello")
    replies.append(connection.read())
    connection.close()
    return replies


ANSWERS = [[2, 1], b"ding", b"dong", b"hello"]


def test_client_connects_by_standalone_and_cluster_urls(store: Store, drive: Driver) -> None:
    assert round_trip(drive) == ANSWERS


def test_client_connects_by_a_sentinel_url(sentinel_server: Store, drive: Driver) -> None:
    assert round_trip(drive) == ANSWERS


def test_client_connects_by_a_unix_socket_with_password_and_database(
    stores: Any, start_server: Start, settings: Any, drive: Driver
) -> None:
    directory = stores.new_directory("unix")
    server = start_server("--requirepass", "p w", unixsocket=directory / "s")
    point(settings, f"unix://:p%20w@{server.unixsocket}?db=3")

    assert round_trip(drive) == ANSWERS
    drive.ask(Command("SET", "x", 1))
    with redis.Redis(unix_socket_path=str(server.unixsocket), password="p w", db=3) as raw:
        assert raw.get("x") == b"1"


def test_database_of_the_url_is_selected(redis_server: Store, settings: Any, drive: Driver) -> None:
    point(settings, redis_server.url.removesuffix("/0") + "/7")

    assert drive.ask(Command("SET", "connections:db", 1, "PX", 1_000)) == b"OK"
    assert redis_server.raw.get("connections:db") is None


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key beside it."""
    if shutil.which("openssl") is None:
        skip_missing("openssl is not installed")
    path = tmp_path_factory.mktemp("tls") / "cert.pem"
    kind = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1")
    name = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ["openssl", "req", *kind, *name, "-keyout", str(path.with_name("key.pem")), "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


@pytest.fixture
def tls_port(start_server: Start, certificate: Path) -> int:
    """Port of a server that speaks TLS. The embedded Valkey is built without; Debian's Redis has it."""
    try:
        binary = redis_binary()
    except ServerError as exc:
        skip_missing(f"no server with TLS: {exc}")
    files = ["--tls-cert-file", str(certificate), "--tls-key-file", str(certificate.with_name("key.pem"))]
    files += ["--tls-ca-cert-file", str(certificate), "--tls-auth-clients", "no"]
    server = start_server(*files, binary=binary)
    with redis.Redis.from_url(server.url) as raw:
        for port in range(30_000, 30_200):
            try:
                raw.config_set("tls-port", port)
            except redis.ResponseError:
                continue
            return port
    raise AssertionError("no free port for TLS")


def test_host_that_no_name_server_knows_is_named(settings: Any, drive: Driver) -> None:
    point(settings, "redis://a..b:6379/0")
    with pytest.raises(NotConnected, match=r"a\.\.b:6379: .*label (empty|too long)"):
        round_trip(drive)


def test_client_connects_over_tls_and_verifies_the_certificate(
    tls_port: int, certificate: Path, settings: Any, drive: Driver
) -> None:
    point(settings, f"rediss://127.0.0.1:{tls_port}/0?ssl_ca_certs={certificate}")
    assert round_trip(drive) == ANSWERS

    point(settings, f"rediss://127.0.0.1:{tls_port}/0")
    with pytest.raises(NotConnected, match="certificate verify failed"):
        drive.ask(Read("PING"))


def test_coroutines_share_a_tls_connection(tls_port: int, certificate: Path, settings: Any) -> None:
    point(settings, f"rediss://127.0.0.1:{tls_port}/0?ssl_ca_certs={certificate}")
    texts = [str(number) * 1_000 for number in range(300)]  # several records at once

    async def main() -> list[list[Any]]:
        client = connections.aclient()
        return [await asyncio.gather(*(client.execute(Read("ECHO", text)) for text in texts)) for _ in range(3)]

    assert run_async(main) == [[text.encode() for text in texts]] * 3


def test_wakeup_listener_works_over_tls(tls_port: int, certificate: Path, settings: Any) -> None:
    point(settings, f"rediss://127.0.0.1:{tls_port}/0?ssl_ca_certs={certificate}")
    listener = WakeupListener(connections.client(), [key("tls", "wakeup")])

    assert listener.wait(0.02) is False
    connections.client().execute(Command("ZADD", key("tls", "wakeup"), 1, "ding"))
    assert listener.wait(60) is True
    listener.close()


def test_tls_connections_of_an_ended_loop_cause_no_warning(tls_port: int, certificate: Path, settings: Any) -> None:
    point(settings, f"rediss://127.0.0.1:{tls_port}/0?ssl_ca_certs={certificate}")

    for end in (end_in_order, end_abruptly):
        loop = asyncio.new_event_loop()
        assert loop.run_until_complete(ask_on_this_loop()) > 0
        end(loop)
        asyncio.run(ask_on_this_loop())
        gc.collect()


# Forks


def test_forked_child_opens_new_connections_and_the_parent_keeps_its_own(
    redis_server: Store, children: Children
) -> None:
    name = key("fork", "n")

    before, child, child_through_old_client, counted_in_child, after, counted = children.call(
        "tests.core.acts:fork_with_open_links", name, env=MEASURED
    ).result()  # type: ignore[misc]

    assert before == after
    assert child not in (before, child_through_old_client)
    assert child_through_old_client != before
    assert (counted_in_child, counted) == (1, 2)


def test_tls_connections_of_the_parent_survive_a_fork(
    tls_port: int, certificate: Path, settings: Any, children: Children
) -> None:
    point(settings, f"rediss://127.0.0.1:{tls_port}/0?ssl_ca_certs={certificate}")

    before, child, _, counted_in_child, after, counted = children.call(
        "tests.core.acts:fork_with_open_links", key("fork", "n"), env=MEASURED
    ).result()  # type: ignore[misc]

    assert before == after != child
    assert counted == counted_in_child + 1


@pytest.mark.parametrize("tls", [False, True])
def test_connection_in_use_is_closed_in_the_child_and_open_in_the_parent(
    redis_server: Store, request: pytest.FixtureRequest, settings: Any, children: Children, tls: bool
) -> None:
    if tls:
        certificate = request.getfixturevalue("certificate")
        port = request.getfixturevalue("tls_port")
        point(settings, f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={certificate}")

    before, child, after = children.call(  # type: ignore[misc]
        "tests.core.acts:fork_with_a_connection_in_use", key("fork", "n"), env=MEASURED
    ).result()

    assert before == after
    assert "ConnectionError" in str(child)


def test_fork_inside_a_loop_leaves_the_connections_to_the_parent(redis_server: Store, children: Children) -> None:
    before, child, after, element = children.call(  # type: ignore[misc]
        "tests.core.acts:fork_in_a_loop", key("fork", "wakeup"), env=MEASURED
    ).result()

    assert before == after
    assert isinstance(child, int), child
    assert child != before
    assert element == "ding"


# Event loops


async def ask_on_this_loop() -> int:
    number: int = await arun(connections.aclient(), one(WHO))
    return number


def end_in_order(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def end_abruptly(loop: asyncio.AbstractEventLoop) -> None:
    loop.close()


def test_each_loop_has_one_client_per_alias(redis_server: Store, settings: Any) -> None:
    point(settings, redis_server.url, tasks=redis_server.url)

    async def main() -> list[int]:
        assert connections.aclient() is connections.aclient()
        return [id(connections.aclient()), id(connections.aclient("tasks"))]

    async def both() -> list[int]:
        return await main() + await main()

    first, second = run_together(2, lambda: asyncio.run(both()))

    assert len(set(first)) == len(set(second)) == 2


def test_connections_of_a_loop_are_closed_when_it_shuts_down(redis_server: Store) -> None:
    at_rest = client_ids(redis_server)

    for _ in range(3):
        asyncio.run(ask_on_this_loop())
        gc.collect()

    eventually(lambda: client_ids(redis_server) <= at_rest)


def test_connections_of_an_abruptly_closed_loop_are_closed_by_the_next_one(redis_server: Store) -> None:
    at_rest = client_ids(redis_server)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(ask_on_this_loop())
    end_abruptly(loop)
    assert len(client_ids(redis_server) - at_rest) == 1

    asyncio.run(ask_on_this_loop())
    gc.collect()

    eventually(lambda: client_ids(redis_server) <= at_rest)


def test_loop_can_close_its_clients_and_continue(redis_server: Store) -> None:
    async def main() -> tuple[int, int]:
        await connections.aclose_all()  # nothing is open yet
        first = await ask_on_this_loop()
        await connections.aclose_all()
        return first, await ask_on_this_loop()

    first, second = asyncio.run(main())

    assert first != second


def test_running_request_is_answered_after_its_client_was_closed(redis_server: Store) -> None:
    at_rest = client_ids(redis_server)

    async def main() -> bytes | None:
        waiting = asyncio.ensure_future(connections.aclient().wait(key("loops", "wakeup"), 30))
        await asyncio.sleep(0.01)
        await connections.aclose_all()
        await arun(connections.aclient(), one(Command("RPUSH", key("loops", "wakeup"), "ding")))
        return await waiting

    assert asyncio.run(main()) == b"ding"
    eventually(lambda: client_ids(redis_server) <= at_rest)


def test_close_all_closes_free_connections(redis_server: Store) -> None:
    at_rest = client_ids(redis_server)
    run_together(4, lambda: connections.client().execute(WHO))
    assert client_ids(redis_server) - at_rest

    connections.close_all()

    eventually(lambda: client_ids(redis_server) <= at_rest)
    assert connections.client().execute(Read("PING")) == b"PONG"


def test_info_of_a_server_in_a_folder_that_is_not_utf_8_is_read() -> None:
    info = parse_info(b"redis_version:7.4.1\r\nexecutable:/srv/caf\xe9/redis-server\r\n")

    assert str(info) == "Redis 7.4.1"
    assert eviction_policy_of(b"executable:/srv/caf\xe9\r\nmaxmemory_policy:noeviction\r\n") == "noeviction"
