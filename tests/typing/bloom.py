"""Bloom filters and sketches."""

from __future__ import annotations

from typing import assert_type

from django_redis_components.bloom import BloomFilter, CountMinSketch, TopItem, TopK


async def right() -> None:
    seen = BloomFilter("seen", 1_000)
    assert_type(seen.add("a"), bool)
    assert_type(BloomFilter("seen", 1_000, parts=4).parts, int)
    assert_type(await seen.aadd_many(["a", 1]), list[bool])
    assert_type(CountMinSketch("hits").add_many({"a": 1}), list[int])
    assert_type(TopK("pages", 10).top(), list[TopItem])


def wrong() -> None:
    BloomFilter("seen")  # type: ignore[call-arg]
    BloomFilter("seen", 1_000, 0.1)  # type: ignore[call-arg]
    BloomFilter("seen", 1_000).add(["a"])  # type: ignore[arg-type]
    TopK("pages", "10")  # type: ignore[arg-type]
