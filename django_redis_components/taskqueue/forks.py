"""What a forked process must not inherit from a worker, supervisor or poller: signal handlers, pipes, and their work.

A task may fork: by `os.fork`, `multiprocessing`, or `subprocess` with `preexec_fn`. The child has the thread that
forked and a copy of everything else. It gets default signal handlers, and our pipes are closed in it; a task function
that ends in the child ends the child (`leave_if_forked`). So the child never settles a task, fetches one or renews a
lease.

Signals are blocked in the forking thread until the child has its default handlers: one that arrives
earlier would be lost, or be taken by our handler, and `Process.terminate()` would not end the process.
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
#: Handlers that `handle` has installed in this process.
_handlers: dict[int, Callable[..., Any]] = {}
#: Descriptors that are closed in a forked child.
_descriptors: set[int] = set()
#: Called in a forked child.
_callbacks: list[Callable[[], object]] = []


class _OfThread(threading.local):
    """The signal mask of a thread before it forked."""

    mask: set[int] | None = None


_of_thread = _OfThread()


def handle(number: int, handler: Callable[..., Any]) -> None:
    """Install a signal handler that forked children do not inherit."""
    signal.signal(number, handler)
    _handlers[number] = handler


def wake_by_signals(fd: int) -> None:
    """Have the number of each signal written to a descriptor; not in forked children."""
    signal.set_wakeup_fd(fd, warn_on_full_buffer=False)


def close_in_children(*descriptors: int) -> None:
    """Have these descriptors closed in forked children. They stay open as long as this process lives."""
    _descriptors.update(descriptors)


def call_in_children(callback: Callable[[], object]) -> None:
    """Have this called in forked children, in the thread that forked. It must not raise."""
    _callbacks.append(callback)


def leave_if_forked(pid: int, exc: BaseException | None = None) -> None:
    """End this process here if it is not the one with this id: a task has forked it, and its function has ended in it.

    The exit code is that of a Python program which ends so: 0, the code of SystemExit, or 1 with a traceback.
    Nothing of ours runs in between: locks of threads that are not here any more may be held for ever.

    Args:
        exc: what the function has raised.
    """
    if os.getpid() != pid:
        _leave(exc)


def process_id() -> int:
    """The id of this process, without asking the kernel."""
    return _process_id


def refuse_in_child(pid: int) -> None:
    """As `leave_if_forked`, for what stands behind that check: cheaper, and blind to a fork without Python's hooks."""
    if _process_id != pid:
        _leave(None)


class ForkSafeThreads(ThreadPoolExecutor):
    """Threads for parts of a coroutine. A process that is forked in one of them ends where the part ends.

    Attributes:
        is_used: whether anything was submitted.
    """

    is_used = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See `concurrent.futures.Executor.submit`."""
        self.is_used = True
        return super().submit(_call, process_id(), fn, *args, **kwargs)


def _call(pid: int, func: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:
    try:
        value = func(*args, **kwargs)
    except BaseException as exc:
        leave_if_forked(pid, exc)
        raise
    leave_if_forked(pid)
    return value


def _leave(exc: BaseException | None) -> NoReturn:
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


def _before() -> None:
    if _handlers:
        _of_thread.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _handlers)


def _after_in_parent() -> None:
    mask, _of_thread.mask = _of_thread.mask, None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_in_child() -> None:
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
    _after_in_parent()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
