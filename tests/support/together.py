"""Start threads at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tests.support.waiting import TIMEOUT_S

T = TypeVar("T")


def run_together(n: int, func: Callable[..., T], *args: object, timeout_s: float = 2 * TIMEOUT_S) -> list[T]:
    """Call ``func`` in ``n`` threads that start at the same time; return the results in the order of the threads.

    A function with one parameter more than ``args`` gets the number of its thread (0 to n-1) first. The first exception
    of a thread is raised here after all threads have ended. The threads close their Django connections.
    """
    barrier = threading.Barrier(n)

    def one(number: int) -> T:
        barrier.wait(timeout_s)
        try:
            return func(number, *args) if _wants_number(func, len(args)) else func(*args)
        finally:
            _close_django_connections()

    with ThreadPoolExecutor(n) as pool:
        futures = [pool.submit(one, number) for number in range(n)]
        return [future.result(timeout_s) for future in futures]


def _wants_number(func: Callable[..., object], given: int) -> bool:
    import inspect

    try:
        positional = [
            p
            for p in inspect.signature(func).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
        ]
    except (TypeError, ValueError):
        return False
    return len(positional) == given + 1


def _close_django_connections() -> None:
    from django.db import connections

    for connection in connections.all(initialized_only=True):
        connection.close()
