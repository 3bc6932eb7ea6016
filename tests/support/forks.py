"""Run functions in several processes at the same time."""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable
from typing import Any

#: Seconds within which all processes must have started.
START_S = 60

#: Reached by each process before its call. A barrier can be given to a process only when that starts.
_all_started: Any = None


def load(target: str) -> Callable[..., Any]:
    """Return the function with this name, such as ``package.module:function``."""
    module_name, _, function_name = target.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module_name), function_name)
    return function


def run_together(target: str, calls: list[list[Any]]) -> list[Any]:
    """Call a function once in each process, with its own arguments, at the same time.

    The processes are forked from this one: much cheaper than to start a Python and Django for each of them.
    """
    function, fork = load(target), multiprocessing.get_context("fork")
    with fork.Pool(len(calls), _set_barrier, (fork.Barrier(len(calls)),)) as pool:
        return pool.starmap(_call, [(function, args) for args in calls], chunksize=1)


def _set_barrier(barrier: Any) -> None:
    global _all_started
    _all_started = barrier


def _call(function: Callable[..., Any], args: list[Any]) -> Any:
    _all_started.wait(START_S)
    return function(*args)
