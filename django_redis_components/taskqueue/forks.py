"""Keep forked children from acting as the worker, supervisor or poller that forked them.

A task may fork: with `os.fork`, `multiprocessing`, or `subprocess` with `preexec_fn`. The child has the thread that
forked and a copy of everything else. In the child, default signal handlers are restored, the parent's pipes are closed,
and the process exits when the task function ends (`exit_if_forked`). So a child never settles a task, fetches one, or
renews a lease.

The forking thread blocks signals until the child has its default handlers. Otherwise an early signal would be lost, or
handled by the parent's handler, and `Process.terminate()` would not end the child.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_process_id = os.getpid()
#: Handlers that `set_signal_handler` has installed in this process.
_handlers: dict[int, Callable[..., Any]] = {}
#: File descriptors that are closed in a forked child.
_descriptors: set[int] = set()
#: Functions that are called in a forked child.
_callbacks: list[Callable[[], object]] = []


class _TaskThread(threading.local):
    """The signal mask of a thread before it forked."""

    signal_mask: set[int] | None = None


_thread_state = _TaskThread()


def set_signal_handler(number: int, handler: Callable[..., Any]) -> None:
    """Install a signal handler that forked children do not inherit."""
    signal.signal(number, handler)
    _handlers[number] = handler


def set_wakeup_fd(fd: int) -> None:
    """Have the number of each signal written to a file descriptor, but not in forked children."""
    signal.set_wakeup_fd(fd, warn_on_full_buffer=False)


def close_in_children(*descriptors: int) -> None:
    """Close these file descriptors in forked children. They must stay open in this process until it exits."""
    _descriptors.update(descriptors)


def keep_in_children(*descriptors: int) -> None:
    """Undo `close_in_children`: this process has closed these file descriptors, and may use their numbers again."""
    _descriptors.difference_update(descriptors)


def call_in_children(callback: Callable[[], object]) -> None:
    """Call this in forked children, in the thread that forked. It must not raise."""
    _callbacks.append(callback)


def exit_if_forked(pid: int, exc: BaseException | None = None) -> None:
    """Exit if this process is a fork of the process `pid`: the task function that forked it has ended in it.

    The exit code is that of a Python program: 0, the code of `SystemExit`, or 1 with a traceback. No other code runs
    before the exit: a lock that another thread of the parent held is never released in the child.

    Args:
        pid: the process that started the task.
        exc: the exception that the function raised.
    """
    if os.getpid() != pid:
        _exit(exc)


def process_id() -> int:
    """Return the id of this process without a system call."""
    return _process_id


def exit_in_child(pid: int) -> None:
    """Exit if this process is a fork of the process `pid`.

    It is cheaper than `exit_if_forked`, but does not detect a fork that bypasses Python's hooks.
    """
    if _process_id != pid:
        _exit(None)


class ForkSafeExecutor(ThreadPoolExecutor):
    """Threads for the synchronous parts of a coroutine. A process forked in such a part exits at its end."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See `concurrent.futures.Executor.submit`."""
        return super().submit(_call, process_id(), fn, *args, **kwargs)


def _call(pid: int, func: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
    try:
        value = func(*args, **kwargs)
    except BaseException as exc:
        exit_if_forked(pid, exc)
        raise
    exit_if_forked(pid)
    return value


def _exit(exc: BaseException | None) -> NoReturn:
    code = 1
    try:
        code = _exit_code(exc)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _exit_code(exc: BaseException | None) -> int:
    if exc is None:
        return 0
    if not isinstance(exc, SystemExit):
        traceback.print_exception(exc)
        return 1
    if exc.code is None or isinstance(exc.code, int):
        return (exc.code or 0) & 0xFF
    sys.stderr.write(f"{exc.code}\n")
    return 1


def _before_fork() -> None:
    if _handlers:
        _thread_state.signal_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _handlers)


def _after_fork_in_parent() -> None:
    mask, _thread_state.signal_mask = _thread_state.signal_mask, None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_fork_in_child() -> None:
    global _process_id
    _process_id = os.getpid()
    if _handlers:
        signal.set_wakeup_fd(-1)
    for number, handler in _handlers.items():
        if signal.getsignal(number) is handler:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
    for descriptor in _descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    callbacks = _callbacks.copy()
    _handlers.clear()
    _descriptors.clear()
    _callbacks.clear()
    for callback in callbacks:
        callback()
    _after_fork_in_parent()


if hasattr(os, "register_at_fork"):  # Windows has neither forks nor workers
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
