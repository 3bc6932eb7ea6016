"""`manage.py redis`: inspects and operates what the components have in Redis. The groups are in `management.redis`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management.base import (
    EXIT_CODES,
    CommandResult,
    OperatorCommand,
    help_texts,
    suggest_names,
)
from django_redis_components.management.redis.groups import GROUPS, GroupParser


class Command(OperatorCommand):
    """Inspect and operate the components."""

    help = (
        "Inspect and operate task queues, locks, rate limits, analytics and the server. See `redis GROUP --help`.\n\n"
        f"{EXIT_CODES}"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the groups, without importing them."""
        groups = parser.add_subparsers(metavar="GROUP", title="groups", required=True, parser_class=GroupParser)
        for name, does in GROUPS.items():
            groups.add_parser(name, help=does, command=self, group=name, **help_texts(does))
        suggest_names(groups)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Execute a command of a group."""
        result: CommandResult = options["perform"](options)
        return result
