"""What shards cost and keep: server time, strict order, idle commands, limits and moves with kills."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import redis

from benchmarks.shards.cluster import Cluster, spread_names, wait_until
from benchmarks.shards.site import Site, percentile
from tools.localserver import LocalServer


@contextmanager
def on_cluster(**taskqueue: Any) -> Iterator[tuple[Cluster, Site, list[str]]]:
    """Start a Cluster of six nodes, with a shard on each primary."""
    with tempfile.TemporaryDirectory(prefix="drc-shards-") as name:
        cluster = Cluster(Path(name), has_replicas=True)
        names = spread_names((0, 1, 2))
        site = Site(Path(name), {"default": cluster.url}, dict.fromkeys(names, "default"), {"load": names}, **taskqueue)
        site.set_up()
        try:
            yield cluster, site, names
        finally:
            site.close()
            cluster.close()


#: Layouts of `spread`: one shard, and three, which get the tasks in turn or one after another.
LAYOUTS = ("one", "three", "in a row")


def spread(tasks: int, rounds: int) -> None:
    """Print the server's time of a task, in one shard and in three, and each primary's part of the calls."""
    kinds = {"enqueue": 0.0, "run, no-op": 0.0, "run, 5 ms": 0.005}
    found: dict[tuple[str, str], list[list[float]]] = {}
    with on_cluster() as (cluster, site, names):
        clients = [cluster.client(server) for server in cluster.primaries()]
        for _ in range(rounds):
            for layout in LAYOUTS:
                shards = names[:1] if layout == "one" else names
                for kind, seconds in kinds.items():
                    number = tasks // 4 if seconds else tasks
                    site.route(shards, {"load": shards})
                    if seconds:
                        _enqueue(number, seconds)
                    before = [_used(client) for client in clients]
                    if kind != "enqueue":
                        assert site.start("django", "runworker", "load", "--burst").wait(300) == 0
                    elif layout == "in a row":
                        for name in names:
                            site.route(shards, {"load": name})
                            _enqueue(number // 3, 0.0)
                    else:
                        _enqueue(number, 0.0)
                    used = [
                        [after - start for after, start in zip(_used(client), each, strict=True)]
                        for client, each in zip(clients, before, strict=True)
                    ]
                    sums = [sum(each) / number for each in zip(*used, strict=True)]
                    found.setdefault((kind, layout), []).append(sums + [each[1] / number for each in used])
    print("| | shards | scripts, us | ratio (rounds) | CPU, us | ratio (rounds) | calls | of each primary |")
    print("|---|---|---:|---|---:|---|---:|---|")
    for kind in kinds:
        for layout in LAYOUTS if kind == "enqueue" else LAYOUTS[:2]:
            one, rows = found[kind, "one"], found[kind, layout]
            medians = [statistics.median(column) for column in zip(*rows, strict=True)]
            parts = ", ".join(f"{part / sum(medians[3:]):.1%}" for part in medians[3:])
            print(
                f"| {kind} | {layout} | {medians[0]:,.1f} | {_ratio(one, rows, 0)} | {medians[2]:,.1f}"
                f" | {_ratio(one, rows, 2)} | {medians[1]:.2f} | {parts} |"
            )


def _ratio(one: list[list[float]], rows: list[list[float]], column: int) -> str:
    ratios = [after[column] / before[column] for before, after in zip(one, rows, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _used(client: Any) -> tuple[float, float, float]:
    """Return the microseconds and the calls of scripts, and the CPU time of the server's main thread."""
    stats, cpu = client.info("commandstats"), client.info("cpu")
    scripts = [each for name, each in stats.items() if name.startswith("cmdstat_eval")]
    used = float(cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]) * 1e6
    return sum(each["usec"] for each in scripts), sum(each["calls"] for each in scripts), used


def _enqueue(count: int, seconds: float) -> None:
    from benchmarks.shards import tasks

    task, arguments = (tasks.keyless, (seconds,)) if seconds else (tasks.noop, ())
    for number in range(count):
        task.enqueue(number, *arguments)


