"""See the package."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from benchmarks.outbox.standby import Standby, execute
from benchmarks.outbox.tasks import RUNS
from tests.support.postgres import Postgres
from tools.localserver import LocalServer, stop_with_parent

ROOT = Path(__file__).resolve().parents[2]
#: Seconds of load before the outage and after it.
BEFORE_S, AFTER_S = 24.0, 8.0
#: Seconds within which all must have run.
LIMIT_S = 120.0


class Site:
    """The servers, and the processes that use them.

    Attributes:
        standby: of the database; None without one.
    """

    def __init__(
        self, server: LocalServer, postgres: Postgres, directory: Path, standby: Standby | None = None
    ) -> None:
        self.server = server
        self.postgres = postgres
        self.standby = standby
        self.directory = directory
        self.raw: Any = redis.Redis.from_url(server.url)
        self.env = os.environ | {
            "DJANGO_SETTINGS_MODULE": "benchmarks.outbox.settings",
            "BENCH_POSTGRES_PORTS": ",".join(str(each.port) for each in (postgres, standby) if each),
            "BENCH_REDIS_URL": server.url,
        }
        self._log = (directory / "processes.log").open("ab")

    def start(self, *arguments: object) -> subprocess.Popen[bytes]:
        """Start a process that is killed with this one."""
        command = [sys.executable, "-m", *map(str, arguments)]
        process = subprocess.Popen(command, cwd=ROOT, env=self.env, stdout=self._log, stderr=self._log)
        stop_with_parent(process.pid)
        return process

    def ask(self, *arguments: object) -> Any:
        """Run a process, and return the JSON that it prints."""
        command = [sys.executable, "-m", *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, env=self.env, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """Execute a statement, and return its rows."""
        return execute(self.postgres.port, text)


@contextmanager
def started(*, fsync: bool, has_standby: bool = False) -> Iterator[Site]:
    """Start the servers, and create the tables."""
    with tempfile.TemporaryDirectory(prefix="drc-outbox-") as name, ExitStack() as stack:
        directory = Path(name)
        postgres = Postgres(fsync=fsync)
        stack.callback(postgres.close)
        postgres.start()
        standby = None
        if has_standby:
            standby = Standby(postgres)
            stack.callback(standby.close)
            standby.start()
        server = LocalServer(directory=directory / "redis", appendonly=True, die_with_parent=True)
        with server:
            site = Site(server, postgres, directory, standby)
            subprocess.run([sys.executable, "-m", "django", "migrate", "-v0"], cwd=ROOT, env=site.env, check=True)
            site.sql("CREATE TABLE orders (number bigint PRIMARY KEY)")
            yield site


def measure_cost(commits: int, rows: int, *, fsync: bool) -> None:
    """Print the table of a commit's cost, and the rates of the relay."""
    with started(fsync=fsync) as site:
        relay = site.start("benchmarks.outbox.site", "relay")
        found = site.ask("benchmarks.outbox.site", "cost", commits)
        relay.kill()
        relay.wait()
        print("| transaction | median, us | p95, us | processor time, us |\n|---|---|---|---|")
        for kind, (median, high, used) in found.items():
            print(f"| {kind} | {median:,.0f} | {high:,.0f} | {used:,.0f} |", flush=True)
        site.sql("TRUNCATE django_redis_components_outbox")
        site.raw.flushall()  # the lease of the relay, too
        rates = site.ask("benchmarks.outbox.site", "drain", rows)
    print(f"\nA relay sends and deletes {rates['unsent']:,.0f} rows/s; of rows that were sent it deletes", end=" ")
    print(f"{rates['sent']:,.0f}/s. fsync {'on' if fsync else 'off'}.")


