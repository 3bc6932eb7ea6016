"""`manage.py redis`: inspects and operates what the components have in Redis. The groups are in `management.redis`."""

from __future__ import annotations

import shlex
import socket
import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

from django.core.management.base import CommandParser
from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.management.base import (
    EXIT_CODES,
    CommandResult,
    OperatorCommand,
    help_texts,
    suggest_names,
    system_user,
)
from django_redis_components.management.redis.groups import GROUPS, GroupParser

#: Commands that change nothing. Others are logged.
READING = {"check", "errors", "export", "empty", "find", "list", "names", "plan", "report", "show", "status"}
#: Commands whose arguments and results are not logged: they name whose data must be erased.
ERASING = {"forget"}
#: Commands whose arguments are not logged: those of tasks.
UNLOGGED_ARGUMENTS = ERASING | {"enqueue"}
#: Options whose values are not logged: arguments of tasks, and parts of arguments and errors.
CONFIDENTIAL = ("--text", "--error", "--args", "--kwargs")


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
        """Execute a command of a group, and log it if it may change something."""
        verb = options.get("verb")
        if verb is None or verb in READING or options.get("dry_run"):
            return cast(CommandResult, options["perform"](options))
        try:
            result: CommandResult = options["perform"](options)
        except Exception as exc:
            self._log(options, f"error: {exc}")
            raise
        outcome = "done" if verb in ERASING and not result.problem else result.log or result.problem or result.text
        self._log(options, outcome)
        return result

    def _log(self, options: dict[str, Any], outcome: str) -> None:
        """Log a command. The key of a rate limit may be an address or the id of a user: its hash is written."""
        from django_redis_components.dashboard.actions.commands import log_command  # imports components
        from django_redis_components.dashboard.limits.key_access import hashed, without_keys

        author, key = f"{system_user() or 'unknown'} on {socket.gethostname()}", options.get("key")
        hidden = {} if key is None else {key: hashed(key)}
        try:
            line = self._line(options, hidden)
            log_command(author, line, without_keys(outcome) if hidden else outcome, options["using"] or "default")
        except (RedisError, RedisComponentsError) as exc:
            self.stderr.write(f"The command is not in the dashboard's log: {exc}", self.style.WARNING)

    def _line(self, options: dict[str, Any], hidden: Mapping[str, str]) -> str:
        """Return the command, with other words for hidden ones; without its arguments for `UNLOGGED_ARGUMENTS`."""
        group = options["perform"].__self__.__module__.removesuffix(".group").rpartition(".")[2]
        if getattr(self, "_called_from_command_line", False) and options["verb"] not in UNLOGGED_ARGUMENTS:
            return " ".join(_logged_words([hidden.get(word, word) for word in sys.argv[1:]]))
        return " ".join(dict.fromkeys(["redis", group, options["verb"]]))  # `migrate` is a group without commands


def _logged_words(words: list[str]) -> Iterator[str]:
    """Yield the words of a command line, quoted. Options of `CONFIDENTIAL`, abbreviated ones too, have no value."""
    is_hidden = False
    for word in words:
        option, equals, _ = word.partition("=")
        is_confidential = len(option) > 2 and any(name.startswith(option) for name in CONFIDENTIAL)
        if is_hidden:
            yield "…"
        else:
            yield f"{option}=…" if is_confidential and equals else shlex.quote(word)
        is_hidden = is_confidential and not equals and not is_hidden
