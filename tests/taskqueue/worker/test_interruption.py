"""An interruption from another thread reaches the task's function and nothing after it."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextvars import Context
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue import SoftTimeLimitExceeded, TaskCancelled
from django_redis_components.taskqueue.logs import current_run
from django_redis_components.taskqueue.options import TimeLimits
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker import interruption as runs
from django_redis_components.taskqueue.worker.interruption import CoroutineRun, Run, ThreadRun, TimeLimitTimer
from tests.support import Store

pytestmark = pytest.mark.integration

JOB = Job("id", "token", "name", b"[[],{}]", "default", 0, 0, 0, 0, 0)


@pytest.fixture
def busy_switching() -> Iterator[None]:
    """Threads take turns far more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def count(to: int) -> int:
    total = 0
    for number in range(to):
        total += number
    return total


def test_an_interruption_ends_the_function() -> None:
    run = ThreadRun(JOB)
    begun = threading.Event()

    def start_and_continue() -> None:
        begun.set()
        for _ in range(20_000):
            time.sleep(0.001)

    def cancel_it() -> None:
        begun.wait(60)
        run.cancel()

    threading.Thread(target=cancel_it).start()

    with pytest.raises(TaskCancelled):
        run.call(start_and_continue, [], {}, None)

    assert run.cancel_asked
    assert run.interrupted


def test_an_interruption_never_reaches_what_comes_after_the_function(busy_switching: None) -> None:
    """Interruptions are sent all the time, at the ends of many short runs."""
    if sys.gettrace() is not None:
        pytest.skip("CPython 3.11 stands still under a tracer when two threads switch at each function's entry")
    cell: list[ThreadRun] = []
    over = threading.Event()

    def fire() -> None:
        while not over.is_set():
            if cell:
                cell[-1].interrupt(SoftTimeLimitExceeded)
            count(random.randrange(60))

    firing = threading.Thread(target=fire)
    firing.start()
    returned = raised = leaked = 0
    deadline = time.monotonic() + 30
    try:
        while min(returned, raised) < 50 and time.monotonic() < deadline:
            try:
                run = ThreadRun(JOB)
                cell[:] = [run]
                try:
                    assert run.call(count, [random.randrange(80)], {}, None) >= 0
                    returned += 1
                except SoftTimeLimitExceeded:
                    raised += 1
                count(30)
            except SoftTimeLimitExceeded:
                leaked += 1
    finally:
        over.set()
        firing.join()

    assert leaked == 0
    assert (returned > 0, raised > 0) == (True, True)


def test_pending_interruption_is_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_back: list[int] = []
    monkeypatch.setattr(runs, "withdraw", taken_back.append)

    assert ThreadRun(JOB).call(count, [10], {}, None) == 45
    assert taken_back == [], "nothing was sent"
    sent = ThreadRun(JOB)
    sent.interrupted = True
    assert sent.call(count, [10], {}, None) == 45

    assert taken_back == [threading.get_ident()]


def test_withdrawn_interruption_leaves_no_pending_exception() -> None:
    """CPython may go on looking for it, and a tracer then stands still."""
    done: list[int] = []

    def interrupted() -> None:
        run = ThreadRun(JOB)
        run.interrupted = True
        run.call(count, [10], {}, None)
        sys.settrace(lambda *_: None)
        done.append(count(10))

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(60)

    assert done == [45]


# A socket that is opened at the very moment is closed by the garbage collector, which warns.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("kind", [SoftTimeLimitExceeded, TaskCancelled])
def test_interruption_in_a_request_is_not_a_timeout_error(redis_server: Store, kind: type[BaseException]) -> None:
    """Code that waits on a socket catches `TimeoutError` and `OSError`, and repeats."""
    client = connections.client()

    def ask_and_ask(begun: threading.Event) -> None:
        client.execute(Command("EXISTS", "anything", retry=True))
        begun.set()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            client.execute(Command("EXISTS", "anything", retry=True))

    def interrupt(run: ThreadRun, begun: threading.Event) -> None:
        begun.wait(60)
        run.interrupt(kind)

    for _ in range(10):
        run, begun = ThreadRun(JOB), threading.Event()
        helper = threading.Thread(target=interrupt, args=(run, begun))
        helper.start()

        with pytest.raises(kind):
            run.call(ask_and_ask, [begun], {}, None)

        helper.join()


class HitAtItsEnd(ThreadRun):
    """The interruption arrives when the function has returned, before the run is closed."""

    def close(self) -> None:
        if not self.interrupted:
            self.interrupted = True
            raise SoftTimeLimitExceeded
        super().close()


