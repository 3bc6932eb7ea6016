"""What is called after the `tasks` modules were imported. The app adds to it without importing the queue."""

from __future__ import annotations

from collections.abc import Callable

#: Called after each discovery.
hooks: list[Callable[[], None]] = []


def after_discovery(hook: Callable[[], None]) -> None:
    """Call `hook` each time the `tasks` modules have been imported; it may register tasks from them."""
    if hook not in hooks:
        hooks.append(hook)
