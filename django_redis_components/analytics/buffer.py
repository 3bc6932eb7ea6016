"""Views and visitors that a process has counted in its memory, and the thread that adds them to Redis.

A request adds one entry to a dict. Every `FLUSH_S` seconds the thread sends the views of each site in numbered batches,
each in one round trip: a batch is sent again until Redis confirms it, and counted once. The views of a second are
nearly always one batch; those of an outage are several, so that no call occupies the server for long. While Redis is
unavailable the views stay in the process; with more than `MAX_VIEWS` different ones, further views are counted without
their visitor and source, then without their page. A process that ends adds its views first; one that is killed loses
those of its last second, or of the outage. A batch that Redis refuses, or that fails for a day, is dropped with an
error in the log.
"""

from __future__ import annotations

import dataclasses
import itertools
import secrets
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from datetime import date
from typing import NamedTuple

from redis.exceptions import RedisError

from django_redis_components.analytics import identity
from django_redis_components.analytics.countries import CountryLookup
from django_redis_components.analytics.periods import local_time
from django_redis_components.analytics.scripts import ADD_VIEWS
from django_redis_components.analytics.view_counters import (
    OTHER,
    PAGE_UNITS,
    VALUE_UNITS,
    Dimension,
    page_key,
    page_limits,
    value_key,
    value_limits,
)
from django_redis_components.analytics.visitors import IDENTITY_PERIODS, UniqueVisitors, add_calls, page_calls
from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.client.server import may_succeed_later
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.observability.flushing import Collector
from django_redis_components.core.protocol import Batch, Call, Flow, run
from django_redis_components.core.settings import conf

#: Different views of a site that a process buffers with their visitor and source; after as many again, only their sum.
MAX_VIEWS = 10_000
#: Most names of a batch that its call adds to counters, about 6 µs of the server for each.
MAX_NAMES = 4_000
#: Most views of a batch, each of which may have another visitor.
MAX_BATCH_VIEWS = 2_000
#: TTL of the number of a process's last batch in milliseconds. A batch that fails for so long is dropped: without the
#: number it could be added twice.
LAST_MS = 86_400 * 1_000
#: Most names that a view adds, of its page and of the values of four dimensions.
_NAMES_OF_VIEW = len(PAGE_UNITS) + 4 * len(VALUE_UNITS)


class View(NamedTuple):
    """What a request tells about a view.

    Attributes:
        page: its name, truncated.
        visitor: the id, if it does not depend on a salt.
        address, agent: to compute the id and the country; they do not leave the process.
    """

    page: str
    visitor: bytes | None = None
    address: str | None = None
    agent: str | None = None
    referrer: str | None = None
    utm_source: str | None = None
    device: str | None = None


#: Views by minute since the epoch and view.
_Views = dict[tuple[int, View], int]


@dataclasses.dataclass
class _SiteViews:
    """The views of a site that Redis has not confirmed.

    Attributes:
        views: by minute since the epoch and view.
        batches: those that are sent, one after the other.
        number: of the first batch; 0 before it was sent.
        since: when that batch was first sent, by the monotonic clock in seconds.
    """

    views: _Views = dataclasses.field(default_factory=dict)
    batches: deque[_Views] = dataclasses.field(default_factory=deque)
    number: int = 0
    since: float = 0.0

    def add(self, minute: int, view: View) -> None:
        """Count a view, without its details or its page if there are too many."""
        key = minute, view
        if key not in self.views and len(self.views) >= MAX_VIEWS:
            key = minute, View(view.page)
            if key not in self.views and len(self.views) >= 2 * MAX_VIEWS:
                key = minute, View(OTHER)
        self.views[key] = self.views.get(key, 0) + 1

    def take(self) -> _Views:
        """Return the views, and count on without them; none while there are batches."""
        if self.batches:
            return {}
        taken, self.views = self.views, {}
        return taken

    def start_batch(self, numbers: Iterator[int]) -> _Views:
        """Return the views of the first batch, with a number unless it was sent before."""
        if not self.number:
            self.number = next(numbers)
            self.since = time.monotonic()
        return self.batches[0]

    def end_batch(self) -> None:
        """Forget the first batch: it was added, or will not be."""
        self.batches.popleft()
        self.number = 0


