"""The processes of a run, and the history of its tasks."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.localserver import stop_with_parent

ROOT = Path(__file__).resolve().parents[2]


class Site:
    """The site of a run: its settings, workers and producers.

    Attributes:
        shards: names of the shards, and their aliases.
    """

    def __init__(
        self,
        directory: Path,
        connections: Mapping[str, str],
        shards: Mapping[str, str],
        queues: Mapping[str, Sequence[str] | str | None],
        **taskqueue: Any,
    ) -> None:
        self.directory = directory
        self.shards = dict(shards)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._firsts = itertools.count(0, 10_000_000)
        components = {
            "PREFIX": "bench",
            "CONNECTIONS": {alias: {"URL": url} for alias, url in connections.items()},
            "TASKQUEUE": {"SHARDS": self.shards, "QUEUES": queues, **taskqueue},
        }
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "benchmarks.shards.settings",
            "BENCH_SHARDS": json.dumps(components),
            "BENCH_RUNS": str(directory / "runs"),
        }
        self.runs_path = directory / "runs"
        self.runs_path.touch()
        self.sent_path = directory / "sent"
        self.sent_path.touch()
        self.log_path = directory / "processes.log"

    def set_up(self) -> None:
        """Set Django up in this process."""
        import django

        django.setup()

    def route(self, shards: Sequence[str], queues: Mapping[str, Sequence[str] | str]) -> None:
        """Change the shards and the routes, of this process and of those that are started later."""
        from django.conf import settings
        from django.test.signals import setting_changed

        components = json.loads(os.environ["BENCH_SHARDS"])
        components["TASKQUEUE"] |= {"SHARDS": dict.fromkeys(shards, "default"), "QUEUES": queues}
        os.environ["BENCH_SHARDS"] = json.dumps(components)
        settings.REDIS_COMPONENTS = components
        setting_changed.send(type(settings), setting="REDIS_COMPONENTS", value=components, enter=True)

    def start(self, *words: object) -> subprocess.Popen[bytes]:
        """Start a module, killed with this process."""
        with self.log_path.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *map(str, words)], cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )
        stop_with_parent(process.pid)
        self._processes.append(process)
        return process

    def work(self, *queues: str, threads: int = 8, processes: int = 1) -> subprocess.Popen[bytes]:
        """Start a worker."""
        return self.start("django", "runworker", *queues, "--threads", threads, "--processes", processes)

    def produce(self, kind: str, rate: float, threads: int = 32) -> subprocess.Popen[bytes]:
        """Start a process that sends tasks."""
        return self.start("benchmarks.shards.producer", kind, rate, threads, next(self._firsts), self.sent_path)

    def stop(self, process: subprocess.Popen[bytes], seconds: float = 60.0) -> None:
        """Stop a process by SIGTERM, and by SIGKILL if it does not end."""
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill(process)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process, and those of its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        """Kill all processes."""
        for process in self._processes:
            self.kill(process)

    def pids(self) -> set[int]:
        """Return the processes that have run tasks."""
        return {int(line.split()[-1]) for line in self.runs_path.read_text().splitlines()}

    def history(self) -> History:
        """Read what was sent and what has run."""
        sent = [Sent.read(line) for line in self.sent_path.read_text().splitlines()]
        runs: dict[str, list[float]] = {}
        for line in self.runs_path.read_text().splitlines():
            kind, number, at, _ = line.split()
            runs.setdefault(f"{kind} {number}", []).append(float(at))
        return History(sent, runs)


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """A call of a producer."""

    name: str
    outcome: str
    shard: str
    began_at: float
    seconds: float
    error: str

    @classmethod
    def read(cls, line: str) -> Sent:
        kind, number, outcome, shard, began_at, seconds, error = line.split()
        return cls(f"{kind} {number}", outcome, shard, float(began_at), float(seconds), error)


@dataclasses.dataclass(frozen=True)
class History:
    """What was sent, and when each task has started."""

    sent: list[Sent]
    runs: dict[str, list[float]]

    def within(self, since: float, until: float) -> History:
        """Return the tasks that were sent in a time."""
        return History([each for each in self.sent if since <= each.began_at < until], self.runs)

    def of(self, kind: str) -> History:
        """Return the tasks of a kind."""
        return History([each for each in self.sent if each.name.startswith(f"{kind} ")], self.runs)

    def outcomes(self) -> Counter[str]:
        """Return how many calls had each outcome."""
        return Counter(each.outcome for each in self.sent)

    def refused_by_shard(self) -> dict[str, int]:
        """Return how many calls were not accepted in each shard."""
        return dict(Counter(each.shard for each in self.sent if each.outcome != "accepted"))

    def lost(self) -> list[Sent]:
        """Return accepted tasks that have not run."""
        return [each for each in self.sent if each.outcome == "accepted" and each.name not in self.runs]

    def doubled(self) -> list[Sent]:
        """Return tasks that have run more than once."""
        return [each for each in self.sent if len(self.runs.get(each.name, ())) > 1]

    def run_unconfirmed(self) -> int:
        """Return how many unconfirmed tasks have run."""
        return sum(each.outcome == "unconfirmed" and each.name in self.runs for each in self.sent)

    def refused_but_run(self) -> list[Sent]:
        """Return tasks that were refused and have run: the error said that nothing was executed."""
        return [each for each in self.sent if each.outcome == "refused" and each.name in self.runs]

    def waits(self, shard: str = "") -> list[float]:
        """Return the seconds from the call to the first start, of accepted tasks."""
        return sorted(
            self.runs[each.name][0] - each.began_at
            for each in self.sent
            if each.outcome == "accepted" and each.name in self.runs and shard in ("", each.shard)
        )

    def longest_pause(self, shard: str, since: float, until: float) -> float:
        """Return the longest time in which no task of a shard has started."""
        starts = sorted(
            at
            for each in self.sent
            if each.shard == shard
            for at in self.runs.get(each.name, ())
            if since <= at < until
        )
        return max((after - before for before, after in itertools.pairwise([since, *starts, until])), default=0.0)

    def is_complete(self) -> bool:
        """Return whether all accepted tasks have run."""
        return not self.lost()


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile of sorted values."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def settle(site: Site, quiet_s: float, limit_s: float) -> History:
    """Wait until all accepted tasks have run, and until no task has run for a while; return the history."""
    ends_at, size, since = time.monotonic() + limit_s, -1, time.monotonic()
    while time.monotonic() < ends_at:
        found = site.runs_path.stat().st_size
        if found != size:
            size, since = found, time.monotonic()
        elif time.monotonic() - since >= quiet_s and (
            site.history().is_complete() or time.monotonic() - since >= 2 * quiet_s
        ):
            break
        time.sleep(0.5)
    return site.history()
