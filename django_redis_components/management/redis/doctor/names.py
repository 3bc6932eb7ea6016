"""Checks of the names in the catalogue: kinds with unbounded names, and names with different options."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from redis.exceptions import ResponseError

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.observability.catalog import MAX_NAMES, RECORD_S, CatalogEntry, entries_flow
from django_redis_components.core.protocol import run
from django_redis_components.management.redis.doctor.findings import Finding, Report

#: The lists of the catalogue. A test compares them with the components.
KINDS = (
    "BitCounters",
    "BloomFilter",
    "CountMinSketch",
    "Decorator",
    "FileChannel",
    "IpLookup",
    "LogAggregator",
    "PageViews",
    "Presence",
    "Ranking",
    "RateLimit",
    "RecentList",
    "SearchIndex",
    "SignIns",
    "TopK",
    "UniqueVisitors",
)
#: Kinds whose names are those of users and rooms: any number is right.
UNBOUNDED = {"Presence", "RecentList"}
#: Seconds in which a process that is in use records a name again, with a margin.
RECENT_S = 2 * RECORD_S
#: Most names in a finding, and most findings of a kind.
MAX_NAMED = 5


def check_names(client: SyncClient, report: Report) -> None:
    """Report problems of the names that the site's processes have used."""
    for kind in KINDS:
        try:
            entries = run(client, entries_flow(kind))
        except ResponseError as exc:
            report.skipped.append(f"Names in use: {exc}")
            return
        report.findings.extend(name_findings(kind, entries))


def name_findings(kind: str, entries: Sequence[CatalogEntry]) -> Iterator[Finding]:
    """Yield the problems of the names of a kind."""
    if len(entries) >= MAX_NAMES and kind not in UNBOUNDED:
        names = ", ".join(repr(entry.name) for entry in entries[:MAX_NAMED])
        text = (
            f"{kind}: at least {MAX_NAMES} names are in use, the last ones {names}. No more are kept, so the dashboard"
            " does not list the others."
        )
        fix = (
            "If the names contain ids, use one name and pass the id to the method: RateLimit('login').hit(user_id)"
            " instead of RateLimit(f'login-{user_id}').hit('x')."
        )
        yield Finding("warning", "unbounded_names", text, fix)
    yield from [_different(uses) for uses in _uses(entries).values() if len(uses) > 1][:MAX_NAMED]


def _uses(entries: Sequence[CatalogEntry]) -> dict[tuple[str, str], list[CatalogEntry]]:
    """Return the recent entries by name and connection: one for each set of options."""
    since = time.time() - RECENT_S
    uses: dict[tuple[str, str], list[CatalogEntry]] = {}
    for entry in entries:
        if entry.used_at >= since:
            uses.setdefault((entry.name, entry.using), []).append(entry)
    return uses


def _different(uses: Sequence[CatalogEntry]) -> Finding:
    options = [use.options for use in uses]
    differing = sorted(
        {key for each in options for key in each if any(other.get(key) != each[key] for other in options)}
    )
    shown = "; or ".join(
        ", ".join(f"{key}={_shown(each.get(key))}" for key in differing) for each in options[:MAX_NAMED]
    )
    text = f"{uses[0].kind} {uses[0].name!r} was used with different options within two hours: {shown}."
    fix = (
        "Give each use its own name, or deploy the same code everywhere. After a deployment this ends within two hours."
    )
    return Finding("warning", "different_options", text, fix)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:100]
