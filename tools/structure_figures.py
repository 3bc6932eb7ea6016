"""Measure the structure of the package: its size, what an operation passes through, files to touch for a change.

    python tools/structure_figures.py

It starts its own server and worker. The figures of an operation are those of one call after many others, when
everything is connected and cached: the modules of the package whose functions it calls, and the number of these calls
(`sys.setprofile`; the resumption of a generator counts as a call). A task's figures are those of the worker's thread
from inside one task to inside the next one: the end of the first, one round trip, the start of the second; its success
is not logged. The files of a change are those that `docs/contributing/recipes.md` lists.
"""

from __future__ import annotations

import functools
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "django_redis_components"
RECIPES = ROOT / "docs" / "contributing" / "recipes.md"

#: Calls before the measured one.
WARM_UP = 30
#: Tasks of which each measures the way from the one before.
TASKS = 12
#: Length of these tasks in seconds: longer than the work that a worker prefetches, so that each is fetched alone.
TASK_S = 0.02


class Figures(NamedTuple):
    """The modules that an operation passes through, and the calls of their functions."""

    modules: int
    calls: int

    def __str__(self) -> str:
        return f"{self.modules} / {self.calls}"


class _Calls:
    """A profile function that records the package's calls of its thread."""

    def __init__(self) -> None:
        self.modules: list[str] = []

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith(f"{PACKAGE}."):
            self.modules.append(name)

    def figures(self) -> Figures:
        return Figures(len(set(self.modules)), len(self.modules))


def main() -> int:
    """Print the table."""
    sys.path.insert(0, str(ROOT))
    rows = [*sizes(), *operations(), *changes()]
    width = max(len(name) for name, _ in rows)
    for name, figure in rows:
        print(f"{name:<{width}}  {figure}")
    return 0


def sizes() -> Iterator[tuple[str, str]]:
    """Yield the lines of the package, of Python and of Lua."""
    counts = [f"{_lines(suffix):,}" for suffix in ("py", "lua")]
    yield "package, lines of Python / Lua", " / ".join(counts)


def _lines(suffix: str) -> int:
    return sum(path.read_text().count("\n") for path in (ROOT / PACKAGE).rglob(f"*.{suffix}"))


def operations() -> Iterator[tuple[str, str]]:
    """Yield the modules and calls of each operation, on a server of this function."""
    import django
    from django.conf import settings

    from tools.localserver import LocalServer

    with tempfile.TemporaryDirectory() as directory, LocalServer(directory=Path(directory)) as server:
        components = {"CONNECTIONS": {"default": {"URL": server.url}}, "RATELIMITS": {"COUNT_HITS": False}}
        settings.configure(INSTALLED_APPS=[PACKAGE], REDIS_COMPONENTS=components, USE_TZ=True)
        django.setup()
        for name, function in _operations().items():
            yield f"{name}, modules / calls", str(_measure(function))
        yield "fetch, run, ack of a task, modules / calls", str(_measure_worker())


def _operations() -> dict[str, Callable[[], Any]]:
    from django_redis_components.locks import Lock
    from django_redis_components.ratelimits import RateLimit
    from django_redis_components.semaphores import Semaphore

    lock, semaphore, limit = Lock("figures"), Semaphore("figures", 3), RateLimit("figures", "1000000/s")
    return {
        "enqueue": _profiled_task().enqueue,
        "acquire and release of a lock": lambda: (lock.acquire(), lock.release()),
        "acquire and release of a permit": lambda: (semaphore.acquire(), semaphore.release()),
        "hit of a rate limit": lambda: limit.hit("visitor"),
    }


def _measure(function: Callable[[], Any]) -> Figures:
    for _ in range(WARM_UP):
        function()
    calls = _Calls()
    sys.setprofile(calls)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls.figures()


def profile_worker() -> list[int] | None:
    """Return the figures from the last run of this task in its thread to this run."""
    calls = sys.getprofile()
    sys.setprofile(None)
    time.sleep(TASK_S)
    sys.setprofile(_Calls())
    return list(calls.figures()) if isinstance(calls, _Calls) else None


@functools.cache
def _profiled_task() -> Any:
    from django_redis_components.taskqueue import task

    profile_worker.__module__ = Path(__file__).stem  # a task of `__main__` is refused; the worker forks this process
    return task(profile_worker)


def _measure_worker() -> Figures:
    """Return the figures of the last of some tasks that a worker with one thread runs one after the other."""
    from django.core.management import call_command

    queued = _profiled_task().using(queue_name="figures")
    results = [queued.enqueue() for _ in range(TASKS)]
    try:
        call_command("runworker", "figures", "--burst", "--threads", "1", "--processes", "1", verbosity=0)
    except SystemExit as exc:
        if exc.code:
            raise
    return Figures(*results[-1].get(timeout=0))


def changes() -> Iterator[tuple[str, str]]:
    """Yield the number of files that each recipe lists: in the package, in tests and documentation."""
    for title, text in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", RECIPES.read_text(), re.M | re.S):
        files = re.findall(r"^\d+\. (?:New: )?`([^`]+)`", text, re.M)
        inside = sum(name.startswith(PACKAGE) for name in files)
        yield f"{title[0].lower()}{title[1:]}, files of the package / others", f"{inside} / {len(files) - inside}"


if __name__ == "__main__":
    sys.exit(main())
