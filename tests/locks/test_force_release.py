"""`force_release`: an operator releases a lock of any holder."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core.leasing.renewal import renewer
from django_redis_components.locks import (
    Lock,
    LockLost,
    LockNotOwned,
    MultiLock,
    ReadWriteLock,
    aforce_release,
    force_release,
)
from django_redis_components.semaphores import PermitLost, PermitNotOwned, Semaphore
from django_redis_components.semaphores import aforce_release as arelease_permits
from django_redis_components.semaphores import force_release as release_permits
from tests.locks.steps import Steps, acquisition
from tests.support import Proxy, Store, eventually, run_async
from tests.support.waiting import TIMEOUT_S


def test_force_release_releases_the_lock_of_any_holder(store: Store) -> None:
    held = Lock("stock", timeout=60)
    held.acquire()

    assert force_release("stock") == 1

    assert not held.locked()
    with pytest.raises(LockNotOwned):
        held.release()


def test_force_release_hands_the_lock_to_the_first_waiter(store: Store) -> None:
    held, waiter = Lock("stock", timeout=60), Lock("stock", timeout=60)
    held.acquire()
    steps = acquisition(waiter)
    steps.perform()

    force_release("stock")

    steps.send(None)
    steps.perform()
    assert steps.value is True
    assert waiter.owned()


def test_force_release_of_a_free_lock_releases_nothing(store: Store) -> None:
    assert force_release("stock") == 0
    assert force_release("stock", group="items") == 0
    assert force_release("stock", readwrite=True) == 0


@pytest.mark.contract
def test_force_release_of_an_object_asks_its_kind(store: Store, kind: str) -> None:
    held, release = KINDS[kind](timeout=60), release_permits if kind == "semaphore" else force_release
    held.acquire()

    assert release(KINDS[kind](), author="ann") == (2 if kind == "spread" else 1)

    assert re.search(BY_ANN, str(raised(held.release)))
    assert release(KINDS[kind]()) == 0


def test_force_release_of_objects_releases_each_holder(store: Store) -> None:
    for name in ("a", "b"):
        MultiLock(name, group="items", timeout=60).acquire()
    page = ReadWriteLock("page", timeout=60)
    page.read().acquire()
    page.read().acquire()

    assert force_release(MultiLock("a", "b", "c", group="items")) == 2
    assert run_async(lambda: aforce_release(page)) == 2
    assert run_async(lambda: arelease_permits(Semaphore("stock", 1))) == 0


def test_force_release_of_a_token_spares_a_later_holder(store: Store) -> None:
    first, second = Lock("stock", timeout=60), Lock("stock", timeout=60)
    first.acquire()
    token = first.token
    first.release()
    second.acquire()

    assert force_release("stock", token=token) == 0

    assert second.owned()


def test_force_release_of_a_name_in_a_group_leaves_the_others_held(store: Store) -> None:
    held = MultiLock("a", "b", group="items", timeout=60)
    held.acquire()

    assert force_release("a", group="items") == 1

    states = held.inspect()
    assert (states["a"].holder, states["b"].holder) == (None, held.token)


def test_force_release_of_a_read_write_lock_releases_all_readers_or_the_writer(store: Store) -> None:
    page = ReadWriteLock("page", timeout=60)
    page.read().acquire()
    page.read().acquire()

    assert force_release("page", readwrite=True) == 2

    writer = page.write()
    assert writer.acquire(blocking=False)
    assert run_async(lambda: aforce_release("page", readwrite=True)) == 1
    assert not writer.owned()


KINDS: dict[str, Callable[..., Any]] = {
    "lock": partial(Lock, "stock"),
    "group": partial(MultiLock, "stock", group="items"),
    "spread": partial(MultiLock, "other", "stock"),
    "reader": lambda **options: ReadWriteLock("stock", **options).read(),
    "writer": lambda **options: ReadWriteLock("stock", **options).write(),
    "semaphore": partial(Semaphore, "stock", 1),
}
NOT_OWNED = (LockNotOwned, PermitNotOwned)
BY_ANN = r"released by an operator \(ann\) at \d\d:\d\d:\d\d"


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def release_by_force(kind: str, **options: Any) -> int:
    """Release "stock" of this kind, as an operator does."""
    if kind == "semaphore":
        return release_permits("stock", **options)
    group = "items" if kind == "group" else None
    return force_release("stock", group=group, readwrite=kind in ("reader", "writer"), **options)


def subject(kind: str) -> str:
    return {"semaphore": "Permit of semaphore 'stock'", "spread": "Lock 'other, stock'"}.get(kind, "Lock 'stock'")


def raised(call: Callable[[], object]) -> LockNotOwned | PermitNotOwned:
    with pytest.raises(NOT_OWNED) as caught:
        call()
    return caught.value


def marks(store: Store) -> list[bytes]:
    return [key for key in store.keys() if b":holder:" in key]  # noqa: SIM118 - a Store is no dict


@pytest.mark.contract
def test_release_after_a_forced_release_names_the_operator(store: Store, kind: str) -> None:
    held = KINDS[kind](timeout=60)
    held.acquire()

    before = datetime.now(UTC)
    assert release_by_force(kind, author="ann") == 1

    error = raised(held.release)
    assert re.fullmatch(rf"{subject(kind)} cannot be released: it was {BY_ANN}\.", str(error))
    assert error.forced_release is not None
    assert error.forced_release.author == "ann"
    assert before - timedelta(seconds=2) < error.forced_release.at < datetime.now(UTC) + timedelta(seconds=2)


@pytest.mark.contract
def test_extend_after_a_forced_release_names_the_operator(store: Store, kind: str) -> None:
    held = KINDS[kind](timeout=60)
    held.acquire()
    release_by_force(kind, author="ann")

    error = raised(lambda: held.extend(60))

    assert re.fullmatch(rf"{subject(kind)} cannot be extended: it was {BY_ANN}\.", str(error))
    lost = raised(held.check)
    assert isinstance(lost, LockLost | PermitLost)
    assert re.fullmatch(rf"{subject(kind)} is lost: it was {BY_ANN}\.", str(lost))


def test_async_twins_name_the_operator(store: Store, kind: str) -> None:
    async def main() -> list[str]:
        held = KINDS[kind](timeout=60)
        await held.aacquire()
        release = arelease_permits("stock", author="ann") if kind == "semaphore" else None
        if release is None:
            group = "items" if kind == "group" else None
            release = aforce_release("stock", author="ann", group=group, readwrite=kind in ("reader", "writer"))
        assert await release == 1
        texts = []
        for call in (held.aextend(60), held.arelease()):
            try:
                await call
            except NOT_OWNED as exc:
                texts.append(str(exc))
        return texts

    extended, released = run_async(main)

    assert re.search(f"cannot be extended: it was {BY_ANN}", extended)
    assert re.search(f"cannot be released: it was {BY_ANN}", released)


def test_renewal_after_a_forced_release_names_the_operator(
    redis_server: Store, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    notified = threading.Event()

    def on_lost(lost: Any) -> None:
        seen.append(str(raised(lost.check)))
        notified.set()

    held = KINDS[kind](timeout=60, renew=True, on_lost=on_lost)
    held.acquire()
    release_by_force(kind, author="ann")

    renewer.recheck(held.flows.owner_lease())

    assert notified.wait(TIMEOUT_S)
    assert re.search(f"is lost: it was {BY_ANN}", seen[0])
    assert held.lost.is_set()
    assert re.search(f"is lost: it was {BY_ANN}", str(raised(held.check)))
    assert re.search(f"The lease of .* was {BY_ANN}", caplog.text)


def test_block_that_lost_its_lock_by_force_names_the_operator(redis_server: Store, kind: str) -> None:
    with pytest.raises(NOT_OWNED, match=BY_ANN), KINDS[kind](timeout=60):
        release_by_force(kind, author="ann")


def test_block_with_its_own_error_notes_the_operator(redis_server: Store, kind: str) -> None:
    def fail_in_the_block() -> None:
        with KINDS[kind](timeout=60):
            release_by_force(kind, author="ann")
            raise LookupError("the block's own error")

    with pytest.raises(LookupError) as caught:
        fail_in_the_block()

    assert re.search(
        f"on leaving the block: {subject(kind)} cannot be released: it was {BY_ANN}", caught.value.__notes__[0]
    )


def test_reentrant_lock_that_was_released_by_force_names_the_operator(redis_server: Store) -> None:
    held = Lock("stock", timeout=60, reentrant=True)
    held.acquire()
    force_release("stock", author="ann")
    raised(lambda: held.extend(60))

    assert re.search(f"cannot be entered again: it was {BY_ANN}", str(raised(held.acquire)))


def test_operator_without_a_name(redis_server: Store, kind: str) -> None:
    held = KINDS[kind](timeout=60)
    held.acquire()
    release_by_force(kind)

    error = raised(held.release)

    assert re.search(r"it was released by an operator at \d\d:\d\d:\d\d\.$", str(error))
    assert error.forced_release is not None
    assert error.forced_release.author == ""


def test_expired_lease_is_not_called_released(redis_server: Store, kind: str) -> None:
    held = KINDS[kind](timeout=0.05)
    held.acquire()
    eventually(lambda: not held.locked())

    error = raised(held.release)

    assert str(error) == f"{subject(kind)} cannot be released: its lease had expired."
    assert error.forced_release is None


def test_expiry_after_the_token_was_granted_again_is_not_called_released(redis_server: Store) -> None:
    held = Lock("stock", timeout=60)
    held.acquire()
    token = held.token
    force_release("stock", author="ann")
    again = Lock("stock", timeout=0.05)
    again.acquire(token=token)
    eventually(lambda: not again.locked())

    assert str(raised(again.release)) == "Lock 'stock' cannot be released: its lease had expired."


@pytest.mark.contract
def test_forced_release_is_stored_for_an_hour(store: Store, kind: str) -> None:
    held = KINDS[kind](timeout=60)
    held.acquire()

    release_by_force(kind, author="ann")

    found = [key for key in marks(store) if b"released_by=ann" in store.raw.get(key)]
    assert len(found) == 1
    assert 3_590_000 < store.raw.pttl(found[0]) <= 3_600_000
    assert not KINDS[kind]().locked() or kind == "spread"


def test_forced_release_hands_over_and_the_next_holder_is_described(store: Store, kind: str) -> None:
    held, waiter = KINDS["writer" if kind == "reader" else kind](timeout=60), KINDS[kind](timeout=60)
    held.acquire()
    thread = threading.Thread(target=waiter.acquire)
    thread.start()
    eventually(lambda: kind == "spread" or any(key.endswith(b":asked") for key in store.keys()))  # noqa: SIM118

    release_by_force(kind, author="ann")
    if kind == "spread":
        force_release("other", author="ann")
    thread.join(60)

    assert waiter.owned()
    assert re.search(BY_ANN, str(raised(held.release)))
    waiter.release()


def test_name_of_a_group_that_was_released_by_force_fails_the_whole_lock(store: Store) -> None:
    held = MultiLock("a", "b", group="items", timeout=60)
    held.acquire()
    force_release("a", group="items", author="ann")

    state = held.inspect()["b"]
    error = raised(held.release)

    assert state.held_by is not None
    assert state.held_by.pid == os.getpid()
    assert re.fullmatch(rf"Lock 'a, b' cannot be released: it was {BY_ANN}\.", str(error))
    assert {name: each.holder for name, each in held.inspect().items()} == {"a": None, "b": None}


def test_last_of_several_operators_is_named(store: Store) -> None:
    held = MultiLock("a", "b", group="items", timeout=60)
    held.acquire()

    force_release("a", group="items", author="ann")
    force_release("b", group="items", author="bob")

    [key] = marks(store)
    assert store.raw.get(key).count(b"released_by") == 1
    assert re.search(r"operator \(bob\)", str(raised(held.release)))


def test_forced_release_of_another_token_leaves_no_trace(store: Store) -> None:
    held = Lock("stock", timeout=60)
    held.acquire()

    assert force_release("stock", token="another", author="ann") == 0

    assert len(marks(store)) == 1
    held.release()
    assert marks(store) == []


@pytest.mark.parametrize("author", ["a\nreleased_ms=1\x1b[31m\r", "<b>ann</b>", "é" * 5_000, "x" * 10_000, "\ud800"])
def test_hostile_name_of_an_operator_is_cleaned_and_cut(author: str, redis_server: Store) -> None:
    held = Lock("stock", timeout=60)
    held.acquire()
    force_release("stock", author=author)

    error = raised(held.release)

    assert error.forced_release is not None
    assert error.forced_release.at.year > 2000
    assert error.forced_release.author.isprintable()
    assert len(error.forced_release.author.encode()) <= 100
    [key] = marks(redis_server)
    assert len(redis_server.raw.get(key)) < 400


def test_time_is_that_of_the_site(redis_server: Store, settings: Any) -> None:
    settings.TIME_ZONE, settings.USE_TZ = "Asia/Tokyo", True
    held = Lock("stock", timeout=60)
    held.acquire()
    force_release("stock")

    error = raised(held.release)

    assert error.forced_release is not None
    assert f" at {error.forced_release.at.astimezone(ZoneInfo('Asia/Tokyo')):%H:%M:%S}." in str(error)


@pytest.mark.parametrize("value", [b"", b"released_ms=soon", b"released_ms=" + b"9" * 40, b"\xff"])
def test_strange_value_of_another_client_is_no_forced_release(value: bytes, redis_server: Store) -> None:
    held = Lock("stock", timeout=60)
    held.acquire()
    force_release("stock")
    [key] = marks(redis_server)
    redis_server.raw.set(key, value)

    assert str(raised(held.release)) == "Lock 'stock' cannot be released: its lease had expired."


def test_key_of_another_type_is_no_forced_release(redis_server: Store) -> None:
    held = Lock("stock", timeout=60)
    held.acquire()
    force_release("stock")
    [key] = marks(redis_server)
    redis_server.raw.delete(key)
    redis_server.raw.rpush(key, "x")

    assert str(raised(held.release)) == "Lock 'stock' cannot be released: its lease had expired."


def test_server_that_fails_after_a_refusal_hides_only_the_operator(redis_server: Store) -> None:
    for flow, calls in (("release", 0), ("extend", 60_000)):
        held = Lock("stock", timeout=60)
        held.acquire()
        force_release("stock", author="ann")
        steps = Steps(held.flows.extend(calls) if flow == "extend" else held.flows.release())
        steps.perform()

        steps.throw(ConnectionError("gone"))

        assert isinstance(steps.error, LockNotOwned)
        assert str(steps.error).endswith("its lease had expired.")


def test_forced_release_whose_reply_is_lost_is_named(proxy: Proxy) -> None:
    held = Lock("stock", timeout=60)
    held.acquire()
    token = held.token
    with Lock("warm", using="proxied"):
        """The server knows the scripts."""
    proxy.drop_next_reply(after=b"{stock}")

    with pytest.raises(ConnectionError):
        force_release("stock", token=token, author="ann", using="proxied")

    assert re.search(BY_ANN, str(raised(held.release)))
