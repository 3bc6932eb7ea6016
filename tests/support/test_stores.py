"""The servers that the fixtures lend."""

from __future__ import annotations

import pytest
import redis
from django.conf import settings

from tests.support import Store
from tests.support.processes import Children
from tests.support.stores import Stores
from tools import localserver
from tools.localserver import LocalServer, old_redis_binary


def test_each_store_answers_and_keeps_the_keys_of_the_test(store: Store) -> None:
    for number in range(20):
        store.raw.set(f"{store.prefix}:k:{{{number}}}", number)

    assert len(store.keys()) == 20
    assert store.raw.get(f"{store.prefix}:k:{{7}}") == b"7"


def test_a_store_deletes_the_keys_of_the_test_and_no_others(store: Store) -> None:
    store.raw.set(f"{store.prefix}:mine", 1)
    store.raw.set(f"{store.prefix}x:other", 1, px=60_000)

    store.delete_keys()

    assert store.keys() == []
    assert store.raw.delete(f"{store.prefix}x:other") == 1


def test_the_settings_point_at_the_store(store: Store) -> None:
    assert settings.REDIS_COMPONENTS["PREFIX"] == store.prefix
    assert settings.REDIS_COMPONENTS["CONNECTIONS"]["default"]["URL"] == store.url


def test_the_cluster_has_three_masters_that_share_all_slots(stores: Stores) -> None:
    raw = stores.get("cluster").raw

    assert len(raw.get_primaries()) == 3
    assert {raw.get_node_from_key(key).port for key in ("a", "b", "c")} == {
        s.port for s in stores.get("cluster").servers
    }


def test_the_sentinel_names_its_master(sentinel_server: Store) -> None:
    master, _replica, sentinel = sentinel_server.servers

    finder = redis.Sentinel([("127.0.0.1", sentinel.port)])

    assert finder.discover_master("drc-tests") == ("127.0.0.1", master.port)
    assert sentinel_server.raw.ping()


def test_a_stopped_server_keeps_address_and_data(own_server: Store) -> None:
    server = own_server.servers[0]
    own_server.raw.set(f"{own_server.prefix}:k", "kept")
    before = server.url, server.pid

    server.stop()
    with pytest.raises(redis.ConnectionError):
        own_server.raw.ping()
    server.start()

    assert own_server.raw.get(f"{own_server.prefix}:k") == b"kept"
    assert server.url == before[0]
    assert server.pid != before[1]


def choose_only(port: int) -> str:
    localserver.PORT_RANGE = (port, port + 1)
    try:
        return str(localserver.free_port())
    except localserver.ServerError as exc:
        return str(exc)


def test_port_of_a_stopped_server_is_not_chosen_by_another_process(children: Children) -> None:
    port = localserver.free_port()

    assert children.call(f"{__name__}:choose_only", port).result() == f"no free port between {port} and {port + 1}"


def test_the_old_redis_is_a_real_redis_6(stores: Stores) -> None:
    server = LocalServer(old_redis_binary(), directory=stores.new_directory("old"), die_with_parent=True)

    with server, redis.Redis.from_url(server.url) as client:
        assert client.info("server")["redis_version"].startswith("6.2.")


def test_a_server_that_cannot_start_says_why(stores: Stores) -> None:
    from tools.localserver import ServerError

    server = LocalServer(directory=stores.new_directory("bad"), extra_args=("--maxmemory", "a lot"))

    with pytest.raises(ServerError, match="argument must be a memory value"):
        server.start()
    assert not server.running


def test_a_server_listens_on_a_unix_socket(stores: Stores) -> None:
    directory = stores.new_directory("unix")
    server = LocalServer(directory=directory, unixsocket=directory / "s", die_with_parent=True)

    with server, redis.Redis.from_url(server.url) as client:
        assert client.ping()
