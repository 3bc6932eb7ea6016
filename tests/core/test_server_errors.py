"""Errors of a server that answers: each names the connection, and what to change."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command

from django_redis_components.core.client import connections
from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.client.server import explain_error, parse_info
from django_redis_components.core.protocol import Batch, Command, Read
from django_redis_components.transactions import Pipe, atomic_update
from tests.core.conftest import Driver
from tests.support import Store, run_async
from tools.localserver import LocalServer

Start = Callable[..., LocalServer]

SETTING = 'REDIS_COMPONENTS["CONNECTIONS"]["default"]'
SERVER = "Server: h:1 (connection 'default')."


def point(settings: Any, url: str, **options: Any) -> None:
    """Make our alias ``default`` this URL."""
    settings.REDIS_COMPONENTS = {"PREFIX": "errors", "CONNECTIONS": {"default": {"URL": url, "RETRIES": 1, **options}}}


#: Replies of other services, and of broken proxies, which a parser of Redis's protocol accepts or fails at.
MALFORMED = {
    "map with a list as key": b"%1\r\n*0\r\n+a\r\n",
    "empty push": b">0\r\n",
    "redirection without a node": b"-MOVED 1\r\n",
    "redirection without a port": b"-ASK 1 nohost\r\n",
}


@pytest.fixture
def web_server() -> Iterator[int]:
    """A port that answers each request as a web server does."""
    yield from serving(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def serving(answer: bytes) -> Iterator[int]:
    """Serve a port that answers each request with these bytes, and then closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client = listener.accept()[0]
                except OSError:
                    return
                with client:
                    client.recv(100)
                    client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize("request_", [Read("PING"), Batch([Read("PING")])], ids=["one", "batch"])
def test_port_of_another_service_is_named(web_server: int, settings: Any, drive: Driver, request_: Any) -> None:
    point(settings, f"redis://127.0.0.1:{web_server}")

    with pytest.raises(redis.InvalidResponse) as caught:
        drive.ask(request_)

    assert str(caught.value) == (
        f"127.0.0.1:{web_server} (connection 'default') does not answer as a Redis server: Protocol error, "
        f'got "H" as reply type byte. Check address and TLS in {SETTING}.'
    )


@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("request_", [Read("PING"), Batch([Read("PING")])], ids=["one", "batch"])
def test_bytes_that_are_no_reply_are_an_invalid_response(
    settings: Any, drive: Driver, request_: Any, answer: bytes
) -> None:
    with contextlib.contextmanager(serving)(answer) as port:
        point(settings, f"redis://127.0.0.1:{port}")

        with pytest.raises(
            redis.InvalidResponse, match=rf"^127\.0\.0\.1:{port} .* does not answer as a Redis server: "
        ):
            drive.ask(request_)


class Unpaid(ValueError):
    pass


def test_error_of_a_signal_handler_is_not_one_of_the_reply(settings: Any) -> None:
    def handle(*_: object) -> None:
        raise Unpaid

    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts connections, and never answers
        point(settings, f"redis://127.0.0.1:{silent.getsockname()[1]}")
        before = signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with pytest.raises(Unpaid):
                connections.client().execute(Read("PING"))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def test_error_of_a_signal_handler_ends_the_requests_of_all_coroutines(redis_server: Store) -> None:
    raised: list[bool] = []

    def handle(_number: int, frame: Any) -> None:
        if frame.f_code.co_name == "buffer_updated" and not raised:
            raised.append(True)
            raise Unpaid

    async def ask_until_raised() -> set[type]:
        found: set[type] = set()
        deadline_at = time.monotonic() + 20
        while not raised:
            assert time.monotonic() < deadline_at, "no signal arrived while buffer_updated read replies"
            requests = [connections.aclient().execute(Read("PING")) for _ in range(500)]
            replies = await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=True), 20)
            found = {type(each) for each in replies}
        return found

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    try:
        assert run_async(ask_until_raised) <= {bytes, redis.InvalidResponse, NotConnected}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("redis+cluster://127.0.0.1:{port}", "a node of a Cluster"),
        ("redis+sentinel://127.0.0.1:{port}/main", "a Sentinel"),
    ],
)
def test_number_in_place_of_the_nodes_is_named(settings: Any, drive: Driver, url: str, what: str) -> None:
    with contextlib.contextmanager(serving_forever)(b":1\r\n") as port:
        point(settings, url.format(port=port))

        with pytest.raises(NotConnected, match=f"127.0.0.1:{port} does not answer as {what}"):
            drive.ask(Read("PING"))


