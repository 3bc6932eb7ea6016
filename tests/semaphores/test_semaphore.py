"""What a semaphore promises, on every store."""

from __future__ import annotations

import re

import pytest

from django_redis_components.core.client.connections import client
from django_redis_components.core.leasing.scripts import CONFIRM
from django_redis_components.core.protocol import Command
from django_redis_components.semaphores import PermitNotOwned, Semaphore, SemaphoreError, SemaphoreFull
from django_redis_components.semaphores.permits import PermitKind
from django_redis_components.semaphores.scripts import SET_LIMIT
from tests.locks.steps import is_released
from tests.support import Store, eventually


def key_of(store: Store) -> str:
    return f"{store.prefix}:semaphores:{{pool}}"


def test_permits_are_granted_up_to_the_limit(store: Store) -> None:
    granted = [Semaphore("pool", 3, blocking=False).acquire() for _ in range(5)]

    assert granted == [True, True, True, False, False]
    assert store.raw.zcard(key_of(store)) == 3


def test_released_permit_can_be_acquired_by_others(store: Store) -> None:
    first, second = Semaphore("pool", 1, blocking=False), Semaphore("pool", 1, blocking=False)
    first.acquire()
    assert not second.acquire()

    first.release()

    assert second.acquire()


def test_semaphores_with_different_names_are_independent(store: Store) -> None:
    assert Semaphore("pool", 1, blocking=False).acquire()
    assert Semaphore("lake", 1, blocking=False).acquire()


def test_object_may_be_acquired_several_times(store: Store) -> None:
    semaphore = Semaphore("pool", 2, blocking=False)

    assert [semaphore.acquire() for _ in range(3)] == [True, True, False]
    assert [is_released(semaphore) for _ in range(3)] == [True, True, False]
    assert semaphore.available() == 2


def test_several_permits_are_acquired_all_or_none(store: Store) -> None:
    semaphore = Semaphore("pool", 5, blocking=False)

    assert semaphore.acquire(3)
    assert not semaphore.acquire(3)
    assert semaphore.available() == 2
    assert semaphore.acquire(2)
    assert semaphore.available() == 0


def test_several_permits_are_released_at_once(store: Store) -> None:
    semaphore = Semaphore("pool", 5, blocking=False)
    semaphore.acquire(5)

    semaphore.release()

    assert semaphore.available() == 5
    assert not store.raw.exists(key_of(store))


def test_permits_expire_by_the_server_clock(store: Store) -> None:
    Semaphore("pool", 1, timeout=0.02, blocking=False).acquire()
    other = Semaphore("pool", 1, blocking=False)

    eventually(other.acquire)


@pytest.mark.contract
def test_expired_permit_is_not_counted_beside_a_valid_one(store: Store) -> None:
    Semaphore("pool", 2, timeout=60, blocking=False).acquire()
    late, other = Semaphore("pool", 2, timeout=0.02, blocking=False), Semaphore("pool", 2, blocking=False)
    late.acquire()
    eventually(lambda: late.available() == 1)

    assert other.acquire()

    with pytest.raises(PermitNotOwned):
        late.reacquire()
    with pytest.raises(PermitNotOwned):
        late.release()
    assert not Semaphore("pool", 2, blocking=False).acquire()


