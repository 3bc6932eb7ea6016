"""The base of the commands for operators: options, exit codes, output and the confirmation."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import getpass
import json
import shutil
import sys
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from django.core.management.base import CommandError, CommandParser, no_translations
from redis.exceptions import ConnectionError, InvalidResponse, MasterDownError, RedisError, TimeoutError

from django_redis_components.core.exceptions import RedisComponentsError, UnknownConnection
from django_redis_components.management.plain_output import HelpFormatter, PlainOutputCommand
from django_redis_components.management.tables import TextTable, escape_controls, table

#: The exit codes of a command, for its help text.
EXIT_CODES = (
    "Exit codes: 0 done; 1 not or only partly done, with the reason on standard error; 2 invalid arguments or an"
    " unknown name; 3 Redis is unavailable."
)


class ExitCode(IntEnum):
    """Exit codes of the commands for operators, and the one by which a supervisor knows not to start a worker again."""

    DONE = 0
    FAILED = 1
    INVALID_ARGUMENTS = 2
    UNAVAILABLE = 3
    NEWER_DATA = 4


@dataclasses.dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command.

    Attributes:
        data: for ``--json``; datetimes are not serialized yet.
        text, table: for the terminal.
        note: a hint, printed on standard error.
        problem: why the command was not or only partly done; the exit code is then 1.
        exit_code: of a command whose result is no failure.
        log: for the log of commands, if text or problem has values of arguments or results; by default they are logged.
    """

    data: dict[str, Any]
    text: str = ""
    table: TextTable | None = None
    note: str = ""
    problem: str = ""
    exit_code: int = 0
    log: str = ""


class OperatorCommand(PlainOutputCommand):
    """A command for operators, in English whatever the site's language: scripts read its output."""

    @no_translations
    def handle(self, *_: Any, **options: Any) -> None:
        """Execute the command and print its result."""
        try:
            result = self.perform(options)
        except (RedisComponentsError, RedisError, ValueError) as exc:
            raise command_error(exc) from exc
        self.print_result(result, as_json=options["json"])
        if result.problem:
            raise CommandError(escape_controls(result.problem))
        if result.exit_code:
            sys.exit(result.exit_code)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Execute the command."""
        raise NotImplementedError

    def ask(self, question: str, refused: str) -> None:
        """Ask for confirmation on standard error, because standard output may be piped. Raise unless confirmed."""
        if not sys.stdin.isatty():
            raise CommandError(f"{refused} No terminal to ask for confirmation; pass --yes.")
        self.stderr.write(f"{escape_controls(question)} [y/N] ", self.style.NOTICE, ending="")
        self.stderr.flush()
        try:
            reply = sys.stdin.readline().strip().lower()
        except KeyboardInterrupt:
            reply = ""
        if reply not in ("y", "yes"):
            raise CommandError(refused)

    def print_result(self, result: CommandResult, *, as_json: bool) -> None:
        """Print a result as a table and text, or as one line of JSON."""
        if result.note:
            self.stderr.write(escape_controls(result.note), self.style.WARNING)
        if as_json:
            from django_redis_components.dashboard.json_data import JSONEncoder  # imports components

            self.stdout.write(json.dumps(result.data, cls=JSONEncoder))
            return
        if result.table is not None:
            columns = shutil.get_terminal_size().columns if self.stdout.isatty() else None
            rows = table(result.table.headers, result.table.rows, right=result.table.numbers, columns=columns)
            heading, newline, body = rows.partition("\n")
            self.stdout.write(f"{self.style.MIGRATE_HEADING(heading)}{newline}{body}\n\n", ending="")
        if result.text:
            self.stdout.write("\n".join(map(escape_controls, result.text.splitlines())))


def command_error(error: Exception) -> CommandError:
    """Return the error of a command in one line. Its exit code tells outages and wrong arguments from other errors."""
    from django_redis_components.dashboard.outages import SnapshotFailed  # imports components

    cause = error.error if isinstance(error, SnapshotFailed) else error
    text = escape_controls(str(cause))
    if isinstance(cause, ConnectionError | TimeoutError | MasterDownError | InvalidResponse):
        return CommandError(f"Redis is unavailable: {text}", returncode=ExitCode.UNAVAILABLE)
    return CommandError(text, returncode=failure_code(cause))


def failure_code(error: Exception) -> ExitCode:
    """Return the exit code of an error that is no outage.

    Names that the site declares, or that are known from their use (connections, queues, schedules, limits, shards), are
    arguments. Ids of what ends by itself (tasks, flows, workers) are not: they were right a moment ago. Nor is what
    cannot be decoded: it was read, from Redis or from a file.
    """
    from django_redis_components.taskqueue.exceptions import ScheduleDoesNotExist, UnknownQueue  # imports components

    if isinstance(error, UnicodeError | json.JSONDecodeError):
        return ExitCode.FAILED
    is_argument = isinstance(error, ValueError | UnknownConnection | UnknownQueue | ScheduleDoesNotExist)
    return ExitCode.INVALID_ARGUMENTS if is_argument else ExitCode.FAILED


def system_user() -> str:
    """Return the name of the system user, to be recorded as the author of a change; "" without one."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user may have no name, and Windows no `pwd`
        return ""


