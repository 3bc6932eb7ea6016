"""The overview's table of queues: sorted and filtered by the query string, collapsed when it is long."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext, pgettext_lazy

from django_redis_components.core.arguments import short_repr
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import NO_VALUE, Cell, count_cell, pause_note
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.parameters import InvalidParameter, not_one_of
from django_redis_components.dashboard.problems.queues import will_be_unserved
from django_redis_components.dashboard.queues.throughput import (
    drain_time,
    is_growing,
    quantile_text,
    recent_rate,
    sparkline,
)
from django_redis_components.dashboard.table import Column, ShownTable, Table
from django_redis_components.taskqueue import Metrics
from django_redis_components.taskqueue.shards import Shard, route_of, shards_of
from django_redis_components.taskqueue.stats.merging import shards_with_tasks
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, TaskQueueOverview

#: Queues that are shown before "Show all".
COLLAPSED = 12
#: Queues on a page of the page of queues, and most that the overview shows after "Show all".
PAGE_SIZE = 100
#: Numbers of pages: 5,000 queues are read at most.
_PAGE_NUMBER = re.compile(r"[1-9]\d{0,2}")
#: Longest text that names are filtered by.
MAX_TEXT = 200
#: Age in seconds from which the oldest ready task is highlighted.
OLD_S = 600.0


@dataclasses.dataclass(frozen=True, slots=True)
class QueueQuery:
    """Which queues are shown in which order.

    Attributes:
        sort: key of a column; "" sorts by name, or by ready tasks when the table is collapsed.
        text: part of the names, in any case.
        is_whole: whether all queues are shown.
        page: number of the page of `PAGE_SIZE` queues, from 1; 0 for a table that is not paged.
    """

    sort: str = ""
    text: str = ""
    is_whole: bool = False
    page: int = 0

    @classmethod
    def parse(cls, query: QueryDict, *, is_paged: bool = False) -> QueueQuery:
        """Return the query of a URL.

        Raises:
            ValueError: no column has this key, or the number of the page is not valid.
        """
        sort = query.get("sort", "")
        if sort and sort not in _TABLE.sorts:
            raise not_one_of("sort", sort, _TABLE.sorts)
        text, page = query.get("queue", "")[:MAX_TEXT].strip(), query.get("page") or "1"
        if not is_paged:
            return cls(sort, text, query.get("queues") == "all")
        if not _PAGE_NUMBER.fullmatch(page):
            raise InvalidParameter(_("page=%(value)s: expected a number from 1 to 999.") % {"value": short_repr(page)})
        return cls(sort, text, page=int(page))


@dataclasses.dataclass(frozen=True, slots=True)
class QueueTable:
    """The table, and of how many queues it shows a part.

    Attributes:
        note: how many queues are not shown, or "".
        is_cut: whether a link may show the others.
        url: of the page of queues in this order, if there are too many to be shown here, or "".
        previous, following: numbers of the pages beside this one, or 0.
    """

    table: ShownTable
    note: str
    is_cut: bool
    url: str = ""
    previous: int = 0
    following: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Line:
    """A queue with what its row and its order are made of."""

    depth: QueueInfo
    overview: TaskQueueOverview
    links: Links
    shards: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Address of the queue's page: in its shard, if there are several and it is in one."""
        links = self.links.in_shard(self.shards[0]) if len(self.shards) == 1 else self.links
        return links.queue(self.depth.name)

    @property
    def metrics(self) -> Metrics | None:
        return self.overview.metrics.get(self.depth.name)

    @property
    def finished(self) -> float:
        return recent_rate(self.metrics) if self.metrics else 0.0

    @property
    def wait_p95(self) -> float | None:
        return self.metrics.wait_time.p95 if self.metrics else None


def queue_table(
    overview: TaskQueueOverview, query: QueueQuery, links: Links, by_shard: Mapping[Shard, TaskQueueOverview]
) -> QueueTable:
    """Return the table of an overview. Its totals are the sums of all queues, shown or not.

    Args:
        by_shard: the parts of the overview. If there are several, the table says which shards have a queue.
    """
    lines = _lines(overview, links, by_shard)
    found = [line for line in lines if query.text.lower() in line.depth.name.lower()]
    is_long = len(found) > COLLAPSED and not query.is_whole
    sort = query.sort or ("ready" if is_long else "name")
    found.sort(key=lambda line: (-_TABLE.sorts[sort](line), line.depth.name))
    shown = found[: COLLAPSED if is_long else PAGE_SIZE]
    context = _TABLE.context(shown, totals=lines if len(lines) > 1 else (), sort=sort)
    url = links.reverse("queues", sort=sort, queue=query.text) if len(found) > PAGE_SIZE else ""
    return QueueTable(context["table"], _note(len(lines), len(found), len(shown)), is_cut=is_long and not url, url=url)


def queue_page(
    overview: TaskQueueOverview, query: QueueQuery, links: Links, by_shard: Mapping[Shard, TaskQueueOverview]
) -> QueueTable:
    """Return a page of the table. Its totals are the sums of all queues; see `queue_table`."""
    lines = _lines(overview, links, by_shard)
    found = [line for line in lines if query.text.lower() in line.depth.name.lower()]
    sort = query.sort or "name"
    found.sort(key=lambda line: (-_TABLE.sorts[sort](line), line.depth.name))
    start, end = (query.page - 1) * PAGE_SIZE, query.page * PAGE_SIZE
    context = _TABLE.context(found[start:end], totals=lines if len(lines) > 1 else (), sort=sort)
    note = _note(len(lines), len(found), len(found))
    if len(found) > PAGE_SIZE:
        span = {"first": number(start + 1), "last": number(min(end, len(found))), "total": number(len(found))}
        note = " · ".join(filter(None, [_("%(first)s to %(last)s of %(total)s") % span, note]))
    following = query.page + 1 if end < len(found) else 0
    return QueueTable(context["table"], note, is_cut=False, previous=query.page - 1, following=following)


