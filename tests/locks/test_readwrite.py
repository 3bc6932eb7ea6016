"""Many readers or one writer, in order of arrival, whatever dies or gets lost."""

from __future__ import annotations

import threading

import pytest

from django_redis_components.core.protocol import Wait
from django_redis_components.locks import Lock, LockLost, LockNotAcquired, LockNotOwned, ReadWriteLock
from django_redis_components.locks.base import BaseLock
from django_redis_components.taskqueue import SoftTimeLimitExceeded
from tests.locks.steps import Steps, acquisition
from tests.support import Proxy, Store, eventually, run_async, run_together
from tests.support.renewals import renew_now


def read(**options: object) -> BaseLock:
    return ReadWriteLock("page", **options).read()


def write(**options: object) -> BaseLock:
    return ReadWriteLock("page", **options).write()


SIDES = pytest.mark.parametrize("side", [read, write])


def key(store: Store, part: str) -> str:
    return f"{store.prefix}:locks:{{page}}:rw:{part}"


def queue(store: Store) -> list[bytes]:
    return store.raw.zrange(key(store, "queue"), 0, -1)


def queued(lock: BaseLock) -> Steps:
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


def test_readers_share_the_lock(store: Store) -> None:
    readers = [read() for _ in range(3)]

    assert all(reader.acquire(blocking=False) for reader in readers)

    assert all(reader.owned() for reader in readers)
    assert not write().acquire(blocking=False)


def test_writer_excludes_readers_and_writers(store: Store) -> None:
    writer = write()

    assert writer.acquire(blocking=False)

    assert writer.owned()
    assert not read().acquire(blocking=False)
    assert not write().acquire(blocking=False)


def test_last_release_of_a_reader_grants_to_the_writer(store: Store) -> None:
    first, second = read(), read()
    first.acquire()
    second.acquire()
    writer = queued(write())

    first.release()
    assert store.raw.llen(writer.request.wakeup.keys[0]) == 0
    second.release()

    assert store.raw.llen(writer.request.wakeup.keys[0]) == 1
    assert is_granted(writer)
    assert queue(store) == []


def test_readers_wait_behind_a_waiting_writer(store: Store) -> None:
    first = read()
    first.acquire()
    writer, behind = queued(write()), queued(read())

    assert not read().acquire(blocking=False)
    first.release()

    assert is_granted(writer)
    assert not is_granted(behind)


def test_release_of_a_writer_grants_to_all_readers_before_the_next_writer(store: Store) -> None:
    writer = write()
    writer.acquire()
    waiters = [queued(read()), queued(read()), queued(write()), queued(read())]

    writer.release()

    assert [is_granted(waiter) for waiter in waiters] == [True, True, False, False]


@pytest.mark.contract
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_writer_that_leaves_the_queue_unblocks_readers(store: Store, interruption: type[BaseException]) -> None:
    read().acquire()
    interrupted, behind = queued(write()), queued(read())

    interrupted.throw(interruption())
    assert interrupted.wants("abandon")
    interrupted.perform()

    assert isinstance(interrupted.error, interruption)
    assert store.raw.llen(behind.request.wakeup.keys[0]) == 1
    assert is_granted(behind)


def test_writer_that_reaches_its_time_limit_unblocks_readers(store: Store) -> None:
    read().acquire()
    short_wait = acquisition(write(blocking_timeout=0.02))
    short_wait.perform()
    behind = queued(read())

    while short_wait.value is None:
        short_wait.perform()

    assert short_wait.value is False
    assert store.raw.llen(behind.request.wakeup.keys[0]) == 1
    assert is_granted(behind)


@SIDES
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_interrupted_waiter_passes_on_its_handoff(store: Store, side, interruption: type[BaseException]) -> None:
    writer = write()
    writer.acquire()
    interrupted, behind = queued(side()), queued(write())
    writer.release()

    interrupted.throw(interruption())
    interrupted.perform()

    assert store.raw.llen(behind.request.wakeup.keys[0]) == 1
    assert is_granted(behind)


def test_dead_reader_blocks_writers_no_longer_than_its_lease(store: Store) -> None:
    read(timeout=0.05).acquire()

    assert write().acquire(blocking_timeout=60)


@pytest.mark.contract
def test_expired_reader_is_not_counted_beside_live_ones(store: Store) -> None:
    late, steady = read(timeout=0.02), read()
    late.acquire()
    steady.acquire()
    assert late.lost.wait(60)
    eventually(lambda: not late.owned())

    with pytest.raises(LockNotOwned, match="its lease had expired"):
        late.release()

    assert steady.owned()
    assert not write().acquire(blocking=False)


