"""The lock and semaphore names that decorators use in this process, for the dashboard.

Only names from modules that this process has imported are known. Redis is not asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

#: Most names kept. A decorator inside a function is applied again at each call of the function.
MAX_NAMES = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class DeclaredName:
    """A name that a decorator uses.

    Attributes:
        component: "locks" or "semaphores".
        name: the name or its template; "" if a function makes it.
        function: module and name of the decorated function.
        using: the connection alias.
        is_exact: whether it is a name and not a template.
    """

    component: str
    name: str
    function: str
    using: str
    is_exact: bool


_names: dict[DeclaredName, None] = {}


def register_name(component: str, name: str | Callable[..., str], func: Callable[..., Any], using: str) -> None:
    """Record the name that a decorator uses."""
    if len(_names) < MAX_NAMES:
        text = name if isinstance(name, str) else ""
        is_exact = bool(text) and "{" not in text and "}" not in text
        named = func if hasattr(func, "__qualname__") else type(func)
        _names[DeclaredName(component, text, f"{named.__module__}.{named.__qualname__}", using, is_exact)] = None


def registered_names() -> list[DeclaredName]:
    """Return the recorded names, sorted."""
    return sorted(_names.copy(), key=lambda each: (each.name, each.component, each.function, each.using))
