"""The descriptions of holders: what is stored beside the token, how long, and what `inspect` reports."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory, RequestFactory

from django_redis_components.analytics import AnalyticsMiddleware
from django_redis_components.core.leasing.holder import (
    MAX_HOST,
    LeaseHolder,
    describe_caller,
    describe_task,
    parse_holder,
)
from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.ratelimits import RateLimitMiddleware
from django_redis_components.semaphores import Semaphore
from tests.locks.steps import acquisition
from tests.support import Proxy, Store, eventually, run_async, run_together
from tests.support.processes import Children
from tests.support.renewals import renew_now

KINDS: dict[str, Callable[..., Any]] = {
    "lock": partial(Lock, "stock"),
    "group": partial(MultiLock, "stock", "other", group="items"),
    "spread": partial(MultiLock, "stock", "other"),
    "reader": lambda **options: ReadWriteLock("stock", **options).read(),
    "writer": lambda **options: ReadWriteLock("stock", **options).write(),
    "semaphore": partial(Semaphore, "stock", 1),
}
#: What blocks an object of each kind.
OTHERS = {**KINDS, "reader": KINDS["writer"]}
#: Longest description in bytes.
MAX_BYTES = 230
HOSTILE = [
    "<script>alert(1)</script>",
    "a\nhost=evil\rpid=1\x00\x1b[31m",
    "\u202eevil\u2028",
    "é" * 5_000,
    "x" * 10_000,
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def me(**facts: str) -> LeaseHolder:
    return LeaseHolder(socket.gethostname(), os.getpid(), threading.current_thread().name, **facts)


def held_by(kind: str, held: Any) -> LeaseHolder | None:
    """Return the holder of `held` as `inspect` reports it."""
    if kind in ("reader", "writer"):
        return ReadWriteLock("stock").inspect().held_by.get(held.token)
    if kind == "semaphore":
        return next((each.held_by for each in held.inspect().holders), None)
    state = held.inspect()
    return (state if kind == "lock" else state["stock"]).held_by


def description_keys(store: Store) -> list[str]:
    return [key.decode() for key in store.keys() if b":holder:" in key]  # noqa: SIM118 - a Store is no dict


def run_named(name: str, func: Callable[[], object]) -> None:
    """Run a function to its end in a thread of this name."""
    thread = threading.Thread(target=func, name=name)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def lifetimes(store: Store) -> list[int]:
    return [store.raw.pttl(key) for key in description_keys(store)]


@pytest.mark.contract
def test_inspect_reports_process_and_thread_of_the_holder(store: Store, kind: str) -> None:
    held = KINDS[kind]()

    run_named("Worker-3", held.acquire)

    assert held_by(kind, held) == LeaseHolder(socket.gethostname(), os.getpid(), "Worker-3")


@pytest.mark.contract
def test_release_deletes_the_description(store: Store, kind: str) -> None:
    with KINDS[kind]() as held:
        assert held_by(kind, held) == me()

    assert description_keys(store) == []
    assert held_by(kind, KINDS[kind]()) is None


def test_description_lasts_as_long_as_the_lease(store: Store, kind: str) -> None:
    held = KINDS[kind](timeout=20)
    held.acquire()

    assert all(15_000 < ttl_ms <= 20_000 for ttl_ms in lifetimes(store))
    held.extend(60)
    assert all(50_000 < ttl_ms <= 60_000 for ttl_ms in lifetimes(store))
    held.extend(1)  # never shortened
    assert all(50_000 < ttl_ms <= 60_000 for ttl_ms in lifetimes(store))
    assert held_by(kind, held) == me()


def test_renewal_extends_the_description(redis_server: Store, kind: str) -> None:
    with KINDS[kind](timeout=60, renew=True) as held:
        for key in description_keys(redis_server):
            redis_server.raw.pexpire(key, 10_000)

        renew_now(held)

        assert min(lifetimes(redis_server)) > 20_000
        assert held_by(kind, held) == me()


def test_description_of_an_expired_lease_is_gone(redis_server: Store, kind: str) -> None:
    KINDS[kind](timeout=0.05).acquire()

    eventually(lambda: not KINDS[kind]().locked())

    eventually(lambda: description_keys(redis_server) == [])  # each key expires by itself, some within 1 ms of another


@pytest.mark.contract
def test_waiter_is_described_when_it_accepts_a_hand_off(store: Store, kind: str) -> None:
    holder, waiter = OTHERS[kind](), KINDS[kind]()
    holder.acquire()
    states: list[LeaseHolder | None] = []

    def wait() -> None:
        waiter.acquire()
        states.append(held_by(kind, waiter))

    thread = threading.Thread(target=wait, name="Waiter-7")
    thread.start()
    eventually(lambda: kind == "spread" or any(b":wakeup:" in key or b":asked" in key for key in store.keys()))  # noqa: SIM118
    holder.release()
    thread.join(60)

    assert [state.thread for state in states if state] == ["Waiter-7"]
    assert min(lifetimes(store)) > 2_000, "the whole lease, not that of the hand-off"


def test_hand_off_that_is_not_accepted_is_not_described(store: Store) -> None:
    holder, waiter = Lock("stock"), Lock("stock")
    holder.acquire()
    acquisition(waiter).perform()

    holder.release()

    state = Lock("stock").inspect()
    assert state.holder is not None
    assert state.held_by is None
    assert description_keys(store) == []


def test_abandoned_hand_off_leaves_no_description(store: Store, kind: str) -> None:
    if kind == "spread":
        pytest.skip("it has no queue")
    holder, waiter = OTHERS[kind](), KINDS[kind]()
    holder.acquire()
    steps = acquisition(waiter)
    steps.perform()
    holder.release()

    steps.throw(KeyboardInterrupt())
    while steps.request is not None:
        steps.perform()

    assert description_keys(store) == []


def test_acquire_under_the_holders_token_describes_the_new_holder(store: Store) -> None:
    first, second = Lock("stock"), Lock("stock")
    first.acquire()
    token = first.token

    run_named("Successor", lambda: second.acquire(token=token))

    found = Lock("stock").inspect()
    assert (found.holder, found.held_by and found.held_by.thread) == (token, "Successor")


def test_adopt_keeps_the_description(redis_server: Store, kind: str) -> None:
    first, second = KINDS[kind](), KINDS[kind]()
    first.acquire()
    token = first.token

    run_named("Adopter", lambda: second.adopt(token))

    assert held_by(kind, first) == me()


def test_each_reader_and_each_permit_has_its_own_description(store: Store) -> None:
    page, pool = ReadWriteLock("stock"), Semaphore("stock", 9)
    readers, permits = [page.read() for _ in range(2)], [Semaphore("stock", 9) for _ in range(2)]
    for number in range(2):
        run_named(f"Reader-{number}", readers[number].acquire)
        run_named(f"Permit-{number}", partial(permits[number].acquire, 2))

    assert sorted(each.thread for each in page.inspect().held_by.values()) == ["Reader-0", "Reader-1"]
    found = pool.inspect().holders
    assert sorted((each.permits, each.held_by and each.held_by.thread) for each in found) == [
        (2, "Permit-0"),
        (2, "Permit-1"),
    ]


def test_killed_holder_is_described_until_its_lease_ends(redis_server: Store, children: Children) -> None:
    child = children.call("tests.locks.test_holders:hold", "stock")
    child.wait_for("held")
    pid = child.pid
    child.kill()

    found = Lock("stock").inspect().held_by

    assert (found and found.pid, found and found.thread) == (pid, "MainThread")


def hold(name: str) -> None:
    """In a child: hold a lock until it is killed."""
    Lock(name, timeout=60).acquire()
    print("held", flush=True)
    signal.pause()


def test_forked_child_is_described_with_its_own_id(redis_server: Store) -> None:
    describe_caller()  # stored for this process
    child = os.fork()
    if child == 0:
        try:
            Lock("stock").acquire()
        finally:
            os._exit(0)
    os.waitpid(child, 0)

    found = Lock("stock").inspect().held_by

    assert found is not None
    assert found.pid == child


@pytest.mark.parametrize("is_async", [False, True])
def test_lost_reply_and_its_repetition_describe_the_holder(proxy: Proxy, kind: str, is_async: bool) -> None:
    with KINDS[kind]():
        """The server knows the scripts."""
    held = KINDS[kind](using="proxied")
    proxy.drop_next_reply(after=b"{")

    if is_async:
        run_async(held.aacquire)
    else:
        held.acquire()

    assert proxy.dropped == 1
    assert held_by(kind, held) == me()


def test_async_holder_is_described(redis_server: Store, kind: str) -> None:
    async def main() -> LeaseHolder | None:
        async with KINDS[kind]() as held:
            return held_by(kind, held)

    found = run_async(main)

    assert found is not None
    assert (found.host, found.pid) == (socket.gethostname(), os.getpid())


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_thread_name_is_cleaned_and_cut(name: str, redis_server: Store) -> None:
    lock = Lock("stock")
    run_named(name, lock.acquire)

    [key] = description_keys(redis_server)
    stored = redis_server.raw.get(key)
    found = lock.inspect().held_by

    assert len(stored) <= MAX_BYTES
    assert stored.count(b"\n") == 2
    assert found is not None
    assert (found.host, found.pid) == (socket.gethostname(), os.getpid())
    assert found.thread.isprintable()
    assert len(found.thread.encode()) <= 32


def test_longest_description_is_bounded() -> None:
    found: list[str] = []
    run_named("日" * 300, lambda: found.append(describe_caller()))

    longest = f"{found[0]}\n{describe_task('task' * 300, 'é' * 300)}".replace(socket.gethostname(), "h" * MAX_HOST)

    assert len(longest.encode()) <= MAX_BYTES


@pytest.mark.parametrize("value", [b"", b"nonsense", b"\xff\xfe", b"pid=1\nthread=x", b"=\n=\n"])
def test_value_of_another_client_is_no_holder(value: bytes, redis_server: Store) -> None:
    lock = Lock("stock")
    lock.acquire()
    [key] = description_keys(redis_server)

    redis_server.raw.set(key, value)

    assert lock.inspect().held_by is None


def test_strange_values_of_another_client_are_cleaned() -> None:
    assert parse_holder(b"host=a\x1b[31m\npid=" + b"9" * 50 + b"\nthread=\xff") == LeaseHolder("a[31m", 0, "\ufffd")
    assert parse_holder("host=a\npid=٣".encode()) == LeaseHolder("a", 0, "")


def test_holder_from_an_older_version_is_not_described(redis_server: Store) -> None:
    redis_server.raw.set(f"{redis_server.prefix}:locks:{{stock}}", "token", px=60_000)

    state = Lock("stock").inspect()

    assert (state.holder, state.held_by) == ("token", None)


def test_holder_in_words() -> None:
    assert str(LeaseHolder("app-1", 4711, "Worker-3")) == "app-1, process 4711, thread Worker-3"
    task = LeaseHolder("app-1", 4711, "Worker-3", task="mail.send", task_id="01J")
    assert str(task) == "app-1, process 4711, thread Worker-3, task mail.send 01J"
    request = LeaseHolder("app-1", 4711, "Worker-3", request="GET /cart/")
    assert str(request) == "app-1, process 4711, thread Worker-3, request GET /cart/"


@pytest.fixture(params=[RateLimitMiddleware, AnalyticsMiddleware])
def middleware(request: pytest.FixtureRequest) -> Any:
    return request.param


def respond(seen: list[LeaseHolder | None]) -> HttpResponse:
    with Lock("stock") as held:
        seen.append(held.inspect().held_by)
    return HttpResponse("page", "text/plain")


def test_request_is_described_without_its_query(redis_server: Store, middleware: Any) -> None:
    seen: list[LeaseHolder | None] = []

    def view(_: HttpRequest) -> HttpResponse:
        return respond(seen)

    middleware(view)(RequestFactory().post("/cart/?card=secret"))
    respond(seen)

    assert seen == [me(request="POST /cart/"), me()]


def test_async_request_is_described(redis_server: Store, middleware: Any) -> None:
    seen: list[LeaseHolder | None] = []

    async def view(_: HttpRequest) -> HttpResponse:
        return respond(seen)

    async def main() -> None:
        await middleware(view)(AsyncRequestFactory().get("/cart/"))

    run_async(main)

    assert [each and each.request for each in seen] == ["GET /cart/"]


def test_request_is_forgotten_after_an_error(redis_server: Store, middleware: Any) -> None:
    def view(_: HttpRequest) -> HttpResponse:
        raise LookupError("a mistake in the view")

    with pytest.raises(LookupError):
        middleware(view)(RequestFactory().get("/cart/"))

    assert "request=" not in describe_caller()


def test_description_is_always_that_of_the_token(store: Store, kind: str) -> None:
    """While threads acquire and release, the description of a holder names the thread with its token."""
    names: dict[str, str] = {}
    wrong: list[tuple[str, str]] = []

    def work(number: int) -> None:
        name = threading.current_thread().name = f"Contender-{number}"
        held = KINDS[kind]()
        for _ in range(8):
            with held:
                names[held.token] = name
                found = held_by(kind, held)
                if found is None or found.thread != name:
                    wrong.append((name, str(found)))

    run_together(4, work)

    assert wrong == []
    assert description_keys(store) == []
