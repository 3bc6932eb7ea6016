"""Ctrl-C anywhere in entering or leaving a block: the lock is free afterwards, and is not renewed."""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import django_redis_components
from django_redis_components.core.leasing.renewal import renewer
from django_redis_components.locks import Lock, LockNotOwned, MultiLock, ReadWriteLock, lock
from django_redis_components.semaphores import Semaphore, semaphore
from tests.support import Store, eventually, run_async
from tests.support.renewals import renew_now

pytestmark = pytest.mark.integration

#: Where interruptions come: at lines and calls; with INTERRUPT_OPCODES=1 at each instruction.
OPCODES = bool(os.environ.get("INTERRUPT_OPCODES"))
#: Whether all kinds are interrupted at all points, which takes minutes.
EVERYWHERE = OPCODES or bool(os.environ.get("INTERRUPT_EVERYWHERE"))
#: Only one of this many points is tried where each takes long, without `EVERYWHERE`.
STEP = 7
#: Seconds of a lease: none ends by itself during a test.
LONG_S = 600
PACKAGE = str(Path(django_redis_components.__file__).parent)

KINDS: dict[str, Callable[..., Any]] = {
    "lock": partial(Lock, "stock", timeout=LONG_S),
    "renewed": partial(Lock, "stock", timeout=LONG_S, renew=True),
    "reentrant": partial(Lock, "stock", timeout=LONG_S, reentrant=True),
    "group": partial(MultiLock, "stock", "price", timeout=LONG_S, group="items"),
    "names": partial(MultiLock, "stock", "price", timeout=LONG_S),
    "reader": lambda: ReadWriteLock("stock", timeout=LONG_S).read(),
    "writer": lambda: ReadWriteLock("stock", timeout=LONG_S).write(),
    "semaphore": partial(Semaphore, "stock", 1, timeout=LONG_S, renew=True),
}


@pytest.fixture(params=KINDS if EVERYWHERE else ["renewed", "semaphore"])
def make(request: pytest.FixtureRequest, redis_server: Store) -> Callable[..., Any]:
    return KINDS[request.param]


@pytest.fixture(autouse=True)
def _leases_are_renewed_afterwards(redis_server: Store) -> Iterator[None]:
    """After all interruptions the leases of this process are still renewed."""
    yield
    with Lock("renewed afterwards", timeout=60, renew=True) as held:
        renew_now(held)
        held.check()


#: Events that are points.
POINTS = ("call", "opcode" if OPCODES else "line")
#: Between these instructions Python runs no signal handler: a generator or coroutine that waits for another one.
DELEGATING = ("SEND", "YIELD_VALUE", "END_SEND", "JUMP_BACKWARD_NO_INTERRUPT")


@functools.cache
def without_interruption(code: CodeType) -> set[int]:
    """Offsets of the instructions at which an interruption does not come."""
    steps = list(dis.get_instructions(code))
    return {
        step.offset
        for step, following in itertools.zip_longest(steps, steps[1:])
        if step.opname in DELEGATING
        or (step.opname == "RESUME" and step.arg is not None and step.arg & 3 >= 2)
        or _ends_a_with_block(step, following)
    }


def _ends_a_with_block(step: dis.Instruction, following: dis.Instruction | None) -> bool:
    """Return whether it prepares the call of ``__exit__(None, None, None)``."""
    loads_none = [
        each is not None and each.opname == "LOAD_CONST" and each.argval is None for each in (step, following)
    ]
    return loads_none[1] and (loads_none[0] or step.opname == "SWAP")


class CtrlC:
    """Raises KeyboardInterrupt in this thread at the n-th point in the package at which Python may raise it.

    A point is a call or a line: a signal handler runs between two instructions, also before the first line.
    """

    def __init__(self, at: int) -> None:
        self._left = at
        self.where = ""

    def __enter__(self) -> CtrlC:
        sys.settrace(self._enter_frame)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def start(self) -> None:
        sys.settrace(self._enter_frame)

    def _enter_frame(self, frame: FrameType, event: str, arg: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE) or frame.f_code.co_name == "__del__":
            return None
        frame.f_trace_opcodes = OPCODES
        self._in_frame(frame, event, arg)
        return self._in_frame

    def _in_frame(self, frame: FrameType, event: str, arg: object) -> Any:
        if event in POINTS and frame.f_lasti not in without_interruption(frame.f_code):
            self._count(frame)
        return self._in_frame

    def _count(self, frame: FrameType) -> None:
        self._left -= 1
        if self._left == 0:
            sys.settrace(None)
            self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
            raise KeyboardInterrupt


def is_free(guard: Any) -> bool:
    return guard.available() == 1 if isinstance(guard, Semaphore) else not guard.locked()


