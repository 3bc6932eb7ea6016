"""Create a Cluster of three masters on loopback with CLUSTER commands (no redis-cli)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import redis

from tests.support.killing import killed_unless_all_start
from tests.support.waiting import eventually
from tools.localserver import LocalServer, free_port

#: Milliseconds without an answer after which a node counts as failed. Long: on a stalled machine the other nodes would
#: reject all requests for twice this time.
NODE_TIMEOUT_MS = 60_000

SLOTS = 16_384


def start_cluster(binary: Path, directory: Path, masters: int = 3) -> list[LocalServer]:
    """Start the masters, assign the slots, join the nodes, and wait until the state of all is ok."""
    with killed_unless_all_start() as servers:
        for number in range(masters):
            servers.append(_node(binary, directory / f"node{number}"))
            servers[-1].start()
        _introduce(servers)
    return servers


def slot_queries(servers: Sequence[LocalServer]) -> int:
    """Return how often clients have asked the nodes for the slots."""
    count = 0
    for server in servers:
        with redis.Redis.from_url(server.url) as client:
            count += client.info("commandstats").get("cmdstat_cluster|slots", {"calls": 0})["calls"]
    return count


def _introduce(servers: list[LocalServer]) -> None:
    masters = len(servers)
    clients = [redis.Redis.from_url(server.url) for server in servers]
    for number, client in enumerate(clients):
        first, last = SLOTS * number // masters, SLOTS * (number + 1) // masters - 1
        client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
    for server in servers[1:]:
        clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", server.port, _bus_port(server))
    eventually(lambda: all(_is_complete(client, masters) for client in clients))
    for client in clients:
        client.close()


def _node(binary: Path, directory: Path) -> LocalServer:
    bus = free_port()
    extra = {
        "--cluster-enabled": "yes",
        "--cluster-config-file": "nodes.conf",
        "--cluster-port": str(bus),
        "--cluster-announce-ip": "127.0.0.1",
        "--cluster-node-timeout": str(NODE_TIMEOUT_MS),
    }
    args = tuple(word for pair in extra.items() for word in pair)
    return LocalServer(binary, directory=directory, extra_args=args, die_with_parent=True)


def _bus_port(server: LocalServer) -> str:
    return server.extra_args[server.extra_args.index("--cluster-port") + 1]


def _is_complete(client: redis.Redis, masters: int) -> bool:
    info = client.execute_command("CLUSTER INFO")
    return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == masters
