"""`manage.py runpoller`: run a poller. See `taskqueue.startup.run_poller`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from django.apps import apps
from django.core.management.base import CommandError, CommandParser
from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError, StoredFormatTooNew
from django_redis_components.management import logs
from django_redis_components.management.base import ExitCode, failure_code
from django_redis_components.management.plain_output import PlainOutputCommand
from django_redis_components.management.posix import require_posix


class Command(PlainOutputCommand):
    """Run a poller."""

    help = (
        "Maintain the queues: wake workers for scheduled tasks, send periodic tasks, recover tasks of dead workers, and"
        " delete old data. Any number may run; one of them is active at a time. Workers have an embedded poller, so"
        " this command is for hosts without workers.\n\n"
        "Exit codes: 0: stopped by a signal. 1: an error at start. 2: a wrong argument. 4: a newer release has written"
        " the stored data; a restart does not help."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        logs.add_format(parser)
        parser.add_argument("--using", default="default", metavar="ALIAS", help="connection alias (default: default)")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run until stopped."""
        require_posix("runpoller")
        from django_redis_components.taskqueue.startup import run_poller

        try:
            code = run_poller(logs.configure(self, options), using=options["using"], beside=_threads(options["using"]))
        except StoredFormatTooNew as exc:
            raise CommandError(str(exc), returncode=ExitCode.NEWER_DATA) from exc
        except (RedisComponentsError, RedisError, ValueError) as exc:
            raise CommandError(str(exc), returncode=failure_code(exc)) from exc
        sys.exit(code)


@contextmanager
def _threads(using: str) -> Iterator[None]:
    """Watch the problems and relay the outbox while the block runs."""
    from django_redis_components.dashboard.problems.watcher import watching

    with watching(using), _relaying(using):
        yield


def _relaying(using: str) -> AbstractContextManager[None]:
    """Return what relays the rows of the outbox, if the site has one."""
    if not apps.is_installed("django_redis_components.contrib.outbox"):
        return nullcontext()
    from django_redis_components.contrib.outbox.relay import relaying

    return relaying(using)
