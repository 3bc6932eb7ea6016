"""Discovery of the node of a key, with real Sentinels and Clusters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from django_redis_components.core.client import connections
from django_redis_components.core.client.endpoint import Node
from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.client.topology import Cluster, Topology, topology_of
from django_redis_components.core.client.urls import from_url
from django_redis_components.core.client.wakeup_listener import WakeupGroup, WakeupListener
from django_redis_components.core.protocol import Batch, Command, Flow, Read, Wait, run
from django_redis_components.core.settings.sections import ConnectionSettings
from tests.core.conftest import Driver
from tests.support import Store, eventually, run_async
from tests.support.clusters import slot_queries
from tests.support.killing import kill_all
from tests.support.sentinels import SERVICE, start_sentinel
from tests.support.stores import Stores
from tools.localserver import LocalServer, valkey_binary

Start = Callable[..., LocalServer]


def point(settings: Any, url: str, **options: Any) -> None:
    settings.REDIS_COMPONENTS = {"PREFIX": "topology", "CONNECTIONS": {"default": {"URL": url, **options}}}


@pytest.fixture
def own_sentinel(stores: Stores, settings: Any) -> Iterator[list[LocalServer]]:
    """A master, a replica and a Sentinel for one test."""
    servers = start_sentinel(valkey_binary(), stores.new_directory("own-sentinel"))
    point(settings, f"redis+sentinel://127.0.0.1:{servers[2].port}/{SERVICE}", RETRIES=20)
    yield servers
    connections.close_all()
    kill_all(servers)


def discover(topology: Topology) -> list[Node]:
    """Run a discovery and return the nodes that it queried."""
    queried: list[Node] = []
    steps = topology.discover()
    try:
        query = next(steps)
        while True:
            queried.append(query.node)
            try:
                with redis.Redis(query.node.host, query.node.port) as node:
                    reply = node.execute_command(*query.args)
            except redis.RedisError as exc:
                query = steps.throw(exc)
            else:
                query = steps.send(reply)
    except StopIteration:
        return queried


def address_of_master(sentinel: LocalServer) -> int:
    with redis.Redis.from_url(sentinel.url) as client:
        return int(client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)[1])


def fail_over(servers: list[LocalServer]) -> None:
    """Make the replica the master, and the old master its replica at once: the Sentinel would wait ten seconds."""
    before = address_of_master(servers[2])
    with redis.Redis.from_url(servers[2].url) as client:
        client.execute_command("SENTINEL", "FAILOVER", SERVICE)
    eventually(lambda: address_of_master(servers[2]) != before)
    old = next(server for server in servers[:2] if server.port == before)
    with redis.Redis.from_url(old.url) as client:
        client.replicaof("127.0.0.1", address_of_master(servers[2]))
        client.execute_command("CLIENT", "KILL", "TYPE", "NORMAL")


def test_standalone_server_needs_no_discovery() -> None:
    topology = topology_of(from_url("default", "redis://h:7000", ConnectionSettings()))

    assert list(topology.discover()) == []
    assert topology.locate("any") == Node("h", 7000)


# Sentinel


def test_sentinel_is_queried_once_and_the_master_receives_requests(sentinel_server: Store, drive: Driver) -> None:
    master, _, sentinel = sentinel_server.servers
    port = Read("CONFIG", "GET", "port", key="x")

    def sentinel_commands_of(*requests: Any) -> int:
        connections.close_all()
        with redis.Redis.from_url(sentinel.url) as watcher:
            before = int(watcher.info("stats")["total_commands_processed"])
            assert drive.ask(*requests) == [b"port", str(master.port).encode()]
            return int(watcher.info("stats")["total_commands_processed"]) - before

    assert sentinel_commands_of(port) == sentinel_commands_of(*[port] * 20)


def test_requests_follow_a_failover(own_sentinel: list[LocalServer], drive: Driver) -> None:
    replica = own_sentinel[1]

    def flow() -> Flow[list[Any]]:
        yield Command("SET", "n", 1)
        fail_over(own_sentinel)
        replies = [(yield Wait("wakeup", 0.01)), (yield Command("INCR", "n"))]
        replies += yield Batch([Command("INCR", "n"), Read("GET", "n"), Read("CONFIG", "GET", "port", key="n")])
        return replies

    assert drive(flow()) == [None, 2, 3, b"3", [b"port", str(replica.port).encode()]]


def test_wakeup_listener_follows_a_failover(own_sentinel: list[LocalServer]) -> None:
    client = connections.client()
    listener = WakeupListener(client, ["wakeup"])
    assert listener.wait(0.01) is False

    fail_over(own_sentinel)

    with pytest.raises(redis.exceptions.RedisError):
        listener.wait(60)
    client.execute(Command("ZADD", "wakeup", 1, "ding"))
    assert listener.wait(60) is True
    listener.close()


def test_command_after_a_failed_one_goes_to_the_new_master(
    own_sentinel: list[LocalServer], settings: Any, drive: Driver
) -> None:
    master, replica, sentinel = own_sentinel
    point(settings, f"redis+sentinel://127.0.0.1:{sentinel.port}/{SERVICE}", RETRIES=0)
    command = Command("INCR", "n")

    def flow() -> Flow[Any]:
        yield command
        master.kill()
        with pytest.raises(redis.ConnectionError):
            yield command
        eventually(lambda: address_of_master(sentinel) == replica.port)
        with redis.Redis.from_url(replica.url) as raw:
            eventually(lambda: raw.info("replication")["role"] == "master")
        return (yield command)

    assert drive(flow()) == 2


def test_unreachable_sentinel_is_skipped_and_asked_last(sentinel_server: Store, settings: Any, drive: Driver) -> None:
    port = sentinel_server.servers[2].port
    point(settings, f"redis+sentinel://127.0.0.1:1,127.0.0.1:{port}/{SERVICE}")

    assert drive.ask(Read("PING")) == b"PONG"
    topology = topology_of(connections.endpoint("default"))
    assert discover(topology) == [Node("127.0.0.1", 1), Node("127.0.0.1", port)]

    topology.forget()

    assert discover(topology) == [Node("127.0.0.1", port)]


# Cluster


def test_key_is_located_at_the_primary_of_its_slot(stores: Stores, settings: Any) -> None:
    cluster = stores.get("cluster")
    point(settings, cluster.url)
    topology = topology_of(connections.endpoint("default"))
    assert isinstance(topology, Cluster)
    discover(topology)

    for number in range(200):
        name = f"key{number}"
        assert topology.locate(name) == topology.locate(name.encode())
        found = topology.locate(name)
        assert found is not None
        assert found.port == cluster.raw.get_node_from_key(name).port
    assert {node.port for node in topology.nodes()} == {server.port for server in cluster.servers}


def test_key_per_primary_covers_every_primary(stores: Stores, settings: Any) -> None:
    cluster = stores.get("cluster")
    point(settings, cluster.url)
    client = connections.client()

    keys = client.key_per_primary()  # before the first request, so the slots are not known yet

    assert {cluster.raw.get_node_from_key(key).port for key in keys} == {server.port for server in cluster.servers}
    assert len(set(client.execute_many([Read("CLUSTER", "MYID", key=key) for key in keys]))) == len(keys)
    assert run_async(lambda: connections.aclient().key_per_primary()) == keys


@pytest.mark.parametrize("name", ["valkey", "sentinel"])
def test_key_per_primary_of_a_single_primary_is_any_key(name: str, stores: Stores, settings: Any) -> None:
    point(settings, stores.get(name).url)

    assert connections.client().key_per_primary() == ["0"]


def test_slot_of_a_key_equals_the_servers(stores: Stores) -> None:
    raw = stores.get("cluster").servers[0]
    with redis.Redis.from_url(raw.url) as client:
        for name in ("a", "{tag}:a", "张三", "{}x", 7, 2.5):
            assert client.execute_command("CLUSTER", "KEYSLOT", name) == key_slot(str(name).encode())


def test_command_without_a_key_goes_to_any_primary(stores: Stores, settings: Any, drive: Driver) -> None:
    point(settings, stores.get("cluster").url)

    assert drive.ask(Read("PING"), Read("PING")) == b"PONG"


def test_one_reachable_seed_is_enough(stores: Stores, settings: Any, drive: Driver) -> None:
    cluster = stores.get("cluster").for_test("seeds")
    point(settings, f"redis+cluster://127.0.0.1:1,127.0.0.1:{cluster.servers[2].port}")

    for number in range(10):
        assert drive.ask(Command("SET", f"seeds:{number}", number, "PX", 60_000)) == b"OK"
    assert len(cluster.keys()) == 10
    cluster.delete_keys()


def test_error_of_unreachable_seeds_names_each(settings: Any, drive: Driver) -> None:
    point(settings, "redis+cluster://127.0.0.1:1,127.0.0.1:2", RETRIES=0)

    with pytest.raises(NotConnected) as caught:
        drive.ask(Read("PING"))

    text = str(caught.value)
    assert text.startswith("No node of the cluster 127.0.0.1:1, 127.0.0.1:2 (connection 'default') answered: ")
    assert "; 127.0.0.1:2: Error 111" in text


def test_cluster_url_of_a_standalone_server_is_an_error(redis_server: Store, settings: Any, drive: Driver) -> None:
    point(settings, f"redis+cluster://127.0.0.1:{redis_server.servers[0].port}", RETRIES=0)

    with pytest.raises(NotConnected, match="This instance has cluster support disabled"):
        drive.ask(Read("PING"))


def test_cluster_without_slots_is_an_error(start_server: Start, settings: Any, drive: Driver) -> None:
    server = start_server("--cluster-enabled", "yes")
    point(settings, f"redis+cluster://127.0.0.1:{server.port}", RETRIES=0)

    with pytest.raises(NotConnected, match=rf"answered: 127\.0\.0\.1:{server.port} knows no slots$"):
        drive.ask(Read("PING"))


def test_node_without_an_announced_address_is_reached_at_the_seed(
    start_server: Start, settings: Any, drive: Driver
) -> None:
    server = start_server("--cluster-enabled", "yes", "--cluster-preferred-endpoint-type", "unknown-endpoint")
    with redis.Redis.from_url(server.url) as raw:
        raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        eventually(lambda: raw.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
    point(settings, f"redis+cluster://127.0.0.1:{server.port}")

    assert drive.ask(Command("INCR", "n")) == 1


def test_batch_uses_one_connection_per_node_and_keeps_its_order(stores: Stores, settings: Any) -> None:
    cluster = stores.get("cluster").for_test("batch")
    point(settings, cluster.url)
    names = [f"batch:{number}" for number in range(60)]
    client = connections.client()

    client.execute_many([Command("SET", name, at, "PX", 60_000) for at, name in enumerate(names)])
    replies = client.execute_many([Read("GET", name) for name in names])

    assert replies == [str(at).encode() for at in range(60)]
    assert len(set(client.execute_many([Read("CLIENT", "ID", key=name) for name in names]))) <= 3
    cluster.delete_keys()


def key_of(cluster: Store, server: LocalServer) -> str:
    """Return a key that the server serves."""
    names = (f"key{number}" for number in range(1_000))
    return next(name for name in names if cluster.raw.get_node_from_key(name).port == server.port)


def lose(server: LocalServer, key: str) -> Iterator[Any]:
    """Send a request whose reply is lost: the server closes the connection that waits for it."""

    def close() -> None:
        with redis.Redis.from_url(server.url) as raw:
            eventually(lambda: raw.info("clients")["blocked_clients"])
            raw.execute_command("CLIENT", "KILL", "TYPE", "NORMAL")

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(redis.ConnectionError):
        yield Command("BLPOP", key, 0)
    thread.join()


def test_node_that_did_not_answer_delays_no_requests_to_the_others(
    stores: Stores, settings: Any, drive: Driver
) -> None:
    cluster = stores.get("cluster")
    point(settings, cluster.url)
    lost, other = (key_of(cluster, server) for server in cluster.servers[:2])

    def flow() -> Flow[int]:
        yield Batch([Read("GET", lost), Read("GET", other)])
        yield from lose(cluster.servers[0], lost)
        before = slot_queries(cluster.servers)
        yield Read("GET", other)
        return slot_queries(cluster.servers) - before

    assert drive(flow()) == 0  # it would ask the node that does not answer first


def test_node_that_did_not_answer_is_asked_for_the_slots_last(stores: Stores, settings: Any) -> None:
    point(settings, stores.get("cluster").url)
    topology = topology_of(connections.endpoint("default"))
    assert isinstance(topology, Cluster)
    discover(topology)
    first, second, *_ = topology.nodes()

    topology.forget("{06S}")  # of slot 0
    assert topology.locate("{06S}") is None
    assert discover(topology) == [second]
    steps = topology.discover()
    assert next(steps).node == second
    assert steps.throw(redis.TimeoutError()).node not in {first, second}


def test_wakeup_group_asks_for_the_slots_of_a_node_that_was_away(stores: Stores, settings: Any) -> None:
    cluster = stores.get("cluster")
    point(settings, cluster.url)
    away = False
    group = WakeupGroup([WakeupListener(connections.client(), ["wakeup"])], is_away=lambda _: away)
    group.wait(0.0)

    away = True
    group.wait(0.0)
    away, before = False, slot_queries(cluster.servers)
    group.wait(0.0)
    group.close()

    assert slot_queries(cluster.servers) > before  # another node may serve them now


def test_key_per_primary_covers_a_primary_that_did_not_answer(stores: Stores, settings: Any) -> None:
    cluster = stores.get("cluster")
    point(settings, cluster.url)
    client, key = connections.client(), key_of(cluster, cluster.servers[0])
    run(client, lose(cluster.servers[0], key))

    assert len(client.key_per_primary()) == len(cluster.servers)


def test_all_threads_reconnect_to_a_restarted_node(stores: Stores, settings: Any, start_server: Start) -> None:
    server = start_server("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", appendonly=True)
    with redis.Redis.from_url(server.url) as raw:
        raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        eventually(lambda: raw.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
    point(settings, f"redis+cluster://127.0.0.1:{server.port}", RETRIES=20, SOCKET_TIMEOUT=10)
    client, stop, failures, done = connections.client(), threading.Event(), list[Exception](), list[int]()

    def work() -> None:
        while not stop.is_set():
            try:
                done.append(client.execute(Command("INCR", "n", retry=True)))
            except redis.exceptions.RedisError as exc:
                failures.append(exc)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(done) > 20)
    server.stop()
    server.start()
    seen = len(done)
    eventually(lambda: len(done) > seen + 100)
    stop.set()
    for thread in threads:
        thread.join()

    assert client.execute(Command("INCR", "n")) > 100
