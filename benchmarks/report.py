"""RESULTS.md: targets first, then a table for each part, then the software and hardware of the run."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import environment, peers
from benchmarks.targets import Measured, verdicts

#: Heading and explanation of each part, in the order of the report.
PARTS = {
    "drain": (
        "Drain",
        (
            "Tasks per second, from the first to the last task of a filled queue, by the times that the tasks record; "
            "ours until every task is settled."
            " Threads: 8 in a process; coroutines (django-vtasks, BullMQ): 32. Celery and Huey run their process pools"
            " when there are two processes. The ratio is our rate divided by the row's."
        ),
    ),
    "distance": ("Drain over a distance", "The same with one process and 2 ms of added round-trip time."),
    "enqueue": (
        "Enqueue",
        (
            "Tasks enqueued per second by one thread that waits for each reply. In bulk where the queue has such"
            " a call, 500 at a time; the others have none."
        ),
    ),
    "pickup": ("Pickup when idle", "From the call that enqueues to the first line of the task's body."),
    "delayed": (
        "Delayed tasks",
        (
            "Start minus due time. The peers run only these tasks; ours has the others in the same queue."
            " Celery and Dramatiq hold delayed tasks in the memory of a worker."
        ),
    ),
    "fairness": (
        "Fairness",
        (
            "A worker with two threads, one of which has a long task, and an idle worker: the time from enqueueing"
            " 100 short tasks to the start of each."
        ),
    ),
    "memory": ("Memory of queued tasks", "Additional bytes on the server per queued `noop(1)`."),
    "expired": (
        "After results have expired",
        "Keys and memory before the tasks, and after their results have expired.",
    ),
    "idle": ("Idle", "Commands per second of an idle worker, counted on the server with MONITOR."),
    "locks": ("Locks", "The output of `python -m benchmarks.locks` in the same run."),
    "semaphores": ("Semaphores", "The output of `python -m benchmarks.semaphores` in the same run."),
    "ratelimits": ("Rate limits", "The output of `python -m benchmarks.ratelimits` in the same run."),
    "dashboard": ("Dashboard", "The output of `python -m benchmarks.dashboard` in the same run."),
}
#: How to compare without peers.
GUARD = (
    "`python -m benchmarks.guard` compares this code with `guard_ratios.json` in about a minute, without peers: single"
    " calls in units of a held PING, and a default worker in units of a bare loop. It fails on a loss of more than"
    " 15 %. Run it before and after a change of a hot path."
)
#: In these parts less is better, and the ratio is the row's figure by ours.
LESS_IS_BETTER = {"pickup", "delayed", "memory", "idle"}


def write(
    path: Path, measured: Measured, troubles: dict[str, str], facts: dict[str, str], outputs: dict[str, str]
) -> None:
    """Write the report.

    Args:
        troubles: what could not be measured, and why.
        facts: of the run, by name.
        outputs: of the benchmarks that are programs of their own, by part.
    """
    lines = [
        "# Benchmarks",
        "",
        "Written by `python -m benchmarks`; medians of the rounds, lowest and highest beside them.",
        "",
        GUARD,
        "",
    ]
    lines += _targets(measured)
    for part, (title, text) in PARTS.items():
        if part in measured:
            lines += ["", f"## {title}", "", text, "", *_table(part, measured[part])]
    for part, output in outputs.items():
        lines += ["", f"## {PARTS[part][0]}", "", PARTS[part][1], "", "```text", output.strip(), "```"]
    lines += ["", "## What each keeps", "", "| Queue | Keeps |", "|---|---|"]
    lines += [f"| {row.label} | {row.keeps} |" for row in [peers.OURS, *peers.PEERS]]
    if troubles:
        lines += ["", "## Not measured", "", *(f"- {what}: `{why}`" for what, why in troubles.items())]
    lines += ["", "## The run", "", "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items())]
    path.write_text("\n".join(lines) + "\n")


def _targets(measured: Measured) -> list[str]:
    words = {True: "yes", False: "**no**", None: ""}
    rows = [f"| {verdict.target} | {verdict.measured} | {words[verdict.met]} |" for verdict in verdicts(measured)]
    return ["| Target | Measured | Met |", "|---|---|---|", *rows]


def _table(part: str, rows: dict[str, dict[str, list[float]]]) -> list[str]:
    columns = list(dict.fromkeys(column for figures in rows.values() for column in figures))
    ratios = part not in ("expired", "fairness")
    heads = [head for column in columns for head in ((f"ratio, {column}", column) if ratios else (column,))]
    lines = ["| | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    base = rows.get(peers.OURS.label) or next(iter(rows.values()))
    for label, figures in rows.items():
        cells = [cell for column in columns for cell in _cells(part, figures.get(column), base.get(column), ratios)]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


def _cells(part: str, values: list[float] | None, base: list[float] | None, ratios: bool) -> Iterable[str]:
    if not values:
        return ["", ""] if ratios else [""]
    median = statistics.median(values)
    text = _number(median)
    if len(values) > 1:
        text += f" ({_number(min(values))} to {_number(max(values))})"
    if not ratios:
        return [text]
    own = statistics.median(base) if base else 0.0
    above, below = (median, own) if part in LESS_IS_BETTER else (own, median)
    return [f"{above / below:.2f}" if below else "", text]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def machine() -> dict[str, str]:
    """What it was measured on."""
    cpu = [line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    memory = [line for line in _read("/proc/meminfo").splitlines() if line.startswith("MemTotal")]
    found = environment.versions()
    names = ("django", "redis", "hiredis", *(row.package for row in peers.PEERS), "django-vcache", "ioredis")
    return {
        "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Processor": f"{cpu[0].split(':')[1].strip() if cpu else platform.processor()}, {len(cpu)} cores",
        "Memory": f"{int(memory[0].split()[1]) / 2**20:.0f} GiB" if memory else "unknown",
        "System": platform.platform(),
        "Load at the start": _read("/proc/loadavg").split(" ")[0],
        "Versions": ", ".join(f"{name} {found[name]}" for name in names if name in found),
    }


def _read(path: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""
