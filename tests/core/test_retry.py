"""Which requests are retried, and for how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command

from django_redis_components.core.client import connections
from django_redis_components.core.client import retry as recovery
from django_redis_components.core.client.budget import page_budget
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.client.topology import topology_of
from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.core.exceptions import UnsupportedServer
from django_redis_components.core.keys import key
from django_redis_components.core.protocol import Batch, Command, Flow, Read, Wait
from tests.core.conftest import Driver
from tests.core.sample import ONCE, PUT
from tests.core.slots import moving
from tests.support import Proxy, Store, eventually
from tests.support.waiting import TIMEOUT_S
from tools.localserver import LocalServer, old_redis_binary

Start = Callable[..., LocalServer]


def point(settings: Any, url: str, **options: Any) -> None:
    """Make our alias ``default`` this URL."""
    settings.REDIS_COMPONENTS = {"PREFIX": "recovery", "CONNECTIONS": {"default": {"URL": url, **options}}}


def script_call(script: Any = PUT, name: str = "thing") -> Any:
    return script(target=key("r", name), counter=key("r", name, "times"), value="v")


# A lost reply


def test_command_is_not_retried_after_a_lost_reply(proxy: Proxy, redis_server: Store, drive: Driver) -> None:
    proxy.drop_next_reply(after=b"INCR")

    with pytest.raises(redis.ConnectionError, match="Connection closed by server"):
        drive.ask(Command("INCR", key("r", "n")), using="proxied")

    assert redis_server.raw.get(key("r", "n")) == b"1"


def test_wait_is_sent_again_with_a_script_that_it_counts_the_replicas_of(redis_server: Store, drive: Driver) -> None:
    redis_server.raw.script_flush()
    before = waits(redis_server.raw)

    replies = drive.ask(Batch([script_call(), Command("SET", key("r", "mark"), 1, "PX", 1), Command("WAIT", 1, 1)]))

    assert replies[-1] == 0
    assert waits(redis_server.raw) == before + 2


def test_wait_follows_the_write_that_it_counts_the_replicas_of(stores: Any, settings: Any, drive: Driver) -> None:
    cluster = stores.get("cluster").for_test("counted")
    point(settings, cluster.url)
    name = "counted:{slot}:n"

    with moving(cluster, name) as move:

        def flow() -> Flow[list[Any]]:
            yield Command("INCR", name)
            move.begin()
            move.finish()
            before = waits(move.target)
            replies: list[Any] = yield Batch([Command("INCR", name), Command("WAIT", 1, 1, key=name)])
            assert waits(move.target) == before + 1
            return replies

        assert drive(flow()) == [2, 0]
    cluster.delete_keys()


def waits(node: redis.Redis) -> int:
    """Return how many WAITs a node has executed."""
    return int(node.info("commandstats").get("cmdstat_wait", {"calls": 0})["calls"])


@pytest.mark.parametrize("times", [1, 3])
def test_read_is_retried_after_a_lost_reply(proxy: Proxy, redis_server: Store, drive: Driver, times: int) -> None:
    redis_server.raw.set(key("r", "n"), "here", px=60_000)
    proxy.drop_next_reply(after=b"GET", times=times)

    assert drive.ask(Read("GET", key("r", "n")), using="proxied") == b"here"
    assert proxy.dropped == times


def test_error_after_a_lost_reply_is_not_one_that_says_nothing_was_executed(proxy: Proxy, redis_server: Store) -> None:
    client = connections.client("proxied")
    client.execute(script_call())
    proxy.drop_next_reply(after=b"EVALSHA")
    proxy.stop_accepting()

    with pytest.raises(redis.ConnectionError) as caught:
        client.execute(script_call())
    proxy.accept_again()

    assert not isinstance(caught.value, NotConnected)
    assert redis_server.raw.get(key("r", "thing", "times")) == b"2"


def test_only_idempotent_scripts_are_retried_after_a_lost_reply(
    proxy: Proxy, redis_server: Store, drive: Driver
) -> None:
    drive.ask(script_call(), using="proxied")
    proxy.drop_next_reply(after=b"EVALSHA")
    assert drive.ask(script_call(), using="proxied") == [3, 42]

    proxy.drop_next_reply(after=b"EVALSHA")
    with pytest.raises(redis.ConnectionError):
        drive.ask(script_call(ONCE), using="proxied")
    assert redis_server.raw.get(key("r", "thing", "times")) == b"4"


def test_script_source_with_a_lost_reply_is_retried_by_its_sha(
    proxy: Proxy, redis_server: Store, drive: Driver
) -> None:
    redis_server.raw.script_flush()
    proxy.drop_next_reply(after=b"\r\nEVAL\r\n")

    assert drive.ask(script_call(), using="proxied") == [2, 42]


def test_only_idempotent_requests_of_a_lost_batch_are_retried(proxy: Proxy, redis_server: Store, drive: Driver) -> None:
    redis_server.raw.set(key("r", "a"), "here", px=60_000)
    batch = [Read("GET", key("r", "a")), Command("INCR", key("r", "n")), script_call(), Read("ECHO", "x")]
    drive.ask(script_call(), using="proxied")
    proxy.drop_next_reply(after=b"ECHO")

    replies = drive.ask(Batch(batch, return_exceptions=True), using="proxied")

    assert (replies[0], replies[2], replies[3]) == (b"here", [3, 42], b"x")
    assert isinstance(replies[1], redis.ConnectionError)
    assert redis_server.raw.get(key("r", "n")) == b"1"


# Bounds


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_idempotent_request_is_retried_as_often_as_configured(
    proxy: Proxy, redis_server: Store, settings: Any, drive: Driver, retries: int
) -> None:
    point(settings, proxy.url, RETRIES=retries)
    proxy.drop_next_reply(after=b"INCR", times=100)

    with pytest.raises(redis.ConnectionError, match="Connection closed by server"):
        drive.ask(Command("INCR", "recovery:n", retry=True))

    assert redis_server.raw.getdel("recovery:n") == str(1 + retries).encode()


def test_batch_has_the_retry_limits_of_one_request(
    proxy: Proxy, redis_server: Store, settings: Any, drive: Driver
) -> None:
    point(settings, proxy.url, RETRIES=2)
    proxy.drop_next_reply(after=b"INCR", times=100)

    replies = drive.ask(Batch([Command("INCR", "recovery:n", retry=True)] * 10, return_exceptions=True))

    assert all(isinstance(reply, redis.ConnectionError) for reply in replies)
    assert redis_server.raw.getdel("recovery:n") == b"30"


def test_no_retry_starts_after_the_socket_timeout(
    proxy: Proxy, redis_server: Store, settings: Any, drive: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "BACKOFF_BASE_S", 0.0)
    point(settings, proxy.url, RETRIES=20, SOCKET_TIMEOUT=0.5)

    def flow() -> Flow[None]:
        yield Read("PING")
        proxy.delay(30)
        yield Command("INCR", "recovery:n", retry=True)

    with pytest.raises(redis.exceptions.RedisError):
        drive(flow())

    eventually(lambda: redis_server.raw.exists("recovery:n"))
    assert int(redis_server.raw.getdel("recovery:n")) == 1


# A server that is unavailable


def test_script_is_loaded_when_the_budget_of_the_page_is_used_up(redis_server: Store) -> None:
    """A reply that arrives at once is waited for in any case; see `page_budget`."""
    connections.client().execute(script_call())  # opens the connection, which the budget does not allow
    redis_server.raw.script_flush()

    with page_budget(0.001) as budget:
        budget.spend(1)
        outcome = replies_or_timeout(lambda: connections.client().execute(script_call()))

    assert outcome in ([2, 42], TimeoutError)


@pytest.mark.parametrize("is_batch", [False, True])
def test_script_is_loaded_after_the_time_limit_of_the_request(redis_server: Store, is_batch: bool) -> None:
    client, call = connections.client(), script_call()
    limits = recovery.RetryLimits(client.endpoint.settings, time.monotonic() - 60)
    unknown = redis.exceptions.NoScriptError("No matching script.")
    topology = topology_of(client.endpoint)

    if is_batch:
        steps = recovery.recover_many([call], [unknown], topology, limits)
    else:
        steps = recovery.recover(call, unknown, topology, limits)
    sent = next(steps)

    assert isinstance(sent, recovery.SendCommands)
    assert [each[0] for each in sent.commands] == ["EVAL"]
    assert 0 < limits.left_s() <= recovery.ANSWERED_S
    with pytest.raises((redis.TimeoutError, StopIteration)) as caught:
        steps.throw(redis.TimeoutError("did not answer"))
    outcome = caught.value.value[0] if isinstance(caught.value, StopIteration) else caught.value
    assert isinstance(outcome, redis.TimeoutError)


def test_no_other_request_of_a_batch_is_sent_after_the_time_limit(redis_server: Store) -> None:
    client, read = connections.client(), Read("GET", key("r", "n"))
    limits = recovery.RetryLimits(client.endpoint.settings, time.monotonic() - 60)
    errors = [redis.exceptions.NoScriptError("No matching script."), redis.TimeoutError("did not answer")]

    steps = recovery.recover_many([script_call(), read], errors, topology_of(client.endpoint), limits)

    assert [each[0] for each in next(steps).commands] == ["EVAL"]
    with pytest.raises(StopIteration) as end:
        steps.send([[2, 42]])
    assert end.value.value == [[2, 42], errors[1]]


def replies_or_timeout(ask: Callable[[], Any]) -> Any:
    """Return the reply, or the class of the error of a server that is too slow for the test."""
    try:
        return ask()
    except redis.TimeoutError:
        return TimeoutError


def test_client_recovers_after_an_outage(own_server: Store, drive: Driver) -> None:
    server = own_server.servers[0]
    command = Command("SET", key("r", "n"), 1, "PX", 60_000)

    def flow() -> Flow[Any]:
        yield command
        server.stop()
        for request in (command, Read("PING"), Batch([command, Read("PING")])):
            with pytest.raises(redis.ConnectionError, match=rf"127\.0\.0\.1:{server.port}"):
                yield request
        server.start()
        return (yield Batch([command, Read("GET", key("r", "n"))]))

    assert drive(flow()) == [b"OK", b"1"]


def test_request_that_was_not_sent_is_retried_even_if_it_writes(
    proxy: Proxy, redis_server: Store, settings: Any, drive: Driver
) -> None:
    point(settings, proxy.url, RETRIES=20)
    proxy.stop_accepting()
    later = threading.Timer(0.04, proxy.accept_again)
    later.start()

    assert drive.ask(Command("INCR", "recovery:n")) == 1

    later.join()
    redis_server.raw.delete("recovery:n")


def test_wait_returns_during_an_outage_and_the_next_request_raises(own_server: Store, drive: Driver) -> None:
    own_server.servers[0].stop()

    assert drive.ask(Wait(key("r", "wakeup"), 1)) is None
    with pytest.raises(NotConnected):
        drive.ask(Wait(key("r", "wakeup"), 1), Read("PING"))


def test_wait_returns_after_a_lost_connection_and_the_next_wait_gets_the_wakeup(
    proxy: Proxy, redis_server: Store, drive: Driver
) -> None:
    wakeup = key("r", "wakeup")
    redis_server.raw.rpush(wakeup, "one", "two")
    proxy.drop_next_reply(after=b"BLPOP")

    assert drive.ask(Wait(wakeup, 30), using="proxied") is None
    assert drive.ask(Wait(wakeup, 30), using="proxied") == b"two"


def test_wait_on_a_key_of_another_type_is_an_error(redis_server: Store, drive: Driver) -> None:
    redis_server.raw.set(key("r", "wakeup"), "not a list", px=60_000)

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        drive.ask(Wait(key("r", "wakeup"), 1))


def test_wait_that_the_server_unblocks_returns_none(redis_server: Store, drive: Driver) -> None:
    def unblock() -> None:
        blocked = eventually(lambda: [c for c in redis_server.raw.client_list() if c["cmd"] == "blpop"])
        redis_server.raw.client_unblock(int(blocked[0]["id"]), error=True)

    helper = threading.Thread(target=unblock)
    helper.start()

    assert drive.ask(Wait(key("r", "wakeup"), 60)) is None
    helper.join()


# A server that refuses


def test_request_is_retried_while_the_server_loads_its_data(start_server: Start, settings: Any, drive: Driver) -> None:
    server = start_server("--enable-debug-command", "local", "--loading-process-events-interval-bytes", "1024")
    with redis.Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as raw:
        raw.mset({f"filler:{number}": "x" * 100 for number in range(2_000)})
        raw.config_set("key-load-delay", 300)
        point(settings, server.url, RETRIES=20, SOCKET_TIMEOUT=TIMEOUT_S)

        def flow() -> Flow[tuple[Any, Any]]:
            yield Read("PING")
            reload = threading.Thread(target=lambda: raw.execute_command("DEBUG", "RELOAD"))
            reload.start()
            eventually(lambda: is_loading(server))
            first = yield Command("INCR", "n")
            reload.join()
            return first, (yield Batch([Command("INCR", "n")]))

        assert drive(flow()) == (1, [2])


def is_loading(server: LocalServer) -> bool:
    with redis.Redis.from_url(server.url, socket_timeout=TIMEOUT_S) as client:
        try:
            client.get("x")
        except redis.BusyLoadingError:
            return True
    return False


def test_write_to_a_replica_is_an_error(sentinel_server: Store, settings: Any, drive: Driver) -> None:
    point(settings, sentinel_server.servers[1].url, RETRIES=1)

    with pytest.raises(redis.ReadOnlyError, match="read only replica"):
        drive.ask(Command("INCR", "recovery:n"))


def test_write_to_a_replica_is_refused_without_a_pause(
    sentinel_server: Store, settings: Any, drive: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = sentinel_server.servers[1].url
    monkeypatch.setattr("django_redis_components.core.client.topology.RECONNECT_EVERY_S", 1e9)
    monkeypatch.setattr(recovery.random, "uniform", None)  # no pause is chosen
    point(settings, replica)

    def flow() -> Flow[int]:
        refused = 0
        for _ in range(3):
            try:
                yield Command("INCR", "recovery:n")
            except redis.ReadOnlyError:
                refused += 1
        return refused

    with redis.Redis.from_url(replica) as raw:
        raw.config_resetstat()
        assert drive(flow()) == 3
        assert raw.info("commandstats")["cmdstat_incr"]["rejected_calls"] == 4, "one of three connects again"


def test_write_follows_a_proxy_that_leads_to_the_new_primary(
    sentinel_server: Store, settings: Any, drive: Driver
) -> None:
    primary, replica = (each.url for each in sentinel_server.servers[:2])
    with Proxy(replica) as proxy:
        point(settings, proxy.url)

        def flow() -> Flow[list[Any]]:
            yield Read("GET", "recovery:followed")
            proxy.lead_to(primary)
            replies: list[Any] = yield Batch([Command("SET", "recovery:followed", 1, "PX", 60_000), Read("PING")])
            return replies

        assert drive(flow()) == [b"OK", b"PONG"]


def test_all_requests_that_a_replica_refused_follow_a_proxy_to_the_new_primary(
    sentinel_server: Store, settings: Any
) -> None:
    primary, replica = (each.url for each in sentinel_server.servers[:2])
    with Proxy(replica) as proxy:
        point(settings, proxy.url)
        client, together = connections.client(), threading.Barrier(20, action=lambda: proxy.lead_to(primary))

        def write(number: int) -> Any:
            client.execute(Read("GET", "recovery:together"))
            together.wait(60)
            return client.execute(Command("SET", f"recovery:{number}", 1, "PX", 60_000))

        with ThreadPoolExecutor(20) as pool:
            assert list(pool.map(write, range(20))) == [b"OK"] * 20


def test_write_to_a_replica_reconnects_once(sentinel_server: Store, settings: Any) -> None:
    replica = sentinel_server.servers[1].url
    point(settings, replica)
    client = connections.client()
    limits = recovery.RetryLimits(client.endpoint.settings, time.monotonic())
    topology, refused = topology_of(client.endpoint), redis.exceptions.ReadOnlyError("READONLY")
    steps = recovery.recover(Command("INCR", "recovery:n"), refused, topology, limits)

    sent = next(steps)
    with pytest.raises(redis.exceptions.ReadOnlyError):
        steps.send([refused])

    assert sent.reconnects
    assert topology.reconnects(time.monotonic()) is None


def test_too_many_clients_is_a_transient_error_that_names_the_server(
    own_server: Store, settings: Any, drive: Driver
) -> None:
    point(settings, own_server.url, RETRIES=0)
    own_server.raw.config_set("maxclients", 1)

    with pytest.raises(NotConnected) as caught:
        drive.ask(Read("PING"))
    own_server.raw.config_set("maxclients", 100)

    address, _, reason = str(caught.value).partition(": ")
    assert address == f"127.0.0.1:{own_server.servers[0].port}"
    if drive.name == "run":  # asyncio may meet the closed connection before it reads the reason
        assert reason == "max number of clients reached"
    assert drive.ask(Read("PING")) == b"PONG"


def test_old_redis_is_rejected_with_both_versions(start_server: Start, settings: Any, drive: Driver) -> None:
    server = start_server(binary=old_redis_binary())
    point(settings, server.url)

    for request in (Read("PING"), Batch([Read("PING")]), Wait("recovery:wakeup", 1)):
        with pytest.raises(UnsupportedServer) as caught:
            drive.ask(request)

        assert str(caught.value) == (
            f"Redis 6.2.14 at 127.0.0.1:{server.port} (connection 'default') is too old: "
            "expected at least Redis 7.0 or Valkey 7.2."
        )
        assert caught.value.version == "Redis 6.2.14"
        assert caught.value.address == f"127.0.0.1:{server.port} (connection 'default')"


# Credentials


def url_with(server: Store, login: str) -> str:
    return server.url.replace("redis://", f"redis://{login}@")


LOGIN_HINT = 'Check user name and password in REDIS_COMPONENTS["CONNECTIONS"]["default"].'


@pytest.mark.parametrize(
    ("login", "reply"),
    [
        (":wrong", "WRONGPASS invalid username-password pair or user is disabled"),
        ("unknown:right", "WRONGPASS invalid username-password pair or user is disabled"),
        ("", "NOAUTH Authentication required"),
    ],
)
def test_wrong_password_names_the_setting_and_is_not_retried(
    own_server: Store, settings: Any, drive: Driver, login: str, reply: str
) -> None:
    own_server.raw.config_set("requirepass", "right")
    port = own_server.servers[0].port
    point(settings, url_with(own_server, login) if login else own_server.url)
    text = f"127.0.0.1:{port} (connection 'default') rejected the login: {reply.partition(' ')[2]}. {LOGIN_HINT}"

    for request in (Read("PING"), Batch([Read("PING")]), Wait("recovery:wakeup", 1)):
        with pytest.raises(redis.AuthenticationError) as caught:
            drive.ask(request)
        assert str(caught.value) == text
    with pytest.raises(redis.AuthenticationError, match="rejected the login"):
        WakeupListener(connections.client(), ["recovery:wakeup"]).wait(1)
    own_server.raw.execute_command("AUTH", "right")
    own_server.raw.config_set("requirepass", "")


def test_number_of_a_database_that_does_not_exist_is_explained(own_server: Store, settings: Any, drive: Driver) -> None:
    port = own_server.servers[0].port
    point(settings, f"redis://127.0.0.1:{port}/9999")
    text = (
        f"127.0.0.1:{port} (connection 'default') has no such database: DB index is out of range. The number at the end"
        " of the URL is that of a database; a server has 16, from 0, unless configured. Change"
        ' REDIS_COMPONENTS["CONNECTIONS"]["default"].'
    )

    for request in (Read("PING"), Batch([Read("PING")])):
        with pytest.raises(redis.ResponseError) as caught:
            drive.ask(request)
        assert str(caught.value) == text
    with pytest.raises(CommandError) as refused:
        call_command("redis", "doctor")
    assert str(refused.value) == text


def test_password_is_sent_on_every_kind_of_connection(own_server: Store, settings: Any, drive: Driver) -> None:
    own_server.raw.execute_command("ACL", "SETUSER", "me", "on", ">p@ss", "~*", "+@all")
    point(settings, url_with(own_server, "me:p%40ss"))

    assert drive.ask(Read("ACL", "WHOAMI", key=None)) == b"me"
    assert drive.ask(Wait("recovery:wakeup", 0.01)) is None


def test_user_without_permission_for_info_can_send_requests(own_server: Store, settings: Any, drive: Driver) -> None:
    own_server.raw.execute_command("ACL", "SETUSER", "me", "on", ">pw", "~*", "+@all", "-info")
    point(settings, url_with(own_server, "me:pw"))

    assert drive.ask(Command("INCR", "recovery:n")) == 1
    assert str(connections.client().server()) == "unknown 0.0.0"


def test_password_required_later_names_the_setting(own_server: Store, settings: Any, drive: Driver) -> None:
    point(settings, own_server.url)

    def flow() -> Flow[None]:
        yield Read("PING")
        own_server.raw.execute_command("ACL", "SETUSER", "default", "-ping")
        yield Read("PING")

    with pytest.raises(redis.exceptions.NoPermissionError, match="no permissions to run the 'ping' command"):
        drive(flow())


# Cluster


def test_moved_slot_is_followed_and_remembered(stores: Any, settings: Any, drive: Driver) -> None:
    cluster = stores.get("cluster").for_test("moved")
    point(settings, cluster.url)
    name = "moved:{slot}:n"

    with moving(cluster, name) as move:

        def flow() -> Flow[list[Any]]:
            replies = [(yield Command("INCR", name))]
            move.begin()
            move.finish()
            replies.append((yield Command("INCR", name)))
            replies.append((yield Command("INCR", name)))
            before = rejected(move.source)
            replies.append((yield Command("INCR", name)))
            replies += yield Batch([Command("INCR", name)] * 2)
            assert rejected(move.source) == before
            return replies

        assert drive(flow()) == [1, 2, 3, 4, 5, 6]
    cluster.delete_keys()


def rejected(node: redis.Redis) -> int:
    """Return the number of MOVED replies of the node."""
    return int(node.info("errorstats").get("errorstat_MOVED", {"count": 0})["count"])


def test_slot_can_move_back_and_forth_during_requests(stores: Any, settings: Any, drive: Driver) -> None:
    cluster = stores.get("cluster").for_test("moves")
    point(settings, cluster.url, RETRIES=20)
    name, stop, counted = "moves:{slot}:n", threading.Event(), list[int]()

    def flow() -> Flow[None]:
        while not stop.is_set():
            counted.append((yield Command("INCR", name)))
            counted.extend((yield Batch([Command("INCR", name), Command("INCR", name)])))

    worker = threading.Thread(target=lambda: drive(flow()))
    with moving(cluster, name) as move:
        worker.start()
        for each in (move, move.back()) * 2:
            seen = len(counted)
            eventually(lambda seen=seen: len(counted) > seen + 20)
            each.begin()
            each.finish()
        stop.set()
        worker.join(60)
    assert counted == list(range(1, len(counted) + 1))
    cluster.delete_keys()


def test_wait_follows_a_moved_slot(stores: Any, settings: Any, drive: Driver) -> None:
    cluster = stores.get("cluster").for_test("wakeup")
    point(settings, cluster.url)
    wakeup = "wakeup:{slot}"

    with moving(cluster, wakeup) as move:

        def flow() -> Flow[list[Any]]:
            yield Read("GET", "wakeup:{slot}:x")
            move.begin()
            move.finish()
            cluster.raw.rpush(wakeup, "ding")
            return [(yield Wait(wakeup, 30)), (yield Wait(wakeup, 30))]

        assert drive(flow()) == [None, b"ding"]


def test_standalone_url_of_a_cluster_is_explained(stores: Any, settings: Any, drive: Driver) -> None:
    cluster = stores.get("cluster")
    point(settings, cluster.servers[0].url)
    unavailable = next(
        name for name in map(str, range(100)) if cluster.raw.get_node_from_key(name).port != cluster.servers[0].port
    )
    text = (
        rf"^127\.0\.0\.1:{cluster.servers[0].port} \(connection 'default'\) is a node of a Cluster: "
        r'use a redis\+cluster:// URL in REDIS_COMPONENTS\["CONNECTIONS"\]\["default"\]\.$'
    )

    for request in (Command("INCR", unavailable), Batch([Command("INCR", unavailable)]), Wait(unavailable, 1)):
        with pytest.raises(redis.ResponseError, match=text):
            drive.ask(request)


def test_unserved_slot_is_an_error_after_the_retries(start_server: Start, settings: Any, drive: Driver) -> None:
    server = start_server("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
    with redis.Redis.from_url(server.url) as raw:
        raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 100)
        eventually(lambda: raw.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
    point(settings, f"redis+cluster://127.0.0.1:{server.port}", RETRIES=1)
    text = r"^No node of the cluster serves the slot of 'unserved'\. Server: 127\.0\.0\.1:\d+ "

    for request in (Command("INCR", "unserved"), Batch([Command("INCR", "unserved")])):
        with pytest.raises(redis.exceptions.ClusterDownError, match=text):
            drive.ask(request)
    assert drive.ask(Wait("unserved", 0.01)) is None
    with pytest.raises(redis.exceptions.ClusterDownError, match=text):
        SyncClient(connections.endpoint("default")).pool_for("unserved").open()
