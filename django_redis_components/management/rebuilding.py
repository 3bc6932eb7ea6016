"""What the commands that rebuild indexes of models share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from django.core.management.base import CommandParser
from django.db.models import QuerySet

from django_redis_components.core.model_changes import Drift
from django_redis_components.management.base import add_common
from django_redis_components.management.progress import progress

#: Differences of each kind that are listed.
SHOWN = 5


def add_arguments(parser: CommandParser) -> None:
    """Declare the arguments."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of indexes (default: those of all models)")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="compare the indexes with the database; write nothing")
    action.add_argument("--repair", action="store_true", help="compare them, and write what differs")
    add_common(parser, with_connection=False)


def shown(ids: Sequence[str]) -> str:
    """Return the first ids as text."""
    return ", ".join(ids[:SHOWN]) + (", …" if len(ids) > SHOWN else "")


def examples_of(drift: Drift[Any]) -> str:
    """Return the first differences of each kind as text."""
    kinds = {"missing": drift.missing, "stale": drift.stale, "extra": drift.extra}
    return "; ".join(f"{kind} {shown(list(map(str, ids)))}" for kind, ids in kinds.items() if ids)


def progress_of(name: str, objects: QuerySet) -> AbstractContextManager[Callable[[int], object]]:  # type: ignore[type-arg]
    """Show a progress bar of the objects of a queryset."""
    return progress(name, objects.count, "objects")