def strict(low: int, high: int, run_s: float) -> None:
    """Print how soon tasks of an earlier queue start, in the shard of the later queue's tasks, and in another one."""
    print(
        "| `low` in | `high` in | p50, ms | p95, ms | p99, ms | max, ms | `low` left |"
        "\n|---|---|---:|---:|---:|---:|---:|"
    )
    with on_cluster() as (_, site, names):
        layouts: list[tuple[str, str, list[str], dict[str, Any]]] = [
            ("one shard", "the same", names[:1], {"high": names[0], "low": names[0]}),
            ("two shards", "a third", names, {"high": names[2], "low": names[:2]}),
        ]
        for where, other, shards, queues in layouts:
            site.route(shards, queues)
            from benchmarks.shards import tasks
            from django_redis_components.taskqueue import get_queue

            queue = get_queue("low")
            tasks.low.enqueue_many([((run_s,), {})] * low)
            worker = site.work("high", "low", threads=8)
            wait_until(lambda queue=queue: queue.info().ready < low - 200)  # type: ignore[misc]
            site.runs_path.write_text("")
            for number in range(high):
                tasks.high.enqueue(number, time.monotonic())
                time.sleep(0.05)
            wait_until(lambda: len(site.runs_path.read_text().splitlines()) == high)
            left = queue.info().ready
            site.stop(worker)
            queue.purge()
            waits = sorted(float(line.split()[2]) * 1_000 for line in site.runs_path.read_text().splitlines())
            figures = " | ".join(f"{percentile(waits, share):.1f}" for share in (0.5, 0.95, 0.99, 1.0))
            print(f"| {where} | {other} | {figures} | {left:,} |", flush=True)


def idle(shards: int, processes: int, seconds: float) -> None:
    """Print the commands a second of idle worker processes in each shard, each on a separate server."""
    print(
        "| shards | processes | commands/s of a shard for each process, with those of scripts"
        " | connections of a shard | blocked |"
    )
    print("|---:|---:|---:|---:|---:|")
    for count in (1, shards):
        with tempfile.TemporaryDirectory(prefix="drc-shards-") as name:
            servers = [
                LocalServer(directory=Path(name) / f"server{number}", die_with_parent=True).start()
                for number in range(count)
            ]
            aliases = ["default", *(f"redis{number}" for number in range(1, count))]
            names = [f"s{number}" for number in range(count)]
            urls = {alias: server.url for alias, server in zip(aliases, servers, strict=True)}
            site = Site(Path(name), urls, dict(zip(names, aliases, strict=True)), {"load": names})
            try:
                _idle(site, servers, processes, seconds)
            finally:
                site.close()
                for server in servers:
                    server.kill()


