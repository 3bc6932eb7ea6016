"""What the server tells of a lock."""

from __future__ import annotations

import math

import pytest

from django_redis_components.locks import Lock, MultiLock
from django_redis_components.locks import state as states
from tests.locks.steps import Steps
from tests.support import Store, run_async


def queued(name: str) -> Steps:
    steps = Steps(Lock("stock").flows.acquire(token=name))
    steps.perform()
    return steps


def test_inspect_of_a_free_lock_is_empty(store: Store) -> None:
    state = Lock("stock").inspect()

    assert (state.holder, state.fencing_token, state.age, state.remaining) == (None, None, 0.0, 0.0)
    assert (state.waiting, state.waiters) == (0, ())
    assert store.keys() == []


@pytest.mark.parametrize("ticket", ["inf", "-inf", "-5", "9e300"])
def test_inspect_reads_a_ticket_that_is_no_time(redis_server: Store, ticket: str) -> None:
    Lock("stock").acquire()
    queued("waiter")
    redis_server.raw.zadd(f"{redis_server.prefix}:locks:{{stock}}:queue", {"waiter": ticket})

    assert Lock("stock").inspect().waiters == ("waiter",)


def test_inspect_reports_holder_grant_time_and_expiry(store: Store) -> None:
    held = Lock("stock", timeout=9)
    held.acquire()
    store.raw.set(f"{store.prefix}:locks:{{stock}}:fence", held.fencing_token - 5_000_000)

    state = Lock("stock").inspect()

    assert state.holder == held.token
    assert state.fencing_token == held.fencing_token - 5_000_000
    assert 5 <= state.age < 60
    assert 0 < state.remaining <= 9


def test_fencing_token_of_the_last_grant_remains_when_the_lock_is_free(store: Store) -> None:
    with Lock("stock") as held:
        number = held.fencing_token

    state = Lock("stock").inspect()

    assert (state.holder, state.fencing_token, state.age) == (None, number, 0.0)


def test_waiters_are_listed_in_queue_order(store: Store) -> None:
    Lock("stock").acquire()
    for name in ("one", "two", "three"):
        queued(name)

    state = Lock("stock").inspect()

    assert (state.waiting, state.waiters) == (3, ("one", "two", "three"))


def test_dead_waiters_are_not_listed_and_not_removed(store: Store) -> None:
    Lock("stock").acquire()
    queued("dead")
    queued("living")
    base = f"{store.prefix}:locks:{{stock}}"
    store.raw.zadd(f"{base}:asked", {"dead": 1})

    state = Lock("stock").inspect()

    assert (state.waiting, state.waiters) == (1, ("living",))
    assert store.raw.zcard(f"{base}:queue") == 2


def test_long_queue_is_counted_and_listed_in_part(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "MAX_LISTED", 2)
    Lock("stock").acquire()
    for name in ("one", "two", "three"):
        queued(name)

    state = Lock("stock").inspect()

    assert (state.waiting, state.waiters) == (3, ("one", "two"))


def test_holder_of_a_key_without_ttl_has_no_expiry(redis_server: Store) -> None:
    redis_server.raw.set(f"{redis_server.prefix}:locks:{{stock}}", "for ever")

    state = Lock("stock").inspect()

    assert (state.holder, state.remaining, state.age) == ("for ever", math.inf, 0.0)


def test_ainspect_reports_the_same_state(redis_server: Store) -> None:
    async def main() -> None:
        async with Lock("stock") as held:
            assert (await held.ainspect()).holder == held.token

    run_async(main)


def test_holder_that_is_not_utf8_is_reported(redis_server: Store) -> None:
    redis_server.raw.set(f"{redis_server.prefix}:locks:{{stock}}", b"\xff1", px=60_000)

    assert Lock("stock").inspect().holder == "\\xff1"


@pytest.fixture(params=["items", None], ids=["group", "spread"])
def group(request: pytest.FixtureRequest) -> str | None:
    return request.param


def test_inspect_of_several_names_reports_each_name(store: Store, group: str | None) -> None:
    free = MultiLock("a", "b", group=group).inspect()
    with MultiLock("b", group=group, timeout=9) as held:
        token, number = held.token, held.fencing_tokens["b"]
        found = MultiLock("b", "a", group=group).inspect()

    assert {name: state.holder for name, state in free.items()} == {"a": None, "b": None}
    assert list(found) == ["a", "b"]
    assert (found["a"].holder, found["a"].fencing_token, found["a"].waiters) == (None, None, ())
    assert (found["b"].holder, found["b"].fencing_token) == (token, number)
    assert 0 < found["b"].remaining <= 9
    assert 0 <= found["b"].age < 9


def test_inspect_of_a_group_reports_a_queue_for_each_name(store: Store) -> None:
    MultiLock("a", group="items").acquire()
    for name, wanted in {"one": "a", "two": "ab", "dead": "ab", "three": "b"}.items():
        steps = Steps(MultiLock(*wanted, group="items").flows.acquire(token=name))
        steps.perform()
    store.raw.zadd(f"{store.prefix}:locks:{{items}}:group:asked", {"dead": 1})

    found = MultiLock("a", "b", group="items").inspect()

    assert (found["a"].waiting, found["a"].waiters) == (2, ("one", "two"))
    assert (found["b"].waiting, found["b"].waiters) == (2, ("two", "three"))


def test_long_queue_of_a_group_is_counted_and_listed_in_part(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "MAX_LISTED", 2)
    MultiLock("a", group="items").acquire()
    for name in ("one", "two", "three"):
        steps = Steps(MultiLock("a", group="items").flows.acquire(token=name))
        steps.perform()

    state = MultiLock("a", group="items").inspect()["a"]

    assert (state.waiting, state.waiters) == (3, ("one", "two"))


def test_ainspect_reports_the_same_state_of_several_names(store: Store, group: str | None) -> None:
    lock = MultiLock("a", "b", group=group)

    assert run_async(lock.ainspect) == lock.inspect()