def test_dead_waiter_is_skipped(store: Store) -> None:
    reader = read()
    reader.acquire()
    dead, behind = queued(write()), queued(read())
    store.raw.zadd(key(store, "writer:asked"), {queue(store)[0]: 1})

    reader.release()

    assert is_granted(behind)
    assert dead.request is not None


def test_newcomer_grants_an_expired_lock_to_the_first_waiter(store: Store) -> None:
    write().acquire()
    waiter = queued(write())
    store.raw.delete(key(store, "writer"))

    assert not read().acquire(blocking=False)

    assert is_granted(waiter)


@SIDES
def test_handoff_becomes_the_requested_lease(store: Store, side) -> None:
    writer = write()
    writer.acquire()
    waiter = queued(side(timeout=60))

    writer.release()

    part = "readers" if side is read else "writer"
    assert 0 < store.raw.pttl(key(store, part)) <= 2_000
    assert is_granted(waiter)
    assert store.raw.pttl(key(store, part)) > 30_000


def test_every_key_has_a_ttl(store: Store) -> None:
    writer = write()
    writer.acquire()
    queued(read())
    queued(write())
    writer.release()

    ttls = {name: store.raw.pttl(name) for name in store.keys()}  # noqa: SIM118

    assert len(ttls) == 8
    assert all(ttl > 0 for ttl in ttls.values()), ttls


def test_ttl_of_the_readers_key_is_that_of_the_longest_lease(store: Store) -> None:
    read(timeout=60).acquire()
    read(timeout=20).acquire()

    assert store.raw.pttl(key(store, "readers")) > 30_000


def test_writers_have_growing_fencing_tokens_and_readers_none(store: Store) -> None:
    numbers = []
    for _ in range(5):
        with write() as writer:
            numbers.append(writer.fencing_token)
        with read() as reader:
            assert reader.fencing_token is None

    assert numbers == sorted(set(numbers))


@SIDES
def test_extend_lengthens_and_never_shortens_the_lease(store: Store, side) -> None:
    lock = side(timeout=20)
    lock.acquire()

    lock.extend(60)
    lock.extend(1)

    part = "readers" if side is read else "writer"
    assert store.raw.pttl(key(store, part)) > 30_000
    assert lock.remaining() > 30
    assert lock.owned()


@pytest.mark.contract
@SIDES
def test_extend_raises_when_the_lock_is_lost(store: Store, side) -> None:
    lock = side()
    lock.acquire()
    store.raw.delete(key(store, "readers"), key(store, "writer"))

    with pytest.raises(LockNotOwned, match="Lock 'page' cannot be extended"):
        lock.extend(60)

    with pytest.raises(LockLost):
        lock.check()


def test_extended_reader_outlives_its_first_lease(store: Store) -> None:
    reader = read(timeout=20)
    reader.acquire()
    reader.extend(60)

    state = ReadWriteLock("page").inspect()

    assert state.readers[reader.token] > 30


@SIDES
def test_release_without_a_lease_raises(redis_server: Store, side) -> None:
    lock = side()

    with pytest.raises(LockNotOwned, match="Lock 'page' is not held by this thread or task"):
        lock.release()


@SIDES
@pytest.mark.parametrize("method", ["acquire", "release", "extend", "owned", "locked"])
def test_lost_reply_changes_nothing(proxy: Proxy, side, method: str) -> None:
    lock = side(using="proxied")
    if method != "acquire":
        lock.acquire()
    proxy.drop_next_reply(after=b"{page}")

    getattr(lock, method)(*([60] if method == "extend" else []))

    assert proxy.dropped == 1
    assert lock.locked() is (method != "release")
    assert lock.owned() is (method != "release")


@SIDES
def test_acquire_with_the_holders_token_takes_over_its_lease(store: Store, side) -> None:
    first, second = side(timeout=5), side(timeout=60)
    first.acquire()

    assert second.acquire(blocking=False, token=first.token)

    assert second.fencing_token == first.fencing_token
    second.release()
    assert not first.locked()


def test_token_of_the_caller_is_stored_with_its_side(redis_server: Store) -> None:
    reader, writer = read(), write()

    reader.acquire(token="mine")
    assert reader.token == "mine:r"
    reader.release()
    writer.acquire(token="mine")
    assert writer.token == "mine:w"


def test_writer_whose_fencing_token_was_lost_gets_a_new_one(redis_server: Store) -> None:
    first, again = write(), write()
    first.acquire()
    redis_server.raw.delete(key(redis_server, "fence"))

    again.acquire(token=first.token)

    assert again.fencing_token > first.fencing_token


