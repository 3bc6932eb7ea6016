"""`manage.py runworker`: run tasks. See `taskqueue.startup.run_worker`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management.base import CommandError, CommandParser
from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError, StoredFormatTooNew
from django_redis_components.management import logs
from django_redis_components.management.arguments import address, queue, weights, whole_number
from django_redis_components.management.base import ExitCode, failure_code
from django_redis_components.management.plain_output import PlainOutputCommand
from django_redis_components.management.posix import require_posix
from django_redis_components.taskqueue.pool import MAX_COROUTINES, MAX_THREADS
from django_redis_components.taskqueue.store.workers import THREADS
from django_redis_components.taskqueue.worker.options import ASYNC_CONCURRENCY, WorkerOptions


class Command(PlainOutputCommand):
    """Run tasks."""

    help = (
        "Run the tasks of some queues. Queues are served in strict order: tasks of a later queue run when the earlier"
        " queues are empty. With --weights they are served in proportion to their weights.\n\n"
        "Signals: SIGTERM, SIGINT (Ctrl-C) and SIGHUP stop the worker; running tasks have the seconds of the setting"
        " GRACE (default: 25) to finish, then they return to their queue. A second signal returns them at once."
        " SIGUSR1 makes the worker quiet: it fetches nothing more, finishes its running tasks, and waits for"
        " SIGTERM.\n\n"
        "Exit codes: 0: stopped by a signal, or --burst has finished. 1: an error at start, or a process had to be"
        " killed to stop. 2: a wrong argument, or an unknown queue or connection. 4: a newer release has written the"
        " stored data; a restart does not help."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "queues", nargs="*", type=queue, help="queue names (default: default, or the queues of --weights)"
        )
        parser.add_argument(
            "--weights",
            type=weights,
            default={},
            metavar="NAME=WEIGHT,…",
            help="weights of the queues, for example high=5,low=1: how often a queue is served first. 1 to 1000;"
            " queues without one have weight 1 (default: strict order)",
        )
        _add_concurrency_arguments(parser)
        parser.add_argument(
            "--no-poller",
            action="store_true",
            help="do not run the embedded poller, which recovers tasks of dead workers and sends periodic tasks:"
            " another worker or runpoller must (default: run it)",
        )
        parser.add_argument(
            "--reload",
            action="store_true",
            help="for development: restart when a file of the site changes; running tasks have 3 seconds to finish,"
            " then they return to their queue (default: off)",
        )
        parser.add_argument(
            "--burst",
            action="store_true",
            help="exit when the queues are empty, without waiting for scheduled tasks (default: run until stopped)",
        )
        _add_restart_arguments(parser)
        _add_health_arguments(parser)
        logs.add_format(parser)
        parser.add_argument("--using", default="default", metavar="ALIAS", help="connection alias (default: default)")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run until stopped."""
        require_posix("runworker")
        from django_redis_components.dashboard.problems.watcher import WatchMiddleware
        from django_redis_components.taskqueue.middleware import pipeline
        from django_redis_components.taskqueue.startup import run_worker
        from django_redis_components.taskqueue.supervisor.autoreload import Reloader, ReloaderClient

        reloader = ReloaderClient.from_environment()
        if options["reload"] and reloader is None:
            sys.exit(Reloader(self.stdout.write).run())
        log = logs.configure(self, options)
        queues, weights_of_queues = _queues(options["queues"], options["weights"])
        worker_options = WorkerOptions(
            queues=queues,
            weights=weights_of_queues,
            threads=options["threads"],
            burst=options["burst"],
            max_tasks=options["max_tasks"],
            max_memory_mib=options["max_memory"],
            async_concurrency=options["async_concurrency"],
        )
        pipeline.install(WatchMiddleware())
        if apps.is_installed("django_redis_components.contrib.outbox") and not options["no_poller"]:
            from django_redis_components.contrib.outbox.relay import RelayMiddleware

            pipeline.install(RelayMiddleware())
        try:
            code = run_worker(
                worker_options,
                log,
                processes=options["processes"],
                poller=not options["no_poller"],
                using=options["using"],
                health_file=options["health_file"],
                health_address=options["health_port"],
                reloader=reloader,
            )
        except StoredFormatTooNew as exc:
            raise CommandError(str(exc), returncode=ExitCode.NEWER_DATA) from exc
        except (RedisComponentsError, RedisError, ValueError) as exc:
            raise CommandError(str(exc), returncode=failure_code(exc)) from exc
        sys.exit(code)


def _queues(names: Sequence[str], weighted: dict[str, int]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the queues, and their weights if there are any."""
    queues = tuple(dict.fromkeys(names or weighted or ["default"]))
    if unknown := [name for name in weighted if name not in queues]:
        raise CommandError(
            f"--weights: {', '.join(map(repr, unknown))} is not among the queues {', '.join(queues)}.", returncode=2
        )
    return queues, tuple(weighted.get(queue, 1) for queue in queues) if weighted else ()


def _add_concurrency_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        type=whole_number(1, MAX_THREADS),
        default=THREADS,
        metavar="N",
        help=f"concurrent tasks in one process, 1 to 1000 (default: {THREADS})",
    )
    parser.add_argument(
        "--async-concurrency",
        type=whole_number(1, MAX_COROUTINES),
        default=ASYNC_CONCURRENCY,
        metavar="N",
        help="concurrent async def tasks on the event loop of one process, beside the threads, 1 to 10000"
        f" (default: {ASYNC_CONCURRENCY})",
    )
    parser.add_argument(
        "--processes",
        type=whole_number(1, 256),
        default=1,
        metavar="N",
        help="number of processes, 1 to 256 (default: 1)",
    )


def _add_restart_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-tasks",
        type=whole_number(1, 1_000_000_000),
        default=0,
        metavar="N",
        help="restart a process after N tasks, or up to a tenth fewer (default: never)",
    )
    parser.add_argument(
        "--max-memory",
        type=whole_number(1, 1 << 20),
        default=0,
        metavar="MIB",
        help="restart a process that uses more memory than this in MiB, or up to a tenth less (default: never)",
    )


def _add_health_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--health-file",
        type=Path,
        metavar="PATH",
        help="a file that is touched once a second while the worker is healthy (default: none)",
    )
    parser.add_argument(
        "--health-port",
        type=address,
        metavar="[ADDRESS:]PORT",
        help="a port that responds with 200 while the worker is healthy, else with 503 (default: none)",
    )
