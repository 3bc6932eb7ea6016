"""Tasks are enqueued and run while the slot of the queue moves to another node of the Cluster."""

from __future__ import annotations

import collections
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from django_redis_components.core.client.slot_migration import slot_of
from django_redis_components.taskqueue.shards import home
from tests.conftest import components_settings
from tests.core.slots import Move, moving, node_id
from tests.support import Store, eventually, skip_missing
from tests.support.clusters import start_cluster
from tests.support.killing import kill_all
from tests.support.pools import close_pools
from tests.support.stores import Stores
from tests.taskqueue import tasks
from tests.taskqueue.support import queue_key, running_worker
from tools.localserver import ServerError, redis_binary, valkey_binary

#: Tasks that wait when the move begins, and the least that are sent and run during and after it.
BEFORE = int(os.environ.get("RESHARD_TASKS", "300"))
DURING = BEFORE // 3
#: The tool that comes with Debian's Redis.
REDIS_CLI = Path("/usr/bin/redis-cli")


@pytest.fixture(params=["cluster", "cluster7"])
def cluster(request: pytest.FixtureRequest, stores: Stores, settings: Any) -> Iterator[Store]:
    """A Cluster of Valkey, and one of Redis 7."""
    lent = stores.get(request.param).for_test(f"reshard-{request.param}")
    settings.REDIS_COMPONENTS = components_settings(lent)
    yield lent
    close_pools()
    lent.delete_keys()


class Producers:
    """Two threads that enqueue tasks until they are stopped."""

    def __init__(self) -> None:
        self.accepted = [tasks.note.enqueue(f"before-{number}").args[0] for number in range(BEFORE)]
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(name,)) for name in ("a", "b")]
        for thread in self._threads:
            thread.start()

    def _send(self, name: str) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            tasks.note.enqueue(f"{name}-{number}")
            self.accepted.append(f"{name}-{number}")

    def stop(self) -> None:
        """Stop, and wait for what is under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join(120)


def check_that_all_run_once(reshard: Callable[[], object]) -> None:
    """Reshard under load; each accepted task must have run, and no live worker's twice."""
    with running_worker(threads=4):
        producers = Producers()
        reshard()
        seen = len(producers.accepted)
        eventually(lambda: len(producers.accepted) >= seen + DURING)
        producers.stop()
        eventually(lambda: set(producers.accepted) <= set(tasks.recorded), timeout_s=120)

    assert {what: times for what, times in collections.Counter(tasks.recorded).items() if times > 1} == {}
    assert len(tasks.recorded) == len(producers.accepted)


def classic(move: Move) -> None:
    move.begin()
    move.carry_in_batches()
    move.finish()


def test_all_tasks_run_while_the_slot_of_the_queue_moves(cluster: Store) -> None:
    with moving(cluster, home().base) as move:
        check_that_all_run_once(lambda: (classic(move), classic(move.back())))

    assert cluster.raw.zcard(queue_key(cluster, "running")) == 0


@pytest.mark.parametrize("cluster", ["cluster"], indirect=True)
def test_all_tasks_run_while_valkey_moves_the_slot_by_itself(cluster: Store) -> None:
    with moving(cluster, home().base) as move:

        def migrate(way: Move) -> None:
            slots = ("SLOTSRANGE", way.slot, way.slot)
            way.source.execute_command("CLUSTER", "MIGRATESLOTS", *slots, "NODE", node_id(way.target))
            eventually(way.back().is_at_home)

        check_that_all_run_once(lambda: (migrate(move), migrate(move.back())))


@pytest.mark.parametrize("binary", [valkey_binary, redis_binary], ids=["valkey", "redis7"])
def test_all_tasks_run_while_redis_cli_reshards(binary: Any, stores: Stores, settings: Any) -> None:
    if not REDIS_CLI.exists():
        skip_missing("redis-cli: apt-get install redis-tools")
    try:
        path = binary()
    except ServerError as exc:
        skip_missing(str(exc))
    servers = start_cluster(path, stores.new_directory("reshard"))
    try:
        nodes = [redis.Redis(host="127.0.0.1", port=server.port) for server in servers]
        settings.REDIS_COMPONENTS = {
            "CONNECTIONS": {"default": {"URL": f"redis+cluster://127.0.0.1:{servers[0].port}"}}
        }
        slots = slot_of(home().base) - 16_384 // 3 + 5  # the first ones of the second node, the queue's among them
        command = [
            str(REDIS_CLI), "--cluster", "reshard", f"127.0.0.1:{servers[0].port}", "--cluster-yes",
            "--cluster-from", node_id(nodes[1]), "--cluster-to", node_id(nodes[2]), "--cluster-slots", str(slots),
        ]  # fmt: skip

        check_that_all_run_once(lambda: subprocess.run(command, check=True, capture_output=True, timeout=300))

        assert nodes[2].execute_command("CLUSTER", "COUNTKEYSINSLOT", slot_of(home().base)) > 0
        for node in nodes:
            node.close()
    finally:
        close_pools()
        kill_all(servers)
