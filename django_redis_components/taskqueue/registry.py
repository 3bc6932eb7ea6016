"""The registry of tasks by name. Names from Redis are looked up here and never imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from django.utils.module_loading import autodiscover_modules

from django_redis_components.core import discovery
from django_redis_components.taskqueue.exceptions import InvalidTask


class Registered(Protocol):
    """The part of `task.Task` that the registry uses."""

    @property
    def func(self) -> Any: ...


#: Names of the module that Python runs as a script; the second one is that of `multiprocessing`.
SCRIPT_MODULES = frozenset({"__main__", "__mp_main__"})
#: Registered tasks by name.
tasks: dict[str, Any] = {}


def register(name: str, task: Registered) -> None:
    """Register a task. The same function of a reloaded module replaces its predecessor.

    Raises:
        InvalidTask: a function in another file or line has this name, or it is defined in a script.
    """
    module = name.rpartition(".")[0]
    if module in SCRIPT_MODULES:
        raise InvalidTask(
            f"{name!r} cannot be a task: {module!r} is the module that Python runs as a script, and no worker can"
            " import it. Define the task in another module, such as the tasks.py of an app."
        )
    present = tasks.get(name)
    if present is not None and _origin(present) != _origin(task):
        raise InvalidTask(f"Two functions have the name {name!r}: {_origin(present)} and {_origin(task)}.")
    tasks[name] = task


def find(name: str) -> Any:
    """Return the task of this name, or None."""
    return tasks.get(name)


def names() -> list[str]:
    """Return all registered names, sorted."""
    return sorted(tasks)


def all_tasks() -> Iterator[Any]:
    """Iterate over all registered tasks."""
    return iter(list(tasks.values()))


def autodiscover() -> None:
    """Import the `tasks` module of each installed app. Errors in a module are raised."""
    autodiscover_modules("tasks")
    for hook in discovery.hooks:
        hook()


def _origin(task: Registered) -> str:
    code = getattr(task.func, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(task.func)
