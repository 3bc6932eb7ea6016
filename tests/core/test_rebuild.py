"""Rebuilds of all components: a killed one changes nothing, expires, and is written to no longer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from django_redis_components.core.rebuild import TTL_MS
from django_redis_components.exceptions import RebuildSuperseded
from tests.core.rebuilders import KINDS
from tests.support import Store, eventually, run_async
from tests.support.processes import Children


@pytest.mark.parametrize("kind", KINDS)
def test_killed_rebuild_changes_nothing_and_expires(redis_server: Store, children: Children, kind: str) -> None:
    rebuilt = KINDS[kind]()
    rebuilt.rebuild([rebuilt.item(1)])
    before = set(redis_server.keys())

    child = children.call("tests.core.rebuilders:load_and_stop", kind)
    child.wait_for("loaded")
    child.kill()

    assert [rebuilt.finds(number) for number in (1, 100)] == [True, False]
    [build] = [key for key in set(redis_server.keys()) - before if key.endswith(b":build")]
    assert 0 < redis_server.raw.pttl(build) <= TTL_MS
    if rebuilt.write is not None:
        rebuilt.write(2)
        assert rebuilt.finds(2)

    expire(redis_server, before)
    for _ in range(20 if rebuilt.write is not None else 0):
        rebuilt.write(1)

    left = {key for key in set(redis_server.keys()) - before if b"word2" not in key and b":r:" not in key}
    assert left <= {build.replace(b":build", suffix) for suffix in (b":gen", b":results")}
    assert rebuilt.finds(1)
    assert rebuilt.rebuild([rebuilt.item(3)]) == 1
    assert [rebuilt.finds(number) for number in (1, 3)] == [False, True]


@pytest.mark.parametrize("kind", KINDS)
def test_rebuild_continues_after_a_killed_one(redis_server: Store, children: Children, kind: str) -> None:
    rebuilt = KINDS[kind]()
    child = children.call("tests.core.rebuilders:load_and_stop", kind)
    child.wait_for("loaded")
    child.kill()

    assert rebuilt.rebuild([rebuilt.item(3)]) == 1

    assert [rebuilt.finds(number) for number in (3, 100)] == [True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_expired_rebuild_raises_and_leaves_the_data(redis_server: Store, kind: str) -> None:
    rebuilt = KINDS[kind]()
    rebuilt.rebuild([rebuilt.item(1)])
    before = set(redis_server.keys())

    def items() -> Iterator[Any]:
        yield from map(rebuilt.item, range(100, 101 + rebuilt.chunk))
        expire(redis_server, before)

    with pytest.raises(RebuildSuperseded, match=r"was discarded: a later one started, 900 s passed between two chunks"):
        rebuilt.rebuild(items())

    assert [rebuilt.finds(number) for number in (1, 100)] == [True, False]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("items", ["abc", b"abc", 7, None])
def test_items_that_are_no_iterable_are_an_error(redis_server: Store, kind: str, items: object) -> None:
    rebuilt = KINDS[kind]()

    with pytest.raises(TypeError, match=r"^items=.*: expected an iterable of items\.$"):
        rebuilt.rebuild(items)  # type: ignore[arg-type]

    assert redis_server.keys() == []


@pytest.mark.parametrize("kind", KINDS)
def test_asynchronous_iterables_are_loaded_in_chunks(redis_server: Store, kind: str) -> None:
    rebuilt = KINDS[kind]()

    async def items() -> AsyncIterator[Any]:
        for number in range(rebuilt.chunk + 1):
            yield rebuilt.item(number)

    assert run_async(lambda: rebuilt.arebuild(items())) == rebuilt.chunk + 1
    assert [rebuilt.finds(number) for number in (0, rebuilt.chunk)] == [True, True]


def expire(store: Store, before: set[bytes]) -> None:
    """Let the keys of a rebuild expire, as after 15 minutes."""
    expiring = [key for key in set(store.keys()) - before if store.raw.pttl(key) > 0]
    for key in expiring:
        store.raw.pexpire(key, 1)
    eventually(lambda: store.raw.exists(*expiring) == 0)
