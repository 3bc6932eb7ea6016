"""The registry of tasks by name. Names from Redis are looked up here and never imported."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, Protocol

from django.utils.module_loading import autodiscover_modules

from django_redis_components.core import discovery
from django_redis_components.taskqueue.exceptions import InvalidTask


class Registered(Protocol):
    """The part of `task.Task` that the registry uses."""

    @property
    def func(self) -> Any: ...
    @property
    def name(self) -> str: ...


#: Names of the module that Python runs as a script; the second one is that of `multiprocessing`.
SCRIPT_MODULES = frozenset({"__main__", "__mp_main__"})
#: Registered tasks by name, and by alias.
tasks: dict[str, Any] = {}
#: Tasks of the package itself, by name: workers find them, and no page lists them.
internal: dict[str, Any] = {}
#: The code of the module whose execution has registered a task, by the name of the task. A reload executes another.
_sources: dict[str, CodeType | None] = {}


def register(name: str, task: Registered, aliases: Sequence[str] = ()) -> None:
    """Register a task. A function of a reloaded module replaces its predecessor, also if it has moved within the file.

    Args:
        aliases: other names under which it is found.

    Raises:
        InvalidTask: another function has one of these names, or it is defined in a script.
    """
    module = getattr(task.func, "__module__", None)
    if module in SCRIPT_MODULES:
        raise InvalidTask(
            f"{name!r} cannot be a task: {module!r} is the module that Python runs as a script, and no worker can"
            " import it. Define the task in another module, such as the tasks.py of an app."
        )
    source = _source_of(task)
    for each in (name, *aliases):
        present = tasks.get(each)
        if present is None or (present.name, _origin(present)) == (name, _origin(task)):
            continue
        is_reloaded = _is_reload(_sources.get(present.name), source)
        if not (is_reloaded and getattr(present.func, "__module__", None) == module):
            raise InvalidTask(
                f"Two functions have the name {each!r}: {_holder(present, each)} and {_holder(task, each)}."
            )
    predecessor = tasks.get(name)
    for each in [alias for alias, present in tasks.items() if present is predecessor]:
        del tasks[each]
    tasks.update(dict.fromkeys((name, *aliases), task))
    _sources[name] = source


def find(name: str) -> Any:
    """Return the task of this name or alias, or None."""
    return tasks.get(name) or internal.get(name)


def restore(module: str, name: str, options: dict[str, Any]) -> Any:
    """Return the task that was pickled, with the options of `using`.

    Raises:
        ImportError: its module cannot be imported.
        InvalidTask: the module has no task of this name.
    """
    importlib.import_module(module)
    task = find(name)
    if task is None:
        raise InvalidTask(f"No task {name!r} is registered by the module {module!r}.")
    return task.using(**options) if options else task


def names() -> list[str]:
    """Return the names of all registered tasks, sorted."""
    return sorted(task.name for task in all_tasks())


def names_and_aliases() -> list[str]:
    """Return all names under which tasks are found, sorted."""
    return sorted({**tasks, **internal})


def all_tasks() -> Iterator[Any]:
    """Iterate over all registered tasks."""
    return iter([task for name, task in list(tasks.items()) if task.name == name])


def autodiscover() -> None:
    """Import the `tasks` module of each installed app. Errors in a module are raised."""
    autodiscover_modules("tasks")
    for hook in discovery.hooks:
        hook()


def _holder(task: Registered, name: str) -> str:
    return _origin(task) if task.name == name else f"{_origin(task)} (alias of {task.name})"


def _is_reload(before: CodeType | None, source: CodeType | None) -> bool:
    """Return whether the code of a module is that of a further execution of the same file."""
    if before is None or source is None or before is source:
        return False
    return before.co_filename == source.co_filename  # another folder may have a module of this name


def _source_of(task: Registered) -> CodeType | None:
    """Return the code of the task's module, if it is being executed; None in a later call."""
    variables = getattr(inspect.unwrap(task.func), "__globals__", None)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is variables and frame.f_code.co_name == "<module>":
            return frame.f_code
        frame = frame.f_back
    return None


def _origin(task: Registered) -> str:
    code = getattr(inspect.unwrap(task.func), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(task.func)