def serving_forever(answer: bytes) -> Iterator[int]:
    """Serve a port that answers everything that is sent with these bytes."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while received := self.request.recv(4_096):
                self.request.sendall(answer * received.count(b"*"))  # one for each command

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_timeout_of_tls_names_it(settings: Any, drive: Driver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:  # it accepts connections, and never answers
        port = plain.getsockname()[1]
        point(settings, f"rediss://127.0.0.1:{port}", CONNECT_TIMEOUT=0.1, SOCKET_TIMEOUT=0.3)

        with pytest.raises(NotConnected) as caught:
            drive.ask(Read("PING"))

    text = "TLS is on, and a port without TLS does not answer it: check port and TLS in"
    pattern = rf"127\.0\.0\.1:{port}: Timeout connecting to server after \d[\d.]* s\. {re.escape(f'{text} {SETTING}.')}"
    assert re.match(pattern, str(caught.value))


def test_server_that_accepts_connections_and_says_nothing_is_named_with_the_wait(settings: Any, drive: Driver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        point(settings, f"redis://127.0.0.1:{port}", SOCKET_TIMEOUT=0.3, RETRIES=0)

        with pytest.raises(NotConnected, match=rf"127\.0\.0\.1:{port}.* after \d[\d.]* s$"):
            drive.ask(Read("PING"))


def test_command_that_meets_another_service_ends_as_if_redis_is_unavailable(web_server: int, settings: Any) -> None:
    point(settings, f"redis://127.0.0.1:{web_server}")

    with pytest.raises(CommandError, match="does not answer as a Redis server") as caught:
        call_command("redis", "locks", "list")

    assert caught.value.returncode == 3


def test_server_without_info_is_used(start_server: Start, settings: Any, drive: Driver) -> None:
    point(settings, start_server("--rename-command", "INFO", "").url)

    assert drive.ask(Read("PING")) == b"PONG"
    assert str(connections.client().server()) == "unknown 0.0.0"


def test_server_that_reports_no_version_is_of_an_unknown_product() -> None:
    assert str(parse_info(b"# Server\r\nproxy_version:1.2\r\n")) == "unknown 0.0.0"


def test_error_of_a_disabled_command_has_its_name_and_no_arguments(
    start_server: Start, settings: Any, drive: Driver
) -> None:
    server = start_server("--rename-command", "SET", "")
    point(settings, server.url)

    for request in (Command("SET", "k", "s3cret"), Command("SET", "k", "s3cret", retry=True)):
        with pytest.raises(redis.ResponseError) as caught:
            drive.ask(request)

        assert str(caught.value) == (
            f"Unknown command SET: 127.0.0.1:{server.port} (connection 'default') is too old, or has it disabled or"
            " renamed."
        )


@pytest.mark.parametrize(
    "error",
    [
        redis.exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
        redis.exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
        redis.exceptions.MasterDownError("Link with MASTER is down"),
        redis.exceptions.ClusterDownError("The cluster is down"),
        redis.exceptions.ResponseError("MISCONF Errors writing to the AOF file: No space left on device"),
        redis.exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."),
        redis.exceptions.ResponseError("BUSY Redis is busy running a script."),
        redis.exceptions.ResponseError("DENIED Redis is running in protected mode."),
    ],
    ids=lambda error: str(error).split()[0],
)
def test_error_of_the_state_of_a_server_names_it_once(settings: Any, error: redis.RedisError) -> None:
    point(settings, "redis://h:1")
    text, endpoint = str(error), connections.endpoint("default")

    assert explain_error(explain_error(error, endpoint), endpoint) is error
    assert str(error) == f"{text.rstrip('.')}. {SERVER}"


@pytest.mark.parametrize("command", [Command("SET", "k", "v"), Command("SET", "k", "v", retry=True)])
def test_write_to_a_full_or_read_only_server_names_it(
    own_server: Store, settings: Any, drive: Driver, command: Command
) -> None:
    point(settings, own_server.url)
    name = f"Server: 127.0.0.1:{own_server.servers[0].port} (connection 'default')."
    own_server.raw.config_set("maxmemory", 1)

    with pytest.raises(redis.exceptions.OutOfMemoryError) as full:
        drive.ask(command)
    own_server.raw.config_set("maxmemory", 0)
    own_server.raw.replicaof("127.0.0.1", 1)
    with pytest.raises(redis.ReadOnlyError) as read_only:
        drive.ask(command)

    assert str(full.value) == f"command not allowed when used memory > 'maxmemory'. {name}"
    assert str(read_only.value) == f"You can't write against a read only replica. {name}"


def test_errors_of_a_transaction_name_the_setting(own_server: Store, settings: Any) -> None:
    def change(pipe: Pipe) -> None:
        pipe.multi()
        pipe.set("{k}", 1)

    own_server.raw.config_set("requirepass", "other")
    point(settings, own_server.url)

    with pytest.raises(redis.AuthenticationError, match=r"rejected the login: .* in REDIS_COMPONENTS"):
        atomic_update(change, "{k}")
    point(settings, own_server.url, PASSWORD="other")
    own_server.raw.auth("other")
    own_server.raw.config_set("maxmemory", 1)
    with pytest.raises(redis.exceptions.OutOfMemoryError, match=r"Server: 127\.0\.0\.1:"):
        atomic_update(change, "{k}")


def test_transaction_on_a_node_of_a_cluster_names_the_scheme_at_once(stores: Any, settings: Any) -> None:
    ports = [server.port for server in stores.get("cluster").servers]

    def change(pipe: Pipe) -> None:
        pipe.multi()
        pipe.set("{k}", 1)

    errors = []
    for port in ports:
        point(settings, f"redis://127.0.0.1:{port}")
        try:
            atomic_update(change, "{k}", timeout=600)
        except redis.ResponseError as exc:
            errors.append(str(exc))

    assert len(errors) == len(ports) - 1
    assert all("use a redis+cluster:// URL" in error for error in errors)


def test_missing_file_of_tls_is_named(settings: Any, drive: Driver, tmp_path: Path, redis_server: Store) -> None:
    missing = tmp_path / "ca.pem"
    point(settings, redis_server.url.replace("redis:", "rediss:") + f"?ssl_ca_certs={missing}", RETRIES=0)

    with pytest.raises(NotConnected) as caught:
        drive.ask(Read("PING"))

    assert str(caught.value).endswith(f"Files in {SETTING} that cannot be read: ssl_ca_certs={str(missing)!r}.")
