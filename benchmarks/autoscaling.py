"""A scaler that starts and stops real workers by the exported metrics, against a producer that sends bursts.

    python -m benchmarks.autoscaling [--bursts 3] [--tasks 1200] [--run 0.4] [--every 150] [--steady 2]

Starts a server, a poller and no worker. Each ``--interval`` seconds the scaler reads what Prometheus would read, wants
``redis_components_taskqueue_wanted_workers``, starts workers at once, and stops some when fewer were wanted for
``--stabilize`` seconds, as the HPA of Kubernetes does. The producer first sends one task while there is no worker, then
bursts of ``--tasks`` tasks that sleep, and ``--steady`` tasks a second between them. Printed are, for each burst, the
seconds until no task of it was ready, the age of the oldest ready task, the most workers, and how often the scaler
changed its direction; for the first task the seconds until it started; and the seconds from the last task until there
was no worker.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tools.localserver import LocalServer

ROOT = Path(__file__).resolve().parents[1]
#: The metric that the scaler follows, and the seconds in which a backlog should be gone.
WANTED, AIM_S = "redis_components_taskqueue_wanted_workers", 60.0
#: Seconds between two looks at the queue.
LOOK_S = 0.25
MANAGE = [sys.executable, "-m", "django"]


def main() -> None:
    """Start the server and run the bursts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bursts", type=int, default=3, help="bursts (default: 3)")
    parser.add_argument("--tasks", type=int, default=1_200, help="tasks of a burst (default: 1,200)")
    parser.add_argument("--run", type=float, default=0.4, help="seconds that a task takes (default: 0.4)")
    parser.add_argument("--every", type=float, default=150.0, help="seconds from burst to burst (default: 150)")
    parser.add_argument("--steady", type=float, default=2.0, help="tasks a second between the bursts (default: 2)")
    parser.add_argument("--threads", type=int, default=4, help="threads of a worker (default: 4)")
    parser.add_argument("--most", type=int, default=12, help="most workers (default: 12)")
    parser.add_argument("--interval", type=float, default=15.0, help="seconds between two rounds (default: 15)")
    parser.add_argument("--stabilize", type=float, default=60.0, help="seconds before workers stop (default: 60)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, LocalServer(directory=Path(directory)) as server:
        os.environ |= {"BENCH_REDIS_URL": server.url, "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}
        import django

        django.setup()
        Run(options).run()


class Scaler(threading.Thread):
    """Starts and stops workers.

    Attributes:
        changes: when the number of workers that are wanted was changed, and to which.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(daemon=True)
        from prometheus_client import CollectorRegistry

        from django_redis_components.contrib.prometheus import RedisComponentsCollector

        self._options = options
        self._registry = CollectorRegistry()
        self._registry.register(RedisComponentsCollector())
        self._workers: list[subprocess.Popen[bytes]] = []
        self._wanted: list[tuple[float, int]] = []
        self._ends = threading.Event()
        self.changes: list[tuple[float, int]] = []

    def run(self) -> None:
        """Scale until `stop`."""
        while not self._ends.wait(self._options.interval):
            self.round()

    def round(self) -> None:
        """Read the metric, and start or stop workers."""
        now = time.monotonic()
        found = self._registry.get_sample_value(WANTED, {"queue": "default"}) or 0
        self._wanted.append((now, min(int(found), self._options.most)))
        recent = [wanted for at, wanted in self._wanted if now - at <= self._options.stabilize]
        present = len(self._workers)
        target = max(self._wanted[-1][1], min(present, max(recent)))
        if target != present:
            self.changes.append((now, target))
        while len(self._workers) < target:
            words = ["runworker", "default", "--threads", str(self._options.threads), "--no-poller"]
            self._workers.append(
                subprocess.Popen([*MANAGE, *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
        while len(self._workers) > target:
            self._end(self._workers.pop())

    @property
    def count(self) -> int:
        """How many workers run."""
        return len(self._workers)

    def stop(self) -> None:
        """Stop scaling, and all workers."""
        self._ends.set()
        self.join()
        while self._workers:
            self._end(self._workers.pop())

    @staticmethod
    def _end(worker: subprocess.Popen[bytes]) -> None:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)


class Run:
    """The producer, and what is seen of its tasks."""

    def __init__(self, options: argparse.Namespace) -> None:
        from benchmarks import tasks
        from django_redis_components.taskqueue import get_queue

        self._options = options
        self._nap = tasks.nap
        self._queue = get_queue("default")
        self._scaler = Scaler(options)

    def run(self) -> None:
        """Send the first task and the bursts, and wait until there is no worker."""
        poller = subprocess.Popen(
            [*MANAGE, "runpoller"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._scaler.start()
        try:
            self._cold_start()
            for number in range(self._options.bursts):
                self._burst(number + 1)
            self._scale_to_zero()
        finally:
            self._scaler.stop()
            poller.terminate()
            poller.wait(60)

    def _cold_start(self) -> None:
        sent_at = time.monotonic()
        result = self._nap.enqueue(self._options.run)
        while result.started_at is None:
            time.sleep(LOOK_S)
            result.refresh()
        decided_at, _ = self._scaler.changes[0]
        print(
            f"cold start: {time.monotonic() - sent_at:.1f} s, of which {decided_at - sent_at:.1f} s until the scaler's"
            f" round (every {self._options.interval:g} s)",
            flush=True,
        )

    def _burst(self, number: int) -> None:
        began_at, drained_at = time.monotonic(), 0.0
        self._nap.enqueue_many([((self._options.run,), {})] * self._options.tasks)
        most, oldest_s, sent = 0, 0.0, 0
        while (elapsed_s := time.monotonic() - began_at) < self._options.every:
            while sent < elapsed_s * self._options.steady:
                self._nap.enqueue(self._options.run)
                sent += 1
            info: Any = self._queue.info()
            if not drained_at:
                oldest_s = max(oldest_s, info.oldest_age or 0.0)
                if info.ready <= self._options.steady:
                    drained_at = time.monotonic()
            most = max(most, self._scaler.count)
            time.sleep(LOOK_S)
        counts = [target for at, target in self._scaler.changes if at >= began_at]
        took_s = drained_at - began_at if drained_at else float("inf")
        steps = ", ".join(map(str, counts)) or "unchanged"
        print(
            f"burst {number}: {took_s:.0f} s = {took_s / AIM_S:.2f} x the aim, oldest {oldest_s:.0f} s, at most {most}"
            f" workers, {turns_of(counts)} changes of direction (workers: {steps})",
            flush=True,
        )

    def _scale_to_zero(self) -> None:
        ended_at = time.monotonic()
        while self._scaler.count and time.monotonic() - ended_at < 900:
            time.sleep(LOOK_S)
        print(f"no worker {time.monotonic() - ended_at:.0f} s after the last task", flush=True)


def turns_of(counts: list[int]) -> int:
    """Return how often a sequence changes between growing and falling."""
    steps = [after > before for before, after in itertools.pairwise(counts)]
    return sum(before != after for before, after in itertools.pairwise(steps))


if __name__ == "__main__":
    main()