class ViewBuffer(Collector):
    """The views of this process, by connection and site."""

    name = "page-views"
    logger = guarded_logger("django_redis_components.analytics")
    warning = "Page views are kept in the process until Redis counts them: %s"

    def reset(self) -> None:
        """See the base class."""
        super().reset()
        self._lock = threading.Lock()
        self._sites: dict[tuple[str, str], _SiteViews] = {}
        self._process = secrets.token_hex(8)
        #: Of batches. They grow over all sites, so that a site can be forgotten and counted again.
        self._numbers = itertools.count(1)

    def record(self, using: str, site: str, view: View) -> None:
        """Count a view now."""
        minute = int(time.time()) // 60
        with self._lock:
            views = self._sites.get((using, site))
            if views is None:
                views = self._sites[using, site] = _SiteViews()
            views.add(minute, view)
        self.notify()

    def timeout_s(self) -> float:
        """See the base class."""
        return conf.settings().analytics.timeout_s

    def _flush(self) -> None:
        with self._lock:
            sites = list(self._sites.items())
        for (using, site), views in sites:
            if not self._flush_site(using, site, views):
                self.notify()

    def _flush_site(self, using: str, site: str, views: _SiteViews) -> bool:
        """Send the batches that failed before, and then the views since; return False if one must be repeated."""
        for _ in range(2):
            with self._lock:
                taken = views.take()
            views.batches.extend(_batches(taken))
            while views.batches:
                if not self._send(using, site, views):
                    return False
        with self._lock:
            # Views of this moment have notified the thread again.
            if not views.views and self._sites.get((using, site)) is views:
                del self._sites[using, site]
        return True

    def _send(self, using: str, site: str, views: _SiteViews) -> bool:
        """Send the first batch; return False if it must be repeated."""
        batch = views.start_batch(self._numbers)
        try:
            run(
                connections.client_with_timeout(using, self.timeout_s(), 1),
                _batch_flow(using, site, batch, self._process, views.number),
            )
        except (RedisError, RedisComponentsError) as exc:
            may_succeed, age_s = may_succeed_later(exc), time.monotonic() - views.since
            if may_succeed and age_s < LAST_MS / 1_000:
                self._log_error(exc)
                return False
            reason = (
                f"Redis has not counted them for {age_s / 3_600:.0f} hours" if may_succeed else "Redis refuses them"
            )
            self.logger.error("%d page views of site %r are lost, %s: %s", sum(batch.values()), site, reason, exc)
        except Exception:
            self.logger.exception("%d page views of site %r are lost.", sum(batch.values()), site)
        views.end_batch()
        return True


