"""The log of queries: what is written, what is not, and that it stays small and expires."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from django_redis_components.search import QueryStats, SearchIndex
from django_redis_components.search import query_log as module
from tests.support import Store, run_async


def log_keys(store: Store) -> list[bytes]:
    return sorted(key for key in store.keys() if b":slow:" in key or b":empty:" in key)  # noqa: SIM118 - no dict


@pytest.mark.contract
def test_queries_without_result_are_counted(store: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "cat", facets={"kind": "pet"})

    for query in ("Unicorn", "unicorn  ", "uni\x00corn", "cat", "the", "", "dragon \ud800"):
        index.search(query)
    index.search("drago", prefix=True)
    index.search("cat", filters={"kind": "dog"})
    run_async(lambda: index.asearch("unicorn"))

    counts = index.query_stats().without_result
    assert (counts[0], set(counts[1:])) == (("unicorn", 3), {("uni corn", 1), ("dragon", 1)})
    assert run_async(index.aquery_stats) == index.query_stats()
    assert all(0 < store.raw.pttl(key) <= module.TTL_MS for key in log_keys(store))


@pytest.mark.contract
def test_slow_queries_keep_their_longest_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_S", 0.0)
    index = SearchIndex("items")
    index.add(1, "cat")

    for query in ("cat", "cat", "ca"):
        index.search(query, prefix=query == "ca")

    stats = index.query_stats()
    assert {query for query, _ in stats.slowest} == {"cat", "ca"}
    assert all(0 <= seconds < 10 for _, seconds in stats.slowest)
    assert stats.without_result == ()


def test_fast_queries_with_a_result_are_not_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_S", 1_000)
    index = SearchIndex("items")
    index.add(1, "cat")

    index.search("cat")

    assert log_keys(store) == []
    assert index.query_stats() == QueryStats((), ())


def test_log_can_be_switched_off(store: Store) -> None:
    index = SearchIndex("items", log_queries=False)

    index.search("unicorn")

    assert log_keys(store) == []
    with pytest.raises(TypeError, match=r"^log_queries='no': expected True or False\.$"):
        SearchIndex("items", log_queries="no")  # type: ignore[arg-type]


def test_log_is_bounded(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EMPTY", 5)
    index = SearchIndex("items")

    for number in range(12):
        index.search("often")
        index.search(f"word{number} " + "x" * 300)

    [key] = [key for key in log_keys(redis_server) if b":empty:" in key]
    assert redis_server.raw.zcard(key) == 5
    assert index.query_stats().without_result[0] == ("often", 12)
    assert all(len(query) <= module.MAX_CHARS for query, _ in index.query_stats().without_result)


def test_broken_log_does_not_fail_a_search(redis_server: Store) -> None:
    index = SearchIndex("items")
    index.search("unicorn")
    [key] = [key for key in log_keys(redis_server) if b":empty:" in key]
    redis_server.raw.delete(key)
    redis_server.raw.set(key, "no zset")

    assert index.search("unicorn").paginator.count == 0
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        index.query_stats()
