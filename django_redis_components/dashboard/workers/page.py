"""The template context of the page of workers, formatted in the active language."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.clients import shown_shards
from django_redis_components.dashboard.elements import NO_VALUE, Tile
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.list_counts import FoundCount, ListCount
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import not_one_of, too_long
from django_redis_components.dashboard.shard_reads import of_shards
from django_redis_components.dashboard.side_filter import FilterGroup, KnownCounts, filter_group
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.dashboard.workers.rows import RowBuilder
from django_redis_components.taskqueue.stats.merging import merged_workers_page
from django_redis_components.taskqueue.stats.workers import MAX_LISTED, WorkerFilter, WorkerPage, read_workers
from django_redis_components.taskqueue.store.workers import MAX_ID

#: Workers of a page: one with eight running tasks takes 12 kB of HTML.
PAGE_SIZE = 50
#: States that the list can be narrowed to.
STATES = ("alive", "lost")


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerQuery:
    """Which workers are listed, and the id of the worker after which the page starts, or ""."""

    after: str = ""
    wanted: WorkerFilter = dataclasses.field(default_factory=WorkerFilter)

    def encoded(self, **changed: str) -> str:
        """Return the query string with some values changed."""
        values = {**dataclasses.asdict(self.wanted), "after": self.after, **changed}
        return urlencode({name: value for name, value in values.items() if value})


def parse(request: PageRequest) -> WorkerQuery:
    """Return the query of a request."""
    form = request.http.GET
    for name in ("after", "version", "host"):
        if len(form.get(name, "")) > MAX_ID:
            raise too_long(name, MAX_ID)
    state = form.get("state", "")
    if state not in ("", *STATES):
        raise not_one_of("state", state, STATES)
    return WorkerQuery(form.get("after", ""), WorkerFilter(state, form.get("version", ""), form.get("host", "")))


def read(request: PageRequest) -> Snapshot[WorkerPage]:
    """Read the workers in one round trip; in two if any worker is lost."""
    return read_snapshot(_read(request.query))


def _read(query: WorkerQuery) -> Flow[WorkerPage]:
    found = yield from of_shards(lambda shard: read_workers(shard, query.after, limit=PAGE_SIZE, wanted=query.wanted))
    return merged_workers_page(found, PAGE_SIZE)


def context(request: PageRequest, snapshot: Snapshot[WorkerPage]) -> dict[str, Any]:
    """Return the context of the templates: the workers, lost ones first."""
    listed, query = snapshot.value, request.query
    cut_off = _("The %(count)s workers with the latest heartbeats are listed.") % {"count": number(MAX_LISTED)}
    builder = RowBuilder(listed, request.links.verbs(), request.links.task)
    page = {
        "actions": builder.of_all(),
        "tiles": [*_tiles(listed, is_part=len(listed.workers) < listed.total)],
        "groups": builder.groups(),
        "has_shards": len(shown_shards().shards) > 1,
        "next": query.encoded(after=listed.next) if listed.next else "",
        "first": query.encoded(after=""),
        "is_first": not query.after,
        "side": _side_filters(listed, query),
        "is_filtered": query.wanted != WorkerFilter(),
        "counts": counts_of(listed, query),
        "notes": [cut_off] if listed.total >= MAX_LISTED else [],
    }
    return {"page": page}


def _side_filters(listed: WorkerPage, query: WorkerQuery) -> list[FilterGroup]:
    """Return the filters beside the list; one without a choice is left out."""

    def group(slug: str, title: str, labels: Mapping[str, str] | None = None) -> FilterGroup | None:
        counts, current = listed.counts[slug], getattr(query.wanted, slug)
        values = [*counts] if current or len(counts) > 1 else []
        return filter_group(
            slug,
            title,
            values,
            current,
            lambda value: query.encoded(**{slug: value, "after": ""}),
            labels,
            KnownCounts(counts),
        )

    states = {"alive": pgettext("worker", "alive"), "lost": pgettext("worker", "lost")}
    groups = [
        group("state", pgettext("of a worker", "state"), states),
        group("version", pgettext("of the code", "version")),
        group("host", pgettext("of a worker", "host")),
    ]
    return [each for each in groups if each is not None]


def counts_of(listed: WorkerPage, query: WorkerQuery) -> list[ListCount | FoundCount]:
    """Return which part of the workers is on the page, and how many of all pass the filter."""
    start = None if listed.after else 0
    if query.wanted == WorkerFilter():
        return [ListCount(len(listed.workers), listed.total, start)]
    found = FoundCount(listed.matched, listed.total, listed.total)
    return [*([ListCount(len(listed.workers), listed.matched, start)] if listed.matched else []), found]


def _tiles(listed: WorkerPage, *, is_part: bool) -> Iterable[Tile]:
    live = [worker for worker in listed.workers if worker.is_alive]
    lost = listed.total - listed.live
    note = ngettext("%(count)s lost", "%(count)s lost", lost) % {"count": number(lost)} if lost else ""
    yield Tile(_("Live workers"), number(listed.live), note, alarming=lost > 0)
    busy, threads = sum(worker.busy_threads for worker in live), sum(worker.threads for worker in live)
    partial = _("of this page") if is_part else ""
    yield Tile(_("Busy"), _("%(busy)s of %(threads)s") % {"busy": number(busy), "threads": number(threads)}, partial)
    rates = [worker.per_minute for worker in live if worker.per_minute is not None]
    yield Tile(_("Throughput"), formats.rate(sum(rates)) if rates else NO_VALUE, _("per minute"))
    standby = len({worker.supervisor for worker in live if worker.poller == "standby"})
    standby_note = _("%(count)s standby") % {"count": number(standby)} if standby else ""
    missing = listed.poller is None
    without = _("shards: %(names)s") % {"names": ", ".join(listed.missing_pollers)} if listed.missing_pollers else ""
    yield Tile(
        _("Poller"),
        _("none active") if missing else pgettext("poller", "active"),
        without or standby_note,
        alarming=missing,
    )
    versions = sorted({worker.version for worker in live if worker.version})
    if len(versions) == 1:
        yield Tile(_("Version"), versions[0])
    elif versions:
        yield Tile(_("Versions"), number(len(versions)), ", ".join(versions[:3]))
