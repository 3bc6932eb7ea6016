"""`manage.py runpoller`: a thin door to `taskqueue.service.run_poller`."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.management import logs
from django_redis_components.taskqueue.startup import run_poller


class Command(BaseCommand):
    """Tend the queue."""

    help = (
        "Ring for delayed tasks when they fall due, send periodic tasks, bring back tasks of dead workers, prune."
        " Any number may run; one is active. Workers have one embedded, so this command is for hosts without workers."
        " Exit codes: 0 stopped, 1 an error at the start, 2 a wrong argument."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        logs.add_format(parser)
        parser.add_argument("--using", default="default", help="connection alias (default: default)")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run until stopped."""
        try:
            code = run_poller(logs.begin(self, options), using=options["using"])
        except (RedisComponentsError, RedisError, ValueError) as exc:
            raise CommandError(str(exc)) from exc
        sys.exit(code)
