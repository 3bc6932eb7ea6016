"""Names to tasks. A name that comes from Redis is only looked up here, never imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from django.utils.module_loading import autodiscover_modules

from django_redis_components.taskqueue.exceptions import InvalidTask


class Registered(Protocol):
    """What the registry needs of a task (`task.Task`)."""

    @property
    def func(self) -> Any: ...


_tasks: dict[str, Any] = {}
_after_discovery: list[Callable[[], None]] = []


def register(name: str, task: Registered) -> None:
    """Enter a task. The same function again (a reloaded module) replaces itself.

    Raises:
        InvalidTask: the name belongs to a function of another file or line.
    """
    present = _tasks.get(name)
    if present is not None and _origin(present) != _origin(task):
        raise InvalidTask(f"Two functions are called {name!r}: {_origin(present)} and {_origin(task)}.")
    _tasks[name] = task


def find(name: str) -> Any:
    """The task of that name, or None."""
    return _tasks.get(name)


def names() -> list[str]:
    """All registered names, sorted."""
    return sorted(_tasks)


def each() -> Iterator[Any]:
    """All registered tasks."""
    return iter(list(_tasks.values()))


def autodiscover() -> None:
    """Import the `tasks` module of each installed app. An error inside one is raised, never swallowed."""
    autodiscover_modules("tasks")
    for hook in _after_discovery:
        hook()


def after_discovery(hook: Callable[[], None]) -> None:
    """Have `hook` called whenever the `tasks` modules have been imported; it may register what it finds there."""
    if hook not in _after_discovery:
        _after_discovery.append(hook)


def _origin(task: Registered) -> str:
    code = getattr(task.func, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(task.func)
