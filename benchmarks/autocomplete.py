"""Completions in an index of names in six scripts, beside what Redis and redis-py cost.

    python -m benchmarks.autocomplete [--names 1000000] [--queries 3000]

One thread sends each query in turn to each row; milliseconds at p50 and p99, and the ratio of p50 to the bare range:
one ZRANGE of the same prefix and limit, by redis-py. The queries are the first one to six characters of a word of a
random name. The sentinel algorithm inserts the bounds of the range as members, reads what is between, and removes them
("Redis in Action", 6.1). ``REDIS_URL`` names another server.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import redis

from benchmarks.environment import server_url
from benchmarks.locks import set_up

#: Syllables of names, by script.
LATIN = "an ber ca do el fi gar ha is jo ka lin mo na ol pe ri sa to ur vi wen xa ye zo é ł ß"
CYRILLIC = "ан бор ва гри да ев жа зи ира ко лев ма ни ол пет ра св та ул фед хо"
GREEK = "αν βα γε δη ελ ζω ηλ θε ιω κα λυ μα νι ξε ορ πα ρο σο τα φι"
ARABIC = "مح أح عل حس خا سع يو إب نا ري مر زي لي نو هد بش"
#: The same of names that are written as one word.
HAN = "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧明华小国文建军丽芳伟"
HANGUL = "김이박최정강조윤장임한오서신권황안송류홍민지수현우진영준하은"
#: Suggestions of each query.
LIMIT = 10
#: Longest prefix, in characters.
LONGEST = 6


def main() -> None:
    """Fill the index, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", type=int, default=1_000_000, help="names in the index (default: 1000000)")
    parser.add_argument("--queries", type=int, default=3_000, help="queries of each row (default: 3000)")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options)


def measure(url: str, options: argparse.Namespace) -> None:
    """All rows in turn, query after query."""
    set_up(url)
    from django_redis_components.autocomplete import PrefixIndex, RecentList

    raw, index, recents = redis.Redis.from_url(url), PrefixIndex("bench"), RecentList("bench-user")
    _fill(raw, index, options.names)
    for id_ in range(20):
        recents.touch(id_)
    key = next(raw.scan_iter(match="*{bench}*:lex", count=1_000)).decode()
    raw.zadd("bench:sentinels", dict.fromkeys(names(options.names // 10), 0))
    table: dict[str, Callable[[str], Any]] = {
        "PING": lambda _: raw.ping(),
        "bare range": lambda typed: raw.zrange(key, *_bounds(typed), bylex=True, offset=0, num=LIMIT),
        "complete": lambda typed: index.complete(typed, limit=LIMIT),
        "with recent choices": lambda typed: index.complete(typed, limit=LIMIT, recents=recents),
        "with typos": lambda typed: index.complete(typed, limit=LIMIT, typos=True),
        "sentinels (a tenth of the names)": lambda typed: _sentinels(raw, typed),
    }
    times: dict[str, list[float]] = {name: [] for name in table}
    rng = random.Random(7)
    for typed in _prefixes(rng, options.queries):
        for name in rng.sample(list(table), len(table)):
            started_at = time.perf_counter()
            table[name](typed)
            times[name].append((time.perf_counter() - started_at) * 1_000)
    base = statistics.median(times["bare range"])
    for name, values in times.items():
        values.sort()
        p50, p99 = statistics.median(values), values[int(len(values) * 0.99)]
        print(f"{name:34} p50 {p50:7.3f} ms   p99 {p99:7.3f} ms   {p50 / base:5.2f} x bare range")


def names(count: int) -> Iterator[str]:
    """Yield random names of two or three words."""
    rng = random.Random(1)
    scripts = [script.split() for script in (LATIN, CYRILLIC, GREEK, ARABIC)]
    for number in range(count):
        kind = number % 6
        if kind < len(scripts):
            yield " ".join("".join(rng.choices(scripts[kind], k=rng.randint(2, 4))).title() for _ in range(2))
        else:
            yield "".join(rng.choices((HAN, HANGUL)[kind - 4], k=rng.choice((2, 3, 3))))


def _fill(raw: redis.Redis, index: Any, count: int) -> None:
    before, started_at = raw.info("memory")["used_memory"], time.perf_counter()
    index.rebuild(enumerate(names(count)))
    seconds, used = time.perf_counter() - started_at, raw.info("memory")["used_memory"] - before
    print(f"{count:,} names: {used / count:.0f} bytes a name, {count / seconds:,.0f} names a second")


def _prefixes(rng: random.Random, count: int) -> Iterator[str]:
    words = [word for name in names(10_000) for word in name.split()]
    for _ in range(count):
        yield rng.choice(words)[: rng.randint(1, LONGEST)]


def _bounds(typed: str) -> tuple[bytes, bytes]:
    from django_redis_components.core.text import fold

    start = b"0" + fold(typed).encode()
    return b"[" + start, b"(" + start + b"\xff"


def _sentinels(raw: redis.Redis, typed: str) -> list[bytes]:
    first, last = f"{typed}\0{os.getpid()}", f"{typed}\U0010ffff{os.getpid()}"
    raw.zadd("bench:sentinels", {first: 0, last: 0})
    with raw.pipeline() as pipe:
        while True:
            try:
                pipe.watch("bench:sentinels")
                low, high = pipe.zrank("bench:sentinels", first), pipe.zrank("bench:sentinels", last)
                pipe.multi()
                pipe.zrem("bench:sentinels", first, last)
                pipe.zrange("bench:sentinels", low, min(low + LIMIT - 1, high - 2))
                found: list[bytes] = pipe.execute()[-1]
            except redis.WatchError:
                continue
            return found


if __name__ == "__main__":
    main()
