"""The names that decorators of this process use, so that somebody who looks for them need not guess.

A process knows what its own modules declare, from their import on; nothing is asked of Redis.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

#: Most names that are kept: a decorator may stand within a function that is called again and again.
MAX_DECLARED = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class DeclaredName:
    """A name that a decorator uses.

    Attributes:
        room: "locks" or "semaphores".
        name: the name, or the template of it; "" if a function makes it.
        function: what is decorated, with its module.
        using: our connection alias.
        is_exact: whether the name is one, and no template.
    """

    room: str
    name: str
    function: str
    using: str
    is_exact: bool


_declared: dict[DeclaredName, None] = {}


def register_name(room: str, name: str | Callable[..., str], func: Callable[..., Any], using: str) -> None:
    """Note what a decorator uses."""
    if len(_declared) < MAX_DECLARED:
        text = name if isinstance(name, str) else ""
        is_exact = bool(text) and "{" not in text and "}" not in text
        named = func if hasattr(func, "__qualname__") else type(func)
        _declared[DeclaredName(room, text, f"{named.__module__}.{named.__qualname__}", using, is_exact)] = None


def registered_names() -> list[DeclaredName]:
    """What was noted, in order of name."""
    return sorted(_declared.copy(), key=lambda each: (each.name, each.room, each.function, each.using))