def test_lock_of_the_same_name_is_independent(redis_server: Store) -> None:
    with Lock("page"), write():
        pass


@SIDES
def test_lease_is_renewed(redis_server: Store, side) -> None:
    lock = side(timeout=60, renew=True)
    lock.acquire()

    renew_now(lock)

    assert lock.owned()
    lock.release()


def test_reentrant_sides_are_not_confused(redis_server: Store) -> None:
    with read(reentrant=True), read(reentrant=True):
        assert not write(reentrant=True, blocking=False).acquire()


@pytest.mark.contract
def test_async_twins_acquire_extend_and_release(store: Store) -> None:
    async def main() -> None:
        async with read() as first, read() as second:
            assert await first.aowned()
            assert await second.aextend(60)
            assert not await write().aacquire(blocking=False)
        async with write() as writer:
            assert await writer.alocked()
            assert (await ReadWriteLock("page").ainspect()).writer == writer.token

    run_async(main)


def test_inspect_reports_readers_and_waiters(store: Store) -> None:
    lock = ReadWriteLock("page")
    assert lock.inspect().writer is None
    first, second = read(timeout=5), read(timeout=60)
    second.acquire()
    first.acquire()
    queued(write())
    queued(read())

    state = lock.inspect()

    assert state.writer is None
    assert state.remaining == 0.0
    assert state.reading == 2
    assert list(state.readers) == [first.token, second.token]
    assert 4 < state.readers[first.token] <= 5
    assert state.waiting == 2
    assert [token[-2:] for token in state.waiters] == [":w", ":r"]
    assert [token.decode() for token in queue(store)] == list(state.waiters)


def test_inspect_reports_the_writer(store: Store) -> None:
    writer = write(timeout=9)
    writer.acquire()

    state = ReadWriteLock("page").inspect()

    assert (state.writer, state.fencing_token) == (writer.token, writer.fencing_token)
    assert 8 < state.remaining <= 9
    assert (state.reading, state.readers, state.waiting, state.waiters) == (0, {}, 0, ())


def test_error_of_with_names_the_lock(redis_server: Store) -> None:
    write().acquire()

    with pytest.raises(LockNotAcquired) as caught, read(blocking=False):
        pytest.fail("the block ran")

    assert str(caught.value) == "Lock 'page' is held by another owner."


def test_threads_that_read_and_write_exclude_each_other_and_all_finish(redis_server: Store) -> None:
    lock = ReadWriteLock("page")
    guard = threading.Lock()
    inside = {"readers": 0, "writers": 0}
    wrong: list[dict[str, int]] = []

    def count(side: str, by: int) -> None:
        with guard:
            inside[side] += by
            if inside["writers"] > 1 or (inside["writers"] and inside["readers"]):
                wrong.append(dict(inside))

    def work(number: int) -> int:
        for turn in range(8):
            writes = (number + turn) % 3 == 0
            with lock.write() if writes else lock.read():
                count("writers" if writes else "readers", 1)
                count("writers" if writes else "readers", -1)
        return number

    assert run_together(8, work, timeout_s=60) == list(range(8))
    assert wrong == []


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"name": ""}, ValueError, "lock name is empty"),
        ({"name": 7}, TypeError, "lock name 7: expected a string, got int."),
        ({"timeout": -1}, ValueError, "timeout=-1: expected a number of seconds above 0"),
        ({"blocking_timeout": "1"}, TypeError, "blocking_timeout='1': expected a number of seconds of at least 0"),
        ({"min_replicas": "1"}, TypeError, "min_replicas='1': expected an integer from 0 to 100."),
    ],
)
def test_invalid_argument_is_refused(arguments: dict[str, object], error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        ReadWriteLock(**({"name": "page"} | arguments))

    assert text in str(caught.value)


def test_repr_shows_the_name_and_side() -> None:
    assert repr(ReadWriteLock("page")) == "<ReadWriteLock 'page'>"
    assert repr(read()) == "<ReadLock 'page'>"
    assert repr(write()) == "<WriteLock 'page'>"


def test_owned_is_true_for_each_of_many_readers(store: Store) -> None:
    page = ReadWriteLock("page", timeout=60)
    readers = [page.read() for _ in range(101)]
    for reader in readers:
        reader.acquire()

    assert all(reader.owned() for reader in readers)


def test_owned_is_false_for_an_expired_reader(store: Store) -> None:
    page = ReadWriteLock("page", timeout=0.01)
    reader = page.read()
    reader.acquire()

    eventually(lambda: not reader.owned())
