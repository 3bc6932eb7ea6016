"""Tasks of Django's framework, once the `tasks` modules are imported.

A task registers with our queue when it is made for our backend. One that is made for another
backend, and sent to ours with `using(backend=…)`, registers in the process that sends it, and the
worker would never hear of it. So the worker looks through the `tasks` modules that it has imported.

No framework is imported at the top of this module: `discover` looks at those that the site has imported.
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

#: The frameworks whose backends may be ours.
FRAMEWORKS = ("django.tasks", "django_tasks")


def import_framework() -> None:
    """Import the framework that `TASKS` configures: it registers its system check of the backends when imported.

    Django imports `django.tasks` nowhere at start. A site whose modules do not import it before `manage.py check`
    runs would never learn of mistakes in `TASKS`.
    """
    if cast(Any, settings).is_overridden("TASKS"):
        if django.VERSION >= (6, 0):
            import_module("django.tasks")
        elif find_spec("django_tasks"):
            import_module("django_tasks.checks")


def discover() -> None:
    """Have our backends register the tasks that stand in the `tasks` modules of the installed apps."""
    for name in FRAMEWORKS:
        framework = sys.modules.get(name)
        if framework is None:
            continue
        ours = next((backend for backend in _backends(framework) if hasattr(backend, "adopt_from")), None)
        if ours is not None:
            for module in _tasks_modules():
                ours.adopt_from(module)


def _backends(framework: ModuleType) -> Iterator[Any]:
    for alias in framework.task_backends.settings:
        try:
            yield framework.task_backends[alias]
        except ImproperlyConfigured:
            continue  # whoever uses this alias gets the error; the worker can run the others


def _tasks_modules() -> Iterator[ModuleType]:
    for app in apps.get_app_configs():
        module = sys.modules.get(f"{app.name}.tasks")
        if module is not None:
            yield module
