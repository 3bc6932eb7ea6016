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
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.gather import gather_values
from django_redis_components.dashboard.parameters import InvalidParameter, too_long
from django_redis_components.dashboard.queues.task_query import check_span, moment_ago, parse_time
from django_redis_components.taskqueue import ErrorGroup, ErrorSample
from django_redis_components.taskqueue.stats import fingerprint
from django_redis_components.taskqueue.stats.deploys import Deploy, read_deploys
from django_redis_components.taskqueue.stats.errors import MINUTES, list_errors
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, read_depths
from django_redis_components.taskqueue.store.scan import Filters, TaskScan, scan_tasks

#: Groups that the page lists: each queue counts for itself.
LIMIT = 100
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
    """

    parts: list[ErrorGroup]

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
        depths: the queues that are known.
        failures: the latest, newest first.
        total, shown: groups that the queues keep, and those of them in `failures`.
        selected: the failure in detail, also if it is older than those that are listed; None if it is not kept.
        tasks: the newest failed tasks of the selected failure by queue; empty in a fragment.
        deploys: of the site's code, oldest first.
        exceptions: how many errors of the queue and the time have each class, most first.
    """

    at: datetime
    query: FailureQuery
    depths: list[QueueInfo]
    failures: list[FailureGroup]
    total: int
    shown: int
    selected: FailureGroup | None
    tasks: dict[str, TaskScan]
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
    selected = [list_errors(queue_shard(), queues, LIMIT, query.group)] if query.group else []
    depths, listing, *details, deploys = yield from gather_values(
        [read_depths(queue_shard()), list_errors(queue_shard(), queues, LIMIT), *selected, read_deploys(queue_shard())]
    )
    accepted = [failure for failure in _by_fingerprint(listing.groups) if query.accepts(failure, listing.at)]
    exceptions = dict(Counter(failure.exception for failure in accepted).most_common())
    failures = [each for each in accepted if query.exception in ("", each.exception)]
    snapshot_of = partial(FailureSnapshot, listing.at, query, depths, failures, listing.total, len(listing.groups))
    groups = details[0].groups if details else [part for failure in failures for part in failure.parts]
    if not groups:
        return snapshot_of(None, {}, deploys, exceptions)
    newest = groups[0].fingerprint
    parts = [group for group in groups if group.fingerprint == newest]
    scanned = [part.queue for part in parts[:SCANNED_QUEUES]] if with_tasks else []
    begin_ms, end_ms = query.span_ms
    filters = Filters(fingerprint=newest, begin_ms=begin_ms, end_ms=end_ms)
    scans = [scan_tasks(queue_shard(), queue, "failed", filters, limit=TASKS, mode="names") for queue in scanned]
    whole = [] if details else [list_errors(queue_shard(), queues, LIMIT, newest)]
    values = yield from gather_values([*scans, *whole])
    if whole:
        parts = values.pop().groups or parts
    return snapshot_of(FailureGroup(parts), dict(zip(scanned, values, strict=True)), deploys, exceptions)


def _by_fingerprint(groups: Iterable[ErrorGroup]) -> list[FailureGroup]:
    parts: dict[str, list[ErrorGroup]] = {}
    for group in groups:
        parts.setdefault(group.fingerprint, []).append(group)
    return [FailureGroup(each) for each in parts.values()]
