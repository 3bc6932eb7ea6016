"""Modules of the site's apps that are imported by their names: `indexes` when the apps are ready, `tasks` on use."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from django.apps import apps
from django.utils.module_loading import module_has_submodule

#: Called after each discovery of tasks.
hooks: list[Callable[[], None]] = []


def after_discovery(hook: Callable[[], None]) -> None:
    """Call `hook` each time the `tasks` modules have been imported; it may register tasks from them."""
    if hook not in hooks:
        hooks.append(hook)


def import_indexes() -> None:
    """Import the module `indexes` of each installed app: it registers the indexes of models."""
    for app in apps.get_app_configs():
        if app.module is not None and module_has_submodule(app.module, "indexes"):
            import_module(f"{app.name}.indexes")
