"""Checks of the indexes of models: whether they have about as many entries as the database has objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import QuerySet
from redis.exceptions import ResponseError

from django_redis_components.autocomplete.model_index import ModelIndex
from django_redis_components.autocomplete.registry import registered as registered_indexes
from django_redis_components.core.arguments import short_repr
from django_redis_components.core.text import counted
from django_redis_components.management.redis.doctor.findings import Finding, Report
from django_redis_components.search.model_search import registered as registered_searches

#: An index with fewer entries than this part of its objects was not filled; others may leave objects out on purpose.
LEAST_PART = 0.1


def check_indexes(using: str, report: Report) -> None:
    """Report indexes of this connection that were not filled, such as after an update that changed their keys."""
    for label, command, count_entries, objects in _indexes(using):
        try:
            count = count_entries()
        except ResponseError as exc:  # such as a missing right, which has a finding
            report.skipped.append(f"{label}: {exc}")
            continue
        try:
            total = objects().count()
        except Exception as exc:  # noqa: BLE001 - of the database, or of the site's code
            report.skipped.append(f"{label}: {short_repr(exc)}")
            continue
        if count < total * LEAST_PART:
            text = f"{label} has {count:,} of {counted(total, 'object')} of the database: the others are not found."
            finding = Finding("warning", "index_not_filled", text, "Fill it:", f"python manage.py {command}")
            report.findings.append(finding)


def _indexes(using: str) -> Iterator[tuple[str, str, Callable[[], int], Callable[[], QuerySet[Any]]]]:
    """Yield name, command, and what returns the number of entries and the objects.

    Indexes with scopes are left out: each has some objects.
    """
    for search in registered_searches():
        if search.index.using == using:
            yield f"Search {search.name}", "rebuild_search", search.index.count, search.queryset
    for index in registered_indexes():
        if isinstance(index, ModelIndex) and not index.scoped and index.using == using:
            yield f"Index {index.name}", "rebuild_autocomplete", index.index().count, index.queryset