def test_client_clock_does_not_affect_expiry(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    Semaphore("pool", 1, timeout=5, blocking=False).acquire()
    monkeypatch.setattr("time.time", lambda: 4e9)

    assert not Semaphore("pool", 1, blocking=False).acquire()
    assert Semaphore("pool", 1, blocking=False).available() == 0


def test_idle_semaphore_leaves_no_keys(store: Store) -> None:
    long, short = Semaphore("pool", 5, timeout=9, blocking=False), Semaphore("pool", 5, timeout=2, blocking=False)
    long.acquire()
    short.acquire(2)

    assert 8_000 < store.raw.pttl(key_of(store)) <= 9_000
    long.release()
    short.release()
    assert store.keys() == []


def test_every_key_has_a_ttl(store: Store) -> None:
    holder, waiter = Semaphore("pool", 1, blocking=False), Semaphore("pool", 1, blocking_timeout=0.02)
    holder.acquire()
    waiter.acquire()

    ttls = {key: store.raw.pttl(key) for key in store.keys()}  # noqa: SIM118

    assert ttls
    assert all(ttl > 0 for ttl in ttls.values()), ttls


def test_release_raises_when_the_lease_expired(store: Store) -> None:
    late, other = Semaphore("pool", 1, timeout=0.02, blocking=False), Semaphore("pool", 1, blocking=False)
    late.acquire()
    eventually(other.acquire)

    with pytest.raises(PermitNotOwned) as caught:
        late.release()

    assert str(caught.value) == "Permit of semaphore 'pool' cannot be released: its lease had expired."
    assert other.available() == 0


def test_release_and_extend_raise_without_a_permit(store: Store) -> None:
    Semaphore("pool", 1, blocking=False).acquire()
    other = Semaphore("pool", 1, blocking=False)

    for use in (other.release, other.reacquire, lambda: other.extend(60)):
        with pytest.raises(PermitNotOwned) as caught:
            use()
        assert str(caught.value) == (
            "Permit of semaphore 'pool' is not held by this thread or task: not acquired here, or released."
        )

    assert other.available() == 0


def test_reacquire_sets_the_full_lease_again(store: Store) -> None:
    semaphore = Semaphore("pool", 5, timeout=60, blocking=False)
    semaphore.acquire(2)
    store.raw.zadd(key_of(store), {member: score - 50_000 for member, score in _members(store)})

    assert semaphore.reacquire() is True

    [holder] = semaphore.inspect().holders
    assert 30 < holder.remaining <= 60.1
    assert store.raw.pttl(key_of(store)) > 30_000


def test_extend_never_shortens_the_lease(store: Store) -> None:
    semaphore = Semaphore("pool", 5, timeout=1, blocking=False)
    semaphore.acquire()
    store.raw.zadd(key_of(store), {member: score + 60_000 for member, score in _members(store)})

    assert semaphore.extend(30)

    assert semaphore.inspect().holders[0].remaining > 30


def test_extend_sets_a_longer_lease(store: Store) -> None:
    semaphore = Semaphore("pool", 5, timeout=5)
    semaphore.acquire(2)

    assert semaphore.extend(60)

    [holder] = semaphore.inspect().holders
    assert 30 < holder.remaining <= 60.1
    assert 30 < semaphore.remaining() <= 60


def test_extend_of_an_expired_permit_raises_and_acquires_none(store: Store) -> None:
    late, other = Semaphore("pool", 1, timeout=0.02, blocking=False), Semaphore("pool", 1, blocking=False)
    late.acquire()
    eventually(other.acquire)

    with pytest.raises(PermitNotOwned, match="cannot be extended: its lease had expired"):
        late.extend(60)

    assert store.raw.zcard(key_of(store)) == 1


@pytest.mark.contract
def test_available_does_not_count_expired_permits(store: Store) -> None:
    semaphore = Semaphore("pool", 3, timeout=60, blocking=False)
    semaphore.acquire()
    store.raw.zadd(key_of(store), {member: 1 for member, _ in _members(store)})

    assert semaphore.available() == 3
    assert semaphore.inspect().holders == ()


def test_available_is_never_negative(store: Store) -> None:
    Semaphore("pool", 5, blocking=False).acquire(5)

    assert Semaphore("pool", 3, blocking=False).available() == 0


def test_inspect_lists_holders_in_order_of_expiry(store: Store) -> None:
    Semaphore("pool", 9, timeout=60, blocking=False).acquire(3)
    Semaphore("pool", 9, timeout=30, blocking=False).acquire()

    first, second = Semaphore("pool", 9, blocking=False).inspect().holders

    assert (first.permits, second.permits) == (1, 3)
    assert 15 < first.remaining <= 30
    assert 45 < second.remaining <= 60
    assert first.token != second.token


def test_each_object_applies_its_own_limit(store: Store) -> None:
    assert [Semaphore("pool", 5, blocking=False).acquire() for _ in range(4)] == [True] * 4

    assert not Semaphore("pool", 3, blocking=False).acquire()
    assert Semaphore("pool", 5, blocking=False).acquire()


def test_with_keeps_a_permit_during_the_block(store: Store) -> None:
    semaphore = Semaphore("pool", 1, blocking=False)

    with semaphore as held:
        assert held is semaphore
        assert semaphore.available() == 0

    assert semaphore.available() == 1


def test_with_raises_when_the_semaphore_is_full(store: Store) -> None:
    Semaphore("pool", 3, blocking=False).acquire(3)

    with pytest.raises(SemaphoreFull) as caught, Semaphore("pool", 3, blocking=False):
        pytest.fail("the block ran")

    assert str(caught.value) == "Semaphore 'pool' is full: all 3 permits are held by other owners."
    assert (caught.value.name, caught.value.limit, caught.value.waited) == ("pool", 3, 0)
    assert isinstance(caught.value, SemaphoreError)


def test_with_raises_after_blocking_timeout(store: Store) -> None:
    Semaphore("pool", 1, blocking=False).acquire()

    with pytest.raises(SemaphoreFull) as caught, Semaphore("pool", 1, blocking_timeout=0.02):
        pytest.fail("the block ran")

    assert str(caught.value) == "Semaphore 'pool' is still full after 0.02 s: its only permit is held by other owners."


def test_with_raises_when_the_permit_expired_before_the_block_ended(store: Store) -> None:
    with pytest.raises(PermitNotOwned, match="cannot be released"), Semaphore("pool", 1):
        store.raw.delete(key_of(store))


def test_error_of_the_block_takes_precedence_over_an_expired_permit(store: Store) -> None:
    def block() -> None:
        with Semaphore("pool", 1):
            store.raw.delete(key_of(store))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        block()

    assert "PermitNotOwned on leaving the block" in caught.value.__notes__[0]


def test_acquire_waits_by_default(store: Store) -> None:
    Semaphore("pool", 1, timeout=0.05).acquire()

    assert Semaphore("pool", 1).acquire()


def test_acquire_may_override_blocking(store: Store) -> None:
    Semaphore("pool", 1, timeout=60).acquire()
    semaphore = Semaphore("pool", 1)

    assert not semaphore.acquire(blocking=False)
    assert not semaphore.acquire(blocking_timeout=0.01)


def test_locked_reports_whether_all_permits_are_held(store: Store) -> None:
    semaphore = Semaphore("pool", 2)
    semaphore.acquire()

    assert (semaphore.locked(), semaphore.owned()) == (False, True)
    semaphore.acquire()
    assert semaphore.locked()
    assert not Semaphore("pool", 2).owned()


def test_with_releases_when_the_block_raises(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), Semaphore("pool", 1, blocking=False):
        1 / 0  # noqa: B018

    assert Semaphore("pool", 1, blocking=False).available() == 1


def test_blocks_may_be_nested(store: Store) -> None:
    semaphore = Semaphore("pool", 2, blocking=False)

    with semaphore, semaphore:
        assert semaphore.available() == 0

    assert semaphore.available() == 2


def test_script_is_sent_again_after_script_flush(store: Store) -> None:
    semaphore = Semaphore("pool", 1, blocking=False)
    asking = (semaphore.acquire, semaphore.reacquire, semaphore.available, semaphore.inspect, semaphore.release)
    for ask in (*asking, lambda: semaphore.set_limit(2)):
        store.raw.script_flush()
        ask()

    assert semaphore.available() == 2


def test_key_of_another_type_raises(store: Store) -> None:
    store.raw.set(key_of(store), "text")

    with pytest.raises(Exception, match="WRONGTYPE"):
        Semaphore("pool", 1, blocking=False).acquire()


def test_acquire_and_release_cost_one_round_trip_each(redis_server: Store) -> None:
    with Semaphore("warm", 1, blocking=False):
        pass
    before = _commands_sent()

    with Semaphore("pool", 1, blocking=False):
        pass

    assert _commands_sent() - before == 2 + 1  # and the question itself


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"name": ""}, ValueError, "semaphore name is empty"),
        ({"name": 7}, TypeError, "semaphore name 7: expected a string, got int."),
        ({"name": "a{b"}, ValueError, "braces are not accepted"),
        ({"name": "x" * 201}, ValueError, "has 201 bytes: expected at most 200"),
        ({"limit": 0}, ValueError, "limit=0: expected an integer from 1 to 1000000."),
        ({"limit": 1_000_001}, ValueError, "limit=1000001: expected an integer from 1 to 1000000."),
        ({"limit": 2.0}, TypeError, "limit=2.0: expected an integer"),
        ({"limit": True}, TypeError, "limit=True: expected an integer"),
        ({"timeout": -1}, ValueError, "timeout=-1: expected a number of seconds above 0"),
        ({"timeout": "10"}, TypeError, "timeout='10': expected a number of seconds above 0, or a timedelta."),
        ({"timeout": float("nan")}, ValueError, "timeout=nan: expected a number of seconds above 0"),
        (
            {"blocking": True, "blocking_timeout": -1},
            ValueError,
            "blocking_timeout=-1: expected a number of seconds of",
        ),
        ({"blocking": False, "blocking_timeout": 1}, ValueError, "blocking_timeout=1 requires blocking=True."),
        ({"blocking": "no"}, TypeError, "blocking='no': expected True or False."),
        ({"renew": 1}, TypeError, "renew=1: expected True or False."),
        ({"blocking": True, "blocking_timeout": "1"}, TypeError, "blocking_timeout='1': expected"),
    ],
)
def test_invalid_argument_is_refused(arguments: dict[str, object], error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        Semaphore(**({"name": "pool", "limit": 3} | arguments))

    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("limit", "permits", "error", "text"),
    [
        (3, 0, ValueError, "permits=0: expected an integer from 1 to 3."),
        (3, 4, ValueError, "permits=4: expected an integer from 1 to 3."),
        (9_999, 1_001, ValueError, "permits=1001: expected an integer from 1 to 1000."),
        (3, "2", TypeError, "permits='2': expected an integer"),
    ],
)
def test_invalid_number_of_permits_is_refused(
    redis_server: Store, limit: int, permits: object, error: type, text: str
) -> None:
    with pytest.raises(error) as caught:
        Semaphore("pool", limit, blocking=False).acquire(permits)

    assert text in str(caught.value)
    assert redis_server.keys() == []


def test_thousand_permits_may_be_acquired_at_once(store: Store) -> None:
    semaphore = Semaphore("pool", 5_000, blocking=False)

    assert semaphore.acquire(1_000)
    assert semaphore.available() == 4_000
    semaphore.release()
    assert semaphore.available() == 5_000


def test_all_scripts_but_release_are_idempotent() -> None:
    declared = [*vars(PermitKind.scripts).values(), SET_LIMIT, CONFIRM]

    assert {script.name: script.idempotent for script in declared} == {
        "acquire": True,
        "release": False,
        "confirm": True,
        "abandon": True,
        "extend": True,
        "read": True,
        "set_limit": True,
        "inspect": True,
    }


def test_repr_shows_the_name() -> None:
    assert repr(Semaphore("pool", 3, blocking=False)) == "<Semaphore 'pool' of 3>"


def _members(store: Store) -> list[tuple[bytes, float]]:
    return store.raw.zrange(key_of(store), 0, -1, withscores=True)


def _commands_sent() -> int:
    """Commands that clients have sent; those within scripts do not count."""
    reply = client().execute(Command("INFO", "commandstats", key="x")).decode()
    return sum(map(int, re.findall(r"cmdstat_(?:evalsha|eval|info):calls=(\d+)", reply)))
