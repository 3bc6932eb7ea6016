"""The table of a queue's tasks by shard, on the page of the queue in one of them."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy
from redis.exceptions import RedisError

from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.elements import Cell, count_cell
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.shard_choice import away_text
from django_redis_components.dashboard.table import Column, ShownTable, Table
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.stats.merging import merged_info
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, read_depths, tasks_of

#: A shard with what it has of the queue, or why it does not answer.
ShardDepth = tuple[Shard, QueueInfo | Exception]
#: The same with the URL of the queue's page in the shard.
_Row = tuple[Shard, QueueInfo | Exception, str]


def other_shards() -> list[Shard]:
    """Return the shards beside the one that the page shows."""
    shown = queue_shard()
    return [shard for shard in shards_of(shown.using) if shard != shown]


def read_in(shard: Shard, name: str) -> Flow[ShardDepth]:
    """Read the depth of a queue in a shard, or why it does not answer."""
    try:
        [depth] = yield from read_depths(shard, name)
    except RedisError as exc:
        return shard, exc
    return shard, depth


def total_depth(here: QueueInfo, elsewhere: list[ShardDepth]) -> QueueInfo:
    """Return what all shards that answer have of the queue, as that of one."""
    return merged_info([[here], *([depth] for _shard, depth in elsewhere if isinstance(depth, QueueInfo))])


def has_tasks(elsewhere: list[ShardDepth]) -> bool:
    """Return whether another shard has tasks of the queue."""
    return any(tasks_of(depth) for _shard, depth in elsewhere if isinstance(depth, QueueInfo))


def shard_rows(here: QueueInfo, elsewhere: list[ShardDepth], links: Links) -> ShownTable | None:
    """Return the table; None if there is one shard."""
    if not elsewhere:
        return None
    shown = queue_shard()
    found: dict[Shard, QueueInfo | Exception] = {shown: here, **dict(elsewhere)}
    rows = [
        (shard, found[shard], "" if shard == shown else links.in_shard(shard.name).queue(here.name))
        for shard in shards_of(shown.using)
        if shard in found
    ]
    table: ShownTable = _TABLE.context(rows, totals=rows)["table"]
    return table


def _name(row: _Row) -> Cell:
    shard, depth, url = row
    note = away_text(shard, depth) if isinstance(depth, Exception) else ""
    return Cell(shard.name, url=url, note=note)


def _count(key: str, label: object) -> Column[_Row]:
    def count(row: _Row) -> int | None:
        return None if isinstance(row[1], Exception) else getattr(row[1], key)

    return Column(
        key,
        label,
        lambda row: None if (found := count(row)) is None else count_cell(found),
        total=lambda rows: count_cell(sum(count(row) or 0 for row in rows)),
    )


_TABLE: Table[_Row] = Table(
    [
        Column("name", gettext_lazy("Shard"), _name, "name", total=lambda rows: _("All shards")),
        _count("ready", pgettext_lazy("tasks", "Ready")),
        _count("scheduled", pgettext_lazy("tasks", "Scheduled")),
        _count("running", pgettext_lazy("tasks", "Running")),
        _count("failed", pgettext_lazy("tasks", "Failed")),
    ]
)