def add_common(parser: argparse.ArgumentParser, *, using: str = "") -> None:
    """Add the options of all commands.

    Args:
        using: the help of ``--using``, if it is None by default.
    """
    default, text = (None, using) if using else ("default", "connection alias (default: default)")
    parser.add_argument("--using", default=default, metavar="ALIAS", help=text)
    parser.add_argument("--json", action="store_true", help="print one line of JSON instead of text")


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add the option that skips the confirmation."""
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def add_subcommands(
    parser: CommandParser, verbs: Mapping[str, str], *, using: Mapping[str, str] | None = None
) -> dict[str, CommandParser]:
    """Add subcommands with the common options; return their parsers.

    Args:
        verbs: what each subcommand does, for its help.
        using: the help of ``--using`` by subcommand, where it is None by default.
    """
    subparsers = parser.add_subparsers(
        dest="verb", metavar="COMMAND", title="commands", required=True, parser_class=CommandParser
    )
    parsers: dict[str, CommandParser] = {}
    for verb, does in verbs.items():
        parsers[verb] = subparsers.add_parser(verb, help=does, **help_texts(does))
        accept_django_options(parsers[verb])
        add_common(parsers[verb], using=(using or {}).get(verb, ""))
    suggest_names(subparsers)
    return parsers


def accept_django_options(parser: argparse.ArgumentParser) -> None:
    """Accept the options of all Django commands after a subcommand as well; their help is that of the command."""
    for name in ("--settings", "--pythonpath"):
        parser.add_argument(name, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    for name in ("--traceback", "--no-color", "--force-color", "--skip-checks"):
        parser.add_argument(name, action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument(
        "-v", "--verbosity", type=int, choices=range(4), default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )


def help_texts(does: str) -> dict[str, Any]:
    """Return the arguments of a parser for its help: what it does, and the exit codes."""
    return {
        "description": f"{does[0].upper()}{does[1:]}.",
        "epilog": EXIT_CODES,
        "formatter_class": HelpFormatter,
    }


def suggest_names(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Have the error of an unknown name suggest the nearest."""
    subparsers.choices = _Names(subparsers.choices)


class _Names(dict[str, argparse.ArgumentParser]):
    """The parsers of subcommands. Python suggests names from 3.14 on; this one does in all versions."""

    def __contains__(self, name: object) -> bool:
        """Return True.

        Raises:
            argparse.ArgumentError: no subcommand has this name.
        """
        if super().__contains__(name):
            return True
        near = difflib.get_close_matches(str(name), self, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise argparse.ArgumentError(None, f"invalid choice: {name!r} (choose from {', '.join(self)}).{hint}")
