"""Several names at once: all or none, in order of arrival, whatever dies or gets lost."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core.client.connections import client
from django_redis_components.core.leasing.renewal import renewer
from django_redis_components.core.protocol import Request, Sleep, Wait
from django_redis_components.locks import Lock, LockLost, LockNotAcquired, LockNotOwned, MultiLock
from django_redis_components.taskqueue import SoftTimeLimitExceeded
from tests.locks.steps import Steps, acquisition
from tests.support import Proxy, Store, eventually, run_async, run_together
from tests.support.pools import close_pools
from tests.support.renewals import renew_now

#: One request and its three repetitions.
ALL_TRIES = 4


def multi(*names: str, **options: object) -> MultiLock:
    return MultiLock(*names, group="stock", **options)


@pytest.fixture(params=["group", "spread"])
def make(request: pytest.FixtureRequest) -> Callable[..., MultiLock]:
    """A lock of several names with a group, then without one."""
    return multi if request.param == "group" else MultiLock


@pytest.fixture
def known_scripts(redis_server: Store) -> None:
    """A server that does not know a script refuses it: when that reply is lost, nothing has run."""
    for lock in (multi("warm"), MultiLock("warm")):
        with lock:
            lock.extend(70)


def base(store: Store) -> str:
    return f"{store.prefix}:locks:{{stock}}:group"


def holder_of(store: Store, name: str) -> bytes | None:
    return store.raw.get(f"{base(store)}:held:{name}")


def queue(store: Store, name: str) -> list[bytes]:
    return store.raw.zrange(f"{base(store)}:queue:{name}", 0, -1)


def queued(lock: MultiLock) -> Steps:
    """Return the steps of an `acquire` that is queued; its next request waits for the wakeup."""
    steps = acquisition(lock)
    steps.perform()
    assert isinstance(steps.request, Wait)
    return steps


def is_granted(steps: Steps) -> bool:
    """Return whether the waiter is granted the lock when it asks again."""
    steps.send(None)
    steps.perform()
    return steps.value is True


def test_acquire_locks_all_names(store: Store, make) -> None:
    lock = make("b", "a", "c")

    assert lock.acquire(blocking=False)

    assert lock.names == ("a", "b", "c")
    assert lock.owned()
    assert lock.locked()
    for name in "abc":
        assert not make(name).acquire(blocking=False)
        assert make(name).locked()


def test_acquire_locks_no_name_when_one_is_held(store: Store, make) -> None:
    make("b").acquire()
    lock = make("a", "b", "c")

    assert lock.acquire(blocking=False) is False

    assert lock.token is None
    assert not lock.owned()
    assert make("a", "c").acquire(blocking=False)


def test_release_frees_all_names(store: Store, make) -> None:
    lock = make("a", "b")
    lock.acquire()

    lock.release()

    assert not lock.locked()
    assert make("a", "b").acquire(blocking=False)


def test_locks_with_different_names_are_independent(redis_server: Store, make) -> None:
    assert make("a", "b").acquire(blocking=False)
    assert make("c", "d").acquire(blocking=False)


def test_groups_are_independent(redis_server: Store) -> None:
    assert MultiLock("a", "b", group="one").acquire(blocking=False)
    assert MultiLock("a", "b", group="two").acquire(blocking=False)


def test_duplicate_name_is_locked_once(redis_server: Store, make) -> None:
    with make("a", "a") as lock:
        assert lock.names == ("a",)


def test_without_a_group_names_are_shared_with_lock(store: Store) -> None:
    lock = MultiLock("a", "b")

    with Lock("b"):
        assert not lock.acquire(blocking=False)
        assert not Lock("a").locked()
    with lock:
        assert not Lock("a").acquire(blocking=False)
        assert store.raw.get(f"{store.prefix}:locks:{{a}}") == lock.token.encode()


def test_with_a_group_names_are_not_shared_with_lock(redis_server: Store) -> None:
    with multi("a", "b"):
        assert Lock("a").acquire(blocking=False)


def test_every_key_has_a_ttl(store: Store, make) -> None:
    holder, waiter = make("a", "b"), make("b", "c")
    holder.acquire()
    waiter.acquire(blocking_timeout=0.02)
    third = queued(multi("a", "b", "c")) if make is multi else None

    ttls = {key: store.raw.pttl(key) for key in store.keys()}  # noqa: SIM118

    assert ttls
    assert all(ttl > 0 for ttl in ttls.values()), ttls
    assert third is None or third.request is not None


def test_all_names_have_the_full_lease(redis_server: Store) -> None:
    multi("a", "b", timeout=100).acquire()

    for name in "ab":
        assert 60_000 < redis_server.raw.pttl(f"{base(redis_server)}:held:{name}") <= 100_000


@pytest.mark.contract
def test_extend_extends_all_leases(store: Store, make) -> None:
    lock = make("a", "b", timeout=20)
    lock.acquire()

    assert lock.extend(60)

    others = re.compile(rb"fence$|:fence:|:holder:")
    held = [key for key in store.keys() if not others.search(key)]  # noqa: SIM118
    assert len(held) == 2
    assert all(store.raw.pttl(key) > 30_000 for key in held)
    assert lock.remaining() > 30


@pytest.mark.contract
def test_extend_raises_when_one_name_is_lost(store: Store) -> None:
    lock = multi("a", "b", timeout=20)
    lock.acquire()
    store.raw.delete(f"{base(store)}:held:b")

    with pytest.raises(LockNotOwned, match="Lock 'a, b' cannot be extended"):
        lock.extend(60)

    assert store.raw.pttl(f"{base(store)}:held:a") <= 20_000
    assert lock.lost.is_set()
    with pytest.raises(LockLost):
        lock.check()


@pytest.mark.contract
def test_release_after_one_name_was_lost_frees_the_others_and_raises(store: Store, make) -> None:
    lock = make("a", "b")
    lock.acquire()
    thief = b"thief"
    key = f"{base(store)}:held:b" if make is multi else f"{store.prefix}:locks:{{b}}"
    store.raw.set(key, thief, px=60_000)

    with pytest.raises(LockNotOwned, match="Lock 'a, b' cannot be released"):
        lock.release()

    assert store.raw.get(key) == thief
    assert make("a").acquire(blocking=False)


def test_expired_lock_can_be_acquired_by_others(redis_server: Store, make) -> None:
    make("a", "b", timeout=0.02).acquire()

    assert make("b", "c").acquire(blocking_timeout=60)


def test_group_gets_one_fencing_token_above_all_earlier_ones(store: Store) -> None:
    numbers = []
    for names in (("a",), ("b",), ("a", "b"), ("b", "c"), ("a", "b", "c")):
        with multi(*names) as lock:
            assert lock.fencing_tokens == dict.fromkeys(sorted(names), lock.fencing_token)
            numbers.append(lock.fencing_token)

    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("ahead", ["a", "b"])
def test_fencing_token_grows_after_the_server_clock_was_set_back(redis_server: Store, ahead: str) -> None:
    redis_server.raw.set(f"{base(redis_server)}:fence:{ahead}", 2**52)

    with multi("a", "b") as lock:
        assert lock.fencing_token == 2**52 + 1
    with multi("a") as lock:
        assert lock.fencing_token == 2**52 + 2


def test_queue_order_survives_a_server_clock_that_was_set_back(redis_server: Store) -> None:
    multi("a", "b").acquire()
    queued(multi("a"))
    first = queue(redis_server, "a")[0]
    redis_server.raw.zadd(f"{base(redis_server)}:queue:a", {first: 2**52})

    queued(multi("a", "b"))

    assert queue(redis_server, "a")[0] == first
    tickets = [redis_server.raw.zrange(f"{base(redis_server)}:queue:{name}", -1, -1, withscores=True) for name in "ab"]
    assert tickets[0] == tickets[1]


def test_without_a_group_each_name_has_its_own_fencing_token(redis_server: Store) -> None:
    with Lock("a") as earlier:
        number = earlier.fencing_token

    with MultiLock("a", "b") as lock:
        assert lock.fencing_token is None
        assert lock.fencing_tokens["a"] > number
        assert set(lock.fencing_tokens) == {"a", "b"}
    assert lock.fencing_tokens == {}


def test_waiter_is_granted_when_all_its_names_are_free(store: Store) -> None:
    first, second = multi("a"), multi("b")
    first.acquire()
    second.acquire()
    waiter = queued(multi("a", "b"))

    first.release()
    assert holder_of(store, "a") is None
    second.release()

    assert store.raw.llen(waiter.request.wakeup.keys[0]) == 1
    assert is_granted(waiter)
    assert queue(store, "a") == queue(store, "b") == []


def test_newcomer_cannot_acquire_a_name_that_has_a_waiter(redis_server: Store) -> None:
    multi("b").acquire()
    waiter = queued(multi("a", "b"))

    assert not multi("a").acquire(blocking=False)
    assert multi("c").acquire(blocking=False)
    assert waiter.request is not None


def test_first_waiter_is_first_in_all_its_queues(store: Store) -> None:
    holder = multi("a", "b", "c")
    holder.acquire()
    waiters = [queued(multi("a", "b")), queued(multi("b", "c")), queued(multi("c"))]

    holder.release()

    assert is_granted(waiters[0])
    assert not is_granted(waiters[1])
    assert not is_granted(waiters[2])
    store.raw.delete(f"{base(store)}:held:a", f"{base(store)}:held:b")
    assert is_granted(waiters[1])
    assert not is_granted(waiters[2])


def test_release_grants_to_all_eligible_waiters(redis_server: Store) -> None:
    holder = multi("a", "b", "c", "d")
    holder.acquire()
    waiters = [queued(multi("a", "b")), queued(multi("c", "d"))]

    holder.release()

    assert all(is_granted(waiter) for waiter in waiters)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_waiter_that_leaves_the_queue_unblocks_later_ones(store: Store, interruption: type[BaseException]) -> None:
    multi("b").acquire()
    interrupted, behind = queued(multi("a", "b")), queued(multi("a"))

    interrupted.throw(interruption())
    assert interrupted.wants("abandon")
    interrupted.perform()

    assert isinstance(interrupted.error, interruption)
    assert store.raw.llen(behind.request.wakeup.keys[0]) == 1
    assert is_granted(behind)


def test_waiter_that_reaches_its_time_limit_unblocks_later_ones(redis_server: Store) -> None:
    multi("b").acquire()
    short_wait = acquisition(multi("a", "b", blocking_timeout=0.02))
    short_wait.perform()
    behind = queued(multi("a"))

    while short_wait.value is None:
        short_wait.perform()

    assert short_wait.value is False
    assert redis_server.raw.llen(behind.request.wakeup.keys[0]) == 1
    assert is_granted(behind)


@pytest.mark.contract
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_interrupted_waiter_passes_on_its_handoff(store: Store, interruption: type[BaseException]) -> None:
    holder = multi("a", "b")
    holder.acquire()
    interrupted, behind = queued(multi("a", "b")), queued(multi("b"))
    holder.release()

    interrupted.throw(interruption())
    interrupted.perform()

    assert is_granted(behind)
    assert not multi("a").locked()


def test_dead_waiter_is_skipped_in_all_its_queues(store: Store) -> None:
    holder = multi("a", "b")
    holder.acquire()
    dead, living = queued(multi("a", "b")), queued(multi("b"))
    store.raw.zadd(f"{base(store)}:asked", {queue(store, "a")[0]: 1})

    holder.release()

    assert is_granted(living)
    assert queue(store, "a") == queue(store, "b") == []
    assert dead.request is not None


def test_waiter_whose_names_were_lost_is_skipped(redis_server: Store) -> None:
    holder = multi("a")
    holder.acquire()
    queued(multi("a"))
    redis_server.raw.delete(base(redis_server))

    holder.release()

    newcomer = multi("a")
    assert newcomer.acquire(blocking=False)
    waiter = queued(multi("a"))
    newcomer.release()
    assert is_granted(waiter)


def test_waiter_returns_to_each_queue_that_lost_it(store: Store) -> None:
    holder = multi("a")
    holder.acquire()
    waiter = queued(multi("a", "b"))
    store.raw.delete(f"{base(store)}:queue:a")  # each queue has its own TTL, and others keep some of them alive

    waiter.send(None)
    waiter.perform()

    assert queue(store, "a") == queue(store, "b") != []
    holder.release()
    assert is_granted(waiter)


def test_waiter_that_paused_is_served_before_later_ones(store: Store) -> None:
    holder = multi("a")
    holder.acquire()
    first, second = queued(multi("a", "b")), queued(multi("b"))
    tokens = [first.request.wakeup.keys[0].rsplit(":", 1)[1], second.request.wakeup.keys[0].rsplit(":", 1)[1]]
    store.raw.zadd(f"{base(store)}:asked", {tokens[0]: 1}, xx=True)
    assert is_granted(second)  # the first one is silent, and passed over

    first.send(None)
    first.perform()
    third = queued(multi("b"))

    assert queue(store, "b") == [token.encode() for token in (tokens[0], third.request.wakeup.keys[0][-32:])]


def test_newcomer_grants_expired_names_to_the_first_waiter(store: Store) -> None:
    multi("a", "b").acquire()
    waiter = queued(multi("a", "b"))
    store.raw.delete(f"{base(store)}:held:a", f"{base(store)}:held:b")

    assert not multi("b").acquire(blocking=False)

    assert store.raw.llen(waiter.request.wakeup.keys[0]) == 1
    assert is_granted(waiter)


def test_handoff_becomes_the_requested_lease(redis_server: Store) -> None:
    holder = multi("a", "b")
    holder.acquire()
    waiter = queued(multi("a", "b", timeout=60))

    holder.release()

    assert redis_server.raw.pttl(f"{base(redis_server)}:held:a") <= 2_000
    assert is_granted(waiter)
    assert redis_server.raw.pttl(f"{base(redis_server)}:held:a") > 30_000
    assert redis_server.raw.pttl(f"{base(redis_server)}:held:b") > 30_000


def test_acquire_with_the_holders_token_keeps_the_fencing_token(store: Store) -> None:
    first, second = multi("a", "b", timeout=5), multi("a", "b", timeout=60)
    first.acquire()
    with multi("c"):
        pass

    assert second.acquire(blocking=False, token=first.token)

    assert second.fencing_token == first.fencing_token
    assert second.remaining() > 30


def test_grant_whose_fencing_token_was_lost_gets_a_new_one(redis_server: Store) -> None:
    first, again = multi("a"), multi("a")
    first.acquire()
    redis_server.raw.delete(f"{base(redis_server)}:fence:a")

    again.acquire(token=first.token)

    assert again.fencing_token > first.fencing_token


def test_refused_token_releases_the_names_that_it_still_has(redis_server: Store) -> None:
    lock = multi("a", "b")
    lock.acquire()
    redis_server.raw.set(f"{base(redis_server)}:held:b", "thief", px=60_000)

    assert not multi("a", "b").acquire(blocking=False, token=lock.token)

    assert holder_of(redis_server, "a") is None


def test_no_wait_is_longer_than_a_handoff(redis_server: Store) -> None:
    multi("a", timeout=600).acquire()
    redis_server.raw.set(f"{base(redis_server)}:held:b", "for ever")

    assert queued(multi("a", "b")).request.seconds <= 2
    assert queued(multi("b")).request.seconds <= 2


def test_token_that_requests_other_names_leaves_its_old_queues(redis_server: Store) -> None:
    multi("a", "b").acquire()
    Steps(multi("a").flows.acquire(token="mine")).perform()

    Steps(multi("b").flows.acquire(token="mine")).perform()

    assert queue(redis_server, "a") == []
    assert queue(redis_server, "b") == [b"mine"]


@pytest.mark.parametrize("method", ["acquire", "release", "extend"])
def test_lost_reply_changes_nothing(proxy: Proxy, make, method: str) -> None:
    lock = make("a", "b", using="proxied")
    if method != "acquire":
        lock.acquire()
    proxy.drop_next_reply(after=b"{stock}" if make is multi else b"{b}")

    getattr(lock, method)(*([60] if method == "extend" else []))

    assert proxy.dropped == 1
    assert lock.locked() is (method != "release")
    assert lock.owned() is (method != "release")


def test_next_acquire_finds_the_grant_after_all_attempts_failed(known_scripts: None, proxy: Proxy) -> None:
    lock = multi("a", "b", using="proxied")
    proxy.drop_next_reply(after=b"{stock}", times=ALL_TRIES)
    with pytest.raises(ConnectionError):
        lock.acquire()
    assert multi("a").locked()

    assert lock.acquire(blocking=False)


def test_without_a_group_acquire_that_fails_halfway_releases_all_names(known_scripts: None, proxy: Proxy) -> None:
    lock = MultiLock("a", "b", using="proxied")
    proxy.drop_next_reply(after=b"{b}", times=ALL_TRIES)

    with pytest.raises(ConnectionError):
        lock.acquire()

    assert not MultiLock("a", "b").locked()
    assert lock.acquire(blocking=False)


def test_without_a_group_release_that_failed_halfway_can_be_repeated(known_scripts: None, proxy: Proxy) -> None:
    lock = MultiLock("a", "b", using="proxied")
    lock.acquire()
    close_pools()  # the proxy looks back at what a connection has sent before
    proxy.drop_next_reply(after=b"{b}", times=1 + ALL_TRIES)
    with pytest.raises(ConnectionError):
        lock.release()

    lock.release()

    assert not MultiLock("a", "b").locked()
    with pytest.raises(LockNotOwned, match="not acquired here, or released"):
        lock.release()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_without_a_group_interrupted_acquire_releases_all_names(
    store: Store, interruption: type[BaseException]
) -> None:
    steps = acquisition(MultiLock("a", "b"))
    steps.perform()
    sent = steps.request

    steps.throw(interruption())
    steps.perform()
    sent.perform(client())
    assert isinstance(steps.request, Sleep)
    steps.perform()
    steps.perform()

    assert isinstance(steps.error, interruption)
    assert not MultiLock("a", "b").locked()


def test_without_a_group_acquire_waits_until_all_names_are_free(store: Store) -> None:
    held = Lock("b")
    held.acquire()
    steps = acquisition(MultiLock("a", "b"))
    while not isinstance(steps.request, Sleep):
        steps.perform()
    assert not Lock("a").locked()
    held.release()

    while steps.value is None:
        steps.perform()

    assert steps.value is True


def test_acquire_is_refused_after_blocking_timeout(redis_server: Store, make) -> None:
    make("b").acquire()

    assert not make("a", "b").acquire(blocking_timeout=0.03)

    assert not make("a").locked()
    with pytest.raises(LockNotAcquired) as caught, make("a", "b", blocking=False):
        pytest.fail("the block ran")
    assert str(caught.value) == "Lock 'a, b' is held by another owner."


def test_async_twins_acquire_extend_and_release(store: Store, make) -> None:
    async def main() -> None:
        lock = make("a", "b")
        async with lock:
            assert await lock.aowned()
            assert await lock.aextend(60)
            assert not await make("b", "c").aacquire(blocking=False)
        assert not await lock.alocked()

    run_async(main)


def test_leases_of_all_names_are_renewed(redis_server: Store, make) -> None:
    lock = make("a", "b", timeout=60, renew=True)
    lock.acquire()

    renew_now(lock)

    assert lock.owned()
    lock.release()
    assert not lock.locked()


def test_on_lost_is_called_when_one_name_is_lost(redis_server: Store, make) -> None:
    lost: list[object] = []
    lock = make("a", "b", timeout=60, renew=True, on_lost=lost.append)
    lock.acquire()
    lease = lock.flows.owner_lease()

    key = f"{base(redis_server)}:held:b" if make is multi else f"{redis_server.prefix}:locks:{{b}}"
    redis_server.raw.delete(key)
    renewer.recheck(lease)

    eventually(lambda: lost)
    assert lost == [lock]


def test_reentrant_holder_may_enter_again(redis_server: Store, make) -> None:
    lock = make("a", "b", reentrant=True)

    with lock, make("b", "a", reentrant=True):
        pass

    assert not lock.locked()


def test_threads_with_overlapping_names_exclude_each_other_and_all_finish(redis_server: Store, make) -> None:
    inside: dict[str, int] = dict.fromkeys("abcd", 0)
    met: list[str] = []
    guard = threading.Lock()

    def count(names: tuple[str, ...], by: int) -> None:
        with guard:
            for name in names:
                inside[name] += by
                if inside[name] > 1:
                    met.append(name)

    def work(number: int) -> int:
        chosen = random.Random(number)
        for _ in range(8):
            with make(*chosen.sample("abcd", chosen.randint(1, 3))) as lock:
                count(lock.names, 1)
                count(lock.names, -1)
        return number

    assert run_together(8, work, timeout_s=60) == list(range(8))
    assert met == []


@pytest.mark.parametrize(
    ("names", "options", "error", "text"),
    [
        ((), {}, ValueError, "0 names: a MultiLock takes 1 to 100."),
        (tuple(map(str, range(101))), {}, ValueError, "101 names: a MultiLock takes 1 to 100."),
        (("a", 7), {}, TypeError, "lock name 7: expected a string, got int."),
        (("a", ""), {}, ValueError, "lock name is empty"),
        (("a", "b{"), {}, ValueError, "braces are not accepted"),
        (("a\nb",), {}, ValueError, "control character '\\n' is not accepted"),
        (("a",), {"group": ""}, ValueError, "group is empty"),
        (("a",), {"group": 7}, TypeError, "group 7: expected a string, got int."),
        (("a",), {"timeout": 0}, ValueError, "timeout=0: expected a number of seconds above 0"),
        (("a",), {"blocking_timeout": -1}, ValueError, "blocking_timeout=-1: expected a number of seconds of at le"),
        (("a",), {"max_lease": 60}, ValueError, "max_lease=60 requires renew=True"),
        (("a",), {"min_replicas": -1}, ValueError, "min_replicas=-1: expected an integer from 0 to 100."),
        (("a",), {"on_lost": 7}, TypeError, "on_lost=7: expected a function that takes the lock."),
    ],
)
def test_invalid_argument_is_refused(names, options, error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        MultiLock(*names, **options)

    assert text in str(caught.value)


def test_repr_shows_the_names() -> None:
    assert repr(multi("b", "a")) == "<MultiLock 'a, b'>"


def test_without_a_group_token_of_the_caller_is_not_reused(known_scripts: None, proxy: Proxy) -> None:
    lock = MultiLock("a", "b", using="proxied")
    proxy.drop_next_reply(after=b"{b}", times=ALL_TRIES)
    with pytest.raises(ConnectionError):
        lock.acquire(token="mine")

    assert lock.acquire(blocking=False)
    assert lock.token != "mine"


def test_without_a_group_closed_flow_sends_no_more_requests(redis_server: Store) -> None:
    flow = MultiLock("a", "b").flows.acquire()
    next(flow)

    flow.close()


def test_without_a_group_owned_is_false_when_one_name_is_lost(redis_server: Store) -> None:
    lock = MultiLock("a", "b")
    lock.acquire()

    redis_server.raw.delete(f"{redis_server.prefix}:locks:{{b}}")

    assert not lock.owned()


def fail_on_the_way(lock: MultiLock) -> Request:
    """Fail its request, and the request that would release all names; return the latter."""
    steps = acquisition(lock)
    steps.throw(ConnectionError("lost"))
    abandon = steps.request
    steps.throw(ConnectionError("lost"))
    assert abandon is not None
    return abandon


def test_without_a_group_late_release_does_not_affect_a_later_acquire(store: Store) -> None:
    lock = MultiLock("a", "b")
    late = fail_on_the_way(lock)
    lock.acquire()

    late.perform(client())

    assert lock.owned()


def test_without_a_group_next_acquire_releases_what_could_not_be_released(store: Store) -> None:
    lock = MultiLock("a", "b")
    fail_on_the_way(lock)
    token = lock.flows.queue.pop_unsettled()
    lock.flows.queue.keep_unsettled(token)
    Lock("a").acquire(token=token)

    again = acquisition(lock)
    again.throw(ConnectionError("lost"))

    assert isinstance(again.error, ConnectionError)
    assert lock.acquire(blocking=False)


def test_without_a_group_each_attempt_has_its_own_token(store: Store) -> None:
    held = Lock("b")
    held.acquire()
    steps = acquisition(MultiLock("a", "b"))
    first = steps.request.args
    while not isinstance(steps.request, Sleep):
        steps.perform()
    steps.perform()

    assert steps.request.args[0] != first[0]
