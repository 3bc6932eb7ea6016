"""The server, workers and senders of a run, each a separate process that is stopped with the run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from benchmarks import environment
from benchmarks.peers import Commands, Row, producer
from tools.localserver import LocalServer, forget_process, stop_with_parent

#: Seconds that one step may take.
LIMIT_S = 600.0
#: Grace period of a worker in seconds.
GRACE_S = 15.0


class Trouble(Exception):
    """A step could not be measured; the message gives the reason."""


class Bench:
    """One server, direct and behind a slow network, and what runs against it.

    Attributes:
        raw: a plain client of the server.
    """

    def __init__(self, server: LocalServer, log: Path) -> None:
        self.server = server
        self.raw: Any = redis.Redis.from_url(server.url)
        self._log = log.open("ab")

    def variables(self, row: Row, url: str | None = None) -> dict[str, str]:
        """Environment variables of a peer's processes."""
        return environment.variables(url or self.server.url, self.server.url, row.peer)

    def send(self, row: Row, action: str, *arguments: object, url: str | None = None) -> dict[str, float]:
        """Run an action of the peer's producer and return its output."""
        command = [*producer(row), action, *map(str, arguments)]
        return self.ask(command, self.variables(row, url))

    def ask(self, command: list[str], variables: dict[str, str]) -> dict[str, float]:
        """Run a command that prints one line of JSON."""
        done = subprocess.run(
            command, env=variables, cwd=environment.ROOT, capture_output=True, text=True, timeout=LIMIT_S
        )
        self._log.write(done.stderr.encode())
        if done.returncode:
            raise Trouble((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
        return dict(json.loads(done.stdout.splitlines()[-1]))

    @contextlib.contextmanager
    def worker(self, row: Row, processes: int = 1, url: str | None = None) -> Iterator[list[subprocess.Popen[bytes]]]:
        """The peer's worker, for the length of the block."""
        with self.running(row.command(processes), self.variables(row, url), url or self.server.url) as started:
            yield started

    @contextlib.contextmanager
    def running(
        self, commands: Commands, variables: dict[str, str], url: str = ""
    ) -> Iterator[list[subprocess.Popen[bytes]]]:
        """Processes for the length of the block; those that do not end by themselves are killed."""
        started = [self._start([word.replace("{url}", url) for word in command], variables) for command in commands]
        try:
            yield started
        finally:
            for process in started:
                process.terminate()
            for process in started:
                end(process)

    def _start(self, command: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command, env=variables, cwd=environment.ROOT, stdout=self._log, stderr=self._log, start_new_session=True
        )
        stop_with_parent(process.pid)
        return process

    @contextlib.contextmanager
    def slow_network(self, round_trip_ms: float) -> Iterator[str]:
        """The URL of a proxy that adds round-trip time."""
        command = [environment.python(), "-m", "benchmarks.slow_network", "127.0.0.1", str(self.server.port)]
        process = subprocess.Popen(
            [*command, str(round_trip_ms / 2)], cwd=environment.ROOT, stdout=subprocess.PIPE, text=True
        )
        stop_with_parent(process.pid)
        assert process.stdout is not None
        try:
            yield f"redis://127.0.0.1:{int(process.stdout.readline())}/0"
        finally:
            process.kill()
            process.wait()
            forget_process(process.pid)

    def wait_for(self, check: Any, workers: list[subprocess.Popen[bytes]], what: str, limit_s: float = LIMIT_S) -> None:
        """Wait until ``check()`` is true; raise Trouble if a worker exits or the limit passes."""
        deadline = time.monotonic() + limit_s
        while not check():
            dead = [process for process in workers if process.poll() is not None]
            if dead:
                raise Trouble(f"its worker exited with code {dead[0].returncode} ({what})")
            if time.monotonic() > deadline:
                raise Trouble(f"still waiting after {limit_s:.0f} s ({what})")
            time.sleep(0.02)

    def marked(self, name: str) -> float | None:
        """When the marker ran, in seconds since the epoch."""
        value = self.raw.get(f"bench:{name}")
        return float(value) if value else None

    def lateness_ms(self) -> list[float]:
        """Return the lateness recorded by the tasks, in milliseconds."""
        return [float(value) * 1_000 for value in self.raw.lrange("bench:late", 0, -1)]

    def memory(self) -> int:
        """Return the used memory of the server in bytes."""
        return int(self.raw.info("memory")["used_memory"])


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process that was asked to end, then kill it and what it has started."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its own session: start_new_session
    process.wait()
    forget_process(process.pid)
