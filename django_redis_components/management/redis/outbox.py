"""`manage.py redis outbox`: shows the rows that wait in the outbox, and the active relay; also while Redis is away."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.db import Error as DatabaseError
from django.utils import timezone
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import ConfigurationError, RedisComponentsError
from django_redis_components.core.protocol import run
from django_redis_components.core.text import one_line
from django_redis_components.locks.lock import PlainKind
from django_redis_components.management.base import CommandResult, add_subcommands
from django_redis_components.management.listings.task_listing import short
from django_redis_components.management.redis import groups
from django_redis_components.management.tables import TextTable
from django_redis_components.taskqueue import outbox


class Group(groups.CommandGroup):
    """Shows the outbox."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        text = "show how many rows wait in each database, since when, and which process relays them"
        add_subcommands(parser, {"status": text}, using={"status": "only the rows of this connection (default: all)"})

    def perform_status(self, options: dict[str, Any]) -> CommandResult:
        """See `show_status`."""
        return show_status(options["using"])


_HEADERS = ("DATABASE", "CONNECTION", "ROWS", "OLDEST")


def show_status(using: str | None) -> CommandResult:
    """Return the rows by database and connection, and the relay of each connection that has some.

    Args:
        using: alias of the connection; None: all that have rows, and the default one.

    Raises:
        ConfigurationError: there is no such connection.
    """
    if using is not None:
        connections.endpoint(using)
    data: dict[str, Any] = {"rows": [], "relays": {}, "missing": [], "errors": {}}
    if not outbox.is_installed():
        return CommandResult(data, f'The outbox is not installed: "{outbox.APP}" is not in INSTALLED_APPS.')
    _read_databases(data, using)
    aliases = {using} if using else {"default", *(row["connection"] for row in data["rows"])}
    data["relays"] = {alias: _relay(alias) for alias in sorted(aliases)}
    lines = [f"Relay of connection {alias!r}: {text}" for alias, text in data["relays"].items()]
    lines += [f"Database {alias!r} has no table: run manage.py migrate." for alias in data["missing"]]
    if not data["rows"]:
        lines.insert(0, "No row waits in the outbox.")
    problem = "; ".join(f"Database {alias!r} cannot be read: {text}" for alias, text in data["errors"].items())
    rows = [_row(row) for row in data["rows"]]
    table = TextTable(_HEADERS, rows, frozenset({"ROWS", "OLDEST"})) if rows else None
    return CommandResult(data, "\n".join(lines), table, problem=problem)


def _read_databases(data: dict[str, Any], using: str | None) -> None:
    """Add what each database has, or its error."""
    from django_redis_components.contrib.outbox import storage  # a site without the app has no such model

    now = timezone.now()
    for alias in storage.databases():
        try:
            if not storage.has_table(alias):
                data["missing"].append(alias)
                continue
            found = storage.read_database(alias)
        except DatabaseError as exc:
            data["errors"][alias] = one_line(str(exc))
            continue
        for name, backlog in found.items():
            if using in (None, name) and backlog.oldest_at is not None:
                age_s = max(0.0, (now - backlog.oldest_at).total_seconds())
                row = {"count": backlog.count, "is_cut": backlog.is_cut, "oldest_at": backlog.oldest_at}
                data["rows"].append({"database": alias, "connection": name, **row, "oldest_age_s": age_s})


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    return row["database"], row["connection"], f"{row['count']:,}{'+' * row['is_cut']}", short(row["oldest_age_s"])


def _relay(using: str) -> str:
    """Return which process relays the rows of a connection."""
    try:
        state = run(connections.page_client(using), PlainKind(f"outbox:{using}").inspect())
    except ConfigurationError:
        return "the settings have no such connection, so its rows are not sent."
    except (RedisError, RedisComponentsError) as exc:
        return f"unknown, Redis is unavailable: {one_line(str(exc))}"
    if state.holder is None:
        option = "" if using == "default" else f" --using {using}"
        return f"none is active. Start a worker, or a poller: manage.py runpoller{option}."
    return f"{state.held_by or 'unknown process'}, active for {short(state.age)}."
