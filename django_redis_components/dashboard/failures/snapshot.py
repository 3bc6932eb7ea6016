"""The data of the page of failures, read in two round trips."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial

from django.utils.translation import gettext as _

from django_redis_components.core import keys
from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.parameters import InvalidParameter, too_long
from django_redis_components.dashboard.queues.task_query import check_span, moment_ago, parse_time
from django_redis_components.dashboard.shard_reads import merged_counts, of_shards
from django_redis_components.taskqueue import ErrorGroup, ErrorSample
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats import fingerprint
from django_redis_components.taskqueue.stats.deploys import Deploy, read_deploys
from django_redis_components.taskqueue.stats.errors import MAX_QUEUES, MINUTES, ErrorListing, list_errors
from django_redis_components.taskqueue.stats.failure_counts import FailureCounts, read_failure_counts
from django_redis_components.taskqueue.store.scan import Filters, TaskScan, scan_tasks

#: Groups that the page lists: each queue counts for itself.
LIMIT = 100
#: A group of a queue with its shard.
_Part = tuple[Shard, ErrorGroup]
#: Queues whose failed tasks of the group are listed, and most tasks of each.
SCANNED_QUEUES, TASKS = 5, 10
#: Longest class of an exception in a query.
MAX_EXCEPTION = 300


@dataclasses.dataclass(frozen=True, slots=True)
class FailureQuery:
    """What the page shows.

    Attributes:
        queue: only its failures; "": those of all queues.
        group: fingerprint of the group in detail; "": the newest.
        begin, end: only errors that failed between these times, as `parse_time` takes them.
        exception: only errors of this class, without the module of built-in ones; "": all.
        since: "midnight", or a duration: begin is that long ago; "": as `begin` says.
    """

    queue: str = ""
    group: str = ""
    begin: str = ""
    end: str = ""
    exception: str = ""
    since: str = ""

    @property
    def filters(self) -> dict[str, str]:
        """What narrows the list, as parameters of a URL."""
        span = {"since": self.since} if self.since else self.span
        return {"queue": self.queue, **span, "exception": self.exception}

    @property
    def span(self) -> dict[str, str]:
        """The times as parameters of a URL."""
        return {"begin": moment_ago(self.since) if self.since else self.begin, "end": self.end}

    @property
    def span_ms(self) -> tuple[int | None, int | None]:
        """The times in milliseconds since the epoch."""
        return parse_time(self.span["begin"]), parse_time(self.end)

    def accepts(self, failure: FailureGroup, at: datetime) -> bool:
        """Return whether an error failed in the time, as far as that is known: minutes are counted for an hour."""
        begin_ms, end_ms = self.span_ms[0] or 0, self.span_ms[1] or math.inf
        if begin_ms >= at.timestamp() * 1_000 - MINUTES * 60_000:
            return any(begin_ms <= minute.timestamp() * 1_000 < end_ms for minute in failure.minutes)
        first_at, last_at = failure.first_at.timestamp(), failure.newest.last_at.timestamp()
        return first_at * 1_000 < end_ms and last_at * 1_000 >= begin_ms


@dataclasses.dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures with one fingerprint, in one or more queues.

    Attributes:
        parts: the groups of the queues, newest first.
        shards: of each part.
    """

    parts: list[ErrorGroup]
    shards: list[Shard]

    @property
    def located(self) -> list[_Part]:
        """The groups with their shards."""
        return list(zip(self.shards, self.parts, strict=True))

    @property
    def newest(self) -> ErrorGroup:
        """The group of the queue that failed last; class, location and message are those of all."""
        return self.parts[0]

    @property
    def exception(self) -> str:
        """The class of the exception, without the module of built-in ones."""
        return self.newest.exception_class_path.removeprefix("builtins.")

    @property
    def count(self) -> int:
        """How often it has failed, retried attempts included."""
        return sum(part.count for part in self.parts)

    @property
    def final(self) -> int:
        """How many tasks have finally failed, those that were retried by hand since included."""
        return sum(part.final for part in self.parts)

    @property
    def first_at(self) -> datetime:
        """When it failed first."""
        return min(part.first_at for part in self.parts)

    @property
    def sample(self) -> ErrorSample | None:
        """The error of the newest task that is kept."""
        return next((part.sample for part in self.parts if part.sample), None)

    @property
    def minutes(self) -> Mapping[datetime, int]:
        """Failures of the last hour by minute."""
        found: Counter[datetime] = Counter()
        for part in self.parts:
            for minute, count in part.minutes:
                found[minute] += count
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class FailureSnapshot:
    """The error groups, and one of them in detail.

    Attributes:
        at: the server's time.
        counts: failed tasks of each queue that has any, and the lost workers.
        failures: the latest, newest first.
        total, shown: groups that the queues keep, and those of them in `failures`.
        selected: the failure in detail, also if it is older than those that are listed; None if it is not kept.
        tasks: the newest failed tasks of the selected failure by shard and queue; empty in a fragment.
        deploys: of the site's code, oldest first.
        exceptions: how many errors of the queue and the time have each class, most first.
    """

    at: datetime
    query: FailureQuery
    counts: FailureCounts
    failures: list[FailureGroup]
    total: int
    shown: int
    selected: FailureGroup | None
    tasks: dict[tuple[Shard, str], TaskScan]
    deploys: list[Deploy]
    exceptions: dict[str, int]


