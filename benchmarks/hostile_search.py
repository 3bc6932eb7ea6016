"""The most expensive searches that a visitor can send, and what each costs the server.

    python -m benchmarks.hostile_search [--documents 9900] [--rounds 5]

All documents have the same 32 words, 64 values of facets, four sort values and a place, so that no word, filter or
place narrows a search. Milliseconds of processor time of the server's main thread, which other work on the machine
changes less, and the longest call by its slow log; both are of the whole call. ``REDIS_URL`` names another server.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Iterator
from typing import Any

import redis

from benchmarks.environment import server_url
from benchmarks.locks import set_up
from benchmarks.search import _busy_s

WORDS = [f"w{number:02}" for number in range(31)]
SORTS = ("price", "votes", "updated", "stock")
EVERYWHERE = {"near": (10.0, 50.0), "within": 20_000.0}
_numbers = itertools.count(time.time_ns())
SUM = {"relevance": 1.0, **dict.fromkeys(SORTS, 1.0)}


def searches() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield name, query and options of each search."""
    one, all_facets = ["kind"], ["kind", "tag", "rare"]
    synonyms = "w00 +" + " +".join(WORDS[1:])
    pairs = " ".join(f"{word} +{other}" for word, other in zip(WORDS[:16], WORDS[15:], strict=True))
    yield "one word, facets, by price", "all", {"order_by": "price", "facets": one}
    yield "one word, all facets, by price", "all", {"order_by": "price", "facets": all_facets}
    yield "one word, all facets, by relevance", "all", {"facets": all_facets}
    yield "31 synonyms, facets, by price", synonyms, {"order_by": "price", "facets": one}
    yield "31 synonyms, by price", synonyms, {"order_by": "price"}
    yield "a word and 31 synonyms, facets", f"all {synonyms}", {"order_by": "price", "facets": all_facets}
    yield "16 pairs of synonyms, by price", pairs, {"order_by": "-price"}
    yield "16 pairs of synonyms, facets", pairs, {"order_by": "-price", "facets": all_facets}
    yield "16 words, facets", " ".join(WORDS[:16]), {"order_by": "price", "facets": all_facets}
    yield "a beginning, facets", "w", {"prefix": True, "facets": all_facets, "order_by": "price"}
    yield "a word and a beginning, facets", "all w", {"prefix": True, "facets": all_facets, "order_by": "price"}
    yield "synonyms and a beginning, facets", "all +w01 +w02 w03 +w04 w", {
        "prefix": True, "facets": all_facets, "order_by": "price"
    }  # fmt: skip
    yield "near, facets, by distance", "all", {"facets": all_facets, "order_by": "distance", **EVERYWHERE}
    yield (
        "near, a beginning, facets",
        "all w",
        {"prefix": True, "facets": all_facets, "order_by": "price", **EVERYWHERE},
    )
    yield "near, 16 words, sum of orders", " ".join(WORDS[:16]), {
        "facets": all_facets, "order_by": {**SUM, "distance": 1.0}, **EVERYWHERE
    }  # fmt: skip
    yield "sum of orders, facets", "all w00", {"order_by": SUM, "facets": all_facets}
    yield "filters, facets", "all", {"filters": {"kind": "k1"}, "order_by": "price", "facets": all_facets}
    yield (
        "16 exclusions",
        "all " + " ".join(f"-x{number}" for number in range(16)),
        {"order_by": "price", "facets": one},
    )
    yield "4 phrases", " ".join(f'"{WORDS[at]} {WORDS[at + 1]}"' for at in range(0, 8, 2)), {"order_by": "price"}
    yield "16 excluded phrases", "all " + " ".join(f'-"{WORDS[at + 1]} {WORDS[at]}"' for at in range(16)), {
        "order_by": "price", "facets": all_facets
    }  # fmt: skip


def main() -> None:
    """Fill the index, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=9_900, help="documents in the index (default: 9900)")
    parser.add_argument("--rounds", type=int, default=5, help="searches of each kind (default: 5)")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options)


def measure(url: str, options: argparse.Namespace) -> None:
    """Fill the index and send each search, the most expensive first in the report."""
    set_up(url)
    from django_redis_components.search import SearchIndex

    raw, index, rng = redis.Redis.from_url(url), SearchIndex("hostile", language=None), random.Random(1)
    if index.count() != options.documents:
        _fill(index, rng, options.documents)
    raw.config_set("slowlog-log-slower-than", 0)
    rows = [_row(raw, index, options.rounds, *each) for each in searches()]
    for milliseconds, longest, name, page in sorted(rows, reverse=True, key=lambda row: row[:3]):
        partial = "partial" if page.is_partial else ""
        count = page.paginator.count
        print(f"{name:40} {milliseconds:7.1f} ms   longest {longest:7.1f} ms   {count:6,} found   {partial}")


def _row(raw: Any, index: Any, rounds: int, name: str, query: str, options: dict[str, Any]) -> tuple[Any, ...]:
    raw.slowlog_reset()
    before = _busy_s(raw)
    for _ in range(rounds):
        page = index.search(f"-unknown{next(_numbers)} {query}", **options)  # each is new: no stored result is used
    used_ms = (_busy_s(raw) - before) * 1_000 / rounds
    longest = max(each["duration"] for each in raw.slowlog_get(128)) / 1_000
    return used_ms, longest, name, page


def _fill(index: Any, rng: random.Random, count: int) -> None:
    text = " ".join(["all", *WORDS])
    for number in range(count):
        index.add(
            number,
            text,
            facets={
                "kind": [f"k{value}" for value in range(40)],
                "tag": [f"t{value}" for value in range(12)],
                "rare": [f"r{rng.randrange(10**9)}" for _ in range(12)],
            },
            location=(rng.uniform(-180, 180), rng.uniform(-80, 80)),
            sort_values={name: rng.random() for name in SORTS},
        )


if __name__ == "__main__":
    main()
