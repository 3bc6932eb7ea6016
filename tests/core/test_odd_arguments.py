"""Odd arguments of all components: what is refused is named in the error, with what is expected instead."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from django_redis_components import locks, semaphores
from django_redis_components.aggregation import LogAggregator, PlaceKey, parse_line
from django_redis_components.analytics import (
    BitCounters,
    Events,
    PageViews,
    Ranking,
    SignIns,
    UniqueVisitors,
    cohorts,
    funnel,
    retention_triangle,
    roll_up_cohorts,
)
from django_redis_components.autocomplete import PrefixIndex, RecentList, get_index
from django_redis_components.bloom import BloomFilter, CountMinSketch, TopK
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.expiry import cached, jitter
from django_redis_components.files import FileChannel
from django_redis_components.geoip import IpLookup, IpRange, Place
from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.messaging import Broadcast, Chat, Mailbox, Presence, Retention, unread_counts
from django_redis_components.ratelimits import RateLimit
from django_redis_components.search import SearchIndex
from django_redis_components.semaphores import Semaphore
from django_redis_components.taskqueue import Schedules, get_queue
from tests.support import Store
from tests.taskqueue.tasks import add

#: Values that each argument gets.
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 10**30, 10**5_000, -(10**5_000), 1.5, math.nan, math.inf, -math.inf, Decimal("NaN"),
    "", " ", "\x00", "\ud800", "a" * 300, "{", "é" * 150, b"", b"\xff", [], {}, [[]], [1], (1, 2),
    datetime.max.replace(tzinfo=UTC), date.min, timedelta(days=10**6), timedelta(-1), UUID(int=0), float, object(),
)  # fmt: skip
#: What the text of an error has that names the value, or says what is expected.
NAMES_IT = (
    "expected", "accepted", "at most", "is empty", "is before", "is nested", "too many digits", "duplicate",
    "JSON has no", "see the argument units", "Single '",
)  # fmt: skip
DAY = date(2026, 1, 1)

search, prefix, recents = SearchIndex("s", fields={"a": 1}), PrefixIndex("p"), RecentList("r")
limit, bloom, sketch, top = RateLimit("l", "5/m"), BloomFilter("b", 100), CountMinSketch("c"), TopK("t", 3)
views, visitors, ranking = PageViews("v"), UniqueVisitors("v"), Ranking("k", units=("day", "all"))
days, mapped, events, counters = SignIns("d"), SignIns("m", mapped=True), Events("e"), BitCounters("n")
places, log = IpLookup("i", source="ranges"), LogAggregator("a", key=lambda entry: entry.path)

CALLS: Mapping[str, Callable[[Any], object]] = {
    "Lock.name": Lock,
    "Lock.timeout": lambda odd: Lock("a", timeout=odd),
    "MultiLock.group": lambda odd: MultiLock("a", group=odd),
    "Semaphore.limit": lambda odd: Semaphore("s", odd),
    "locks.force_release.token": lambda odd: locks.force_release("a", token=odd),
    "locks.force_release.author": lambda odd: locks.force_release("a", author=odd),
    "locks.force_release.readwrite": lambda odd: locks.force_release("a", readwrite=odd),
    "semaphores.force_release.token": lambda odd: semaphores.force_release("a", token=odd),
    "semaphores.force_release.author": lambda odd: semaphores.force_release("a", author=odd),
    "Schedules.run_now": lambda odd: Schedules().run_now(odd),
    "RateLimit.rates": lambda odd: RateLimit("x", odd),
    "RateLimit.hit.key": lambda odd: limit.hit(odd),
    "RateLimit.hit.cost": lambda odd: limit.hit("k", odd),
    "RateLimit.block": lambda odd: limit.block("k", odd),
    "BloomFilter.capacity": lambda odd: BloomFilter("q", odd),
    "BloomFilter.add": bloom.add,
    "BloomFilter.add_many": bloom.add_many,
    "CountMinSketch.add": sketch.add,
    "TopK.add": top.add,
    "PrefixIndex.add.id": lambda odd: prefix.add(odd, "x"),
    "PrefixIndex.add.text": lambda odd: prefix.add(1, odd),
    "PrefixIndex.add.terms": lambda odd: prefix.add(1, "x", terms=odd),
    "PrefixIndex.get_many": prefix.get_many,
    "PrefixIndex.rebuild": lambda odd: prefix.rebuild([odd]),
    "RecentList.touch": recents.touch,
    "SearchIndex.fields": lambda odd: SearchIndex("z", fields=odd),
    "SearchIndex.language": lambda odd: SearchIndex("z", language=odd),
    "SearchIndex.stop_words": lambda odd: SearchIndex("z", stop_words=odd),
    "SearchIndex.synonyms": lambda odd: SearchIndex("z", synonyms=odd),
    "SearchIndex.synonyms[]": lambda odd: SearchIndex("z", synonyms={"a": odd}),
    "SearchIndex.add.id": lambda odd: search.add(odd, "x"),
    "SearchIndex.add.text": lambda odd: search.add(1, odd),
    "SearchIndex.add.facets": lambda odd: search.add(1, "x", facets=odd),
    "SearchIndex.add.facets[]": lambda odd: search.add(1, "x", facets={"k": odd}),
    "SearchIndex.add.sort_values": lambda odd: search.add(1, "x", sort_values=odd),
    "SearchIndex.add.location": lambda odd: search.add(1, "x", location=odd),
    "SearchIndex.add.location[]": lambda odd: search.add(1, "x", location=(odd, 1)),
    "SearchIndex.search.filters": lambda odd: search.search("x", filters=odd),
    "SearchIndex.search.order_by": lambda odd: search.search("x", order_by=odd),
    "SearchIndex.search.near": lambda odd: search.search("x", near=odd),
    "SearchIndex.rebuild": lambda odd: search.rebuild([(1, odd)]),
    "Chat.create": Chat.create,
    "Mailbox.send": lambda odd: Mailbox("o").send(odd),
    "Mailbox.owner": Mailbox,
    "Broadcast.publish": lambda odd: Broadcast("c").publish(odd),
    "Presence.touch": lambda odd: Presence("p").touch(odd),
    "Retention.keep_for": lambda odd: Retention(keep_for=odd),
    "unread_counts": unread_counts,
    "PageViews.count": lambda odd: views.count("a", odd),
    "PageViews.top.at": lambda odd: views.top(at=odd, unit="hour"),
    "UniqueVisitors.add": visitors.add,
    "UniqueVisitors.merged": lambda odd: visitors.merged([odd], DAY),
    "Ranking.add": lambda odd: ranking.add(odd, 1),
    "Ranking.top.unit": lambda odd: ranking.top(unit=odd),
    "SignIns.sign_in": days.sign_in,
    "SignIns.sign_in mapped": mapped.sign_in,
    "SignIns.month": lambda odd: days.month(1, 2026, odd),
    "SignIns.year": lambda odd: days.year(1, odd),
    "SignIns.retention.at": lambda odd: days.retention(5, at=odd),
    "Events.did.unit": lambda odd: events.did(1, unit=odd),
    "BitCounters.incr_many": counters.incr_many,
    "IpLookup.lookup_many": places.lookup_many,
    "IpLookup.rebuild": lambda odd: places.rebuild([odd]),
    "IpRange.start": lambda odd: places.rebuild([IpRange(odd, "8.8.8.8", Place("US"))]),
    "IpRange.place": lambda odd: places.rebuild([IpRange("8.8.8.0", "8.8.8.8", odd)]),
    "Place.country": lambda odd: places.rebuild([IpRange("8.8.8.0", "8.8.8.8", Place(odd))]),
    "LogAggregator.totals": log.totals,
    "FileChannel.consumers": lambda odd: FileChannel("f", odd),
    "FileChannel.remove": lambda odd: FileChannel("f", ["a"]).remove(odd),
    "jitter": jitter,
    "using": lambda odd: Lock("a", using=odd).locked(),
    "using of a limit": lambda odd: RateLimit("x", "5/m", using=odd).hit("k"),
    "using of a queue": lambda odd: get_queue("q", using=odd).info(),
    "PrefixIndex.complete.recents": lambda odd: prefix.complete("x", recents=odd),
    "PrefixIndex.complete.typos": lambda odd: prefix.complete("x", typos=odd),
    "get_index": get_index,
    "SearchIndex.search.prefix": lambda odd: search.search("x", prefix=odd),
    "SearchIndex.rebuild[]": lambda odd: search.rebuild([odd]),
    "SearchPage.highlight": lambda odd: search.search("x").highlight(odd),
    "Chat.retention": lambda odd: Chat.create(1, chat_id="r", retention=odd),
    "Chat.wait_for_message": lambda odd: Chat.get_or_create("w", 1)[0].wait_for_message(1, 0, revision=odd),
    "Ranking.add.best": lambda odd: ranking.add("m", 1, best=odd),
    "BitCounters.get": counters.get,
    "BitCounters.incr": counters.incr,
    "cohorts.first": lambda odd: cohorts(odd, events),
    "cohorts.later": lambda odd: cohorts(events, odd),
    "roll_up_cohorts": lambda odd: roll_up_cohorts(odd, events),
    "funnel": lambda odd: funnel(odd),
    "retention_triangle": retention_triangle,
    "IpLookup.rebuild.source": lambda odd: places.rebuild([], source=odd),
    "PlaceKey.lookup": lambda odd: PlaceKey(lookup=odd),
    "parse_line": parse_line,
    "LogAggregator.accept_bad": lambda odd: log.add_file(__file__, accept_bad=odd),
    "LogAggregator.progress": lambda odd: log.add_file(__file__, progress=odd),
    "FileChannel.progress": lambda odd: FileChannel("f", ["a"]).publish(__file__, progress=odd),
    "enqueue_many": lambda odd: add.enqueue_many(odd),
    "cached.key": lambda odd: cached(odd, 5)(print),
    "cached.ttl": lambda odd: cached("k", odd),
}


def refusal(call: Callable[[Any], object], odd: Any) -> str | None:
    """Return the text of the error by which an argument is refused; None if it is accepted."""
    try:
        call(odd)
    except RedisComponentsError:
        return None
    except (TypeError, ValueError) as exc:
        return str(exc)
    return None


@pytest.mark.parametrize("name", CALLS)
def test_error_names_what_is_refused(redis_server: Store, name: str) -> None:
    texts = [text for odd in ODD if (text := refusal(CALLS[name], odd))]

    assert [text for text in texts if not any(part in text for part in NAMES_IT)] == []


@pytest.mark.parametrize(
    "make",
    [
        lambda odd: Lock("a", using=odd),
        lambda odd: MultiLock("a", "b", using=odd),
        lambda odd: ReadWriteLock("a", using=odd),
        lambda odd: Semaphore("a", 1, using=odd),
        lambda odd: RateLimit("a", "5/m", using=odd),
    ],
    ids=["lock", "names", "readwrite", "semaphore", "limit"],
)
def test_connection_that_is_no_text_is_refused_by_the_constructor(make: Callable[[Any], object]) -> None:
    for odd in (None, 7, True, ["default"], b"default"):
        with pytest.raises(TypeError, match=rf"^using={re.escape(repr(odd))}: expected a string\.$"):
            make(odd)


@pytest.mark.parametrize(
    "make", [lambda odd: Schedules(using=odd), lambda odd: get_queue("a", using=odd)], ids=["schedules", "queue"]
)
def test_connection_of_a_queue_that_is_no_text_is_refused_by_the_constructor(make: Callable[[Any], object]) -> None:
    for odd in (None, 7, True, ["default"], b"default"):
        with pytest.raises(TypeError, match=rf"^using={re.escape(repr(odd))}: expected the name of a connection\.$"):
            make(odd)


def test_semaphore_without_a_limit_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^limit=None: expected an integer from 1 to 1000000\.$"):
        Semaphore("a", None)  # type: ignore[arg-type]


class Color(str, Enum):  # noqa: UP042 - the other kind
    """Its members equal strings, and `str(Color.RED)` is "Color.RED"."""

    RED = "red"


class Number(int, Enum):
    ONE = 1


#: What one gives with "red" and 1 it gives with equal members of enumerations.
MEMBERS: Mapping[str, Callable[[str, int], object]] = {
    "locks": lambda red, one: (Lock(red).acquire(), Lock("red").locked()),
    "locks group": lambda red, one: (MultiLock("a", group=red).acquire(), MultiLock("a", group="red").locked()),
    "semaphores": lambda red, one: (Semaphore(red, one).acquire(one), Semaphore("red", 1).available()),
    "ratelimits": lambda red, one: (RateLimit(red, (one, 60)).hit(one), RateLimit(red, (one, 60)).peek(one).is_checked)[
        1
    ],
    "autocomplete": lambda red, one: (prefix.add(one, red, weight=one), prefix.explain("re", limit=one)),
    "bloom": lambda red, one: (BloomFilter(red, 100 * one).add(one), BloomFilter("red", 100).contains("1")),
    "search": lambda red, one: (search.add(one, red, facets={red: red}), search.search(red, facets=[red]).facets),
    "search ids": lambda red, one: (search.add(one, red), search.search("red", filters={}, per_page=one).ids),
    "analytics": lambda red, one: (SignIns(red).sign_in(one, at=DAY), SignIns("red").has_signed_in(1, at=DAY)),
    "analytics ids": lambda red, one: (mapped.sign_in(red, at=DAY), mapped.has_signed_in("red", at=DAY)),
    "counters": lambda red, one: (counters.incr(one, one), counters.get(1)),
    "messaging": lambda red, one: (Chat.create(one, chat_id=red).send("1", red), Chat("red").fetch(1)[0].body),
}


@pytest.mark.parametrize("component", MEMBERS)
def test_members_of_enumerations_are_what_they_equal(redis_server: Store, component: str) -> None:
    expected = MEMBERS[component]("red", 1)
    redis_server.delete_keys()

    assert MEMBERS[component](Color.RED, Number.ONE) == expected


@pytest.mark.parametrize("options", [{"stop_words": "the"}, {"synonyms": {"car": "automobile"}}])
def test_string_instead_of_words_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r": expected an iterable of words\.$"):
        SearchIndex("z", **options)
