"""Memory of queued tasks, memory after results expired, and commands of idle workers."""

from __future__ import annotations

import subprocess
import threading
import time
from functools import partial

import redis

from benchmarks import environment, peers
from benchmarks.parts import Figures, Sizes, Step
from benchmarks.peers import Commands, Row
from benchmarks.running import Bench, Trouble

POLLER = [environment.python(), "-m", "django", "runpoller"]
#: Seconds until an idle worker has reached its steady state.
SETTLED_S = 8.0
#: Seconds within which expired keys must be deleted.
EXPIRY_LIMIT_S = 120.0


def memory_steps(bench: Bench, sizes: Sizes, rows: list[Row]) -> list[Step]:
    return [Step("memory", row.label, partial(measure_memory, bench, row, sizes.tasks)) for row in rows]


def measure_memory(bench: Bench, row: Row, count: int) -> Figures:
    """Return the bytes per queued ``noop(1)``: the growth of used memory divided by the number of tasks."""
    bench.raw.flushall()
    bench.send(row, "ones", 20)
    before = bench.memory()
    bench.send(row, "ones", count)
    return {"bytes a task": (bench.memory() - before) / count}


def expired_steps(bench: Bench, sizes: Sizes) -> list[Step]:
    return [Step("expired", f"ours, {sizes.expired:,} tasks", partial(expire, bench, sizes.expired))]


def expire(bench: Bench, count: int) -> Figures:
    """Return keys and memory before many tasks, and after their results have expired."""
    bench.raw.flushall()
    with bench.worker(peers.OURS) as started:
        _pass(bench, started, 1_000)
        bench.wait_for(lambda: bench.raw.dbsize() < 20, started, "the first results expire", EXPIRY_LIMIT_S)
        time.sleep(1.0)
        keys, memory = bench.raw.dbsize(), bench.memory()
        _pass(bench, started, count)
        bench.wait_for(lambda: bench.raw.dbsize() <= keys, started, "results expire", EXPIRY_LIMIT_S)
        time.sleep(3.0)
        after = bench.memory()
        kib = {"KiB before": memory / 1024, "KiB after": after / 1024}
        return {"keys before": keys, "keys after": bench.raw.dbsize()} | kib


def _pass(bench: Bench, started: list[subprocess.Popen[bytes]], count: int) -> None:
    bench.raw.delete("bench:end")
    bench.send(peers.OURS, "passing", count)
    bench.wait_for(lambda: bench.marked("end"), started, f"{count} tasks")
    bench.raw.delete("bench:end")


def idle_steps(bench: Bench, sizes: Sizes, rows: list[Row]) -> list[Step]:
    made = []
    if peers.OURS in rows:
        alone = peers.ours("--no-poller")(1)
        for label, commands in (("our worker, without its poller", alone), ("our poller", [POLLER])):
            made.append(Step("idle", label, partial(idle, bench, peers.OURS, commands, sizes.idle_s)))
    return made + [Step("idle", row.label, partial(idle, bench, row, row.command(1), sizes.idle_s)) for row in rows]


def idle(bench: Bench, row: Row, commands: Commands, seconds: float) -> Figures:
    """Commands a second that reach the server, sent and inside scripts, as MONITOR shows them."""
    bench.raw.flushall()
    with bench.running(commands, bench.variables(row), bench.server.url) as started:
        if commands != [POLLER]:
            bench.send(row, "pick_up", 5, 0.01)
            bench.wait_for(lambda: len(bench.lateness_ms()) >= 5, started, "first tasks", 60)
        time.sleep(SETTLED_S)
        if any(process.poll() is not None for process in started):
            raise Trouble("its worker ended")
        sent, inside = _count(bench, seconds)
    return {"sent/s": sent / seconds, "inside scripts/s": inside / seconds}


def _count(bench: Bench, seconds: float) -> tuple[int, int]:
    client = redis.Redis.from_url(bench.server.url, socket_timeout=None)
    seen: list[str] = []
    with client.monitor() as monitor:
        enough = threading.Timer(seconds, lambda: bench.raw.set("bench:enough", 1))
        enough.start()
        while "bench:enough" not in (entry := monitor.next_command())["command"]:
            seen.append(entry["client_type"])
    client.close()
    return sum(kind != "lua" for kind in seen), seen.count("lua")
