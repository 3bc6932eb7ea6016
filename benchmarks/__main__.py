"""The task queue beside its peers, in one run; see ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from redis.exceptions import RedisError
from tqdm import tqdm

from benchmarks import environment, peers, report
from benchmarks.parts import QUICK, Sizes, Step, drain, enqueueing, moments, resources
from benchmarks.peers import Row
from benchmarks.running import Bench, Trouble
from benchmarks.targets import Measured
from tools.localserver import LocalServer, redis_binary, valkey_binary

#: Parts in the order of a round, with the function that returns their steps.
PARTS: dict[str, Callable[[Bench, Sizes, list[Row]], list[Step]]] = {
    "drain": drain.steps,
    "distance": drain.distant_steps,
    "enqueue": enqueueing.steps,
    "pickup": moments.pickup_steps,
    "delayed": moments.delayed_steps,
    "fairness": moments.fairness_steps,
    "memory": resources.memory_steps,
    "expired": lambda bench, sizes, rows: resources.expired_steps(bench, sizes),
    "idle": resources.idle_steps,
}
#: Parts that are separate programs, and their options for a quick run.
PROGRAMS = {
    "locks": ["--rounds", "3", "--seconds", "1"],
    "semaphores": ["--rounds", "3"],
    "ratelimits": ["--rounds", "3"],
    "autocomplete": ["--names", "20000", "--queries", "300"],
    "search": ["--documents", "2000", "--queries", "50"],
    "bloom": ["--rounds", "3"],
    "files": ["--mib", "64"],
    "aggregation": ["--lines", "100000", "--lookups", "500"],
    "messaging": ["--calls", "500"],
    "dashboard": ["--tasks", "20000", "--pages", "5"],
}
#: All figures of the last run, even if it was interrupted.
LAST = environment.HOME / "last.json"
#: Parts in which each peer has all its rows; in the others it has one.
ALL_ROWS = {"drain"}
#: Parts that are measured in each round; the others once.
IN_ROUNDS = {"drain", "distance", "enqueue"}


def main() -> None:
    """Measure, and write the report."""
    chosen = _arguments()
    environment.prepare(chosen.python or environment.default_python(), again=chosen.install)
    started_at = time.monotonic()
    measured: Measured = {}
    troubles = {f"{name} (not installed)": why for name, why in environment.refused().items()}
    facts = report.machine()
    binary = {"valkey": valkey_binary, "redis": redis_binary}[chosen.server]()
    with tempfile.TemporaryDirectory() as directory:
        server = LocalServer(binary, directory=Path(directory), die_with_parent=True)
        with server, (environment.HOME / "log.txt").open("wb"):
            bench = Bench(server, environment.HOME / "log.txt")
            facts["Server"] = f"{chosen.server} {_server_version(bench)}, on this machine, nothing written to disk"
            _run(_steps(bench, chosen), measured, troubles)
            wanted = [part for part in PROGRAMS if not chosen.part or part in chosen.part]
            outputs = {part: _output(part, server.url, chosen.sizes) for part in wanted}
    facts["Rounds"] = str(chosen.sizes.rounds)
    facts["Command"] = f"`python -m benchmarks {shlex.join(sys.argv[1:])}`"
    facts["Took"] = f"{(time.monotonic() - started_at) / 60:.0f} minutes"
    report.write(Path(chosen.output), measured, troubles, facts, outputs)
    print(f"written: {chosen.output}; every figure: {LAST}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = list(dict.fromkeys(row.peer for row in peers.ROWS))
    parser.add_argument(
        "--peers", default=",".join(names), help=f"which, with commas between (default: {','.join(names)})"
    )
    parser.add_argument("--part", action="append", choices=[*PARTS, *PROGRAMS], help="this part only; may be repeated")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that everything works, no figures")
    parser.add_argument(
        "--server", choices=["valkey", "redis"], default="valkey", help="embedded Valkey, or /usr/bin's Redis"
    )
    parser.add_argument("--install", action="store_true", help="make the environment in .data/bench again")
    parser.add_argument("--python", help="the Python to make it with (default: the newest of 3.13 and 3.12)")
    parser.add_argument("--output", default="benchmarks/RESULTS.md", help="the report (default: %(default)s)")
    for field in dataclasses.fields(Sizes):
        kind = float if isinstance(field.default, float) else int
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=kind,
            help=f"default: {field.default:,}, quick {getattr(QUICK, field.name):,}",
        )
    chosen = parser.parse_args()
    given = {field.name: getattr(chosen, field.name) for field in dataclasses.fields(Sizes)}
    base = QUICK if chosen.quick else Sizes()
    chosen.sizes = dataclasses.replace(base, **{name: value for name, value in given.items() if value is not None})
    chosen.names = chosen.peers.split(",")
    return chosen


def _steps(bench: Bench, chosen: argparse.Namespace) -> list[Step]:
    """Rounds are interleaved: each row is measured once before any is measured again."""
    made = []
    for number in range(chosen.sizes.rounds):
        for part, steps in PARTS.items():
            if (chosen.part and part not in chosen.part) or (number and part not in IN_ROUNDS):
                continue
            rows = peers.ROWS if part in ALL_ROWS else [peers.OURS, *peers.PEERS]
            made += steps(bench, chosen.sizes, [row for row in rows if row.peer in chosen.names])
    return made


def _run(steps: list[Step], measured: Measured, troubles: dict[str, str]) -> None:
    progress = tqdm(steps, unit="step", dynamic_ncols=True)
    for step in progress:
        progress.set_description(f"{step.part}: {step.row}"[:60])
        try:
            figures = step.run()
        except (Trouble, RedisError, subprocess.TimeoutExpired) as exc:
            troubles[f"{step.part}, {step.row}"] = str(exc)
            tqdm.write(f"not measured: {step.part}, {step.row}: {exc}")
            continue
        row = measured.setdefault(step.part, {}).setdefault(step.row, {})
        for column, value in figures.items():
            row.setdefault(column, []).append(value)
        LAST.write_text(json.dumps({"measured": measured, "troubles": troubles}, indent=1))


def _output(part: str, url: str, sizes: Sizes) -> str:
    """Run a separate program and return its output."""
    quick = PROGRAMS[part] if sizes.rounds == 1 else []
    command = [environment.python(), "-m", f"benchmarks.{part}", *quick]
    variables = environment.variables(url, url, "ours") | {"REDIS_URL": url}
    variables.pop("DJANGO_SETTINGS_MODULE")
    done = subprocess.run(command, env=variables, cwd=environment.ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else done.stderr[-500:]


def _server_version(bench: Bench) -> str:
    info = bench.raw.info("server")
    return str(info.get("valkey_version") or info["redis_version"])


if __name__ == "__main__":
    main()
