"""An event loop that a coroutine has damaged: its coroutines go on, or its thread ends, which the worker reports."""

from __future__ import annotations

import asyncio
import logging
import selectors
import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest

from django_redis_components.taskqueue.worker.event_loop import EventLoop
from tests.support import eventually


def run_on(loop: EventLoop, coroutine: Callable[[], Any]) -> threading.Event:
    """Run a coroutine as a worker's thread does; the event is set when it has ended."""
    ended = threading.Event()
    assert loop.acquire_permit(60)
    loop.start()
    loop.run(coroutine, lambda task: ended.set())
    return ended


def test_loop_without_a_selector_ends(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    selector = selectors.DefaultSelector()
    monkeypatch.setattr(asyncio, "new_event_loop", lambda: asyncio.SelectorEventLoop(selector))
    loop = EventLoop(2)

    async def close() -> None:
        selector.close()

    with caplog.at_level(logging.ERROR):
        run_on(loop, close)
        eventually(loop.has_died)

    assert caplog.text.count("The event loop cannot continue: its coroutines fail, the process is replaced.") == 1


class UnwakeableLoop(asyncio.SelectorEventLoop):
    """Its self-pipe is closed: a callback of another thread is seen at the loop's next step."""

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)


def test_coroutine_runs_on_a_loop_that_cannot_be_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "new_event_loop", UnwakeableLoop)
    monkeypatch.setattr("django_redis_components.taskqueue.worker.event_loop.LOOK_S", 0.02)
    loop = EventLoop(2)

    async def work() -> None: ...

    assert run_on(loop, work).wait(60)
    assert run_on(loop, work).wait(60)