def query_of(form: Mapping[str, str]) -> FailureQuery:
    """Return the query of a request.

    Raises:
        ValueError: a parameter is not valid.
    """
    query = FailureQuery(*(form.get(name, "") for name in ("queue", "group", "begin", "end", "exception", "since")))
    if len(query.exception) > MAX_EXCEPTION:
        raise too_long("exception", MAX_EXCEPTION)
    if query.queue:
        keys.validate_name(query.queue, "queue name")
    if query.group and not fingerprint.PATTERN.fullmatch(query.group):
        raise InvalidParameter(_("group: expected the 16 hexadecimal digits of a fingerprint."))
    check_span(query)
    try:
        moment_ago(query.since or "midnight")
    except (ValueError, OverflowError) as exc:
        raise ValueError(f"since={exc}") from exc
    return query


def read_failures(query: FailureQuery, *, with_tasks: bool = True) -> Flow[FailureSnapshot]:
    """Read the groups, then the one in detail, in two round trips.

    Args:
        with_tasks: whether to look for its failed tasks, too.
    """
    queues = [query.queue] if query.queue else []
    found = yield from of_shards(lambda shard: _read_shard(shard, queues, query.group))
    reads = list(found.values())
    at = reads[0].listing.at
    parts = _newest({shard: read.listing.groups for shard, read in found.items()})
    listed = parts[:LIMIT]
    accepted = [failure for failure in _by_fingerprint(listed) if query.accepts(failure, at)]
    exceptions = dict(Counter(failure.exception for failure in accepted).most_common())
    failures = [each for each in accepted if query.exception in ("", each.exception)]
    total, deploys = sum(read.listing.total for read in reads), reads[0].deploys
    counts = merged_counts({shard: read.counts for shard, read in found.items()})
    snapshot_of = partial(FailureSnapshot, at, query, counts, failures, total, len(listed))
    details = _newest({shard: read.details.groups for shard, read in found.items() if read.details})
    known = details if query.group else [part for failure in failures for part in failure.located]
    if not known:
        return snapshot_of(None, {}, deploys, exceptions)
    newest = known[0][1].fingerprint
    of_newest = [part for part in known if part[1].fingerprint == newest]
    scanned = [(shard, group.queue) for shard, group in of_newest[:SCANNED_QUEUES]] if with_tasks else []
    begin_ms, end_ms = query.span_ms
    filters = Filters(fingerprint=newest, begin_ms=begin_ms, end_ms=end_ms)
    scans = [scan_tasks(shard, queue, "failed", filters, limit=TASKS, mode="names") for shard, queue in scanned]
    # Its groups are among those that are listed, unless some are not; what is missing is the traceback of the newest.
    names = list(dict.fromkeys(group.queue for _shard, group in of_newest)) if total <= len(listed) else queues
    whole = [] if query.group else [_list_everywhere(names, newest)]
    values = yield from gather_values([*scans, *whole])
    if whole:
        of_newest = values.pop() or of_newest
    return snapshot_of(_failure_of(of_newest), dict(zip(scanned, values, strict=True)), deploys, exceptions)


@dataclasses.dataclass(frozen=True, slots=True)
class _ShardRead:
    """What is read of a shard in the first round trip."""

    counts: FailureCounts
    listing: ErrorListing
    deploys: list[Deploy]
    details: ErrorListing | None


def _read_shard(shard: Shard, queues: list[str], group: str) -> Flow[_ShardRead]:
    selected = [list_errors(shard, queues, LIMIT, group)] if group else []
    counts, listing, *details, deploys = yield from gather_values(
        [read_failure_counts(shard, MAX_QUEUES), list_errors(shard, queues, LIMIT), *selected, read_deploys(shard)]
    )
    return _ShardRead(counts, listing, deploys, details[0] if details else None)


def read_everywhere(queues: list[str], group: str) -> Flow[FailureGroup | None]:
    """Return an error in all shards that the page shows; None if none keeps it."""
    parts = yield from _list_everywhere(queues, group)
    return _failure_of(parts) if parts else None


def _list_everywhere(queues: list[str], group: str) -> Flow[list[_Part]]:
    found = yield from of_shards(lambda shard: list_errors(shard, queues, LIMIT, group))
    return _newest({shard: listing.groups for shard, listing in found.items()})


def _newest(found: Mapping[Shard, list[ErrorGroup]]) -> list[_Part]:
    """Return the groups of all shards with their shards, newest first."""
    parts = [(shard, group) for shard, groups in found.items() for group in groups]
    return sorted(parts, key=lambda part: part[1].last_at, reverse=True) if len(found) > 1 else parts


def _failure_of(parts: list[_Part]) -> FailureGroup:
    return FailureGroup([group for _shard, group in parts], [shard for shard, _group in parts])


def _by_fingerprint(parts: Iterable[_Part]) -> list[FailureGroup]:
    found: dict[str, list[_Part]] = {}
    for part in parts:
        found.setdefault(part[1].fingerprint, []).append(part)
    return [_failure_of(each) for each in found.values()]
