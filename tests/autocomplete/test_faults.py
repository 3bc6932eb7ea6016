"""Lost replies and a Redis that is away."""

from __future__ import annotations

import pytest
from redis.exceptions import RedisError

from django_redis_components.autocomplete import PrefixIndex, RecentList, Suggestion
from django_redis_components.core.circuit_breaker import breaker_for
from tests.support import Proxy, Store, run_async


def test_add_is_repeated_after_a_lost_reply(proxy: Proxy) -> None:
    index = PrefixIndex("contacts", using="proxied")
    index.add(1, "Anna")
    proxy.drop_next_reply(after=b"{contacts}")

    index.add(1, "Bert", weight=2)

    assert proxy.dropped == 1
    assert index.complete("") == [Suggestion("1", "Bert")]


def test_remove_is_repeated_after_a_lost_reply(proxy: Proxy) -> None:
    index = PrefixIndex("contacts", using="proxied")
    index.add(1, "Anna")
    index.add(2, "Bert")
    proxy.drop_next_reply(after=b"{contacts}")

    index.remove(1)

    assert proxy.dropped == 1
    assert index.complete("") == [Suggestion("2", "Bert")]


def test_complete_is_repeated_after_a_lost_reply(proxy: Proxy) -> None:
    index = PrefixIndex("contacts", using="proxied")
    index.add(1, "Anna")
    proxy.drop_next_reply(after=b"{contacts}")

    assert index.complete("an") == [Suggestion("1", "Anna")]
    assert proxy.dropped == 1


def test_async_methods_are_repeated_after_a_lost_reply(proxy: Proxy) -> None:
    index, recents = PrefixIndex("contacts", using="proxied"), RecentList("user:7", using="proxied")

    async def scene() -> list[Suggestion]:
        await index.aadd(1, "Anna")
        proxy.drop_next_reply(after=b"{contacts}")
        await index.aadd(2, "Anton")
        proxy.drop_next_reply(after=b"{user:7}")
        await recents.atouch(2)
        proxy.drop_next_reply(after=b"{contacts}")
        return await index.acomplete("an", recents=recents)

    assert run_async(scene) == [Suggestion("2", "Anton"), Suggestion("1", "Anna")]
    assert proxy.dropped == 3


@pytest.mark.parametrize("call", ["complete", "add", "remove", "rebuild", "touch"])
def test_redis_errors_reach_the_caller_during_an_outage(proxy: Proxy, call: str) -> None:
    index, recents = PrefixIndex("contacts", using="proxied"), RecentList("user:7", using="proxied")
    proxy.stop_accepting()
    proxy.cut()
    calls = {
        "complete": lambda: index.complete("a"),
        "add": lambda: index.add(1, "Anna"),
        "remove": lambda: index.remove(1),
        "rebuild": lambda: index.rebuild([(1, "Anna")]),
        "touch": lambda: recents.touch(1),
    }

    with pytest.raises(RedisError):
        calls[call]()


def test_index_works_again_after_an_outage(proxy: Proxy) -> None:
    index = PrefixIndex("contacts", using="proxied")
    index.add(1, "Anna")
    proxy.stop_accepting()
    proxy.cut()
    with pytest.raises(RedisError):
        index.complete("a")

    proxy.accept_again()
    breaker_for("proxied").reset()  # five seconds later

    assert index.complete("a") == [Suggestion("1", "Anna")]


def test_rebuild_raises_and_keeps_the_index_when_redis_stops(proxy: Proxy, redis_server: Store) -> None:
    index = PrefixIndex("contacts", using="proxied")
    index.add(1, "Anna")

    def source():
        yield 2, "Bert"
        proxy.stop_accepting()
        proxy.cut()

    with pytest.raises(RedisError):
        index.rebuild(source())

    assert PrefixIndex("contacts").complete("") == [Suggestion("1", "Anna")]


def test_async_rebuild_raises_when_redis_stops(proxy: Proxy) -> None:
    index = PrefixIndex("contacts", using="proxied")

    async def source():
        yield 2, "Bert"
        proxy.stop_accepting()
        proxy.cut()

    async def scene() -> None:
        with pytest.raises(RedisError):
            await index.arebuild(source())

    run_async(scene)
    assert PrefixIndex("contacts").complete("") == []
