"""`manage.py reconcile_messaging`: repairs the index of each user's chats."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.core.text import counted
from django_redis_components.management.base import CommandResult, OperatorCommand, add_common
from django_redis_components.messaging import reconcile


class Command(OperatorCommand):
    """Repair the index of each user's chats from the members of the chats."""

    help = (
        "Repair the index of each user's chats from the members of the chats. The server looks at all of its keys, a"
        " thousand at a time.\n\n"
        "Exit codes: 0 done; 2 invalid arguments; 3 Redis is unavailable, or a write has failed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        add_common(parser)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Repair the indexes."""
        done = reconcile(using=options["using"])
        text = (
            f"{counted(done.chats, 'chat')}, {counted(done.added, 'entry', 'entries')} added, {done.removed:,} removed"
        )
        return CommandResult(dataclasses.asdict(done), text)
