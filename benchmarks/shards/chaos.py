"""What becomes of tasks when primaries are killed, hang, are cut off, and when slots move, under load."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.crc import key_slot

from benchmarks.shards.cluster import Cluster, Network, spread_names, wait_until
from benchmarks.shards.site import History, Site, percentile, settle
from tools.localserver import LocalServer


@dataclass
class Options:
    """How a run is loaded.

    Attributes:
        keyless, keyed: tasks a second.
        seconds: of load before and after each event.
        hold: seconds for which a server is away.
        third: which of the primaries. Clients ask the first one for the slots first.
    """

    keyless: float
    keyed: float
    seconds: float
    hold: float
    third: int


class Run:
    """A Cluster with three shards under load.

    Attributes:
        names: the shards, in the order of their primaries at the start.
    """

    def __init__(self, directory: Path, cluster: Cluster, options: Options) -> None:
        self.cluster, self.options = cluster, options
        self.names = spread_names((0, 1, 2))
        self.site = Site(
            directory, {"default": cluster.url}, dict.fromkeys(self.names, "default"), {"load": self.names}
        )
        self._events: list[tuple[str, float, float]] = []

    def run(self, events: list[tuple[str, Callable[[], object]]]) -> None:
        """Play events under load, and print the tables."""
        for _ in range(2):
            self.site.work("load", threads=8, processes=2)
        producers = [
            self.site.produce("keyless", self.options.keyless),
            self.site.produce("keyed", self.options.keyed, threads=64),
        ]
        wait_until(lambda: len(self.site.pids()) == 4)
        time.sleep(self.options.seconds / 2)
        for name, event in events:
            since = time.monotonic()
            event()
            wait_until(self.cluster.is_whole, 120)
            time.sleep(self.options.seconds)
            self._events.append((name, since, time.monotonic()))
        for producer in producers:
            self.site.stop(producer)
        history = settle(self.site, quiet_s=35.0, limit_s=240.0)
        self._print(history)

    def primary(self, shard: str) -> LocalServer:
        """Return the primary of a shard."""
        return self.cluster.primary_of(f"{{{shard}}}")

    def number_of(self, server: LocalServer) -> int:
        """Return the number of a server in its network."""
        return self.cluster.servers.index(server)

    # Events

    def nothing(self) -> None:
        """Load only."""

    def kill(self, shard: str) -> None:
        """Kill a primary, and start it again after the failover, or after `hold` without a replica."""
        server = self.primary(shard)
        server.kill()
        if len(self.cluster.servers) > 3:
            wait_until(lambda: self.primary(shard) is not server)
        else:
            time.sleep(self.options.hold)
        server.start()

    def stop(self, shard: str, seconds: float) -> None:
        """Stop a primary by SIGSTOP for a time."""
        pid = self.primary(shard).pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    def cut(self, shard: str) -> None:
        """Cut a primary off for `hold` seconds."""
        network, number = self._network(), self.number_of(self.primary(shard))
        network.cut(number)
        time.sleep(self.options.hold)
        network.mend(number)

    def cut_peers(self, shard: str, min_replicas: int) -> None:
        """Cut a primary off from the other nodes, not from clients."""
        self.cluster.config_set("min-replicas-to-write", min_replicas)
        self.cluster.config_set("min-replicas-max-lag", 2)
        network, number = self._network(), self.number_of(self.primary(shard))
        network.cut_peers(number)
        time.sleep(self.options.hold)
        network.mend_peers(number)
        wait_until(self.cluster.is_whole, 120)
        self.cluster.config_set("min-replicas-to-write", 0)

    def move_slots(self, shard: str) -> None:
        """Move the slot of a shard to another primary by MIGRATE, and back by CLUSTER MIGRATESLOTS."""
        source = self.primary(shard)
        target = next(self.primary(name) for name in self.names if self.primary(name) is not source)
        slot = key_slot(shard.encode())
        self._migrate_keys(slot, source, target)
        wait_until(self.cluster.is_whole, 120)
        time.sleep(self.options.seconds)
        with self.cluster.client(source) as old, self.cluster.client(target) as new:
            home = _id(old)
            new.execute_command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", home)
            wait_until(lambda: self.primary(shard) is source, 120)

    def _migrate_keys(self, slot: int, source: LocalServer, target: LocalServer) -> None:
        with self.cluster.client(source) as old, self.cluster.client(target) as new:
            wanted = _id(new)
            new.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", _id(old))
            old.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", wanted)
            while found := old.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 10):
                old.execute_command("MIGRATE", target.host, target.port, "", 0, 5000, "KEYS", *found)
            for node in (new, old):
                node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", wanted)

    def _network(self) -> Network:
        assert self.cluster.network
        return self.cluster.network

    def _print(self, history: History) -> None:
        print("| event | sent | accepted | refused | unconfirmed, of these run | lost | doubled", end="")
        print(" | not accepted, keyless / keyed | longest pause of each shard, s | wait p50, p99 of each shard, ms |")
        print(f"|---{'|---' * 9}|")
        for name, since, until in self._events:
            self._print_row(name, history.within(since, until), since, until)
        everything = history.outcomes()
        print(f"\nall: {dict(everything)}, lost {len(history.lost())}, doubled {len(history.doubled())}", end="")
        print(f", refused but run {len(history.refused_but_run())}")
        for what, found in (("lost", history.lost()), ("doubled", history.doubled())):
            for each in found[:8]:
                after = min(
                    (
                        (each.began_at - since, name)
                        for name, since, until in self._events
                        if since <= each.began_at < until
                    ),
                    default=(0.0, "-"),
                )
                print(f"  {what}: {each} runs {history.runs.get(each.name)} {after[0]:.2f} s after {after[1]}")
        print(f"errors: {_errors(history)}")

    def _print_row(self, name: str, found: History, since: float, until: float) -> None:
        outcomes = found.outcomes()
        pauses = ", ".join(f"{found.longest_pause(shard, since, until):.1f}" for shard in self.names)
        waits = "; ".join(
            f"{percentile(times, 0.5) * 1_000:,.0f}, {percentile(times, 0.99) * 1_000:,.0f}"
            for times in (found.waits(shard) for shard in self.names)
        )
        refused = " / ".join(str(found.of(kind).refused_by_shard() or 0) for kind in ("keyless", "keyed"))
        print(
            f"| {name} | {len(found.sent):,} | {outcomes['accepted']:,} | {outcomes['refused']:,}"
            f" | {outcomes['unconfirmed']:,}, {found.run_unconfirmed():,} | {len(found.lost()):,}"
            f" | {len(found.doubled()):,} | {refused} | {pauses} | {waits} |",
            flush=True,
        )


def _errors(history: History) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in history.sent:
        if each.outcome != "accepted":
            name = f"{each.outcome} {each.error}"
            found[name] = found.get(name, 0) + 1
    return found


def _id(client: Any) -> str:
    found = client.execute_command("CLUSTER", "MYID")
    return found.decode() if isinstance(found, bytes) else str(found)


def outage(options: Options, *, full_coverage: bool) -> None:
    """Stop and kill the server of a shard, on a Cluster without replicas."""
    with tempfile.TemporaryDirectory(prefix="drc-shards-") as name:
        cluster = Cluster(Path(name), has_replicas=False, full_coverage=full_coverage, fsync="always")
        run = Run(Path(name), cluster, options)
        lost = run.names[options.third]
        try:
            run.run(
                [
                    ("none", run.nothing),
                    (f"stopped for {options.hold:g} s", lambda: run.stop(lost, options.hold)),
                    (f"killed for {options.hold:g} s", lambda: run.kill(lost)),
                ]
            )
        finally:
            _keep_logs(run)
            run.site.close()
            cluster.close()


def chaos(options: Options, events: str) -> None:
    """Play all events on a Cluster of six nodes."""
    network = Network()
    with tempfile.TemporaryDirectory(prefix="drc-shards-") as name:
        cluster = Cluster(Path(name), has_replicas=True, network=network)
        run = Run(Path(name), cluster, options)
        lost = run.names[options.third]
        every: dict[str, tuple[str, Callable[[], object]]] = {
            "none": ("none", run.nothing),
            "kill": ("killed, failover", lambda: run.kill(lost)),
            "hang": ("stopped for 3 s", lambda: run.stop(lost, 3.0)),
            "stop": (f"stopped for {options.hold:g} s", lambda: run.stop(lost, options.hold)),
            "cut": (f"cut off for {options.hold:g} s", lambda: run.cut(lost)),
            "slots": ("slot moved to another primary, and back", lambda: run.move_slots(lost)),
            "guarded": ("cut off from nodes only, `min-replicas-to-write 1`", lambda: run.cut_peers(lost, 1)),
            "split": ("cut off from nodes only", lambda: run.cut_peers(lost, 0)),
        }
        try:
            run.run([every[each] for each in (events.split(",") if events else every)])
        finally:
            _keep_logs(run)
            run.site.close()
            cluster.close()
            network.close()


def _keep_logs(run: Run) -> None:
    if kept := os.environ.get("BENCH_KEEP"):
        Path(kept).mkdir(parents=True, exist_ok=True)
        for path in [run.site.log_path, run.site.sent_path, run.site.runs_path]:
            if path.exists():
                (Path(kept) / path.name).write_bytes(path.read_bytes())
        for number, server in enumerate(run.cluster.servers):
            (Path(kept) / f"node{number}.log").write_bytes(server.log_path.read_bytes())
