"""`manage.py locks`: lists the holders of locks and semaphores, and releases one."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.dashboard.locks.resources import KINDS
from django_redis_components.management import lock_commands
from django_redis_components.management.base import (
    EXIT_CODES,
    CommandResult,
    OperatorCommand,
    add_subcommands,
    add_yes,
    system_user,
)

#: Subcommands and their descriptions.
VERBS = {
    "list": "list held locks and semaphores with their holders and waiters",
    "release": "release a lock or permits of their holders (asks for confirmation)",
}


class Command(OperatorCommand):
    """Inspect and release locks and semaphores."""

    help = f"List the holders of locks and semaphores, and release one. See `locks COMMAND --help`. {EXIT_CODES}"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        made = add_subcommands(parser, VERBS)
        made["list"].add_argument("--name", default="", help="only this name (default: all that a scan finds)")
        made["list"].add_argument(
            "--at", default="", metavar="POSITION", help="continue the scan (default: a new scan)"
        )
        made["release"].add_argument("name", metavar="NAME", help="name of the lock or semaphore")
        made["release"].add_argument(
            "--kind",
            default="",
            choices=[slug for slug, kind in KINDS.items() if not kind.is_in_group],
            help="required if several kinds have the name (default: any)",
        )
        for verb in ("list", "release"):
            made[verb].add_argument("--group", default="", help="of a name of a MultiLock (default: none)")
        add_yes(made["release"])

    def perform_list(self, options: dict[str, Any]) -> CommandResult:
        """See `lock_commands.list_locks`."""
        return lock_commands.list_locks(
            options["using"], name=options["name"], group=options["group"], at=options["at"]
        )

    def perform_release(self, options: dict[str, Any]) -> CommandResult:
        """Release the holders that were shown before the confirmation."""
        name, using = options["name"], options["using"]
        state = lock_commands.held(name, using, kind=options["kind"], group=options["group"])
        if state is None:
            return CommandResult({"name": name, "released": []}, f"No lock or semaphore {name!r} is held.")
        if not options["yes"]:
            self.ask(f"{lock_commands.describe(state)} Release it?", "Nothing was released.")
        return lock_commands.release_holders(state, using, system_user())