def _idle(site: Site, servers: Sequence[LocalServer], processes: int, seconds: float) -> None:
    for _ in range(processes // 20):
        site.work("load", processes=20)
    clients = [redis.Redis.from_url(server.url) for server in servers]
    wait_until(lambda: all(_info(client, "blocked_clients") >= processes for client in clients), 180)
    time.sleep(10)  # the workers have registered
    before = [_info(client, "total_commands_processed") for client in clients]
    connections = max(_info(client, "connected_clients") for client in clients)
    time.sleep(seconds)
    rates = [
        (_info(client, "total_commands_processed") - start - 2) / seconds / processes
        for client, start in zip(clients, before, strict=True)
    ]
    blocked = max(_info(client, "blocked_clients") for client in clients)
    print(
        f"| {len(servers)} | {processes} | {statistics.mean(rates):.2f} ({min(rates):.2f} to {max(rates):.2f})"
        f" | {connections} | {blocked} |",
        flush=True,
    )


def _info(client: redis.Redis, name: str) -> int:
    found: Any = client.info()
    return int(found[name])


def limit(tasks_count: int, customers: int, run_s: float, every_s: float) -> None:
    """Kill workers while tasks with a limit of 5 by customer run; print how many ran at once at most."""
    with on_cluster() as (_, site, names):
        fourth = spread_names((0, 1, 2, 0))
        site.route(fourth, {"load": fourth})
        from benchmarks.shards import tasks

        calls: list[tuple[Any, Any]] = [((number % customers, number, run_s), {}) for number in range(tasks_count)]
        results = tasks.limited.enqueue_many(calls)
        per_shard = Counter(result._shard.name for result in results)
        for _ in range(2):
            site.work("load", threads=8, processes=2)
        killed: dict[int, float] = {}
        ends_at = time.monotonic() + 400
        while time.monotonic() < ends_at and len(_ended(site)) < tasks_count:
            time.sleep(every_s)
            _kill_one(site, killed)
        print(f"tasks in each shard: {dict(per_shard)} of {names}")
        _report_limit(site, tasks_count, killed)


def _lines(site: Site) -> list[list[str]]:
    return [line.split() for line in site.runs_path.read_text().splitlines()]


def _ended(site: Site) -> set[str]:
    return {line[2] for line in _lines(site) if line[0] == "end"}


def _kill_one(site: Site, killed: dict[int, float]) -> None:
    """Kill a process that has started a task lately."""
    pids = {int(line[4]) for line in _lines(site)[-200:]} - killed.keys()
    if pids:
        pid = random.choice([*pids])
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed[pid] = time.monotonic()


def _report_limit(site: Site, tasks_count: int, killed: dict[int, float]) -> None:
    lines = _lines(site)
    ends = {(line[2], line[4]): float(line[3]) for line in lines if line[0] == "end"}
    changes: dict[str, list[tuple[float, int]]] = {}
    starts: dict[str, list[tuple[float, str]]] = {}
    for word, customer, number, at, pid in lines:
        if word == "start":
            end = ends.get((number, pid), killed.get(int(pid), time.monotonic()))
            changes.setdefault(customer, []).extend([(float(at), 1), (end, -1)])
            starts.setdefault(number, []).append((float(at), pid))
    most = max(max(itertools.accumulate(step for _, step in sorted(each))) for each in changes.values())
    again = [number for number, found in starts.items() if len(found) > 1]
    unexplained = [number for number in again if any(int(pid) not in killed for _, pid in starts[number][:-1])]
    print(
        f"{tasks_count:,} tasks of {len(changes)} customers, {len(killed)} processes killed:"
        f" {len(_ended(site)):,} ended, at most {most} of a customer at once, {len(again)} started again,"
        f" {len(unexplained)} of them without a kill"
    )


def move(tasks_count: int, due_s: float, every_s: float) -> None:
    """Kill `redis shards move` again and again while it moves scheduled tasks; print how often each has run."""
    with tempfile.TemporaryDirectory(prefix="drc-shards-") as name, ExitStack() as stack:
        servers = [
            stack.enter_context(LocalServer(directory=Path(name) / each, die_with_parent=True)) for each in ("a", "b")
        ]
        urls = dict(zip(("default", "other"), (server.url for server in servers), strict=True))
        site = Site(Path(name), urls, {"a": "default", "b": "other"}, {"load": "a"})
        stack.callback(site.close)
        site.set_up()
        from benchmarks.shards import tasks

        for start in range(0, tasks_count, 5_000):
            some = range(start, min(start + 5_000, tasks_count))
            tasks.keyless.using(run_after=due_s).enqueue_many([((number,), {}) for number in some])
        components = json.loads(os.environ["BENCH_SHARDS"])
        components["TASKQUEUE"]["QUEUES"] = {"load": "b"}
        os.environ["BENCH_SHARDS"] = json.dumps(components)
        began_at = time.monotonic()
        kills = _move_with_kills(site, every_s)
        seconds = time.monotonic() - began_at
        site.work("load", threads=8)
        wait_until(lambda: len(_lines(site)) >= tasks_count, due_s + 240)
        time.sleep(5)  # for tasks that would run a second time
        runs = Counter(line[1] for line in _lines(site))
        twice = sum(count > 1 for count in runs.values())
        print(
            f"{tasks_count:,} scheduled tasks were moved within {seconds:.0f} s and {kills} kills;"
            f" {len(runs):,} ran, {twice} of them more than once"
        )


def _move_with_kills(site: Site, every_s: float) -> int:
    """Repeat the command until it ends by itself; return how often it was killed."""
    for kills in itertools.count():
        process = site.start("django", "redis", "shards", "move", "a", "b", "--yes")
        try:
            if code := process.wait(random.uniform(0.5, 1.5) * every_s):
                raise SystemExit(f"the move ended with {code}: {site.log_path.read_text()[-500:]}")
        except subprocess.TimeoutExpired:
            site.kill(process)
        else:
            return kills
    raise AssertionError
