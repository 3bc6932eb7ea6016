"""`@cached`: values, arguments and expiry."""

from __future__ import annotations

import asyncio
import base64
import logging
import threading
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from django_redis_components.expiry import cached, single_flight
from django_redis_components.expiry.scripts import FETCH, STORE
from tests.expiry.cached_functions import doomed
from tests.support import Proxy, Store, eventually, run_async, run_together
from tests.support.processes import Children


def counting(key: str = "n:{n}", ttl: float = 60, **options: Any) -> tuple[Any, list[int]]:
    """Return a cached function and the list of its computations."""
    calls: list[int] = []

    @cached(key, ttl, **options)
    def squared(n: int) -> int:
        calls.append(n)
        return n * n

    return squared, calls


def waiters(store: Store, name: str) -> int:
    """Return the number of waiters of a lease."""
    return int(store.raw.hget(f"{store.prefix}:expiry:{{{name}}}:lease", "waiters") or 0)


def test_value_is_computed_once_for_its_arguments(store: Store) -> None:
    squared, calls = counting()

    assert [squared(3), squared(n=3), squared(4), squared(3)] == [9, 9, 16, 9]

    assert calls == [3, 4]


# With "compute", a call without a reply within PAGE_TIMEOUT, a second, computes locally: one of 200 on a busy machine.
def test_200_concurrent_threads_compute_once(store: Store) -> None:
    calls = []

    @cached("slow", 60, on_error="raise")
    def slow() -> int:
        calls.append(1)
        eventually(lambda: waiters(store, "slow") == 199, 20)
        return 7

    assert run_together(200, slow) == [7] * 200
    assert len(calls) == 1


def test_200_threads_in_four_processes_compute_once(redis_server: Store, children: Children) -> None:
    results = children.call_together("tests.expiry.cached_functions:call_concurrently", [[50, 2026]] * 4)

    assert results == [[2026] * 50] * 4
    assert redis_server.raw.get(f"{redis_server.prefix}:count:computed") == b"1"


def test_200_concurrent_tasks_compute_once(store: Store) -> None:
    calls = []

    @cached("slow", 60, on_error="raise")
    async def slow() -> int:
        calls.append(1)
        while waiters(store, "slow") < 199:  # noqa: ASYNC110 - others write it
            await asyncio.sleep(0.01)
        return 7

    async def together() -> list[int]:
        return await asyncio.gather(*(slow() for _ in range(200)))

    assert run_async(together) == [7] * 200
    assert len(calls) == 1


def test_waiters_wait_for_a_dead_caller_only_until_its_lease_expires(redis_server: Store, children: Children) -> None:
    child = children.call("tests.expiry.cached_functions:doomed")
    assert child.wait() == -9
    lease = f"{redis_server.prefix}:expiry:{{doomed}}:lease"
    assert redis_server.raw.exists(lease)

    assert doomed() == "computed by the next"

    assert not redis_server.raw.exists(lease)
    assert doomed() == "computed by the next"
    assert redis_server.raw.get(f"{redis_server.prefix}:count:doomed") == b"2"