class Chaos:
    """A run of `chaos`."""

    def __init__(self, site: Site, rate: int) -> None:
        self.site = site
        self.rate = rate
        self.restarts = self.failovers = 0
        self.latencies = site.directory / "latencies"
        self.latencies.touch()

    def run(self, outage_s: float) -> None:
        """Load, outage, load; then wait until all has run, and print what was found."""
        fleet = self.site.start("benchmarks.outbox.site", "fleet", self.rate, self.latencies)
        worker = self._start_worker()
        while self._count_latencies() < self.rate:
            time.sleep(0.1)
        time.sleep(BEFORE_S / 2)
        self._restart_database()
        time.sleep(BEFORE_S / 2)
        worker.terminate()
        worker.wait()
        before = self._count_latencies()
        self.site.server.stop()
        time.sleep(outage_s / 2)
        self._restart_database()
        time.sleep(outage_s / 2)
        during = self._count_latencies()
        backlog = self.site.sql("SELECT count(*) FROM django_redis_components_outbox")[0][0]
        self.site.server.start()
        empty_s = self._wait_for_relay()
        worker = self._start_worker()
        time.sleep(AFTER_S)
        fleet.terminate()
        fleet.wait()
        self._report(before, during, backlog, empty_s)
        worker.terminate()
        worker.wait()

    def _start_worker(self) -> subprocess.Popen[bytes]:
        return self.site.start("django", "runworker", "--threads", 4)

    def _restart_database(self) -> None:
        """Let the standby take over, if there is one, and restart the database otherwise."""
        if self.site.standby is not None:
            self.site.standby.take_over()
            self.site.postgres, self.site.standby = self.site.standby, None
            self.failovers += 1
            return
        self.site.postgres.stop()
        self.site.postgres.start()
        self.restarts += 1

    def _wait_for_relay(self) -> float:
        """Return the seconds until no row waits that was committed before the end of the outage."""
        started, [(last,)] = time.monotonic(), self.site.sql("SELECT max(id) FROM django_redis_components_outbox")
        while self.site.sql(f"SELECT 1 FROM django_redis_components_outbox WHERE id <= {last} LIMIT 1"):  # noqa: S608
            assert time.monotonic() < started + LIMIT_S
            time.sleep(0.05)
        return time.monotonic() - started

    def _count_latencies(self) -> int:
        return len(self.latencies.read_text().splitlines())

    def _report(self, before: int, during: int, backlog: int, empty_s: float) -> None:
        deadline = time.monotonic() + LIMIT_S
        while True:
            committed = {number for (number,) in self.site.sql("SELECT number FROM orders")}
            runs = {int(number): int(times) for number, times in self.site.raw.hgetall(RUNS).items()}
            if committed == runs.keys() or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        times = [float(line) for line in self.latencies.read_text().splitlines() if line.count(".") == 1]
        usual, away = sorted(times[:before]), sorted(times[before:during])
        twice = sum(count > 1 for count in runs.values())
        print(f"committed {len(committed):,}, run {len(runs):,}, lost {len(committed - runs.keys())},", end=" ")
        print(f"run but not committed {len(runs.keys() - committed)}, run twice {twice};", end=" ")
        kills = json.loads((self.site.directory / "processes.log").read_text().partition('{"kills": ')[2].split("}")[0])
        print(f"{kills} kills, {self.restarts} restarts and {self.failovers} failovers of the database")
        print(f"rows at the end of the outage {backlog:,}; none of them {empty_s:.1f} s later")
        for name, found in (("usual", usual), ("Redis away", away)):
            percentiles = [found[int(len(found) * share)] for share in (0.5, 0.95, 0.99)]
            print(f"commit, {name}: p50, p95, p99 {percentiles} ms, max {found[-1]} ms, {len(found):,} commits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    cost = commands.add_parser("cost")
    cost.add_argument("--commits", type=int, default=2_000, help="transactions of each kind")
    cost.add_argument("--rows", type=int, default=20_000, help="rows that a relay sends")
    cost.add_argument("--fsync", action="store_true", help="let PostgreSQL wait for the disk")
    chaos = commands.add_parser("chaos")
    chaos.add_argument("--outage", type=float, default=60.0, help="seconds for which Redis is away")
    chaos.add_argument("--rate", type=int, default=200, help="commits a second")
    chaos.add_argument("--failover", action="store_true", help="let a standby take over in place of the first restart")
    options = parser.parse_args()
    if options.command == "cost":
        measure_cost(options.commits, options.rows, fsync=options.fsync)
    else:
        with started(fsync=False, has_standby=options.failover) as site:
            Chaos(site, options.rate).run(options.outage)


if __name__ == "__main__":
    main()
