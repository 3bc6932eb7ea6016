"""Leases that are renewed while their holder works."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core.leasing import renewal
from django_redis_components.core.leasing.lease import Lease
from django_redis_components.core.leasing.renewal import LeaseWatch
from django_redis_components.core.protocol import Flow
from django_redis_components.locks import Lock, LockLost, LockNotOwned, lock
from tests.conftest import components_settings
from tests.support import Proxy, Store, eventually, run_async, run_together
from tests.support.raising_logs import raising_logs
from tests.support.renewals import end_renewer, is_renewer_running, renew_now
from tests.support.waiting import TIMEOUT_S
from tests.taskqueue.hostile import errors

#: Seconds of a short lease: it is renewed at a third of them.
SHORT_S = 0.5


@pytest.fixture(autouse=True)
def _own_renewer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No thread of an earlier test runs, and that of this test ends with it."""
    monkeypatch.setattr(renewal, "LINGER_S", 0.05)
    end_renewer()
    yield
    end_renewer()


def key_of(store: Store) -> str:
    return f"{store.prefix}:locks:{{stock}}"


@contextlib.contextmanager
def stopped(store: Store, held: Lock) -> Iterator[None]:
    """Acquire the lock, and stop the server during the block."""
    held.acquire()
    pid = store.servers[0].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def with_long_timeout(store: Store) -> dict[str, object]:
    """Return the settings of a connection whose timeout is longer than the test."""
    return {"URL": store.url, "SOCKET_TIMEOUT": 120}


