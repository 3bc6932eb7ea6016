"""Registers tasks of Django's framework after the `tasks` modules are imported.

A task that is defined for the Redis backend registers itself. A task that is defined for another backend, and enqueued
with `using(backend=…)`, registers only in the process that enqueues it. The worker therefore searches the `tasks`
modules that it has imported.

This module imports no framework at its top: `discover` uses those that the site has imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, cast

import django
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

#: The frameworks that the Redis backend supports.
FRAMEWORKS = ("django.tasks", "django_tasks")


def import_framework() -> None:
    """Import the framework that `TASKS` configures: it registers its system check of the backends when imported.

    Django imports `django.tasks` nowhere at start. A site whose modules do not import it before `manage.py check`
    runs would get no errors about `TASKS`.
    """
    if cast(Any, settings).is_overridden("TASKS"):
        if django.VERSION >= (6, 0):
            import_module("django.tasks")
        elif find_spec("django_tasks"):
            import_module("django_tasks.checks")


def discover() -> None:
    """Register the tasks in the `tasks` modules of the installed apps with the Redis backend."""
    for name in FRAMEWORKS:
        framework = sys.modules.get(name)
        if framework is None:
            continue
        redis_backend = next((backend for backend in _backends(framework) if hasattr(backend, "register_module")), None)
        if redis_backend is not None:
            for module in _tasks_modules():
                redis_backend.register_module(module)


def _backends(framework: ModuleType) -> Iterator[Any]:
    for alias in framework.task_backends.settings:
        try:
            yield framework.task_backends[alias]
        except ImproperlyConfigured:
            continue  # using this alias raises the error; the worker can run the others


def _tasks_modules() -> Iterator[ModuleType]:
    for app in apps.get_app_configs():
        module = sys.modules.get(f"{app.name}.tasks")
        if module is not None:
            yield module
