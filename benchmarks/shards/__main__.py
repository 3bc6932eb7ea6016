"""See the package."""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.shards import __doc__ as description


def main() -> None:
    """Run a part."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("outage", "chaos"):
        command = commands.add_parser(name)
        command.add_argument("--keyless", type=float, default=150.0, help="tasks without a key a second (default: 150)")
        command.add_argument("--keyed", type=float, default=30.0, help="tasks with a key a second (default: 30)")
        command.add_argument("--seconds", type=float, default=12.0, help="of load after each event (default: 12)")
        command.add_argument("--hold", type=float, default=20.0, help="seconds of an outage (default: 20)")
        command.add_argument("--third", type=int, default=0, help="which primary is lost, 0 to 2 (default: 0)")
    commands.choices["outage"].add_argument("--full-coverage", action="store_true", help="the server's default")
    chaos = commands.choices["chaos"]
    chaos.add_argument("--events", default="", help="some of: none,kill,hang,stop,cut,slots,guarded,split")
    chaos.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    spread = commands.add_parser("spread")
    spread.add_argument("--tasks", type=int, default=10_000, help="no-op tasks of a round (default: 10,000)")
    spread.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    strict = commands.add_parser("strict")
    strict.add_argument("--low", type=int, default=100_000, help="tasks of the later queue (default: 100,000)")
    strict.add_argument("--high", type=int, default=400, help="tasks of the earlier queue (default: 400)")
    strict.add_argument(
        "--run", type=float, default=0.002, help="seconds of a task of the later queue (default: 0.002)"
    )
    idle = commands.add_parser("idle")
    idle.add_argument("--shards", type=int, default=8, help="shards, each on a server of its own (default: 8)")
    idle.add_argument("--processes", type=int, default=40, help="worker processes, a multiple of 20 (default: 40)")
    idle.add_argument("--seconds", type=float, default=30.0, help="for which they are watched (default: 30)")
    limit = commands.add_parser("limit")
    limit.add_argument("--tasks", type=int, default=10_000, help="tasks (default: 10,000)")
    limit.add_argument("--customers", type=int, default=20, help="keys of the limit (default: 20)")
    limit.add_argument("--run", type=float, default=0.05, help="seconds of a task (default: 0.05)")
    limit.add_argument("--every", type=float, default=2.0, help="seconds between two kills (default: 2)")
    move = commands.add_parser("move")
    move.add_argument("--tasks", type=int, default=100_000, help="scheduled tasks (default: 100,000)")
    move.add_argument("--due", type=float, default=180.0, help="seconds until they are due (default: 180)")
    move.add_argument("--every", type=float, default=2.0, help="seconds between two kills (default: 2)")
    options = parser.parse_args()
    from benchmarks.shards import chaos as runs

    if options.command in ("outage", "chaos"):
        load = runs.Options(options.keyless, options.keyed, options.seconds, options.hold, options.third)
    if options.command == "outage":
        runs.outage(load, full_coverage=options.full_coverage)
    elif options.command == "chaos":
        if not options.inside:
            as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
            own = [sys.executable, "-m", "benchmarks.shards", *sys.argv[1:], "--inside"]
            os.execvp("unshare", ["unshare", *as_root, "--net", *own])  # noqa: S606 - its own words
        runs.chaos(load, options.events)
    else:
        _measure(options)


def _measure(options: argparse.Namespace) -> None:
    from benchmarks.shards import measures

    match options.command:
        case "spread":
            measures.spread(options.tasks, options.rounds)
        case "strict":
            measures.strict(options.low, options.high, options.run)
        case "idle":
            measures.idle(options.shards, options.processes, options.seconds)
        case "limit":
            measures.limit(options.tasks, options.customers, options.run, options.every)
        case "move":
            measures.move(options.tasks, options.due, options.every)


if __name__ == "__main__":
    main()