def no_more_threads(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_lease_is_renewed_until_it_is_released(store: Store) -> None:
    with Lock("stock", timeout=60, renew=True) as held:
        for _ in range(2):
            store.raw.pexpire(key_of(store), 10_000)
            renew_now(held)
            assert 20_000 < store.raw.pttl(key_of(store)) <= 60_000

        held.check()
        assert held.owned()
        assert not held.lost.is_set()

    assert not held.locked()


def test_lease_is_renewed_when_its_renewal_is_due(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: set[float] = set()
    monkeypatch.setattr(renewal, "RENEW_AFTER", 0.01)
    with Lock("stock", timeout=60, renew=True) as held:

        def is_renewed_twice() -> bool:
            deadlines.add(held.flows.owner_lease().deadline_at)
            return len(deadlines) > 2

        eventually(is_renewed_twice)

        assert held.owned()


def test_renewal_is_due_after_a_third_of_the_lease(redis_server: Store) -> None:
    with Lock("stock", timeout=600, renew=True) as held:
        for _ in range(2):
            watch = renewal.renewer.watches[held.flows.owner_lease()]
            assert 100 < watch.due_at - time.monotonic() <= 200
            renew_now(held)


def test_lease_of_a_task_is_renewed_while_its_loop_is_blocked(redis_server: Store) -> None:
    async def main() -> None:
        async with Lock("stock", timeout=60, renew=True) as held:
            renew_now(held)
            assert await held.aowned()

    run_async(main)


def test_lease_expires_without_renewal(redis_server: Store) -> None:
    held = Lock("stock", timeout=SHORT_S)
    held.acquire()

    assert held.lost.wait(60)
    assert not is_renewer_running()


def test_released_lock_is_not_renewed(redis_server: Store) -> None:
    calls: list[object] = []
    held = Lock("stock", timeout=60, renew=True, on_lost=calls.append)
    held.acquire()

    held.release()

    assert not renewal.renewer.watches
    end_renewer()
    assert calls == []
    assert not held.locked()


def test_lease_is_not_renewed_after_max_lease(redis_server: Store) -> None:
    lost: list[object] = []
    held = Lock("stock", timeout=60, renew=True, max_lease=600, on_lost=lost.append)
    held.acquire()
    watch = renewal.renewer.watches[held.flows.owner_lease()]
    assert 500 < watch.renew_until - time.monotonic() <= 600
    renew_now(held)
    watch.renew_until = time.monotonic()  # as if max_lease had passed
    deadline = watch.lease.deadline_at

    renewal.renewer.recheck(watch.lease)
    eventually(lambda: watch.due_at == deadline)
    assert not watch.is_renewing
    watch.lease.deadline_at = time.monotonic()
    renewal.renewer.recheck(watch.lease)

    eventually(lambda: lost == [held])
    with pytest.raises(LockLost):
        held.check()


def test_on_lost_is_called_when_the_server_refuses_a_renewal(redis_server: Store) -> None:
    lost: list[object] = []
    held = Lock("stock", timeout=SHORT_S, renew=True, on_lost=lost.append)
    held.acquire()

    redis_server.raw.set(key_of(redis_server), "another token")

    eventually(lambda: lost)
    assert lost == [held]
    assert held.lost.is_set()
    assert redis_server.raw.get(key_of(redis_server)) == b"another token"


def test_on_lost_is_called_without_renewal(redis_server: Store) -> None:
    lost: list[object] = []
    held = Lock("stock", timeout=0.05, on_lost=lost.append)
    held.acquire()

    eventually(lambda: lost)

    assert lost == [held]


def test_extended_lease_is_not_reported_lost_at_its_first_deadline(redis_server: Store) -> None:
    lost: list[object] = []
    held = Lock("stock", timeout=60, on_lost=lost.append)
    held.acquire()
    watch = renewal.renewer.watches[held.flows.owner_lease()]
    first_deadline = watch.due_at
    held.extend(600)

    renewal.renewer.recheck(watch.lease)  # as if the first deadline had come

    eventually(lambda: watch.due_at > first_deadline)
    assert watch.lease in renewal.renewer.watches
    held.release()
    assert lost == []


def test_on_lost_is_called_at_once_when_extend_is_refused(redis_server: Store) -> None:
    lost: list[object] = []
    held = Lock("stock", timeout=60, on_lost=lost.append)
    held.acquire()
    redis_server.raw.delete(key_of(redis_server))

    with pytest.raises(LockNotOwned):
        held.extend(60)

    eventually(lambda: lost)


def test_failing_on_lost_is_logged_and_other_leases_are_renewed(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise LookupError("in the callback")

    failing, other = Lock("stock", timeout=0.05, on_lost=fail), Lock("price", timeout=60, renew=True)
    other.acquire()
    failing.acquire()

    eventually(lambda: "in the callback" in caplog.text)

    renew_now(other)
    assert other.owned()
    other.release()


def test_on_lost_that_raises_system_exit_is_logged(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    failing, other = Lock("stock", timeout=0.05, on_lost=lambda _: sys.exit(1)), Lock("price", renew=True)
    failing.acquire()

    eventually(lambda: "SystemExit: 1" in caplog.text)

    with other:
        renew_now(other)


@pytest.mark.parametrize("kind", errors.KINDS)
def test_on_lost_may_raise_anything(redis_server: Store, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise errors.make(kind)

    failing, other = Lock("stock", timeout=0.05, on_lost=fail), Lock("price", timeout=60, renew=True)
    failing.acquire()

    [message] = eventually(lambda: [each for each in map(str, caplog.messages) if each.startswith("on_lost of ")])
    assert message.startswith(f"on_lost of {failing} failed.")
    assert failing.lost.is_set()
    with other:
        renew_now(other)


def test_on_lost_may_raise_anything_while_no_thread_can_be_started(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def fail(held: Lock) -> None:
        calls.append(held.name)
        raise errors.make("exit")

    other = Lock("price", timeout=60, renew=True)
    with other, monkeypatch.context() as patch, raising_logs(SystemExit):
        renew_now(other)  # the threads run
        patch.setattr(renewal, "start_daemon", no_more_daemons)
        for each in [Lock(name, timeout=0.05, on_lost=fail) for name in ("stock", "mail")]:
            each.acquire()
            eventually(lambda: calls[-1:] == [each.name])  # noqa: B023 - called at once
        renew_now(other)


def no_more_daemons(*_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_slow_on_lost_delays_no_other_lease(redis_server: Store) -> None:
    calls: list[object] = []
    may_return = threading.Event()
    slow = Lock("stock", timeout=0.05, on_lost=lambda held: (calls.append(held), may_return.wait(60)))
    slow.acquire()
    eventually(lambda: calls)

    with Lock("price", timeout=60, renew=True) as other:
        renew_now(other)
    next_one = Lock("mail", timeout=0.05, on_lost=calls.append)
    next_one.acquire()

    eventually(lambda: calls == [slow, next_one])
    may_return.set()


def test_on_lost_sees_the_lost_lease_of_a_shared_object(redis_server: Store) -> None:
    calls: list[object] = []

    def on_lost(held: Lock) -> None:
        calls.append(held.token)
        with contextlib.suppress(LockNotOwned):
            held.release()
        calls.append(held)

    shared = Lock("stock", timeout=60, on_lost=on_lost)
    shared.acquire()
    mine = shared.flows.owner_lease()
    redis_server.raw.delete(key_of(redis_server))

    def acquire_it_and_report_the_first_loss() -> bool:
        shared.acquire()
        mine.mark_lost()
        renewal.renewer.recheck(mine)
        eventually(lambda: calls == [mine.token, shared])
        is_owned = shared.owned()
        shared.release()
        return is_owned

    assert run_together(1, acquire_it_and_report_the_first_loss) == [True]


def test_hung_server_costs_no_lease_on_another_server(own_server: Store, redis_server: Store, settings) -> None:
    urls = {"default": {"URL": redis_server.url}, "other": with_long_timeout(own_server)}
    settings.REDIS_COMPONENTS = {"PREFIX": redis_server.prefix, "CONNECTIONS": urls}
    hanging, other = Lock("stock", timeout=60, renew=True, using="other"), Lock("price", timeout=60, renew=True)
    with stopped(own_server, hanging), other:
        watch = renewal.renewer.watches[hanging.flows.owner_lease()]
        renewal.renewer.recheck(watch.lease)
        eventually(lambda: watch.is_renewing)

        renew_now(other)

        assert watch.is_renewing
    hanging.release()  # otherwise the renewer watches it until its next renewal


def test_on_lost_is_called_while_the_server_hangs(own_server: Store, settings) -> None:
    settings.REDIS_COMPONENTS = {"PREFIX": own_server.prefix, "CONNECTIONS": {"default": with_long_timeout(own_server)}}
    lost: list[object] = []
    held = Lock("stock", timeout=60, renew=True, on_lost=lost.append)
    with stopped(own_server, held):
        watch = renewal.renewer.watches[held.flows.owner_lease()]
        renewal.renewer.recheck(watch.lease)
        eventually(lambda: watch.is_renewing)
        watch.lease.deadline_at = time.monotonic()
        renewal.renewer.recheck(watch.lease)

        eventually(lambda: lost)

        assert watch.is_renewing


def test_lock_is_released_when_the_renewal_thread_cannot_start(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more_threads)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            Lock("stock", renew=True).acquire()
    assert not Lock("stock").locked()

    with Lock("stock", timeout=60, renew=True) as held:
        renew_now(held)


def test_renewal_and_on_lost_work_when_no_more_threads_can_start(
    redis_server: Store, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REDIS_COMPONENTS = components_settings(redis_server, threadless=redis_server.url)
    lost: list[object] = []
    held = Lock("stock", timeout=60, renew=True, on_lost=lost.append, using="threadless")  # nothing was renewed there
    held.acquire()

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more_threads)
        renew_now(held)
        redis_server.raw.delete(key_of(redis_server))
        renewal.renewer.recheck(held.flows.owner_lease())

        eventually(lambda: lost)


def test_renewal_is_retried_after_a_connection_error(proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    held = Lock("stock", timeout=60, renew=True, using="proxied")
    held.acquire()
    proxy.stop_accepting()
    proxy.cut()
    renewal.renewer.recheck(held.flows.owner_lease())
    eventually(lambda: "was not renewed and will be retried" in caplog.text)

    proxy.accept_again()

    renew_now(held)
    held.check()
    held.release()


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_leases_are_renewed_while_the_logging_raises(proxy: Proxy, error: type[BaseException]) -> None:
    lost: list[object] = []
    held = Lock("stock", timeout=60, renew=True, using="proxied")
    with raising_logs(error) as messages, held:
        for number in range(3):
            proxy.stop_accepting()
            proxy.cut()
            renewal.renewer.recheck(held.flows.owner_lease())
            eventually(lambda: len(messages) > number)  # noqa: B023 - called at once
            proxy.accept_again()
            renew_now(held)
            messages[number + 1 :] = []

        short = Lock("mail", timeout=0.05, on_lost=lost.append)
        short.acquire()
        eventually(lambda: lost == [short])
        renew_now(held)
        held.check()


def test_lease_is_lost_when_the_server_stays_down(own_server: Store) -> None:
    lost: list[object] = []
    held = Lock("stock", timeout=SHORT_S, renew=True, on_lost=lost.append)
    held.acquire()

    own_server.servers[0].kill()

    eventually(lambda: lost)
    assert held.lost.is_set()


def test_renewal_is_retried_after_an_error_reply(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    held = Lock("stock", timeout=60, renew=True)
    held.acquire()
    redis_server.raw.pipeline().delete(key_of(redis_server)).rpush(key_of(redis_server), "not a lock").execute()
    renewal.renewer.recheck(held.flows.owner_lease())
    eventually(lambda: "WRONGTYPE" in caplog.text)

    redis_server.raw.delete(key_of(redis_server))

    eventually(lambda: "was lost before it was released" in caplog.text)
    assert held.lost.is_set()


def test_lease_is_lost_when_its_connection_is_removed_from_settings(
    redis_server: Store, settings, caplog: pytest.LogCaptureFixture
) -> None:
    held = Lock("stock", timeout=60, renew=True)
    held.acquire()
    lease = held.flows.owner_lease()

    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"other": {"URL": redis_server.url}}}

    renewal.renewer.recheck(lease)
    eventually(lambda: "has no 'default'" in caplog.text)
    lease.deadline_at = time.monotonic()
    renewal.renewer.recheck(lease)
    eventually(lambda: "was lost before it was released" in caplog.text)


def test_lease_whose_release_failed_is_left_to_expire(proxy: Proxy) -> None:
    lost: list[object] = []
    held = Lock("stock", timeout=60, renew=True, on_lost=lost.append, using="proxied")

    def work() -> None:
        with held:
            proxy.stop_accepting()
            proxy.cut()

    with pytest.raises(ConnectionError):
        work()
    proxy.accept_again()

    assert not renewal.renewer.watches
    assert Lock("stock").locked()
    end_renewer()
    assert lost == []


def test_lease_of_a_garbage_collected_lock_is_left_to_expire(redis_server: Store) -> None:
    held = Lock("stock", timeout=SHORT_S, renew=True)
    held.acquire()
    gone = weakref.ref(held)

    del held
    gc.collect()

    assert gone() is None
    eventually(lambda: not renewal.renewer.watches)
    assert Lock("stock").acquire(blocking_timeout=60)


def test_many_leases_are_renewed_by_one_thread(redis_server: Store) -> None:
    locks = [Lock(f"stock-{number}", timeout=60, renew=True) for number in range(250)]
    for held in locks:
        held.acquire()
    deadlines = [held.flows.owner_lease().deadline_at for held in locks]

    for held in locks:
        renewal.renewer.recheck(held.flows.owner_lease())

    eventually(
        lambda: all(held.flows.owner_lease().deadline_at > old for held, old in zip(locks, deadlines, strict=True))
    )
    threads = [thread for thread in threading.enumerate() if thread.name == "redis-lease-renewer"]
    assert len(threads) == 1
    for held in locks:
        held.release()


def test_renewal_thread_survives_an_unexpected_error(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    genuine = renewal.extend_all
    errors = iter([LookupError("a mistake")])

    def fail_once(renewals: list[tuple[LeaseWatch, int]]) -> Flow[list[object]]:
        for error in errors:
            raise error
        return genuine(renewals)

    monkeypatch.setattr(renewal, "extend_all", fail_once)
    with Lock("stock", timeout=60, renew=True) as held:
        renew_now(held)

        assert held.owned()
    assert "a mistake" in caplog.text


class ReleasedMeanwhile(dict[Lease, LeaseWatch]):
    """All watched leases are released when the renewer has listed them, or has asked twice whether there are any."""

    asked = 0

    def __len__(self) -> int:
        size = super().__len__()
        if threading.current_thread().name == "redis-lease-renewer":
            self.asked += 1
            if self.asked == 2:
                self.clear()
        return size

    def values(self) -> Any:
        found = list(super().values())
        if threading.current_thread().name == "redis-lease-renewer":
            self.clear()
        return found


def test_renewal_thread_survives_a_release_while_it_looks_for_the_next_lease(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        watches = ReleasedMeanwhile()
        patch.setattr(renewal.renewer, "watches", watches)
        Lock("stock", timeout=60, renew=True).acquire()
        eventually(lambda: not watches)

    with Lock("price", timeout=60, renew=True) as held:
        renew_now(held)


def test_release_during_a_renewal_is_not_reported_as_a_loss(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    genuine = renewal.extend_all
    started, released = threading.Event(), threading.Event()

    def extend_after_the_release(renewals: list[tuple[LeaseWatch, int]]) -> Flow[list[object]]:
        started.set()
        assert released.wait(TIMEOUT_S)
        return genuine(renewals)

    monkeypatch.setattr(renewal, "extend_all", extend_after_the_release)
    lost: list[object] = []
    held = Lock("stock", timeout=60, renew=True, on_lost=lost.append)
    held.acquire()
    watch = renewal.renewer.watches[held.flows.owner_lease()]
    renewal.renewer.recheck(watch.lease)
    assert started.wait(TIMEOUT_S)
    held.release()
    released.set()

    eventually(lambda: not watch.is_renewing)
    end_renewer()

    assert "was lost" not in caplog.text
    assert lost == []


def test_recheck_ignores_a_lease_that_is_not_watched(redis_server: Store) -> None:
    held = Lock("stock")
    held.acquire()

    renewal.renewer.recheck(held.flows.owner_lease())

    assert held.owned()
    held.release()


def test_forked_child_renews_its_own_leases_and_not_its_parents(redis_server: Store) -> None:
    parents = Lock("stock", timeout=60, renew=True)
    parents.acquire()

    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        code = 9
        try:
            no_watches = not renewal.renewer.watches
            with Lock("price", timeout=60, renew=True) as mine:
                renew_now(mine)
                code = 7 if no_watches and mine.owned() else 8
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7
    renew_now(parents)
    assert parents.owned()
    parents.release()


def test_lease_of_a_decorated_function_is_renewed(redis_server: Store) -> None:
    @lock("stock", timeout=60, renew=True)
    def work() -> bool:
        [watch] = renewal.renewer.watches.values()
        return watch.ttl_ms == 60_000 and Lock("stock").locked()

    assert work()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"max_lease": 60}, ValueError, "max_lease=60 requires renew=True: otherwise a lease ends after its timeout."),
        (
            {"max_lease": 5, "renew": True},
            ValueError,
            "max_lease=5: expected at least the timeout, which is 30.0.",
        ),
        ({"max_lease": "60", "renew": True}, TypeError, "max_lease='60': expected a number of seconds"),
        ({"on_lost": 7}, TypeError, "on_lost=7: expected a function that takes the lock."),
    ],
)
def test_invalid_option_is_refused(arguments: dict[str, object], error: type, text: str) -> None:
    for make in (Lock, lock):
        with pytest.raises(error) as caught:
            make("stock", **arguments)

        assert text in str(caught.value)
