"""A lost connection: before EXEC a conflict; at EXEC resolved by the marker, never executed twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis
from redis.exceptions import ConnectionError

from django_redis_components.transactions import OutcomeUnknown, aatomic_update, atomic_update, flow
from tests.support import Proxy, Store, run_async
from tests.support.processes import Children
from tests.transactions.accounts import double


@pytest.fixture
def account(redis_server: Store) -> str:
    key = f"{redis_server.prefix}:account"
    redis_server.raw.set(key, 5)
    return key


async def adouble(pipe: Any, account: str) -> int:
    balance = int(await pipe.get(account))
    pipe.multi()
    pipe.set(account, balance * 2)
    return balance * 2


def test_lost_reply_to_exec_is_resolved_without_a_second_execution(
    proxy: Proxy, redis_server: Store, account: str
) -> None:
    proxy.drop_next_reply(b"EXEC")

    assert atomic_update(double(account), account, using="proxied") == 10

    assert proxy.dropped == 1
    assert redis_server.raw.get(account) == b"10"


def test_redis_py_would_execute_it_twice(proxy: Proxy, redis_server: Store, account: str) -> None:
    """Why `transaction` of redis-py is not used: it raises WatchError after a lost reply to EXEC."""
    client = redis.Redis.from_url(proxy.url)
    proxy.drop_next_reply(b"EXEC")

    client.transaction(double(account), account)

    assert redis_server.raw.get(account) == b"20"
    client.close()


def test_async_update_resolves_a_lost_reply_to_exec(proxy: Proxy, redis_server: Store, account: str) -> None:
    proxy.drop_next_reply(b"EXEC")

    assert run_async(lambda: aatomic_update(lambda pipe: adouble(pipe, account), account, using="proxied")) == 10

    assert proxy.dropped == 1
    assert redis_server.raw.get(account) == b"10"


def test_lost_reply_to_the_marker_request_is_repeated(proxy: Proxy, redis_server: Store, account: str) -> None:
    proxy.drop_next_reply(account.encode() + b"}:done:", times=3)  # WATCH, EXEC, and the question

    assert atomic_update(double(account), account, using="proxied") == 10

    assert proxy.dropped == 3
    assert redis_server.raw.get(account) == b"10"


def test_delayed_exec_is_not_executed_after_its_resolution(redis_server: Store, account: str) -> None:
    """The EXEC arrives after its resolution, which has made it void."""
    marker = f"{redis_server.prefix}:marker"
    late = redis.Redis.from_url(redis_server.url, single_connection_client=True)
    late.execute_command("WATCH", account, marker)
    other = redis.Redis.from_url(redis_server.url)

    assert other.set(marker, "void", nx=True, get=True, px=60_000) is None

    late.execute_command("MULTI")
    late.execute_command("SET", account, 0)
    assert late.execute_command("EXEC") is None
    assert redis_server.raw.get(account) == b"5"
    late.close()
    other.close()


@pytest.mark.parametrize("catches", [False, True], ids=["raised", "caught"])
def test_connection_lost_while_watching_is_a_conflict(
    proxy: Proxy, redis_server: Store, account: str, catches: bool
) -> None:
    calls = []

    def attempt(pipe: Any) -> int:
        calls.append(1)
        if len(calls) == 1:
            proxy.cut()
            redis_server.raw.set(account, 7)
        try:
            balance = int(pipe.get(account))
        except redis.WatchError:
            if not catches:
                raise
            with pytest.raises(redis.WatchError, match=r"^The keys are no longer watched: "):
                pipe.get(account)
            balance = 0
        pipe.multi()
        pipe.set(account, balance * 2)
        return balance * 2

    assert atomic_update(attempt, account, using="proxied") == 14

    assert len(calls) == 2
    assert redis_server.raw.get(account) == b"14"


def test_connection_lost_between_read_and_exec_writes_once(proxy: Proxy, redis_server: Store, account: str) -> None:
    calls = []

    def attempt(pipe: Any) -> int:
        calls.append(1)
        balance = int(pipe.get(account))
        pipe.multi()
        pipe.set(account, balance * 2)
        if len(calls) == 1:
            proxy.cut()
        return balance * 2

    assert atomic_update(attempt, account, using="proxied") == 10
    assert redis_server.raw.get(account) == b"10"


def test_exception_of_the_function_is_raised_even_if_the_connection_is_lost(proxy: Proxy, account: str) -> None:
    def attempt(pipe: Any) -> None:
        pipe.get(account)
        proxy.cut()
        raise LookupError("not for sale")

    with pytest.raises(LookupError, match="not for sale"):
        atomic_update(attempt, account, using="proxied")


def test_read_only_transaction_is_repeated_after_a_lost_reply(proxy: Proxy, account: str) -> None:
    proxy.drop_next_reply(b"EXEC")

    assert atomic_update(lambda pipe: int(pipe.get(account)), account, using="proxied") == 5
    assert proxy.dropped == 1


def test_outcome_unknown_is_raised_with_the_marker_at_the_timeout(
    proxy: Proxy, redis_server: Store, account: str, settings: Any
) -> None:
    settings.REDIS_COMPONENTS["CONNECTIONS"]["proxied"] |= {"RETRIES": 0}
    settings.REDIS_COMPONENTS = dict(settings.REDIS_COMPONENTS)

    def attempt(pipe: Any) -> None:
        pipe.multi()
        pipe.incr(account)
        proxy.drop_next_reply(b"EXEC")
        proxy.stop_accepting()

    with pytest.raises(OutcomeUnknown) as raised:
        atomic_update(attempt, account, using="proxied", timeout=0.2)

    assert str(raised.value) == (
        f"Transaction on {account}: the reply to EXEC was lost, so it may have been executed. "
        "Check the data before calling again."
    )
    assert redis_server.raw.get(raised.value.marker) == b"done"
    assert redis_server.raw.get(account) == b"6"
    assert raised.value.attempts == 1


def test_reply_after_the_ttl_of_the_marker_decides_nothing(
    proxy: Proxy, redis_server: Store, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "MARKER_TTL_MS", 1)
    proxy.delay(0.02)
    proxy.drop_next_reply(b"EXEC")

    with pytest.raises(OutcomeUnknown):
        atomic_update(double(account), account, using="proxied")
    assert redis_server.raw.get(account) == b"10"


def test_connection_error_is_raised_while_redis_is_down(proxy: Proxy, account: str) -> None:
    proxy.stop_accepting()
    proxy.cut()

    with pytest.raises(ConnectionError):
        atomic_update(double(account), account, using="proxied", max_attempts=2)


def test_concurrent_processes_with_lost_replies_count_exactly(
    proxy: Proxy, redis_server: Store, account: str, children: Children
) -> None:
    proxy.drop_random(0.05)

    calls = [[account, 10, {"using": "proxied"}]] * 4
    children.call_together("tests.transactions.accounts:double_account", calls, timeout_s=90)
    proxy.drop_random(0)

    assert proxy.dropped > 0
    assert int(redis_server.raw.get(account)) == 5 * 2**40


def test_cancelled_task_writes_all_or_nothing_and_leaves_no_watch(redis_server: Store, account: str) -> None:
    async def cancelled_in_the_function() -> None:
        started = asyncio.Event()

        async def attempt(pipe: Any) -> None:
            await pipe.get(account)
            pipe.multi()
            pipe.set(account, 0)
            started.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(aatomic_update(attempt, account, lock_after=0))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await aatomic_update(lambda pipe: adouble(pipe, account), account, lock_after=0) == 10

    run_async(cancelled_in_the_function)

    assert redis_server.raw.get(account) == b"10"


def test_update_that_a_replica_refused_leads_to_the_new_primary_afterwards(
    sentinel_server: Store, settings: Any
) -> None:
    primary, replica = (each.url for each in sentinel_server.servers[:2])
    account = f"{sentinel_server.prefix}:account"
    redis.Redis.from_url(primary).set(account, 5, px=60_000)
    with Proxy(replica) as proxy:
        settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": proxy.url}}}
        with pytest.raises(redis.exceptions.ReadOnlyError):
            atomic_update(lambda pipe: pipe.multi() or pipe.set(account, 1), account)
        proxy.lead_to(primary)

        assert atomic_update(double(account), account) == 10
