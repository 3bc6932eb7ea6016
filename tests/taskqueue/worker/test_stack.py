"""The stack that a worker sends of a running task."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.store.workers import stack_key
from django_redis_components.taskqueue.worker import stack
from django_redis_components.taskqueue.worker.interruption import CoroutineRun, ThreadRun
from tests.support import Store, eventually

JOB = Job("id", "token", "name", b"[[],{}]", "default", 0, 0, 0, 0, 0)


def deep(levels: int, wait: Callable[[], object]) -> None:
    """Wait below this many calls."""
    deep(levels - 1, wait) if levels else wait()


def stack_in_thread(levels: int) -> str:
    """Return the stack of a function that waits in a thread."""
    release, run = threading.Event(), ThreadRun(JOB)
    started = threading.Event()

    def wait() -> None:
        started.set()
        release.wait()

    thread = threading.Thread(target=run.call, args=(deep, [levels, wait], {}, None))
    thread.start()
    started.wait()
    try:
        return stack.stack_of(run)
    finally:
        release.set()
        thread.join()


def test_stack_of_a_thread_has_the_frames_of_the_function_only() -> None:
    text = stack_in_thread(2)

    lines = [line.rpartition(" in ")[2] for line in text.splitlines() if line.startswith("  File")]
    assert lines[:4] == ["deep", "deep", "deep", "wait"]
    assert "release.wait()" in text


def test_stack_is_bounded_to_the_innermost_frames() -> None:
    text = stack_in_thread(300)

    assert len(text.encode()) <= stack.MAX_BYTES + len("…\n".encode())
    assert text.count("  File") <= stack.MAX_FRAMES
    assert "release.wait()" in text


def test_stack_with_names_that_are_no_utf_8_can_be_sent(redis_server: Store) -> None:
    release, started, run = threading.Event(), threading.Event(), ThreadRun(JOB)
    function = "def wait(started, release):\n    started.set()\n    release.wait()\n"
    names: dict[str, Any] = {}
    exec(compile(function, "/srv/caf\udce9/tasks.py", "exec"), names)  # noqa: S102 - the name of a file in Latin-1
    thread = threading.Thread(target=run.call, args=(names["wait"], [started, release], {}, None))
    thread.start()
    started.wait()

    stack.send(home(), run, "op")

    try:
        eventually(lambda: b"caf\\udce9" in (redis_server.raw.get(stack_key(home(), "op")) or b""))
    finally:
        release.set()
        thread.join()


def test_error_while_the_stack_is_read_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stack_of(_: Any) -> str:
        raise ImportError("a source loader of the site")

    monkeypatch.setattr(stack, "stack_of", stack_of)

    stack.send(home(), ThreadRun(JOB), "op")

    eventually(lambda: "The stack of a task cannot be sent (a source loader of the site)." in caplog.messages)


def test_request_is_dropped_without_a_thread(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)

    stack.send(home(), None, "op")

    assert caplog.messages == ["The stack of a task cannot be sent (can't start new thread)."]


def test_stack_of_a_run_that_has_not_begun_or_has_ended_is_empty() -> None:
    run = ThreadRun(JOB)
    assert stack.stack_of(run) == ""

    run.call(int, [], {}, None)

    assert stack.stack_of(run) == ""
    assert stack.stack_of(CoroutineRun(JOB)) == ""


async def outer(inner: Callable[[], Any]) -> None:
    await middle(inner)


async def middle(inner: Callable[[], Any]) -> None:
    await inner()


async def called(run: CoroutineRun, inner: Callable[[], Any]) -> None:
    run.enter()
    await run.call(outer, [inner], {}, None)


def test_stack_of_a_waiting_coroutine_follows_what_it_awaits() -> None:
    run, texts = CoroutineRun(JOB), []

    async def wait() -> None:
        await asyncio.sleep(30)

    async def main() -> None:
        task = asyncio.create_task(called(run, wait))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        texts.append(stack.stack_of(run))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())

    lines = [line.rpartition(" in ")[2] for line in texts[0].splitlines() if line.startswith("  File")]
    assert lines == ["outer", "middle", "wait", "sleep"]


class Proxied:
    """An awaitable whose attributes are the site's code."""

    def __await__(self) -> Any:
        return self

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        if name == "cr_frame":
            return self
        raise RuntimeError(name) if name == "gi_yieldfrom" else AttributeError(name)


def test_stack_ends_at_an_awaitable_of_the_site() -> None:
    run, texts = CoroutineRun(JOB), []

    async def wait() -> None:
        await Proxied()

    async def main() -> None:
        task = asyncio.create_task(called(run, wait))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        texts.append(stack.stack_of(run))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())

    lines = [line.rpartition(" in ")[2] for line in texts[0].splitlines() if line.startswith("  File")]
    assert lines == ["outer", "middle", "wait"]


def test_stack_of_a_coroutine_that_blocks_its_loop_is_that_of_the_thread() -> None:
    run, release = CoroutineRun(JOB), threading.Event()
    started = threading.Event()

    async def block() -> None:
        started.set()
        release.wait()

    loop = threading.Thread(target=lambda: asyncio.run(called(run, block)))
    loop.start()
    started.wait()

    text = stack.stack_of(run)

    release.set()
    loop.join()
    lines = [line.rpartition(" in ")[2] for line in text.splitlines() if line.startswith("  File")]
    assert lines[:3] == ["outer", "middle", "block"]


def test_answer_of_a_task_that_does_not_run_is_empty(redis_server: Store) -> None:
    stack.send(home(), None, "op")

    key = stack_key(home(), "op")
    eventually(lambda: connections.client().execute(Command("EXISTS", key)) == 1)
    assert connections.client().execute(Command("GET", key)) == b""
    assert 0 < redis_server.raw.pttl(key) <= 60_000