def interrupted_everywhere(use: Callable[[CtrlC], object], guard: Any, *, first: int = 1, step: int = 1) -> None:
    """Interrupt this at one point after the other, until it ends before the next."""
    for at in itertools.count(first, 1 if EVERYWHERE else step):
        ctrl_c = CtrlC(at)
        kept: BaseException | None = None
        try:
            use(ctrl_c)
        except KeyboardInterrupt as exc:
            kept = exc  # with its traceback, and all frames of it
        finally:
            sys.settrace(None)
        try:
            eventually(lambda: is_free(guard), timeout_s=20)
        except AssertionError:
            pytest.fail(f"held after an interruption at {ctrl_c.where}")
        assert guard.token is None, ctrl_c.where
        try:
            eventually(lambda: not renewer.watches, timeout_s=20)
        except AssertionError:
            targets = [watch.policy.target() for watch in renewer.watches.values()]
            pytest.fail(f"renewed after an interruption at {ctrl_c.where}: {targets}")
        if kept is None:
            assert at > 10
            return


#: A loop that is ended by KeyboardInterrupt leaves connections and coroutines behind. Their ResourceWarnings must be no
#: errors: pytest would keep the connections with the error, and have the rest of them reported in the next test.
ends_its_loop = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::RuntimeWarning"
)


def test_interrupted_exit_releases_the_lease(make: Callable[..., Any]) -> None:
    guard = make()

    def use(ctrl_c: CtrlC) -> None:
        with guard:
            ctrl_c.start()

    interrupted_everywhere(use, guard)


def test_interrupted_entry_releases_the_lease(make: Callable[..., Any]) -> None:
    guard = make()

    def use(ctrl_c: CtrlC) -> None:
        ctrl_c.start()
        with guard:
            sys.settrace(None)

    interrupted_everywhere(use, guard, step=STEP)


@ends_its_loop
def test_interrupted_async_exit_releases_the_lease(make: Callable[..., Any]) -> None:
    guard = make()

    def use(ctrl_c: CtrlC) -> None:
        async def main() -> None:
            try:
                async with guard:
                    ctrl_c.start()
            finally:
                sys.settrace(None)

        run_async(main)

    interrupted_everywhere(use, guard, step=STEP)
    gc.collect()


@ends_its_loop
def test_interrupted_async_entry_releases_the_lease(make: Callable[..., Any]) -> None:
    guard = make()

    def use(ctrl_c: CtrlC) -> None:
        async def main() -> None:
            try:
                ctrl_c.start()
                async with guard:
                    sys.settrace(None)
            finally:
                sys.settrace(None)

        run_async(main)

    interrupted_everywhere(use, guard, step=STEP)
    gc.collect()


def test_interrupted_decorated_function_releases_its_leases(redis_server: Store) -> None:
    guard, pool = Lock("stock"), Semaphore("pool", 1, blocking=False)

    @lock("stock", timeout=LONG_S, renew=True)
    @semaphore("pool", limit=1, timeout=LONG_S, renew=True)
    def work() -> None:
        pass

    def use(ctrl_c: CtrlC) -> None:
        ctrl_c.start()
        work()

    interrupted_everywhere(use, guard, step=STEP)
    assert is_free(pool)


def test_interrupted_block_of_a_reentrant_lock_releases_only_its_own_level(redis_server: Store) -> None:
    held = Lock("stock", timeout=LONG_S, reentrant=True, renew=True)

    with held:
        token = held.token
        for at in itertools.count(1):
            ctrl_c = CtrlC(at)
            try:
                with Lock("stock", reentrant=True):
                    ctrl_c.start()
                break
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            assert held.token == token, ctrl_c.where
            assert held.flows.owner_lease().depth == 1, ctrl_c.where
        assert held.owned()
    assert not held.locked()


def test_interrupted_block_releases_a_lock_that_was_reacquired_inside(redis_server: Store) -> None:
    guard = Lock("stock", timeout=LONG_S, renew=True)

    def use(ctrl_c: CtrlC) -> None:
        with guard:
            guard.release()
            guard.acquire()
            ctrl_c.start()

    interrupted_everywhere(use, guard, step=STEP)


def test_interrupted_block_of_a_semaphore_releases_only_its_own_permit(redis_server: Store) -> None:
    pool = Semaphore("pool", 2, timeout=LONG_S, blocking=False)

    with pool:
        token = pool.token
        for at in itertools.count(1):
            ctrl_c = CtrlC(at)
            try:
                with pool:
                    ctrl_c.start()
                break
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            assert pool.token == token, ctrl_c.where
            eventually(lambda: pool.available() == 1)
    assert pool.available() == 2


def test_reading_exit_without_calling_it_releases_nothing(redis_server: Store) -> None:
    held = Lock("stock")
    leave = held.__exit__
    held.acquire()

    del leave

    assert held.owned()
    assert hasattr(held, "__exit__")
    assert held.owned()
    held.__exit__(None, None, None)
    assert not held.locked()


def test_exit_in_a_forked_child_does_not_release_the_parents_lock(redis_server: Store) -> None:
    held = Lock("stock")
    child = 0

    with contextlib.suppress(LockNotOwned), held:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            assert held.owned()
    if not child:  # pragma: no cover - another process
        os._exit(7)

    assert not held.locked()
