"""A Cluster on this machine, each node with or without its own network namespace."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import redis
from redis.crc import key_slot

from tools.localserver import LocalServer, free_port, stop_with_parent

SLOTS = 16_384
#: Seconds until the nodes must have reached a state.
LIMIT_S = 60.0


def wait_until(condition: Callable[[], object], seconds: float = LIMIT_S) -> None:
    """Ask until a condition holds. Errors of servers that are away count as "no"."""
    ends_at = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except redis.RedisError:
            pass
        if time.monotonic() > ends_at:
            raise TimeoutError(f"after {seconds:g} s: {condition}")
        time.sleep(0.05)


class Network:
    """A bridge in the network namespace of this process, and a namespace for each node."""

    def __init__(self) -> None:
        self._holders: list[subprocess.Popen[bytes]] = []
        _ip("link set lo up")
        _ip("link add nodes type bridge")
        _ip("addr add 10.77.0.254/24 dev nodes")
        _ip("link set nodes up")

    def add(self) -> tuple[str, tuple[str, ...]]:
        """Add a namespace; return its address, and the words that start a command in it."""
        number = len(self._holders)
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        stop_with_parent(holder.pid)
        self._holders.append(holder)
        own = Path("/proc/self/ns/net").readlink()
        wait_until(lambda: Path(f"/proc/{holder.pid}/ns/net").readlink() != own)
        _ip(f"link add node{number} type veth peer name eth0 netns {holder.pid}")
        _ip(f"link set node{number} master nodes up")
        self._inside(number, "link set lo up")
        self._inside(number, f"addr add {self._address(number)}/24 dev eth0")
        self._inside(number, "link set eth0 up")
        return self._address(number), ("nsenter", f"--net=/proc/{holder.pid}/ns/net")

    def cut(self, number: int) -> None:
        """Drop all packets from and to a node."""
        _ip(f"link set node{number} down")

    def mend(self, number: int) -> None:
        """End `cut`."""
        _ip(f"link set node{number} up")

    def cut_peers(self, number: int) -> None:
        """Drop the packets of a node to the other nodes; clients still reach it."""
        for other in self._others(number):
            self._inside(number, f"route add blackhole {self._address(other)}/32")

    def mend_peers(self, number: int) -> None:
        """End `cut_peers`."""
        for other in self._others(number):
            self._inside(number, f"route del blackhole {self._address(other)}/32")

    def close(self) -> None:
        """End the namespaces."""
        for holder in self._holders:
            holder.kill()
            holder.wait()

    def _others(self, number: int) -> list[int]:
        return [other for other in range(len(self._holders)) if other != number]

    def _inside(self, number: int, words: str) -> None:
        namespace = f"--net=/proc/{self._holders[number].pid}/ns/net"
        subprocess.run(["nsenter", namespace, "ip", *words.split()], check=True)

    @staticmethod
    def _address(number: int) -> str:
        return f"10.77.0.{number + 1}"


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


class Cluster:
    """Three primaries with the slots in thirds, with or without a replica each.

    Attributes:
        servers: the nodes; the primaries of the start first.
    """

    def __init__(
        self,
        directory: Path,
        *,
        has_replicas: bool,
        network: Network | None = None,
        full_coverage: bool = False,
        node_timeout_ms: int = 5_000,
        fsync: str = "everysec",
    ) -> None:
        options = {
            "cluster-enabled": "yes",
            "cluster-config-file": "nodes.conf",
            "cluster-node-timeout": node_timeout_ms,
            "cluster-require-full-coverage": "yes" if full_coverage else "no",
            "cluster-allow-replica-migration": "no",
            "cluster-replica-validity-factor": 0,
            "repl-diskless-sync-delay": 0,
            "appendfsync": fsync,
            "protected-mode": "no" if network else "yes",  # only this process's namespaces reach the network
        }
        self.network = network
        self.servers: list[LocalServer] = []
        for number in range(6 if has_replicas else 3):
            host, prefix = network.add() if network else ("127.0.0.1", ())
            own = options | {"cluster-port": free_port(), "cluster-announce-ip": host}
            words = tuple(str(word) for name, value in own.items() for word in (f"--{name}", value))
            self.servers.append(
                LocalServer(
                    directory=directory / f"node{number}",
                    extra_args=words,
                    appendonly=True,
                    die_with_parent=True,
                    host=host,
                    prefix=prefix,
                )
            )
        for server in self.servers:
            server.start()
        self._introduce()

    @property
    def url(self) -> str:
        """The address of the Cluster."""
        return "redis+cluster://" + ",".join(f"{server.host}:{server.port}" for server in self.servers)

    def client(self, server: LocalServer) -> Any:
        """Return a client of a node."""
        return redis.Redis(host=server.host, port=server.port or 0, socket_timeout=5)

    def primaries(self) -> list[LocalServer]:
        """Return the nodes that are primaries now, in the order of their slots. All must answer."""
        found = []
        for server in self.servers:
            own = next(row for row in self.nodes(server) if "myself" in row[2])
            if "master" in own[2] and len(own) > 8:
                found.append((int(own[8].partition("-")[0]), server))
        return [server for _, server in sorted(found, key=lambda pair: pair[0])]

    def primary_of(self, key: str) -> LocalServer:
        """Return the primary of a key's slot, as the node with the highest epoch of those that claim it says."""
        slot, claims = key_slot(key.encode()), []
        for server in self.servers:
            if not server.running:
                continue
            try:
                own = next(row for row in self.nodes(server) if "myself" in row[2])
            except redis.RedisError:
                continue
            ranges = [part.partition("-") for part in own[8:] if not part.startswith("[")]
            if "master" in own[2] and any(int(first) <= slot <= int(last or first) for first, _, last in ranges):
                claims.append((int(own[6]), server))
        if not claims:
            raise redis.ConnectionError(f"no node claims slot {slot}")
        return max(claims, key=lambda pair: pair[0])[1]

    def nodes(self, server: LocalServer) -> list[list[str]]:
        """Return the rows of CLUSTER NODES."""
        with self.client(server) as client:
            found = client.execute_command("CLUSTER", "NODES")
        text = found.decode() if isinstance(found, bytes) else str(found)
        return [line.split() for line in text.splitlines()]

    def is_whole(self) -> bool:
        """Return whether all nodes answer, each primary has a live replica, and no slot moves."""
        for server in self.servers:
            rows = self.nodes(server)
            if any("fail" in row[2] or row[7] != "connected" or "->-" in row[-1] or "-<-" in row[-1] for row in rows):
                return False
            with self.client(server) as client:
                info = client.info("replication")
            if info["role"] == "slave" and info["master_link_status"] != "up":
                return False
            if info["role"] == "master" and len(self.servers) > 3 and info["connected_slaves"] != 1:
                return False
        return True

    def config_set(self, name: str, value: object) -> None:
        """Change a setting of all nodes."""
        for server in self.servers:
            with self.client(server) as client:
                client.config_set(name, value)

    def close(self) -> None:
        """Kill the nodes."""
        for server in self.servers:
            server.kill()

    def _introduce(self) -> None:
        clients = [self.client(server) for server in self.servers]
        for number, client in enumerate(clients):
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for number, client in enumerate(clients[:3]):
            first, last = SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
        for server in self.servers[1:]:
            bus = server.extra_args[server.extra_args.index("--cluster-port") + 1]
            clients[0].execute_command("CLUSTER", "MEET", server.host, server.port, bus)
        wait_until(lambda: all(len(self.nodes(server)) == len(clients) for server in self.servers))
        for client, primary in zip(clients[3:], clients, strict=False):
            primary_id = primary.execute_command("CLUSTER", "MYID").decode()
            wait_until(lambda client=client, wanted=primary_id: _replicate(client, wanted))  # type: ignore[misc]
        wait_until(self.is_whole)
        for client in clients:
            wait_until(lambda client=client: _state(client) == "ok")  # type: ignore[misc]
            client.close()


def _replicate(client: Any, primary_id: str) -> bool:
    client.execute_command("CLUSTER", "REPLICATE", primary_id)
    return True


def _state(client: Any) -> str:
    return str(client.execute_command("CLUSTER INFO")["cluster_state"])


def spread_names(thirds: Sequence[int]) -> list[str]:
    """Return names of shards whose slots lie in these thirds of the slots."""
    found = []
    for third in thirds:
        names = (f"s{number}" for number in itertools.count())
        found.append(
            next(name for name in names if name not in found and key_slot(name.encode()) * 3 // SLOTS == third)
        )
    return found