def _batches(views: _Views) -> Iterator[_Views]:
    """Yield parts of views whose calls add a bounded number of names to counters, countries aside."""
    if len(views) <= MAX_NAMES // _NAMES_OF_VIEW:
        yield from (views,) if views else ()
        return
    batch: _Views = {}
    names: set[tuple[int, int, str | None]] = set()
    count = 0
    for (minute, view), times in views.items():
        values = view.page, view.referrer, view.utm_source, view.device
        fresh = {(minute // 60, index, value) for index, value in enumerate(values) if value is not None} - names
        added = sum(len(VALUE_UNITS) if index else len(PAGE_UNITS) for _, index, _ in fresh)
        if batch and (count + added > MAX_NAMES or len(batch) == MAX_BATCH_VIEWS):
            yield batch
            batch, names, count = {}, set(), 0
        batch[minute, view] = times
        names |= fresh
        count += added
    yield batch


def _batch_flow(using: str, site: str, views: _Views, process: str, number: int) -> Flow[None]:
    """Add the views of a batch and their visitors; two round trips if a salt must be read, else one."""
    batch = _Batch(using, site, views)
    visitors = yield from batch.visitors()
    yield Batch([batch.views_call(process, number), *visitors])


class _Batch:
    """The calls that add some views of a site."""

    def __init__(self, using: str, site: str, views: Mapping[tuple[int, View], int]) -> None:
        self._using = using
        self._site = site
        self._views = views
        minutes = {minute for minute, _ in views}
        #: The local time of each minute.
        self._times = {minute: local_time(minute * 60) for minute in minutes}

    def views_call(self, process: str, number: int) -> Call:
        """Return the call that adds to the counters of pages and dimensions."""
        counters: dict[str, tuple[tuple[int, int], dict[str, int]]] = {}
        for (minute, dimension), names in self._names().items():
            at = self._times[minute]
            units = PAGE_UNITS if dimension is None else VALUE_UNITS
            for unit in units:
                if dimension is None:
                    key, limits = page_key(self._site, unit, at), page_limits(unit)
                else:
                    key, limits = value_key(self._site, dimension, unit, at), value_limits()
                sums = counters.setdefault(key, (limits, {}))[1]
                for name, times in names.items():
                    sums[name] = sums.get(name, 0) + times
        parts: list[str | int] = []
        for limits, sums in counters.values():
            parts += [*limits, len(sums), *(part for pair in sums.items() for part in pair)]
        last = keys.key("analytics", self._site, "batch", process)
        return ADD_VIEWS(last=last, counters=list(counters), number=number, last_ms=LAST_MS, parts=parts)

    def _names(self) -> dict[tuple[int, Dimension | None], dict[str, int]]:
        """Return the views of each page, for None, and of each value of the dimensions, by minute."""
        times_by_name: dict[tuple[int, Dimension | None], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        countries = COUNTRIES.countries_of(view.address for _, view in self._views)
        for (minute, view), times in self._views.items():
            times_by_name[minute, None][view.page] += times
            values: tuple[tuple[Dimension, str | None], ...] = (
                ("referrer", view.referrer),
                ("utm_source", view.utm_source),
                ("device", view.device),
                ("country", countries[view.address]),
            )
            for dimension, value in values:
                if value is not None:
                    times_by_name[minute, dimension][value] += times
        return times_by_name

    def visitors(self) -> Flow[list[Call]]:
        """Return the calls that add the visitors, by minute, and by page and day."""
        by_minute: dict[int, set[bytes]] = defaultdict(set)
        by_page: dict[date, dict[str, set[bytes]]] = defaultdict(lambda: defaultdict(set))
        for minute, view in self._views:
            day = self._times[minute].date()
            visitor = yield from self._visitor(view, day)
            if visitor is not None:
                by_minute[minute].add(visitor)
                by_page[day][view.page].add(visitor)
        counter, calls = UniqueVisitors(self._site), []
        for minute, ids in by_minute.items():
            calls += add_calls(counter, sorted(ids), self._times[minute], minute)
        for day, pages in by_page.items():
            calls += page_calls(self._site, {page: sorted(ids) for page, ids in pages.items()}, day)
        return calls

    def _visitor(self, view: View, day: date) -> Flow[bytes | None]:
        if view.visitor is not None or view.agent is None or view.address is None:
            return view.visitor
        unit = IDENTITY_PERIODS[conf.settings().analytics.visitor_identity]
        if unit is None:
            return None
        salt = yield from identity.read_salt(self._site, self._using, unit, day)
        return identity.hash_id(salt, self._site, view.address, view.agent)


#: The look-up of this process.
COUNTRIES = CountryLookup()
#: The views of this process.
BUFFER = ViewBuffer()


def flush() -> None:
    """Add the page views and visitors that this process has counted to Redis, now instead of within a second.

    For tests, and for processes that end without Python's exit handlers. It never raises: what cannot be added is kept.
    """
    BUFFER.flush()
