"""Rebuilds the indexes of models, and compares them with the database: autocomplete and search alike."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet

from django_redis_components.core.command_line import command_line
from django_redis_components.core.model_changes import Drift
from django_redis_components.core.text import counted
from django_redis_components.management.base import CommandResult, ExitCode
from django_redis_components.management.progress import progress
from django_redis_components.management.tables import TextTable

#: Differences of each kind that are listed.
SHOWN = 5
#: The help of ``--using``: an index determines its connection.
USING = "only indexes on this connection (default: all)"
#: Commands that compare indexes with the database, and their descriptions.
COMPARISONS = {
    "check": "compare the indexes of models with the database, and write nothing; exit code 1 if they differ",
    "repair": "compare the indexes of models with the database, and write what differs",
}
_KINDS = ("missing", "stale", "extra")


class IndexOfModel(Protocol):
    """An index that follows a model: `autocomplete.ModelIndex` and `search.ModelSearch`."""

    @property
    def name(self) -> str: ...

    def queryset(self) -> QuerySet[Any]: ...

    def rebuild(self, *, progress: Callable[[int], object] = ...) -> int: ...

    def find_drift(self, *, progress: Callable[[int], object] = ...) -> Drift[Any]: ...

    def repair(self, drift: Any, /) -> None: ...


T = TypeVar("T", bound=IndexOfModel)


class _Elsewhere(argparse.Action):
    """An option of another command, whose error names that command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser.error(f"unrecognized arguments: {self.option_strings[0]}. To compare indexes, run: {self.const}")


def add_names(parser: CommandParser, component: str = "") -> None:
    """Declare the names of indexes.

    Args:
        component: whose indexes `manage.py redis` compares: a command that rebuilds them names that command.
    """
    for verb in COMPARISONS if component else ():
        command = command_line("redis", component, verb)
        parser.add_argument(f"--{verb}", action=_Elsewhere, nargs=0, const=command, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of indexes (default: those of all models)")


def choose(known: Mapping[str, T], names: Sequence[str]) -> list[T]:
    """Return the indexes with these names, or all.

    Raises:
        CommandError: there is no such index.
    """
    if unknown := [name for name in names if name not in known]:
        text = f"Unknown index {unknown[0]!r}. Indexes of models: {', '.join(known) or 'none'}."
        raise CommandError(text, returncode=ExitCode.INVALID_ARGUMENTS)
    return [known[name] for name in names or known]


def rebuild(indexes: Sequence[IndexOfModel], noun: str) -> CommandResult:
    """Rebuild indexes.

    Args:
        noun: what an index has: "entries" or "documents".
    """
    found = [_rebuild(index, noun) for index in indexes]
    headers = ("INDEX", noun.upper(), "SECONDS")
    rows = [(each["name"], f"{each[noun]:,}", f"{each['seconds']:.1f}") for each in found]
    return CommandResult({"indexes": found}, table=TextTable(headers, rows, frozenset(headers[1:])))


def compare(indexes: Sequence[IndexOfModel], repair_command: str, *, repair: bool) -> CommandResult:
    """Compare indexes with the database, and repair them if wanted. Differences that remain are exit code 1.

    Args:
        repair_command: the command line that repairs them.
    """
    drifts = [_compare(index, repair=repair) for index in indexes]
    data = [
        {"name": index.name, "objects": drift.objects, **_counts(drift), "repaired": repair}
        for index, drift in zip(indexes, drifts, strict=True)
    ]
    rows = [
        (index.name, f"{drift.objects:,}", *(f"{count:,}" for count in _counts(drift).values()), _examples(drift))
        for index, drift in zip(indexes, drifts, strict=True)
    ]
    headers = ("INDEX", "OBJECTS", *map(str.upper, _KINDS), "FOR EXAMPLE")
    differ = not repair and any(drifts)
    found = sum(sum(_counts(drift).values()) for drift in drifts)
    done = f"Repaired {counted(found, 'object')}." if repair and found else ""
    hint = f"Repair them: {repair_command}" if differ else done
    table = TextTable(headers, rows, frozenset(headers[1:-1]))
    return CommandResult({"indexes": data}, hint, table, exit_code=ExitCode.FAILED if differ else ExitCode.DONE)


def shown(ids: Sequence[str]) -> str:
    """Return the first ids as text."""
    return ", ".join(ids[:SHOWN]) + (", …" if len(ids) > SHOWN else "")


def _rebuild(index: IndexOfModel, noun: str) -> dict[str, Any]:
    started_at = time.monotonic()
    with _progress_of(index) as advance:
        count = index.rebuild(progress=advance)
    return {"name": index.name, noun: count, "seconds": round(time.monotonic() - started_at, 3)}


def _compare(index: IndexOfModel, *, repair: bool) -> Drift[Any]:
    with _progress_of(index) as advance:
        drift = index.find_drift(progress=advance)
    if repair:
        index.repair(drift)
    return drift


def _counts(drift: Drift[Any]) -> dict[str, int]:
    return {kind: len(getattr(drift, kind)) for kind in _KINDS}


def _examples(drift: Drift[Any]) -> str:
    """Return the first differences of each kind as text."""
    ids = {kind: list(map(str, getattr(drift, kind))) for kind in _KINDS}
    return "; ".join(f"{kind} {shown(some)}" for kind, some in ids.items() if some)


def _progress_of(index: IndexOfModel) -> AbstractContextManager[Callable[[int], object]]:
    return progress(index.name, index.queryset().count, "objects")
