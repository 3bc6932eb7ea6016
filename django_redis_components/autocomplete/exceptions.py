"""Errors of autocomplete."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from django_redis_components.core.exceptions import RedisComponentsError


class AutocompleteError(RedisComponentsError):
    """Branch of all errors of autocomplete."""


class RebuildSuperseded(AutocompleteError):
    """A rebuild did not come in: a later one began, or it paused for so long that it expired.

    The index is what it was before, or what the later rebuild made of it.

    Attributes:
        name: name of the index.
    """

    def __init__(self, name: str, ttl_s: float) -> None:
        super().__init__(
            f"The rebuild of index {name!r} was dropped: a later one began, or {ttl_s:g} s passed between two chunks."
        )
        self.name = name


class UnknownIndex(AutocompleteError, LookupError):
    """A widget, a template tag or a request names an index that the site did not register.

    Attributes:
        name: the name asked for.
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        registered = sorted(known)
        near = difflib.get_close_matches(name, registered, n=1)
        if near:
            hint = f"Did you mean {near[0]!r}?"
        elif registered:
            hint = f"Registered are {', '.join(map(repr, registered))}."
        else:
            hint = "None is: call autocomplete.register() in the ready() of an AppConfig."
        super().__init__(f"No autocomplete index {name!r} is registered. {hint}")
        self.name = name
