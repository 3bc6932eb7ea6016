"""Options of tasks from the settings: ``TASKQUEUE["DEFAULTS"]`` and ``TASKQUEUE["ROUTES"]``.

The first that has a value counts: the call, the decorator, ROUTES, DEFAULTS, the package. A task resolves its options
when they are first used, and again after the settings have changed: importing a module of tasks reads no setting, and
enqueueing and running compare one reference.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Any

from django.utils.module_loading import import_string

from django_redis_components.core import keys
from django_redis_components.core.arguments import short_repr
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.options import DeclaredOptions, TaskOptions, options_with

#: Replaced when the settings change.
generation = object()

_SETTING = 'REDIS_COMPONENTS["TASKQUEUE"]'


def resolve(task: Any) -> TaskOptions:
    """Return the options of a task.

    Raises:
        ConfigurationError: DEFAULTS or ROUTES is invalid.
        InvalidTask: a default does not fit the function of the task.
    """
    changes = {name: value for name, value in configured().items() if name not in task.declared}
    if "queue_name" not in task.declared and (queue := route_of(task.name)) is not None:
        changes["queue_name"] = queue
    declared: TaskOptions = task.declared_options
    if not changes:
        return declared
    try:
        return options_with(task._enqueue_func, declared, changes)
    except InvalidTask as exc:
        raise InvalidTask(f'{task.name} does not accept {_SETTING}["DEFAULTS"]: {exc}') from exc


def options_to_show(task: Any) -> TaskOptions:
    """Return the options of a task for a page; those of its decorator while the settings are invalid for it."""
    try:
        options: TaskOptions = task.options
    except (ConfigurationError, InvalidTask):  # `manage.py check` reports it, and so does each call
        options = task.declared_options
    return options


def source_of(task: Any, option: str) -> str:
    """Return where the value of an option is from: "decorator", "ROUTES", "DEFAULTS" or "package"."""
    if option in task.declared:
        return "decorator"
    if option == "queue_name" and route_of(task.name) is not None:
        return "ROUTES"
    return "DEFAULTS" if option in configured() else "package"


@cache  # until the settings change: each copy that `using` makes resolves its options
def configured() -> Mapping[str, Any]:
    """Return ``DEFAULTS``.

    Raises:
        ConfigurationError: an option is unknown, or its value is not accepted.
    """
    found = conf.settings().taskqueue.defaults or {}
    for name, value in found.items():
        setting = f'{_SETTING}["DEFAULTS"]["{name}"]'
        if name not in DeclaredOptions.__annotations__:
            near = difflib.get_close_matches(str(name).lower(), DeclaredOptions.__annotations__, n=1)
            hint = f' Did you mean "{near[0]}"?' if near else ""
            options = ", ".join(DeclaredOptions.__annotations__)
            raise ConfigurationError(f"{setting} is unknown.{hint} Options: {options}.")
        try:
            TaskOptions(**{name: value})
        except InvalidTask as exc:
            raise ConfigurationError(f"{setting}: {exc}") from exc
    return found


@lru_cache(maxsize=1_024)
def route_of(name: str) -> str | None:
    """Return the queue that ``ROUTES`` has for a task; None without one.

    Raises:
        ConfigurationError: the function of ROUTES cannot be imported, has raised, or has not returned a name.
    """
    routes = conf.settings().taskqueue.routes
    if isinstance(routes, Mapping):
        return next((queue for pattern, queue in routes.items() if fnmatchcase(name, pattern)), None)
    return None if routes is None else _call(routes, name)


def _call(routes: Any, name: str) -> str | None:
    setting = f'{_SETTING}["ROUTES"]'
    try:
        func = import_string(routes) if isinstance(routes, str) else routes
    except ImportError as exc:
        raise ConfigurationError(f"{setting}: {routes!r} cannot be imported: {exc}") from exc
    try:
        queue = func(name)
    except Exception as exc:
        raise ConfigurationError(f"{setting} has raised for the task {name!r}: {short_repr(exc)}") from exc
    try:
        return queue if queue is None else keys.validate_name(queue, "queue name")
    except (TypeError, ValueError) as exc:
        raise ConfigurationError(f"{setting} has returned {short_repr(queue)} for the task {name!r}: {exc}") from exc


def _forget() -> None:
    global generation
    configured.cache_clear()
    route_of.cache_clear()
    generation = object()


conf.on_change(_forget)
