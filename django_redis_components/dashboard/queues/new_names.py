"""The names under which unregistered tasks can run: those of registered tasks that were moved or renamed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.flows import parents
from django_redis_components.taskqueue.store.scan import MAX_MESSAGE, ScannedTask


def candidates_of(names: Iterable[str]) -> dict[str, list[Any]]:
    """Return the registered tasks that each unregistered name may have become.

    They are functions of the same name in other modules; without any, other functions of the same module.
    """
    with contextlib.suppress(Exception):  # a module cannot be imported: the others have registered their tasks
        registry.autodiscover()
    using = conf.settings().dashboard.using
    tasks = [task for task in registry.all_tasks() if task.connection == using]
    return {name: [] if registry.find(name) is not None else _candidates(name, tasks) for name in set(names)}


def new_names(tasks: Iterable[ScannedTask]) -> dict[str, str]:
    """Return the names of the only registered tasks that accept the arguments of unregistered ones, by task id.

    Tasks that no candidate accepts, or more than one, are left out; and those whose arguments were not read.
    """
    readable = [task for task in tasks if task.size <= MAX_MESSAGE and not task.is_clipped]
    candidates = candidates_of(task.record.name for task in readable)
    found = {}
    for task in readable:
        names = [candidate.name for candidate in candidates[task.record.name] if _accepts(candidate, task)]
        if len(names) == 1:
            found[task.record.id] = names[0]
    return found


def _candidates(name: str, tasks: list[Any]) -> list[Any]:
    module, _, function = name.rpartition(".")
    moved = [task for task in tasks if function in _parts_of(task, part=-1)]
    return moved or [task for task in tasks if module and module in _parts_of(task, part=0)]


def _parts_of(task: Any, part: int) -> set[str]:
    """Return the functions (-1) or the modules (0) of a task's name and path."""
    return {each.rpartition(".")[part] for each in (task.name, task.module_path)}


def _accepts(candidate: Any, task: ScannedTask) -> bool:
    try:
        args, kwargs, *options = task.record._decoded_message()
        gets_result = bool(options) and parents.has_inputs(options[0])
        candidate._check_arguments(args, kwargs, gets_result=gets_result)
    except Exception:  # noqa: BLE001 - besides TypeError, the site's codec may raise anything
        return False
    return True
