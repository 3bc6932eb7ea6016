"""What is sent again, what never is, and how long it is tried."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from django_redis_components.core.client import connections
from django_redis_components.core.client import retry as recovery
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.core.exceptions import NotConnected, UnsupportedServer
from django_redis_components.core.keys import key
from django_redis_components.core.protocol import Batch, Command, Flow, Read, Wait
from example_project.localserver import LocalServer, old_redis_binary
from tests.core.conftest import Driver
from tests.core.sample import ONCE, PUT
from tests.core.slots import moving
from tests.support import Proxy, Store, eventually

Start = Callable[..., LocalServer]


def point(settings: Any, url: str, **options: Any) -> None:
    """Make our alias ``default`` this URL."""
    settings.REDIS_COMPONENTS = {"PREFIX": "recovery", "CONNECTIONS": {"default": {"URL": url, **options}}}


def script_call(script: Any = PUT, name: str = "thing") -> Any:
    return script(target=key("r", name), counter=key("r", name, "times"), value="v")


# A lost reply


def test_a_command_whose_reply_was_lost_is_not_sent_again(proxy: Proxy, redis_server: Store, drive: Driver) -> None:
    proxy.drop_next_reply(after=b"INCR")

    with pytest.raises(redis.ConnectionError, match="Connection closed by server"):
        drive.ask(Command("INCR", key("r", "n")), using="proxied")

    assert redis_server.raw.get(key("r", "n")) == b"1"


@pytest.mark.parametrize("times", [1, 3])
def test_a_read_whose_reply_was_lost_is_sent_again(
    proxy: Proxy, redis_server: Store, drive: Driver, times: int
) -> None:
    redis_server.raw.set(key("r", "n"), "here", px=60_000)
    proxy.drop_next_reply(after=b"GET", times=times)

    assert drive.ask(Read("GET", key("r", "n")), using="proxied") == b"here"
    assert proxy.dropped == times


def test_an_idempotent_script_is_sent_again_and_another_is_not(
    proxy: Proxy, redis_server: Store, drive: Driver
) -> None:
    drive.ask(script_call(), using="proxied")
    proxy.drop_next_reply(after=b"EVALSHA")
    assert drive.ask(script_call(), using="proxied") == [3, 42]

    proxy.drop_next_reply(after=b"EVALSHA")
    with pytest.raises(redis.ConnectionError):
        drive.ask(script_call(ONCE), using="proxied")
    assert redis_server.raw.get(key("r", "thing", "times")) == b"4"


def test_a_text_whose_reply_was_lost_is_sent_again_by_its_sha(proxy: Proxy, redis_server: Store, drive: Driver) -> None:
    redis_server.raw.script_flush()
    proxy.drop_next_reply(after=b"\r\nEVAL\r\n")

    assert drive.ask(script_call(), using="proxied") == [2, 42]


def test_of_a_batch_that_was_lost_only_what_is_safe_is_sent_again(
    proxy: Proxy, redis_server: Store, drive: Driver
) -> None:
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
def test_what_is_safe_is_sent_once_and_then_as_often_as_the_setting_says(
    proxy: Proxy, redis_server: Store, settings: Any, drive: Driver, retries: int
) -> None:
    point(settings, proxy.url, RETRIES=retries)
    proxy.drop_next_reply(after=b"INCR", times=100)

    with pytest.raises(redis.ConnectionError, match="Connection closed by server"):
        drive.ask(Command("INCR", "recovery:n", retry=True))

    assert redis_server.raw.getdel("recovery:n") == str(1 + retries).encode()


def test_a_batch_has_the_bounds_of_one_request(proxy: Proxy, redis_server: Store, settings: Any, drive: Driver) -> None:
    point(settings, proxy.url, RETRIES=2)
    proxy.drop_next_reply(after=b"INCR", times=100)

    replies = drive.ask(Batch([Command("INCR", "recovery:n", retry=True)] * 10, return_exceptions=True))

    assert all(isinstance(reply, redis.ConnectionError) for reply in replies)
    assert redis_server.raw.getdel("recovery:n") == b"30"


def test_no_try_begins_after_the_socket_timeout_has_passed_again(
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
    assert int(redis_server.raw.getdel("recovery:n")) <= 3


# A server that is away


def test_a_server_that_is_away_is_an_error_and_then_works_again_by_itself(own_server: Store, drive: Driver) -> None:
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


def test_what_could_not_be_sent_is_tried_again_even_if_it_is_no_read(
    proxy: Proxy, redis_server: Store, settings: Any, drive: Driver
) -> None:
    point(settings, proxy.url, RETRIES=20)
    proxy.stop_accepting()
    later = threading.Timer(0.04, proxy.accept_again)
    later.start()

    assert drive.ask(Command("INCR", "recovery:n")) == 1

    later.join()
    redis_server.raw.delete("recovery:n")


def test_a_wait_on_a_server_that_is_away_returns_and_the_next_question_meets_the_error(
    own_server: Store, drive: Driver
) -> None:
    own_server.servers[0].stop()

    assert drive.ask(Wait(key("r", "bell"), 1)) is None
    with pytest.raises(NotConnected):
        drive.ask(Wait(key("r", "bell"), 1), Read("PING"))


def test_a_wait_that_is_cut_returns_and_the_next_one_hears_the_bell(
    proxy: Proxy, redis_server: Store, drive: Driver
) -> None:
    bell = key("r", "bell")
    redis_server.raw.rpush(bell, "one", "two")
    proxy.drop_next_reply(after=b"BLPOP")

    assert drive.ask(Wait(bell, 1), using="proxied") is None
    assert drive.ask(Wait(bell, 1), using="proxied") == b"two"


def test_a_wait_on_what_is_no_bell_is_an_error(redis_server: Store, drive: Driver) -> None:
    redis_server.raw.set(key("r", "bell"), "no list", px=60_000)

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        drive.ask(Wait(key("r", "bell"), 1))


def test_a_wait_that_the_server_breaks_off_is_asked_again(redis_server: Store, drive: Driver) -> None:
    def unblock() -> None:
        blocked = eventually(lambda: [c for c in redis_server.raw.client_list() if c["cmd"] == "blpop"])
        redis_server.raw.client_unblock(int(blocked[0]["id"]), error=True)

    helper = threading.Thread(target=unblock)
    helper.start()

    assert drive.ask(Wait(key("r", "bell"), 60)) is None
    helper.join()


# A server that refuses


def test_a_server_that_loads_its_data_is_waited_for(start_server: Start, settings: Any, drive: Driver) -> None:
    server = start_server("--enable-debug-command", "local", "--loading-process-events-interval-bytes", "1024")
    with redis.Redis.from_url(server.url) as raw:
        raw.mset({f"filler:{number}": "x" * 100 for number in range(2_000)})
        raw.config_set("key-load-delay", 300)
        point(settings, server.url, RETRIES=20)

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
    with redis.Redis.from_url(server.url) as client:
        try:
            client.get("x")
        except redis.BusyLoadingError:
            return True
    return False


def test_a_replica_refuses_writes_and_says_so(sentinel_server: Store, settings: Any, drive: Driver) -> None:
    point(settings, sentinel_server.servers[1].url, RETRIES=1)

    with pytest.raises(redis.ReadOnlyError, match="read only replica"):
        drive.ask(Command("INCR", "recovery:n"))


def test_too_many_clients_are_an_error_that_names_the_server_and_passes(
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


def test_an_old_redis_is_refused_with_its_version_and_what_is_needed(
    start_server: Start, settings: Any, drive: Driver
) -> None:
    server = start_server(binary=old_redis_binary())
    point(settings, server.url)

    for request in (Read("PING"), Batch([Read("PING")]), Wait("recovery:wakeup", 1)):
        with pytest.raises(UnsupportedServer) as caught:
            drive.ask(request)

        assert str(caught.value) == (
            f"Redis 6.2.14 at 127.0.0.1:{server.port} (connection 'default') is too old: "
            "expected at least Redis 7.0 or Valkey 7.2."
        )
        assert caught.value.found == "Redis 6.2.14"
        assert caught.value.address == f"127.0.0.1:{server.port} (connection 'default')"


# Credentials


def url_with(server: Store, login: str) -> str:
    return server.url.replace("redis://", f"redis://{login}@")


LOGIN_HINT = 'Check user name and password in REDIS_COMPONENTS["CONNECTIONS"]["default"].'


@pytest.mark.parametrize(
    ("login", "said"),
    [
        (":wrong", "WRONGPASS invalid username-password pair or user is disabled"),
        ("nobody:right", "WRONGPASS invalid username-password pair or user is disabled"),
        ("", "NOAUTH Authentication required"),
    ],
)
def test_a_wrong_password_says_where_to_look_and_is_not_tried_again(
    own_server: Store, settings: Any, drive: Driver, login: str, said: str
) -> None:
    own_server.raw.config_set("requirepass", "right")
    port = own_server.servers[0].port
    point(settings, url_with(own_server, login) if login else own_server.url)
    text = f"127.0.0.1:{port} (connection 'default') refused the login: {said.partition(' ')[2]}. {LOGIN_HINT}"

    for request in (Read("PING"), Batch([Read("PING")]), Wait("recovery:wakeup", 1)):
        with pytest.raises(redis.AuthenticationError) as caught:
            drive.ask(request)
        assert str(caught.value) == text
    with pytest.raises(redis.AuthenticationError, match="refused the login"):
        WakeupListener(connections.client(), ["recovery:wakeup"]).wait(1)
    own_server.raw.execute_command("AUTH", "right")
    own_server.raw.config_set("requirepass", "")


def test_the_right_password_is_sent_over_every_kind_of_connection(
    own_server: Store, settings: Any, drive: Driver
) -> None:
    own_server.raw.execute_command("ACL", "SETUSER", "me", "on", ">p@ss", "~*", "+@all")
    point(settings, url_with(own_server, "me:p%40ss"))

    assert drive.ask(Read("ACL", "WHOAMI", key=None)) == b"me"
    assert drive.ask(Wait("recovery:bell", 0.01)) is None


def test_a_user_who_may_not_ask_for_the_version_is_served(own_server: Store, settings: Any, drive: Driver) -> None:
    own_server.raw.execute_command("ACL", "SETUSER", "me", "on", ">pw", "~*", "+@all", "-info")
    point(settings, url_with(own_server, "me:pw"))

    assert drive.ask(Command("INCR", "recovery:n")) == 1
    assert str(connections.client().server()) == "unknown 0.0.0"


def test_a_password_that_is_asked_for_later_is_explained_too(own_server: Store, settings: Any, drive: Driver) -> None:
    point(settings, own_server.url)

    def flow() -> Flow[None]:
        yield Read("PING")
        own_server.raw.execute_command("ACL", "SETUSER", "default", "-ping")
        yield Read("PING")

    with pytest.raises(redis.exceptions.NoPermissionError, match="no permissions to run the 'ping' command"):
        drive(flow())


# Cluster


def test_a_slot_that_has_moved_is_followed_and_then_known(stores: Any, settings: Any, drive: Driver) -> None:
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
    """How many answers MOVED the node has given."""
    return int(node.info("errorstats").get("errorstat_MOVED", {"count": 0})["count"])


def test_a_slot_may_move_there_and_back_while_it_is_used(stores: Any, settings: Any, drive: Driver) -> None:
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


def test_a_wait_follows_a_slot_that_has_moved(stores: Any, settings: Any, drive: Driver) -> None:
    cluster = stores.get("cluster").for_test("bell")
    point(settings, cluster.url)
    bell = "bell:{slot}"

    with moving(cluster, bell) as move:

        def flow() -> Flow[list[Any]]:
            yield Read("GET", "bell:{slot}:x")
            move.begin()
            move.finish()
            cluster.raw.rpush(bell, "ding")
            return [(yield Wait(bell, 1)), (yield Wait(bell, 1))]

        assert drive(flow()) == [None, b"ding"]


def test_a_standalone_url_of_a_cluster_is_an_error_that_says_so(stores: Any, settings: Any, drive: Driver) -> None:
    cluster = stores.get("cluster")
    point(settings, cluster.servers[0].url)
    away = next(
        name for name in map(str, range(100)) if cluster.raw.get_node_from_key(name).port != cluster.servers[0].port
    )
    text = (
        rf"^127\.0\.0\.1:{cluster.servers[0].port} \(connection 'default'\) is a node of a Cluster: "
        r'use a redis\+cluster:// URL in REDIS_COMPONENTS\["CONNECTIONS"\]\["default"\]\.$'
    )

    for request in (Command("INCR", away), Batch([Command("INCR", away)]), Wait(away, 1)):
        with pytest.raises(redis.ResponseError, match=text):
            drive.ask(request)


def test_a_slot_that_nobody_serves_is_named_after_the_tries(start_server: Start, settings: Any, drive: Driver) -> None:
    server = start_server("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
    with redis.Redis.from_url(server.url) as raw:
        raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 100)
        eventually(lambda: raw.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
    point(settings, f"redis+cluster://127.0.0.1:{server.port}", RETRIES=1)
    text = r"^No node of the cluster serves the slot of 'away'\.$"

    for request in (Command("INCR", "away"), Batch([Command("INCR", "away")])):
        with pytest.raises(redis.exceptions.ClusterDownError, match=text):
            drive.ask(request)
    assert drive.ask(Wait("away", 0.01)) is None
    with pytest.raises(redis.exceptions.ClusterDownError, match=text):
        SyncClient(connections.endpoint("default")).pool_for("away").open()
