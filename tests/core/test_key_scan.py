"""A scan of all keys reaches every key of every primary, in bounded steps, and says how far it is."""

from __future__ import annotations

import pytest

from django_redis_components.core import key_scan
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command, Read, arun, run
from tests.support import Store, run_async

pytestmark = pytest.mark.integration


def stored_keys(store: Store, count: int) -> set[bytes]:
    """Write keys in different slots, one of which is not UTF-8; return their names."""
    names = {f"{store.prefix}:sample:{{{number}}}".encode() for number in range(count)}
    names.add(f"{store.prefix}:sample:".encode() + b"\xff")
    client = connections.client()
    client.execute_many([Command("SET", name, "", retry=True) for name in names])
    return names


@pytest.mark.contract
def test_scan_yields_all_keys_of_all_primaries_and_counts_what_it_has_looked_at(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_scan, "COUNT", 20)
    names, client, looked_at = stored_keys(store, 100), connections.client(), list[int]()

    steps = list(key_scan.scan_keys(client, f"{key_scan.escape_glob(store.prefix)}:sample:*", looked_at.append))

    assert sorted(key for step in steps for key in step) == sorted(names)
    assert len(looked_at) == len(steps) > 1
    assert sum(looked_at) == run(client, key_scan.count_keys(client.key_per_primary())) >= len(names)


@pytest.mark.contract
def test_steps_of_a_scan_continue_in_a_coroutine(store: Store) -> None:
    names = stored_keys(store, 100)

    async def scan() -> tuple[set[bytes], int]:
        client, found, steps = connections.aclient(), set[bytes](), 0
        cursors = key_scan.start(await client.key_per_primary())
        while cursors:
            keys, cursors = await arun(client, key_scan.scan_step(cursors, f"{store.prefix}:sample:*", count=20))
            found, steps = found | set(keys), steps + 1
        return found, steps

    found, steps = run_async(scan)

    assert found == names
    assert steps > 1


def test_step_scans_some_primaries_and_keeps_the_cursors_of_the_others(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_scan, "MAX_SCANS", 2)
    cursors = key_scan.start(["a", "b", "c"])  # keys on one primary stand for three

    assert key_scan.step_size(cursors, 10) == 20
    _, left = run(connections.client(), key_scan.scan_step(cursors, count=100_000))

    assert left == {"c": 0}


def test_pattern_of_a_literal_matches_only_it(redis_server: Store) -> None:
    literal = f"{redis_server.prefix}:a[b]*?^\\c-d"
    for name in (literal, f"{redis_server.prefix}:abxx^\\c-d"):
        redis_server.raw.set(name, "")

    [found] = key_scan.scan_keys(connections.client(), key_scan.escape_glob(literal), lambda _count: None)

    assert found == [literal.encode()]
    assert connections.client().execute(Read("EXISTS", literal)) == 1