def test_no_caller_waits_longer_than_two_leases(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every holder died: the caller computes for itself, and does not take the lease of another holder."""
    assert single_flight.MAX_WAIT_LEASES == 2
    monkeypatch.setattr(single_flight, "MAX_WAIT_LEASES", 0.001)
    squared, calls = counting("stuck", lease=60, early=False)
    stuck = f"{redis_server.prefix}:expiry:{{stuck}}:lease"
    time_s, _ = redis_server.raw.time()
    redis_server.raw.hset(stuck, mapping={"token": "dead", "until_ms": (time_s + 100) * 1_000})

    assert squared(3) == 9

    assert calls == [3]
    assert redis_server.raw.hget(stuck, "token") == b"dead"


def test_exception_is_raised_in_the_computing_call_and_not_cached(store: Store) -> None:
    calls = []

    @cached("fails", 60)
    def fails() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise LookupError(len(calls))
        return "at last"

    for number in (1, 2):
        with pytest.raises(LookupError, match=str(number)):
            fails()
    assert [fails(), fails()] == ["at last", "at last"]
    assert len(calls) == 3


@pytest.mark.contract
def test_waiter_computes_next_after_a_failure(store: Store) -> None:
    calls = []

    @cached("fails", 60)
    def fails() -> int:
        calls.append(1)
        if len(calls) == 1:
            eventually(lambda: waiters(store, "fails") == 9, 20)
            raise LookupError
        return 7

    def ask() -> int:
        try:
            return fails()
        except LookupError:
            return 0

    assert sorted(run_together(10, ask)) == [0, *[7] * 9]
    assert len(calls) == 2


def test_none_is_cached(store: Store) -> None:
    calls: list[int] = []

    @cached("nothing", 60)
    def nothing() -> None:
        calls.append(1)

    assert [nothing(), nothing()] == [None, None]
    assert len(calls) == 1


def test_computing_caller_and_reader_get_the_same_value(redis_server: Store) -> None:
    @cached("pair", 60)
    def pair() -> Any:
        return {"ü": (1, None, True)}

    assert pair() == pair() == {"ü": [1, None, True]}


def test_bytes_are_stored_unchanged(store: Store) -> None:
    @cached("raw", 60, dumps=bytes, loads=bytes)
    def raw() -> bytes:
        return bytes(range(256))

    assert raw() == raw() == bytes(range(256))


def test_custom_dumps_and_loads_are_used(redis_server: Store) -> None:
    @cached("coded", 60, dumps=base64.b64encode, loads=base64.b64decode)
    def coded() -> bytes:
        return b"\x00\xff"

    assert coded() == coded() == b"\x00\xff"
    assert redis_server.raw.hget(f"{redis_server.prefix}:expiry:{{coded}}", "body") == b"AP8="


def test_value_expires(store: Store) -> None:
    squared, calls = counting(ttl=0.05, early=False)
    squared(3)

    eventually(lambda: squared(3) and len(calls) == 2)


def test_keys_have_a_ttl(store: Store) -> None:
    squared, _ = counting("n", 60, lease=2)
    leases = []

    @cached("other", 60, lease=2)
    def other() -> None:
        leases.append(store.raw.pttl(f"{store.prefix}:expiry:{{other}}:lease"))

    squared(3)
    other()

    assert 45_000 < store.raw.pttl(f"{store.prefix}:expiry:{{n}}") <= 60_000
    assert 10_000 < leases[0] <= 20_000
    assert sorted(store.keys()) == sorted(f"{store.prefix}:expiry:{{{name}}}".encode() for name in ("n", "other"))


def test_values_stored_together_do_not_expire_together(redis_server: Store) -> None:
    jittered, _ = counting("jittered:{n}", 1_000, spread=0.5)
    exact, _ = counting("exact:{n}", 1_000, spread=0)
    for n in range(60):
        jittered(n)
        exact(n)

    def ttls(name: str) -> list[float]:
        return [redis_server.raw.pttl(f"{redis_server.prefix}:expiry:{{{name}:{n}}}") / 1_000 for n in range(60)]

    assert 460 < min(ttls("jittered")) < 700
    assert 800 < max(ttls("jittered")) <= 1_000
    assert min(ttls("exact")) > 940


@pytest.mark.contract
def test_invalidate_removes_the_value_of_these_arguments(store: Store) -> None:
    squared, calls = counting()
    squared(3)
    squared(4)

    assert [squared.invalidate(3), squared.invalidate(3)] == [True, False]

    assert [squared(3), squared(4)] == [9, 16]
    assert calls == [3, 4, 3]


@pytest.mark.contract
def test_value_computed_before_invalidate_is_not_stored(store: Store) -> None:
    versions = iter(("old", "new"))

    @cached("page", 60)
    def page() -> str:
        version = next(versions)
        if version == "old":
            page.invalidate()  # the data is saved during the rendering
        return version

    assert [page(), page(), page()] == ["old", "new", "new"]


def test_ainvalidate_removes_the_value(redis_server: Store) -> None:
    @cached("twin:{n}", 60)
    async def twin(n: int) -> int:
        return n

    async def act() -> list[Any]:
        return [await twin(5), await twin(5), await twin.ainvalidate(5), await twin.ainvalidate(5)]

    assert run_async(act) == [5, 5, True, False]


def test_waiter_computes_at_once_after_a_cancellation(redis_server: Store) -> None:
    started: list[int] = []
    is_computing = asyncio.Event()

    @cached("slow", 60)
    async def slow() -> int:
        started.append(1)
        is_computing.set()
        if len(started) == 1:
            await asyncio.Event().wait()
        return 7

    async def act() -> int:
        task = asyncio.ensure_future(slow())
        await is_computing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not redis_server.raw.exists(f"{redis_server.prefix}:expiry:{{slow}}:lease")
        return await slow()

    assert run_async(act) == 7


def test_key_template_of_a_method_includes_its_object(redis_server: Store) -> None:
    class Customer:
        def __init__(self, pk: int) -> None:
            self.pk = pk

        @cached("customer:{self.pk}:sum:{year}", 60)
        def total(self, year: int) -> int:
            return self.pk * year

    assert [Customer(2).total(10), Customer(3).total(10), Customer(2).total(10)] == [20, 30, 20]
    assert Customer.total.invalidate(Customer(2), 10)


def test_one_caller_recomputes_early_while_others_use_the_old_value(store: Store) -> None:
    """`early` is so large that each call finds the value due for recomputation."""
    calls = []
    may_return = threading.Event()

    @cached("hot", 60, early=1e9)
    def hot() -> int:
        calls.append(1)
        if len(calls) == 2:
            assert may_return.wait(60)
        return len(calls)

    assert hot() == 1
    renewing = threading.Thread(target=hot)
    renewing.start()
    eventually(lambda: len(calls) == 2)
    assert run_together(5, hot) == [1] * 5
    may_return.set()
    renewing.join()

    assert len(calls) == 2


def test_value_is_not_recomputed_early_without_early(store: Store) -> None:
    squared, calls = counting(early=False)

    for _ in range(50):
        squared(3)
    assert calls == [3]


def test_probability_of_early_recomputation_follows_xfetch(redis_server: Store) -> None:
    """Ten seconds before the end, of a value that took ten: e to the power of -1, by the number that is drawn."""
    time_s, time_us = redis_server.raw.time()
    now_ms = time_s * 1_000 + time_us // 1_000
    value, lease = (f"{redis_server.prefix}:{{x}}:{part}" for part in ("value", "lease"))
    redis_server.raw.hset(value, mapping={"body": "1", "compute_ms": 100_000, "until_ms": now_ms + 100_000})

    def state(eagerness: float) -> int:
        from django_redis_components.core.client import connections

        redis_server.raw.delete(lease)
        call = FETCH(value=value, lease=lease, token="t", lease_ms=1_000, eagerness=str(eagerness))
        return int(connections.client().execute(call)[0])

    assert [state(0.2), state(0.5), state(1.1)] == [1, 1, 2]


def test_failed_early_recomputation_returns_the_valid_value_and_logs(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    @cached("fragile", 60, early=1e9)
    def fragile() -> str:
        calls.append(1)
        if len(calls) > 1:
            raise LookupError("the source is unavailable")
        return "good"

    with caplog.at_level(logging.WARNING, "django_redis_components.expiry"):
        assert [fragile(), fragile()] == ["good", "good"]

    assert len(calls) == 2
    assert "Cannot recompute 'fragile' early; using the value that is still valid." in caplog.text
    assert "the source is unavailable" in caplog.text


@pytest.mark.parametrize("part", [b"t:lost", b"lease"], ids=["any", "lease"])
def test_call_succeeds_when_a_reply_is_lost(proxy: Proxy, redis_server: Store, part: bytes) -> None:
    squared, calls = counting("lost", using="proxied")
    proxy.drop_next_reply(b"lost", times=3)

    assert [squared(3), squared(3)] == [9, 9]

    assert proxy.dropped == 3
    assert calls == [3]


def test_value_that_cannot_be_stored_is_returned(
    proxy: Proxy, redis_server: Store, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @cached("rate", 60, using="proxied")
    def rate() -> int:
        proxy.stop_accepting()
        proxy.cut()
        return 7

    with caplog.at_level(logging.WARNING, "django_redis_components.expiry"):
        assert rate() == 7

    assert "The value of 'rate' was computed but cannot be stored: " in caplog.text


def test_exception_of_the_function_is_raised_while_redis_is_down(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    @cached("rate", 60, using="proxied")
    def rate() -> int:
        proxy.stop_accepting()
        proxy.cut()
        raise LookupError

    with caplog.at_level(logging.WARNING, "django_redis_components.expiry"), pytest.raises(LookupError):
        rate()

    assert "Waiters for 'rate' wait until the lease expires: " in caplog.text


def test_flushed_scripts_are_loaded_again(store: Store) -> None:
    squared, calls = counting()
    for n in range(3):
        store.raw.script_flush()
        squared(n)
        store.raw.script_flush()
        squared(n)

    assert calls == [0, 1, 2]
    assert STORE.idempotent


def test_scripts_flushed_during_a_computation_are_loaded_again(store: Store) -> None:
    calls: list[int] = []

    @cached("fragile", 60)
    def fragile() -> int:
        calls.append(1)
        store.raw.script_flush()
        if len(calls) == 1:
            raise LookupError
        return len(calls)

    with pytest.raises(LookupError):
        fragile()
    assert [fragile(), fragile()] == [2, 2]
    store.raw.script_flush()
    assert fragile.invalidate()
    assert fragile() == 3


def test_value_without_json_representation_raises(redis_server: Store) -> None:
    @cached("thing", 60)
    def thing() -> object:
        return {1, 2}

    with pytest.raises(TypeError) as raised:
        thing()
    assert str(raised.value) == (
        "test_value_without_json_representation_raises.<locals>.thing() returned a value that cannot be stored: "
        "Object of type set is not JSON serializable. Pass dumps= and loads= to @cached."
    )
    assert redis_server.keys() == []


def test_error_of_dumps_is_quoted_as_one_sentence(redis_server: Store) -> None:
    def refuse(value: object) -> bytes:
        raise ValueError("It is empty.")

    @cached("thing", 60, dumps=refuse, loads=bytes)
    def thing() -> str:
        return ""

    with pytest.raises(TypeError, match=r"cannot be stored: It is empty\. Pass dumps= and loads= to @cached\.$"):
        thing()


def test_dumps_must_return_text_or_bytes(redis_server: Store) -> None:
    @cached("thing", 60, dumps=len, loads=bytes)
    def thing() -> str:
        return "abc"

    with pytest.raises(TypeError, match=r"^dumps=<built-in function len> returned int: expected str or bytes\.$"):
        thing()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("k", 0), ValueError, "ttl=0: expected a number of seconds above 0, or a timedelta."),
        (("k", -5), ValueError, "ttl=-5: expected a number of seconds above 0, or a timedelta."),
        (("k", None), TypeError, "ttl=None: expected a number of seconds above 0, or a timedelta."),
        ((7, 60), TypeError, "cache key 7: expected a string, a template or a callable."),
        (
            ("k:{m}", 60),
            ValueError,
            "cache key 'k:{m}' of func(): the function takes no argument 'm'; it has n.",
        ),
        (("", 60), ValueError, "cache key is empty: expected 1 to 200 bytes of text."),
    ],
)
def test_invalid_argument_raises_at_decoration(arguments: Any, error: type[Exception], message: str) -> None:
    def func(n: int) -> int:
        return n

    func.__qualname__ = "func"

    with pytest.raises(error) as raised:
        cached(*arguments)(func)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"early": "yes"}, "early='yes': expected a number above 0, or True or False."),
        ({"early": 0}, "early=0: expected a number above 0, or True or False."),
        ({"spread": 1}, "spread=1: expected a number from 0 to below 1."),
        ({"lease": 0}, "lease=0: expected a number of seconds above 0, or a timedelta."),
        ({"dumps": None}, "dumps=None: expected a callable."),
        ({"loads": "json"}, "loads='json': expected a callable."),
    ],
)
def test_invalid_option_raises(options: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        cached("k", 60, **options)
    assert str(raised.value) == message


def test_generator_function_raises() -> None:
    def numbers() -> Any:
        yield 1

    with pytest.raises(TypeError, match=r"numbers\(\) is a generator function: what it yields cannot be cached\.$"):
        cached("k", 60)(numbers)


def test_invalid_key_raises_in_the_call(redis_server: Store) -> None:
    @cached("k:{text}", 60)
    def func(text: str) -> str:
        return text

    with pytest.raises(ValueError, match=r"cache key 'k:{': braces are not accepted"):
        func("{")


class Report:
    async def __call__(self) -> int:
        return 7


def test_every_kind_of_coroutine_function_is_awaited(redis_server: Store) -> None:
    threaded = cached("threaded", 60)(sync_to_async(lambda: 5))
    called = cached("called", 60)(Report())

    assert [run_async(function) for function in (threaded, threaded, called)] == [5, 5, 7]


def test_function_that_returns_an_awaitable_raises(redis_server: Store) -> None:
    report = Report()

    def later() -> Any:
        return report()

    with pytest.raises(TypeError, match=r"later\(\) must be awaited: an awaitable cannot be cached"):
        cached("later", 60)(later)()

    assert waiters(redis_server, "later") == 0


def test_different_arguments_never_share_a_value(redis_server: Store) -> None:
    @cached("page:{owner}:{slug}", 60)
    def page(owner: str, slug: str) -> list[str]:
        return [owner, slug]

    assert page("a", "b:c") == ["a", "b:c"]
    assert page("a:b", "c") == ["a:b", "c"]
