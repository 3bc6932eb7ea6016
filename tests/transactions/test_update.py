"""`atomic_update` alone and with concurrent writers."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis
from redis.exceptions import RedisError, ResponseError, WatchError

from django_redis_components.transactions import TooMuchContention, aatomic_update, atomic_update
from tests.support import Store, run_async, run_together
from tests.support.processes import Children
from tests.transactions.accounts import double, double_account


@pytest.fixture
def account(store: Store) -> str:
    """The key of an account with 5 gold."""
    key = f"{store.prefix}:account"
    store.raw.set(key, 5)
    return key


def interfering(store: Store, key: str, times: int) -> Any:
    """Return `double` with conflicts: in the first attempts another client adds 1 after the read."""
    left = iter(range(times))

    def attempt(pipe: Any) -> int:
        balance = int(pipe.get(key))
        if next(left, None) is not None:
            store.raw.incr(key)
        pipe.multi()
        pipe.set(key, balance * 2)
        return balance * 2

    return attempt


def test_update_returns_the_function_value(store: Store, account: str) -> None:
    assert atomic_update(double(account), account) == 10

    assert store.raw.get(account) == b"10"


def test_concurrent_processes_lose_no_update(store: Store, account: str, children: Children) -> None:
    calls = [[account, 20, options] for options in ({}, {}, {"lock_after": 2}, {"lock_after": 0})]

    balances = children.call_together("tests.transactions.accounts:double_account", calls)

    assert int(store.raw.get(account)) == max(balances) == 5 * 2**80


def test_concurrent_transfers_keep_the_sum(store: Store, children: Children) -> None:
    mine, yours = f"{{{store.prefix}:a}}:mine", f"{{{store.prefix}:a}}:yours"
    store.raw.set(mine, 40)
    store.raw.set(yours, 40)

    calls = [[mine, yours, 3, 40], [yours, mine, 5, 40], [mine, yours, 7, 40]]
    moved = children.call_together("tests.transactions.accounts:transfer", calls)

    mine_now, yours_now = int(store.raw.get(mine)), int(store.raw.get(yours))
    assert mine_now + yours_now == 80
    assert min(mine_now, yours_now) >= 0
    assert mine_now == 40 - 3 * moved[0] + 5 * moved[1] - 7 * moved[2]
    store.raw.delete(mine)
    store.raw.delete(yours)


def test_threads_share_a_function(account: str, store: Store) -> None:
    run_together(8, double_account, account, 3, {})

    assert int(store.raw.get(account)) == 5 * 2**24


def test_conflict_causes_another_attempt(store: Store, account: str) -> None:
    assert atomic_update(interfering(store, account, 3), account) == 16

    assert store.raw.get(account) == b"16"


def test_too_much_contention_is_raised_after_max_attempts(store: Store, account: str) -> None:
    with pytest.raises(TooMuchContention) as raised:
        atomic_update(interfering(store, account, 99), account, max_attempts=3)

    assert raised.value.attempts == 3
    assert raised.value.keys == (account,)
    assert str(raised.value).startswith(f"Transaction on {account} gave up: every attempt had a conflict (3 a")
    assert f"(3 attempts in {raised.value.elapsed:.3f} s)." in str(raised.value)
    assert store.raw.get(account) == b"8"


def test_no_attempt_starts_after_the_timeout(store: Store, account: str) -> None:
    with pytest.raises(TooMuchContention, match="conflicts until the timeout") as raised:
        atomic_update(interfering(store, account, 10**6), account, max_attempts=10**6, timeout=0.1)

    assert raised.value.elapsed >= 0.1
    assert raised.value.attempts == int(store.raw.get(account)) - 5


def test_exception_of_the_function_writes_nothing_and_keeps_the_connection_usable(store: Store, account: str) -> None:
    def refuse(pipe: Any) -> None:
        pipe.get(account)
        pipe.multi()
        pipe.set(account, 0)
        raise LookupError("not for sale")

    for _ in range(3):
        with pytest.raises(LookupError, match="not for sale"):
            atomic_update(refuse, account)
    assert store.raw.get(account) == b"5"
    assert atomic_update(double(account), account) == 10


def test_stop_iteration_of_the_function_reaches_the_caller_and_nothing_is_written(store: Store, account: str) -> None:
    def exhausted(pipe: Any) -> None:
        pipe.multi()
        pipe.set(account, 0)
        next(iter(()))

    async def aexhausted(pipe: Any) -> None:
        pipe.multi()
        pipe.set(account, 0)
        raise StopAsyncIteration

    with pytest.raises(StopIteration):
        atomic_update(exhausted, account)
    with pytest.raises(StopAsyncIteration):
        run_async(lambda: aatomic_update(aexhausted, account))
    assert store.raw.get(account) == b"5"


def test_read_only_function_sees_one_consistent_state(store: Store, account: str) -> None:
    twice = f"{store.prefix}:{{{account}}}"
    store.raw.set(twice, 10)
    calls = []

    def read(pipe: Any) -> tuple[int, int]:
        first = int(pipe.get(account))
        if not calls:
            store.raw.set(twice, 12)
            store.raw.set(account, 6)
        calls.append(first)
        return first, int(pipe.get(twice))

    assert atomic_update(read, account, twice) == (6, 12)
    assert calls == [5, 6]


def test_further_keys_can_be_watched_while_reading(store: Store, account: str) -> None:
    other = f"{{{account}}}:other"
    store.raw.set(other, 1)
    calls = []

    def follow(pipe: Any) -> int:
        pipe.watch(other)
        value = int(pipe.get(other))
        if not calls:
            store.raw.incr(other)
        calls.append(value)
        pipe.multi()
        pipe.set(account, value)
        return value

    assert atomic_update(follow, account) == 2
    assert calls == [1, 2]
    store.raw.delete(other)


def test_replies_are_parsed_as_by_redis_py(store: Store, account: str) -> None:
    hashed = f"{{{account}}}:hash"
    store.raw.hset(hashed, mapping={"a": 1, "b": 2})

    def look(pipe: Any) -> Any:
        seen = pipe.hgetall(hashed), pipe.exists(account), pipe.ttl(account), pipe.time()[0] > 0
        pipe.multi()
        assert pipe.get(account) is pipe
        assert len(pipe) == 1
        return seen

    assert atomic_update(look, account) == ({b"a": b"1", b"b": b"2"}, 1, -1, True)
    store.raw.delete(hashed)


def test_registered_scripts_can_be_queued(store: Store, account: str) -> None:
    text = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
    script = redis.Redis().register_script(text)

    def add(pipe: Any) -> None:
        pipe.multi()
        script(keys=[account], args=[7], client=pipe)

    atomic_update(add, account)

    assert store.raw.get(account) == b"12"


def test_error_of_a_queued_command_is_raised(store: Store, account: str) -> None:
    def wrong_type(pipe: Any) -> None:
        pipe.multi()
        pipe.lpush(account, 1)

    with pytest.raises(ResponseError, match="WRONGTYPE"):
        atomic_update(wrong_type, account)


def test_command_rejected_by_the_server_raises_and_nothing_is_executed(store: Store, account: str) -> None:
    def nonsense(pipe: Any) -> None:
        pipe.multi()
        pipe.set(account, 0)
        pipe.execute_command("NONSENSE", account)

    with pytest.raises(ResponseError, match=r"(?i)unknown command"):
        atomic_update(nonsense, account)
    assert store.raw.get(account) == b"5"


def test_process_that_dies_before_exec_writes_nothing(store: Store, account: str, children: Children) -> None:
    child = children.call("tests.transactions.accounts:die_before_exec", account)

    assert child.wait() == -9
    assert store.raw.get(account) == b"5"
    assert atomic_update(double(account), account) == 10


def test_marker_has_a_ttl_and_the_slot_of_the_key(store: Store, account: str) -> None:
    atomic_update(double(account), account)

    (marker,) = set(store.keys()) - {account.encode()}
    assert marker.startswith(f"{store.prefix}:transactions:{{{account}}}:done:".encode())
    assert store.raw.get(marker) == b"done"
    assert 50_000 < store.raw.pttl(marker) <= 60_000


@pytest.mark.parametrize("coroutine", [True, False], ids=["coroutine", "function"])
def test_async_update_behaves_like_the_sync_one(store: Store, account: str, coroutine: bool) -> None:
    calls = []

    async def attempt(pipe: Any) -> int:
        balance = int(await pipe.get(account))
        if not calls:
            store.raw.incr(account)
        calls.append(balance)
        pipe.multi()
        pipe.set(account, balance * 2)
        return balance * 2

    def blind(pipe: Any) -> int:
        pipe.multi()
        pipe.set(account, 12)
        return 12

    assert run_async(lambda: aatomic_update(attempt if coroutine else blind, account)) == 12
    assert store.raw.get(account) == b"12"


def test_concurrent_tasks_lose_no_update(store: Store, account: str) -> None:
    async def attempt(pipe: Any) -> None:
        balance = int(await pipe.get(account))
        pipe.multi()
        pipe.set(account, balance * 2)

    async def all_together() -> None:
        import asyncio

        await asyncio.gather(
            *(aatomic_update(attempt, account, max_attempts=10_000, timeout=60, lock_after=2) for _ in range(20))
        )

    run_async(all_together)

    assert int(store.raw.get(account)) == 5 * 2**20


def test_coroutine_function_that_raises_releases_its_connection(store: Store, account: str) -> None:
    async def refuse(pipe: Any) -> None:
        await pipe.get(account)
        raise LookupError("not for sale")

    async def twice() -> None:
        for _ in range(2):
            with pytest.raises(LookupError):
                await aatomic_update(refuse, account)

    run_async(twice)


def test_registered_script_can_be_queued_by_a_coroutine_function(store: Store, account: str) -> None:
    script = redis.asyncio.Redis().register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")

    async def add(pipe: Any) -> None:
        pipe.multi()
        await script(keys=[account], args=[7], client=pipe)

    run_async(lambda: aatomic_update(add, account))

    assert store.raw.get(account) == b"12"


def test_watch_error_raised_by_the_function_is_a_conflict(redis_server: Store) -> None:
    calls = []

    def undecided(pipe: Any) -> str:
        calls.append(1)
        if len(calls) < 3:
            raise WatchError("once more")
        return "done"

    assert atomic_update(undecided, f"{redis_server.prefix}:x") == "done"
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda pipe, key: pipe.set(key, 1), r"^SET before multi\(\) would be executed outside the transaction"),
        (lambda pipe, key: pipe.execute_command("del", key), r"^DEL before multi\(\)"),
        (
            lambda pipe, key: pipe.unwatch(),
            r"^unwatch\(\) would let the transaction overwrite changes of other clients",
        ),
        (
            lambda pipe, key: pipe.execute(),
            r"^execute\(\) is not allowed: the transaction is sent after the function has returned\.$",
        ),
        (lambda pipe, key: pipe.discard(), r"^discard\(\) is not allowed: raise an exception to abort"),
    ],
    ids=["set", "del", "unwatch", "execute", "discard"],
)
def test_methods_that_would_break_the_transaction_raise(redis_server: Store, act: Any, message: str) -> None:
    key = f"{redis_server.prefix}:x"

    with pytest.raises(RedisError, match=message):
        atomic_update(lambda pipe: act(pipe, key), key)
    assert not redis_server.raw.exists(key)


def test_async_pipe_rejects_the_same_methods(redis_server: Store) -> None:
    key = f"{redis_server.prefix}:x"

    async def write(pipe: Any) -> None:
        await pipe.set(key, 1)

    async def execute(pipe: Any) -> None:
        async with pipe:
            await pipe.execute()

    with pytest.raises(RedisError, match=r"^SET before multi\(\)"):
        run_async(lambda: aatomic_update(write, key))
    with pytest.raises(RedisError, match=r"^execute\(\) is not allowed"):
        run_async(lambda: aatomic_update(execute, key))


async def _coroutine(pipe: Any) -> None: ...


def _generator(pipe: Any) -> Iterator[int]:
    yield 1


async def _async_generator(pipe: Any) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: atomic_update(None, "k"), TypeError, "func=None: expected a callable that takes the pipe."),
        (lambda: atomic_update(double("k")), ValueError, "no keys: expected at least one key to watch."),
        (lambda: atomic_update(double("k"), 7), TypeError, "key 7: expected str or bytes, got int."),
        (lambda: atomic_update(double("k"), ""), ValueError, "key '' is empty."),
        (lambda: atomic_update(double("k"), b"\xff"), ValueError, "key b'\\xff': expected UTF-8."),
        (
            lambda: atomic_update(double("k"), "a}b"),
            ValueError,
            "key 'a}b': braces mark the Cluster slot; expected a pair with text between, or none.",
        ),
        (
            lambda: atomic_update(double("k"), "k", max_attempts=0),
            ValueError,
            "max_attempts=0: expected an integer of at least 1.",
        ),
        (
            lambda: atomic_update(double("k"), "k", max_attempts=1.5),
            TypeError,
            "max_attempts=1.5: expected an integer of at least 1.",
        ),
        (
            lambda: atomic_update(double("k"), "k", lock_after=-1),
            ValueError,
            "lock_after=-1: expected an integer of at least 0.",
        ),
        (
            lambda: atomic_update(double("k"), "k", lock_after=True),
            TypeError,
            "lock_after=True: expected an integer of at least 0.",
        ),
        (
            lambda: atomic_update(double("k"), "k", timeout=0),
            ValueError,
            "timeout=0: expected a number of seconds above 0, or a timedelta.",
        ),
        (
            lambda: atomic_update(_coroutine, "k"),
            TypeError,
            "_coroutine() is a coroutine function: use aatomic_update().",
        ),
        (
            lambda: atomic_update(_generator, "k"),
            TypeError,
            "_generator() is a generator function: a call runs nothing of it.",
        ),
        (
            lambda: run_async(lambda: aatomic_update(_async_generator, "k")),
            TypeError,
            "_async_generator() is a generator function: a call runs nothing of it.",
        ),
    ],
)
def test_invalid_argument_raises(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        call()

    assert str(raised.value) == message


def test_keys_may_be_bytes(redis_server: Store) -> None:
    key = f"{redis_server.prefix}:bytes"
    redis_server.raw.set(key, 2)

    assert atomic_update(double(key), key.encode()) == 4


class Doubling:
    async def __call__(self, pipe: Any) -> int:
        return 0


@pytest.mark.parametrize("func", [Doubling(), functools.partial(Doubling.__call__, Doubling())])
def test_every_kind_of_coroutine_function_raises(redis_server: Store, func: Any) -> None:
    with pytest.raises(TypeError, match=r"is a coroutine function: use aatomic_update\(\)"):
        atomic_update(func, "account")


def test_function_that_returns_an_awaitable_raises_and_writes_nothing(store: Store, account: str) -> None:
    doubling, before = Doubling(), store.raw.get(account)

    def write(pipe: Any) -> Any:
        pipe.multi()
        pipe.set(account, 99)
        return doubling(pipe)

    with pytest.raises(TypeError, match=r"write\(\) must be awaited: use aatomic_update\(\)"):
        atomic_update(write, account)

    assert store.raw.get(account) == before
