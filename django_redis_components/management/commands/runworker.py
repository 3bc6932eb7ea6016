"""`manage.py runworker`: a thin door to `taskqueue.service.run_worker`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.management import logs
from django_redis_components.management.arguments import address, queue, weights, whole_number
from django_redis_components.taskqueue.startup import run_worker
from django_redis_components.taskqueue.supervisor.autoreload import Watched, Watcher
from django_redis_components.taskqueue.supervisor.child import WorkerOptions
from django_redis_components.taskqueue.worker.worker import ASYNC_CONCURRENCY


class Command(BaseCommand):
    """Run tasks."""

    help = (
        "Run tasks of the named queues, in strict order: a later queue is served when the earlier ones are empty."
        " Or by weight: see --weights."
        " SIGTERM and Ctrl-C leave running tasks GRACE seconds (25) to finish; a second one hands them back at once."
        " SIGUSR1 makes the worker quiet: it fetches nothing more, finishes what runs, and waits for SIGTERM."
        " Exit codes: 0 stopped, 1 an error at the start, or a process had to be killed to stop,"
        " 2 a wrong argument."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "queues", nargs="*", type=queue, help="queue names (default: default, or those with weights)"
        )
        parser.add_argument(
            "--weights",
            type=weights,
            default={},
            metavar="NAME=WEIGHT,…",
            help="instead of strict order: how often each queue comes first, as in high=5,low=1; 1 to 1000, and 1 for"
            " a queue that is not named here (default: strict order)",
        )
        parser.add_argument(
            "--threads",
            type=whole_number(1, 1_000),
            default=8,
            help="tasks at a time in one process, 1 to 1000 (default: 8)",
        )
        parser.add_argument(
            "--async-concurrency",
            type=whole_number(1, 10_000),
            default=ASYNC_CONCURRENCY,
            help="async def tasks at a time on the event loop of one process, beside the threads, 1 to 10000"
            f" (default: {ASYNC_CONCURRENCY})",
        )
        parser.add_argument(
            "--processes", type=whole_number(1, 256), default=1, help="processes, 1 to 256 (default: 1)"
        )
        parser.add_argument(
            "--no-poller",
            action="store_true",
            help="without the embedded poller: others must tend the queue and send periodic tasks (default: with it)",
        )
        parser.add_argument(
            "--reload",
            action="store_true",
            help="for development: start again when a file of the site changes; running tasks have 3 s, then they go"
            " back to their queue",
        )
        parser.add_argument(
            "--burst",
            action="store_true",
            help="end when the queues are empty; delayed tasks are not waited for (default: run until stopped)",
        )
        _add_arguments_of_recycling(parser)
        _add_arguments_of_health(parser)
        logs.add_format(parser)
        parser.add_argument("--using", default="default", help="connection alias (default: default)")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run until stopped."""
        watched = Watched.from_environment()
        if options["reload"] and watched is None:
            sys.exit(Watcher(self.stdout.write).run())
        say = logs.begin(self, options)
        queues, weighed = _queues(options["queues"], options["weights"])
        chosen = WorkerOptions(
            queues=queues,
            weights=weighed,
            threads=options["threads"],
            burst=options["burst"],
            max_tasks=options["max_tasks"],
            max_memory_mib=options["max_memory"],
            async_concurrency=options["async_concurrency"],
        )
        try:
            code = run_worker(
                chosen,
                say,
                processes=options["processes"],
                poller=not options["no_poller"],
                using=options["using"],
                health_file=options["health_file"],
                health_address=options["health_port"],
                watched=watched,
            )
        except (RedisComponentsError, RedisError, ValueError) as exc:
            raise CommandError(str(exc)) from exc
        sys.exit(code)


def _queues(names: Sequence[str], weighed: dict[str, int]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The queues, and their weights if there are any."""
    queues = tuple(dict.fromkeys(names or weighed or ["default"]))
    if strangers := [name for name in weighed if name not in queues]:
        raise CommandError(
            f"--weights: {', '.join(map(repr, strangers))} is not among the queues {', '.join(queues)}.", returncode=2
        )
    return queues, tuple(weighed.get(queue, 1) for queue in queues) if weighed else ()


def _add_arguments_of_recycling(parser: CommandParser) -> None:
    parser.add_argument(
        "--max-tasks",
        type=whole_number(1, 1_000_000_000),
        default=0,
        metavar="N",
        help="replace a process after about so many tasks, up to a tenth fewer (default: never)",
    )
    parser.add_argument(
        "--max-memory",
        type=whole_number(1, 1 << 20),
        default=0,
        metavar="MIB",
        help="replace a process that takes more than so many MiB, or up to a tenth less (default: never)",
    )


def _add_arguments_of_health(parser: CommandParser) -> None:
    parser.add_argument(
        "--health-file",
        type=Path,
        metavar="PATH",
        help="a file that is touched once a second while every process hears from Redis (default: none)",
    )
    parser.add_argument(
        "--health-port",
        type=address,
        metavar="[ADDRESS:]PORT",
        help="a port that answers 200 while every process hears from Redis, else 503 (default: none)",
    )
