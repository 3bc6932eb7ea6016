"""The arguments of `manage.py redis top`, and its loop."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError, CommandParser
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import ConfigurationError, RedisComponentsError
from django_redis_components.management.arguments import seconds
from django_redis_components.management.base import CommandResult, add_common, command_error
from django_redis_components.management.posix import require_posix
from django_redis_components.management.redis import groups
from django_redis_components.management.redis.top import screen
from django_redis_components.management.redis.top.snapshot import TopSnapshot, merged_top, read_top
from django_redis_components.taskqueue.shard_clients import read_each

#: Seconds between two refreshes without --interval.
INTERVAL_S = 2.0
#: Shortest interval in seconds: each refresh costs the server about a millisecond.
MIN_INTERVAL_S = 0.2


#: For the help.
DESCRIPTION = (
    "Show queues, workers and running tasks, and refresh them until Ctrl-C or q. An outage is shown, and ends by"
    " itself."
)


class Group(groups.CommandGroup):
    """Shows queues, workers and running tasks, live."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.description = DESCRIPTION
        add_common(parser)
        parser.add_argument("--once", action="store_true", help="print the view once, in full length")
        parser.add_argument(
            "--interval",
            type=seconds,
            default=INTERVAL_S,
            metavar="SECONDS",
            help=f"time between two refreshes, at least {MIN_INTERVAL_S} (default: {INTERVAL_S:g})",
        )

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Print the view once, or refresh it until it is ended."""
        using = options["using"]
        if options["json"]:
            return CommandResult(_read(using).data())
        if options["once"]:
            self.command.stdout.write("\n".join(self._lines(using, None)))
        else:
            require_posix("redis top")
            if not self.command.stdout.isatty():
                raise CommandError("Standard output is not a terminal; pass --once or --json.")
            self._refresh(using, max(MIN_INTERVAL_S, options["interval"]))
        return CommandResult({})

    def _refresh(self, using: str, interval_s: float) -> None:
        from django_redis_components.management.redis.top import terminal

        connections.client(using)  # an unknown connection is an error, not an outage
        try:
            with terminal.full_screen(self._write):
                while True:
                    terminal.draw(self._write, self._screen(using, interval_s))
                    if terminal.wait_for_quit(interval_s):
                        break
        except KeyboardInterrupt:
            return

    def _screen(self, using: str, interval_s: float) -> list[str]:
        """Return the lines that fit on the terminal; during an outage its reason."""
        columns, height = shutil.get_terminal_size()
        try:
            found = list(self._lines(using, (columns, height - 1)))
        except ConfigurationError:
            raise
        except (RedisError, RedisComponentsError) as exc:
            found = [self.command.style.ERROR(str(command_error(exc)))]
        return [*found[: height - 1], f"Refreshed every {interval_s:g} s. Ctrl-C or q: exit"]

    def _lines(self, using: str, size: tuple[int, int] | None) -> Iterator[str]:
        address = str(connections.endpoint(using))
        snapshot = _read(using)
        return screen.lines_of(
            snapshot, address, size=size, heading=self.command.style.MIGRATE_HEADING, alert=self.command.style.ERROR
        )

    def _write(self, text: str) -> None:
        self.command.stdout.write(text, ending="")
        self.command.stdout.flush()


def _read(using: str) -> TopSnapshot:
    found, away = read_each(using, read_top)
    return merged_top(found, away)