def test_an_interruption_at_the_end_of_a_run_closes_it_and_keeps_the_value() -> None:
    run = HitAtItsEnd(JOB)

    assert run.call(count, [10], {}, None) == 45

    assert not run.is_open


def test_the_end_of_a_run_waits_for_an_interruption_that_is_being_sent() -> None:
    run = ThreadRun(JOB)
    ended = threading.Event()

    def begin_to_send() -> None:
        run.is_sending = True

    def live() -> None:
        run.call(begin_to_send, [], {}, None)
        ended.set()

    thread = threading.Thread(target=live)
    thread.start()
    assert not ended.wait(0.03)
    run.is_sending = False
    assert ended.wait(60)
    thread.join()


def no_thread(*_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_soft_limits_apply_again_after_the_system_had_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    timer, limits = TimeLimitTimer(), TimeLimits(0.05, None)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            ThreadRun(JOB, timer).call(count, [5], {}, limits)

    with pytest.raises(SoftTimeLimitExceeded):
        ThreadRun(JOB, timer).call(spin, [], {}, limits)


def spin() -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        count(100)


def test_cancellation_is_repeated_after_the_system_had_no_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A run in protected code is interrupted by a separate thread."""
    begun, may_go, outcomes = threading.Event(), threading.Event(), list[BaseException]()

    def wait_and_spin() -> None:
        begun.set()
        may_go.wait(60)
        spin()

    def call() -> None:
        try:
            run.call(wait_and_spin, [], {}, None)
        except TaskCancelled as exc:
            outcomes.append(exc)

    run = ThreadRun(JOB)
    thread = threading.Thread(target=call)
    thread.start()
    begun.wait(60)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        run.cancel()

    run.cancel()
    may_go.set()
    thread.join(60)

    assert [type(exc) for exc in outcomes] == [TaskCancelled]
    [record] = caplog.records
    assert record.getMessage() == "Task name[id] cannot be interrupted yet (can't start new thread)."


def test_finished_function_is_not_interrupted() -> None:
    run = ThreadRun(JOB)
    assert run.call(count, [10], {}, None) == 45

    run.cancel()

    assert (run.cancel_asked, run.interrupted) == (True, False)


@pytest.mark.parametrize("kind", [SoftTimeLimitExceeded, TaskCancelled])
def test_an_interruption_before_the_function_begins_is_not_lost(kind: type[BaseException]) -> None:
    """The time may be over, on a busy machine, before the function has been called."""
    run = ThreadRun(JOB)
    run.interrupt(kind)

    with pytest.raises(kind):
        run.call(pytest.fail, ["it was called"], {}, None)

    assert not run.is_open


def test_a_run_is_interrupted_once() -> None:
    run, caught = ThreadRun(JOB), []

    def from_elsewhere(interrupt: Any, *args: Any) -> None:
        thread = threading.Thread(target=interrupt, args=args)
        thread.start()
        # Not `join`: before Python 3.13 a traced thread does not end while another one has an exception pending.
        while thread.is_alive():
            time.sleep(0.001)

    def insist() -> str:
        try:
            from_elsewhere(run.cancel)
            spin()  # a separate thread may send it: this one ran protected code each time that `cancel` looked
        except TaskCancelled as exc:
            caught.append(exc)
        from_elsewhere(run.interrupt, SoftTimeLimitExceeded)
        count(1_000)
        return "insists"

    assert run.call(insist, [], {}, None) == "insists"
    assert len(caught) == 1


def test_exception_without_an_interruption_is_raised() -> None:
    with pytest.raises(SoftTimeLimitExceeded, match="mine"):
        ThreadRun(JOB).call(_raise, [SoftTimeLimitExceeded("mine")], {}, None)
    with pytest.raises(LookupError, match="other"):
        ThreadRun(JOB).call(_raise, [LookupError("other")], {}, None)


def _raise(exc: BaseException) -> None:
    raise exc


def test_current_run_is_available_in_the_task() -> None:
    run = ThreadRun(JOB)
    assert current_run.get(None) is None

    assert run.call(current_run.get, [], {}, None) is run

    assert current_run.get(None) is None


class RecordingTimer:
    """Records the runs with limits."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def start(self, run: Run, limits: TimeLimits) -> None:
        self.seen.append(limits)

    def stop(self, run: Run) -> None:
        self.seen.append("end")


def test_only_runs_with_limits_use_the_timer() -> None:
    timer = RecordingTimer()

    assert ThreadRun(JOB, timer).call(count, [3], {}, None) == 3
    assert timer.seen == []
    assert ThreadRun(JOB, timer).call(count, [3], {}, TimeLimits(5.0, 9.0)) == 3
    assert ThreadRun(JOB).call(count, [3], {}, TimeLimits(5.0, 9.0)) == 3
    with pytest.raises(LookupError):
        ThreadRun(JOB, timer).call(_raise, [LookupError()], {}, TimeLimits(None, 9.0))

    assert timer.seen == [TimeLimits(5.0, 9.0), "end", TimeLimits(None, 9.0), "end"]


def on_loop(run: CoroutineRun, func: Any, limits: TimeLimits | None = None) -> Any:
    return asyncio.run(call_on_loop(run, func, limits))


async def call_on_loop(run: CoroutineRun, func: Any, limits: TimeLimits | None = None) -> Any:
    run.enter()
    return await run.call(func, [], {}, limits)


def test_the_run_of_a_coroutine_is_deleted_without_the_garbage_collector() -> None:
    """The collector took a quarter of the time of short coroutines for cycles of run, task and context."""
    loop = asyncio.new_event_loop()
    run = CoroutineRun(JOB)
    deleted = weakref.ref(run)

    async def number() -> int:
        return 7

    gc.disable()
    try:
        task = asyncio.Task(call_on_loop(run, number), loop=loop, context=Context())
        assert loop.run_until_complete(task) == 7
        del run, task
        assert deleted() is None
    finally:
        gc.enable()
        loop.close()


def test_a_coroutine_is_cancelled_where_it_awaits() -> None:
    run = CoroutineRun(JOB)
    seen: list[Any] = []

    async def wait() -> None:
        seen.append(current_run.get())
        threading.Timer(0.01, run.cancel).start()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # it may tidy up
            seen.append("tidied up")
            raise

    with pytest.raises(TaskCancelled):
        on_loop(run, wait)

    assert seen == [run, "tidied up"]
    assert run.interrupted


def test_code_after_a_cancelled_coroutine_is_not_cancelled() -> None:
    run = CoroutineRun(JOB)

    async def wait() -> None:
        run.cancel()
        await asyncio.sleep(30)

    async def whole() -> str:
        with pytest.raises(TaskCancelled):
            await call_on_loop(run, wait)
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        run.cancel()
        await asyncio.sleep(0.01)
        return "went on"

    assert asyncio.run(whole()) == "went on"


def test_a_coroutine_that_middleware_runs_in_a_task_is_cancelled() -> None:
    run = CoroutineRun(JOB)

    async def wait() -> None:
        run.cancel()
        await asyncio.sleep(30)

    async def whole() -> None:
        run.enter()
        await asyncio.wait_for(asyncio.create_task(run.call(wait, [], {}, None)), 30)

    with pytest.raises(TaskCancelled):
        asyncio.run(whole())


def test_code_after_a_finished_coroutine_is_not_cancelled() -> None:
    run = CoroutineRun(JOB)

    async def whole() -> str:
        await run.call(_nothing, [], {}, None)
        run.cancel()
        await asyncio.sleep(0.01)
        return "went on"

    assert asyncio.run(whole()) == "went on"
    assert not run.interrupted


def test_coroutine_that_has_not_started_is_not_cancelled() -> None:
    run = CoroutineRun(JOB)

    run.cancel()

    assert run.cancel_asked
    assert on_loop(run, _nothing) is None


async def _nothing() -> None: ...


def test_coroutine_that_suppresses_the_cancellation_returns_its_value() -> None:
    run = CoroutineRun(JOB)

    async def insist() -> str:
        run.cancel()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "insists"
        return "never"

    assert on_loop(run, insist) == "insists"


def test_the_soft_limit_of_a_coroutine_is_a_cancellation_and_then_an_error() -> None:
    seen: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(SoftTimeLimitExceeded):
        on_loop(CoroutineRun(JOB, RecordingTimer()), wait, TimeLimits(0.01, None))

    assert seen == ["cancelled"]


def test_timeout_error_of_the_coroutine_is_not_a_limit() -> None:
    async def wait() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(30)

    with pytest.raises(TimeoutError) as raised:
        on_loop(CoroutineRun(JOB, RecordingTimer()), wait, TimeLimits(20, None))

    assert type(raised.value) is TimeoutError


def test_unrequested_cancellation_is_raised() -> None:
    async def cancel_myself() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        on_loop(CoroutineRun(JOB), cancel_myself)