def _has_several_shards(overview: TaskQueueOverview) -> bool:
    return len(shards_of(overview.using)) > 1


def _lines(overview: TaskQueueOverview, links: Links, by_shard: Mapping[Shard, TaskQueueOverview]) -> list[_Line]:
    if not _has_several_shards(overview):
        return [_Line(queue, overview, links) for queue in overview.queues]
    found = shards_with_tasks(by_shard)
    return [
        _Line(queue, overview, links, tuple(found.get(queue.name) or _route_names(queue.name, overview.using)))
        for queue in overview.queues
    ]


def _route_names(queue: str, using: str) -> list[str]:
    return [shard.name for shard in route_of(queue, using)]


def _state(line: _Line) -> Cell:
    depth = line.depth
    if depth.paused:
        note = pause_note(depth.paused, line.overview.at)
        return Cell(pgettext("queue", "Paused"), badge="state-paused", title=note)
    if line.depth.is_unserved:
        return Cell(_("No worker"), badge="lost")
    if will_be_unserved(depth):
        return Cell(_("No worker"), badge="state-growing")
    if line.metrics and is_growing(depth, line.metrics):
        return Cell(pgettext("queue", "Growing"), badge="state-growing")
    if depth.ready or depth.running or line.finished:
        return Cell(pgettext("queue", "Active"), badge="alive")
    return Cell(pgettext("queue", "Idle"), badge="state-idle")


def _count(key: str, label: Any, *, optional: bool = False) -> Column[_Line]:
    """Return the column of the tasks in a state."""
    count = attrgetter(f"depth.{key}")
    return Column(
        key,
        label,
        lambda line: count_cell(count(line)),
        total=lambda lines: count_cell(sum(map(count, lines))),
        sort=count,
        optional=optional,
    )


def _rate(key: str, label: Any, rate: Callable[[_Line], float | None]) -> Column[_Line]:
    """Return the column of a number per minute."""
    return Column(
        key,
        label,
        lambda line: _rate_cell(rate(line)),
        total=lambda lines: _rate_cell(sum(rate(line) or 0.0 for line in lines)),
        sort=lambda line: rate(line) or 0.0,
        optional=True,
    )


def _age_cell(seconds: float | None) -> Cell:
    if seconds is None:
        return Cell(NO_VALUE, "zero")
    return Cell(formats.age(seconds), "caution" if seconds >= OLD_S else "")


def _rate_cell(per_minute: float | None) -> Cell:
    if per_minute is None:
        return Cell(NO_VALUE, "zero")
    return Cell(formats.rate(per_minute), "" if per_minute else "zero")


def _empty_cell(value: str) -> Cell:
    return Cell(value, "zero" if value == NO_VALUE else "")


def _oldest(lines: Sequence[_Line]) -> float | None:
    return max((line.depth.oldest_age for line in lines if line.depth.oldest_age is not None), default=None)


def _note(count: int, matching: int, listed: int) -> str:
    if listed < matching:
        return _("%(shown)s of %(count)s queues") % {"shown": number(listed), "count": number(matching)}
    if matching < count:
        text = ngettext("%(found)s of %(count)s queue matches", "%(found)s of %(count)s queues match", count)
        return text % {"found": number(matching), "count": number(count)}
    return ""


_TABLE: Table[_Line] = Table(
    [
        Column(
            "name",
            gettext_lazy("Queue"),
            lambda line: Cell(line.depth.name, url=line.url, title=line.depth.name),
            "name",
            total=lambda lines: _("All queues"),
            sort=lambda line: 0,
        ),
        Column("shard", gettext_lazy("Shard"), lambda line: ", ".join(line.shards), "", skip_empty=True),
        Column("state", pgettext_lazy("queue", "State"), _state, "state-cell", has_label=False),
        _count("ready", pgettext_lazy("tasks", "Ready")),
        Column(
            "last_hour",
            gettext_lazy("Last hour"),
            lambda line: Cell(spark=sparkline(line.metrics.intervals) if line.metrics else None),
            "",
            optional=True,
            has_label=False,
        ),
        Column(
            "oldest",
            gettext_lazy("Oldest"),
            lambda line: _age_cell(line.depth.oldest_age),
            total=lambda lines: _age_cell(_oldest(lines)),
            sort=lambda line: line.depth.oldest_age or 0.0,
        ),
        _count("scheduled", pgettext_lazy("tasks", "Scheduled")),
        _count("retrying", pgettext_lazy("tasks", "Retrying")),
        _count("running", pgettext_lazy("tasks", "Running"), optional=True),
        _count("failed", pgettext_lazy("tasks", "Failed")),
        _rate("in", gettext_lazy("In/min"), lambda line: line.depth.arrival_rate),
        _rate("out", gettext_lazy("Out/min"), lambda line: line.metrics.per_minute() if line.metrics else None),
        Column(
            "wait",
            gettext_lazy("Wait p95"),
            lambda line: _empty_cell(quantile_text(line.wait_p95)),
            sort=lambda line: line.wait_p95 or 0.0,
        ),
        Column(
            "eta",
            gettext_lazy("ETA"),
            lambda line: _empty_cell(drain_time(line.depth, line.metrics) if line.metrics else NO_VALUE),
        ),
        Column(
            "workers",
            gettext_lazy("Workers"),
            lambda line: count_cell(line.depth.live_workers, alarming=line.depth.is_unserved),
            total=lambda lines: count_cell(lines[0].overview.live_count),
            sort=lambda line: line.depth.live_workers,
        ),
    ]
)
