"""What a lock promises, on every store."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from django_redis_components.core.client.connections import client
from django_redis_components.core.leasing.scripted_kind import ScriptedKind
from django_redis_components.core.protocol import Command
from django_redis_components.locks import Lock, LockLost, LockNotAcquired, LockNotOwned
from django_redis_components.locks.group import GroupKind
from django_redis_components.locks.lock import PlainKind
from django_redis_components.locks.readwrite import ReadWriteKind
from tests.support import Store, eventually


def key_of(store: Store, name: str = "stock") -> str:
    return f"{store.prefix}:locks:{{{name}}}"


def test_acquire_succeeds_when_the_lock_is_free(store: Store) -> None:
    lock = Lock("stock")

    assert lock.acquire() is True
    assert store.raw.get(key_of(store)) == lock.token.encode()
    assert lock.locked()
    assert lock.owned()


def test_acquire_is_refused_when_the_lock_is_held(store: Store) -> None:
    held, other = Lock("stock"), Lock("stock")
    held.acquire()

    assert other.acquire(blocking=False) is False

    assert other.token is None
    assert other.locked()
    assert not other.owned()
    assert held.owned()


def test_acquire_succeeds_again_after_release(store: Store) -> None:
    lock, other = Lock("stock"), Lock("stock")
    lock.acquire()

    lock.release()

    assert not lock.locked()
    assert lock.token is None
    assert other.acquire(blocking=False)


def test_locks_with_different_names_are_independent(store: Store) -> None:
    assert Lock("stock").acquire(blocking=False)
    assert Lock("price").acquire(blocking=False)


def test_lease_lasts_for_the_timeout(store: Store) -> None:
    lock = Lock("stock", timeout=100)
    lock.acquire()

    assert 60_000 < store.raw.pttl(key_of(store)) <= 100_000
    assert 60 < lock.remaining() < 100


def test_timeout_may_be_a_timedelta(store: Store) -> None:
    Lock("stock", timeout=timedelta(minutes=2)).acquire()

    assert 90_000 < store.raw.pttl(key_of(store)) <= 120_000


def test_every_key_has_a_ttl(store: Store) -> None:
    holder, waiter = Lock("stock"), Lock("stock")
    holder.acquire()
    waiter.acquire(blocking_timeout=0.02)
    holder.release()

    ttls = {key: store.raw.pttl(key) for key in store.keys()}  # noqa: SIM118

    assert ttls
    assert all(ttl > 0 for ttl in ttls.values()), ttls


def test_released_lock_leaves_only_its_fence_which_expires_in_an_hour(store: Store) -> None:
    with Lock("stock", timeout=20):
        pass

    assert store.keys() == [f"{key_of(store)}:fence".encode()]
    assert 3_570_000 < store.raw.pttl(f"{key_of(store)}:fence") <= 3_620_000


def test_release_by_another_owner_raises(store: Store) -> None:
    held, other = Lock("stock"), Lock("stock")
    held.acquire()

    with pytest.raises(LockNotOwned) as caught:
        other.release()

    assert str(caught.value) == "Lock 'stock' is not held by this thread or task: not acquired here, or released."
    assert caught.value.name == "stock"
    assert held.owned()


def test_release_raises_when_another_owner_acquired_meanwhile(store: Store) -> None:
    late, thief = Lock("stock"), Lock("stock")
    late.acquire()
    store.raw.delete(key_of(store))
    thief.acquire()

    with pytest.raises(LockNotOwned) as caught:
        late.release()

    expected = "Lock 'stock' cannot be released: its lease had expired."
    assert str(caught.value) == expected
    assert thief.owned()
    assert late.token is None


def test_release_raises_when_the_lease_expired(store: Store) -> None:
    lock = Lock("stock", timeout=0.02)
    lock.acquire()
    eventually(lambda: not lock.locked())

    with pytest.raises(LockNotOwned):
        lock.release()


def test_second_release_raises(store: Store) -> None:
    lock = Lock("stock")
    lock.acquire()
    lock.release()

    with pytest.raises(LockNotOwned, match="not acquired here, or released"):
        lock.release()


def test_expired_lock_can_be_acquired_by_others(store: Store) -> None:
    Lock("stock", timeout=0.02).acquire()

    assert Lock("stock").acquire(blocking_timeout=60)


def test_with_keeps_the_lock_during_the_block(store: Store) -> None:
    other = Lock("stock")

    with Lock("stock") as held:
        assert held.owned()
        assert not other.acquire(blocking=False)

    assert other.acquire(blocking=False)


def test_with_releases_when_the_block_raises(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), Lock("stock"):
        1 / 0  # noqa: B018

    assert not Lock("stock").locked()


def test_with_raises_at_once_when_not_blocking(store: Store) -> None:
    Lock("stock").acquire()

    with pytest.raises(LockNotAcquired) as caught, Lock("stock", blocking=False):
        pytest.fail("the block ran")

    assert str(caught.value) == "Lock 'stock' is held by another owner."
    assert caught.value.waited == 0


def test_with_raises_after_blocking_timeout(store: Store) -> None:
    Lock("stock").acquire()

    with pytest.raises(LockNotAcquired) as caught, Lock("stock", blocking_timeout=0.05):
        pytest.fail("the block ran")

    assert str(caught.value) == "Lock 'stock' is still held by another owner after 0.05 s."
    assert caught.value.waited == 0.05


def test_with_raises_when_the_lease_expired_before_the_block_ended(store: Store) -> None:
    with pytest.raises(LockNotOwned, match="its lease had expired"), Lock("stock"):
        store.raw.delete(key_of(store))


def test_error_of_the_block_takes_precedence_over_a_lost_lock(store: Store) -> None:
    def block() -> None:
        with Lock("stock"):
            store.raw.delete(key_of(store))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        block()

    expected = "Lock 'stock' cannot be released: its lease had expired."
    assert caught.value.__notes__ == [f"LockNotOwned on leaving the block: {expected}"]


def test_extend_sets_a_longer_lease(store: Store) -> None:
    lock = Lock("stock", timeout=20)
    lock.acquire()

    assert lock.extend(60) is True

    assert 30_000 < store.raw.pttl(key_of(store)) <= 60_000
    assert 30 < lock.remaining() < 60


def test_extend_never_shortens_the_lease(store: Store) -> None:
    lock = Lock("stock", timeout=60)
    lock.acquire()

    lock.extend(1)

    assert store.raw.pttl(key_of(store)) > 30_000
    assert lock.remaining() > 30


def test_reacquire_sets_the_full_lease_again(store: Store) -> None:
    lock = Lock("stock", timeout=60)
    lock.acquire()
    store.raw.pexpire(key_of(store), 5_000)

    assert lock.reacquire() is True

    assert store.raw.pttl(key_of(store)) > 30_000


@pytest.mark.parametrize("again", [lambda lock: lock.extend(5), lambda lock: lock.reacquire()], ids=["extend", "re"])
def test_extend_raises_when_the_lock_is_lost(store: Store, again) -> None:
    lock = Lock("stock")
    lock.acquire()
    store.raw.delete(key_of(store))

    with pytest.raises(LockNotOwned) as caught:
        again(lock)

    expected = "Lock 'stock' cannot be extended: its lease had expired."
    assert str(caught.value) == expected
    assert lock.lost.is_set()
    assert not store.raw.exists(key_of(store))


def test_check_passes_while_the_lease_is_valid(store: Store) -> None:
    with Lock("stock") as lock:
        lock.check()

        assert not lock.lost.is_set()


def test_check_raises_when_the_lease_expired(store: Store) -> None:
    lock = Lock("stock", timeout=0.02)
    lock.acquire()

    assert lock.lost.wait(60)

    with pytest.raises(LockLost) as caught:
        lock.check()
    assert str(caught.value) == "Lock 'stock' is lost: its lease expired before it was released."
    assert isinstance(caught.value, LockNotOwned)
    assert lock.remaining() == 0.0


@pytest.mark.contract
def test_check_raises_after_an_extension_was_refused(store: Store) -> None:
    lock = Lock("stock", timeout=60)
    lock.acquire()
    store.raw.delete(key_of(store))
    with pytest.raises(LockNotOwned):
        lock.extend(60)

    with pytest.raises(LockLost):
        lock.check()
    assert lock.remaining() == 0.0


def test_check_raises_when_the_lock_was_never_acquired(redis_server: Store) -> None:
    with pytest.raises(LockNotOwned, match="is not held by this thread or task"):
        Lock("stock").check()


def test_unacquired_lock_has_no_token_fence_or_remaining_time(redis_server: Store) -> None:
    lock = Lock("stock")

    assert (lock.token, lock.fencing_token, lock.remaining()) == (None, None, 0.0)
    assert not lock.lost.is_set()
    assert not lock.lost.wait(0.01)
    assert not lock.owned()
    assert repr(lock) == "<Lock 'stock'>"


def test_lost_is_not_set_for_a_released_lock(redis_server: Store) -> None:
    lock = Lock("stock", timeout=0.02)
    lock.acquire()
    lost = lock.lost

    lock.release()

    assert lost.wait() is False
    assert not lock.lost.is_set()


def test_token_of_the_caller_is_stored_in_the_key(store: Store) -> None:
    lock = Lock("stock")

    lock.acquire(token="worker-7")

    assert lock.token == "worker-7"
    assert store.raw.get(key_of(store)) == b"worker-7"


def test_acquire_with_the_holders_token_takes_over_its_lease(store: Store) -> None:
    first, second = Lock("stock", timeout=5), Lock("stock", timeout=60)
    first.acquire()

    assert second.acquire(blocking=False, token=first.token)

    assert second.fencing_token == first.fencing_token
    assert store.raw.pttl(key_of(store)) > 30_000
    second.release()
    assert not second.locked()


def test_taking_over_a_lease_does_not_shorten_it(store: Store) -> None:
    first = Lock("stock", timeout=60)
    first.acquire()

    Lock("stock", timeout=5).acquire(token=first.token)

    assert store.raw.pttl(key_of(store)) > 30_000


def test_lock_of_redis_py_under_the_same_key_is_respected(redis_server: Store) -> None:
    from redis.lock import Lock as PlainLock

    theirs = PlainLock(redis_server.raw, key_of(redis_server), timeout=30)
    theirs.acquire()

    assert not Lock("stock").acquire(blocking=False)

    theirs.release()
    with Lock("stock"):
        assert not theirs.acquire(blocking=False)


def test_acquire_waits_for_a_key_without_ttl(redis_server: Store) -> None:
    redis_server.raw.set(key_of(redis_server), "for ever")

    assert not Lock("stock").acquire(blocking_timeout=0.02)


def test_script_is_sent_again_after_script_flush(store: Store) -> None:
    with Lock("stock"):
        store.raw.script_flush()

    assert not Lock("stock").locked()


def test_key_of_another_type_raises(store: Store) -> None:
    store.raw.rpush(key_of(store), "a list")

    with pytest.raises(Exception, match="WRONGTYPE"):
        Lock("stock").acquire()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"name": ""}, ValueError, "lock name is empty"),
        ({"name": "a{b"}, ValueError, "braces are not accepted"),
        ({"name": "a\nb"}, ValueError, "control character"),
        ({"name": "x" * 201}, ValueError, "has 201 bytes: expected at most 200"),
        ({"name": 7}, TypeError, "lock name 7: expected a string, got int"),
        ({"timeout": 0}, ValueError, "timeout=0: expected a number of seconds above 0"),
        ({"timeout": None}, TypeError, "timeout=None: expected a number of seconds above 0"),
        ({"timeout": True}, TypeError, "timeout=True: expected"),
        ({"timeout": 1e12}, ValueError, "expected at most ten years"),
        ({"blocking_timeout": -1}, ValueError, "blocking_timeout=-1: expected a number of seconds of at least 0"),
        ({"blocking": False, "blocking_timeout": 1}, ValueError, "blocking_timeout=1 requires blocking=True"),
        (
            {"blocking_timeout": "soon"},
            TypeError,
            "blocking_timeout='soon': expected a number of seconds of at least 0",
        ),
        ({"max_lease": 60}, ValueError, "max_lease=60 requires renew=True: otherwise a lease ends after its timeout."),
        ({"renew": True, "max_lease": 1}, ValueError, "max_lease=1: expected at least the timeout, which is 30.0."),
        ({"renew": True, "max_lease": "1"}, TypeError, "max_lease='1': expected a number of seconds above 0"),
        ({"on_lost": "print"}, TypeError, "on_lost='print': expected a function that takes the lock."),
        ({"min_replicas": True}, TypeError, "min_replicas=True: expected an integer from 0 to 100."),
        ({"blocking": "no"}, TypeError, "blocking='no': expected True or False."),
        ({"renew": "no"}, TypeError, "renew='no': expected True or False."),
        ({"reentrant": 1}, TypeError, "reentrant=1: expected True or False."),
        ({"fair": None}, TypeError, "fair=None: expected True or False."),
        ({"min_replicas": 101}, ValueError, "min_replicas=101: expected an integer from 0 to 100."),
    ],
)
def test_invalid_argument_of_the_constructor_is_refused(arguments: dict[str, object], error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        Lock(**({"name": "stock"} | arguments))

    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"blocking": False, "blocking_timeout": 1}, ValueError, "blocking_timeout=1 requires blocking=True"),
        ({"blocking": "no"}, TypeError, "blocking='no': expected True or False."),
        ({"token": ""}, ValueError, "token is empty"),
        ({"token": "a{b}"}, ValueError, "braces are not accepted"),
    ],
)
def test_invalid_argument_of_acquire_is_refused(
    redis_server: Store, arguments: dict[str, object], error: type, text: str
) -> None:
    with pytest.raises(error) as caught:
        Lock("stock").acquire(**arguments)

    assert text in str(caught.value)
    assert redis_server.keys() == []


def test_acquire_overrides_the_options_of_the_object(redis_server: Store) -> None:
    Lock("stock").acquire()

    assert not Lock("stock").acquire(blocking=False)
    assert not Lock("stock", blocking=False).acquire(blocking_timeout=0.01)
    assert not Lock("stock", blocking_timeout=0.01).acquire(blocking=True)
    assert not Lock("stock", blocking_timeout=60).acquire(blocking=False)
    assert Lock("other", blocking=False).acquire(blocking=True)


@pytest.mark.parametrize(
    ("seconds", "error", "text"),
    [
        (0, ValueError, "seconds=0: expected a number of seconds above 0, or a timedelta."),
        (-1, ValueError, "seconds=-1: expected a number of seconds above 0, or a timedelta."),
        ("1", TypeError, "seconds='1': expected a number of seconds above 0, or a timedelta."),
    ],
)
def test_invalid_argument_of_extend_is_refused(redis_server: Store, seconds, error: type, text: str) -> None:
    with Lock("stock", timeout=60) as lock:
        with pytest.raises(error) as caught:
            lock.extend(seconds)

        assert str(caught.value) == text
        assert lock.remaining() > 50


def test_name_may_be_any_text(store: Store) -> None:
    with Lock("订单: 7 / ü") as lock:
        assert store.raw.get(key_of(store, "订单: 7 / ü")) == lock.token.encode()


def test_using_selects_the_connection(proxy, redis_server: Store) -> None:
    proxy.stop_accepting()

    with pytest.raises(Exception, match="refused"):
        Lock("stock", using="proxied").acquire()

    with Lock("stock", using="default"):
        pass


def test_acquire_and_release_of_a_free_lock_cost_one_round_trip_each(redis_server: Store) -> None:
    with Lock("warm"):
        pass
    before = _commands_sent()

    with Lock("stock"):
        pass

    assert _commands_sent() - before == 2 + 1  # and the question itself


@pytest.mark.parametrize("kind", [PlainKind, GroupKind, ReadWriteKind])
def test_all_scripts_of_a_kind_but_release_are_idempotent(kind: type[ScriptedKind]) -> None:
    assert {name for name, script in vars(kind.scripts).items() if not script.idempotent} == {"release"}


def _commands_sent() -> int:
    """Commands that clients have sent; those within scripts do not count."""
    reply = client().execute(Command("INFO", "commandstats", key="x")).decode()
    return sum(map(int, re.findall(r"cmdstat_(?:evalsha|eval|info):calls=(\d+)", reply)))
