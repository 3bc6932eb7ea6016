"""Bloom filters: whether an item was seen before, in about 10 bits an item, with a known error.

Count-min sketches say how often an item occurred, and top lists which items occurred most, in a fixed size.

Guarantees:

- An item that was added is found: no false "no", also while the filter grows or is rebuilt.
- An item that was not added is found with a probability of at most `error_rate` up to the capacity, and beyond it if
  the filter grows.
- Of concurrent callers that add the same new item exactly one gets True.
- The parameters are stored. Other ones raise `FilterMismatch`, instead of reading the bits wrongly.
- Counts of sketches and top lists are never too small, and the bounds of their errors are known.
- `add` is sent once: after a lost reply it raises, because a repeated call would answer False for a new item,
  or count it twice.

Keys, all in the slot of ``{name}`` but those of further parts, without a TTL unless noted:

==========================================  ======  =================================================
``<prefix>:bloom:{<name>}:v1:meta``         hash    parameters, generation, layers, items by layer
``…:v1:<generation>:<number>``              string  the bits of a layer
``…:v1:build``                              string  token of the active rebuild; 15 minutes after its last chunk
``…:v1:<token>:meta``, its layers           hash    what a rebuild has loaded; 15 minutes after its last chunk
``…:v1:built``                              string  token of the last rebuild that was finished; 10 minutes
``…:v1:parts``                              string  how many parts may exist, until a rebuild has changed their number
``…:bloom:{<name>:<part>}:v1:part:…``       all     each part of a filter but the first
``<prefix>:bloom:{<name>}:cm1``             string  a count-min sketch: header, counters; TTL if `ttl`
``<prefix>:bloom:{<name>}:tk1:counts``      zset    a top list: item to count; TTL if `ttl`
``…:tk1:errors``                            hash    item to error; TTL if `ttl`
``…:tk1:meta``                              hash    parameters, sum of all counts; TTL if `ttl`
==========================================  ======  =================================================

Without a TTL, `delete` removes them. The server must not evict these keys: an evicted layer would lose items.

Example::

    from django_redis_components.bloom import BloomFilter, TopK

    seen = BloomFilter("feed urls", capacity=1_000_000, error_rate=0.001)
    if seen.add("https://example.org/1"):
        print("new")
    assert seen.contains("https://example.org/1")
    print(seen.info().expected_error, BloomFilter.plan(1_000_000, 0.001).bytes)

    searches = TopK("searches", 10)
    searches.add("lamp")
    print(searches.top())

See also: docs/components/bloom.md.
"""

from __future__ import annotations

from django_redis_components.bloom.count_min import CountMinInfo, CountMinPlan, CountMinSketch
from django_redis_components.bloom.exceptions import BloomError, FilterMismatch, SketchMismatch
from django_redis_components.bloom.filter import BloomFilter
from django_redis_components.bloom.info import BloomInfo
from django_redis_components.bloom.plans import BloomPlan
from django_redis_components.bloom.top_k import TopItem, TopK, TopKInfo

__all__ = [
    "BloomError",
    "BloomFilter",
    "BloomInfo",
    "BloomPlan",
    "CountMinInfo",
    "CountMinPlan",
    "CountMinSketch",
    "FilterMismatch",
    "SketchMismatch",
    "TopItem",
    "TopK",
    "TopKInfo",
]
