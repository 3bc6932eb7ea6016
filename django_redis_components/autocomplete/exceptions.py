"""Exceptions of autocomplete."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from django_redis_components.core.exceptions import RedisComponentsError


class AutocompleteError(RedisComponentsError):
    """Base class of the exceptions of autocomplete."""


class UnknownIndex(AutocompleteError, LookupError):
    """A widget, a template tag or a request names an index that is not registered.

    Attributes:
        name: the requested name.
    """

    def __init__(self, name: str, names: Iterable[str]) -> None:
        registered = sorted(names)
        near = difflib.get_close_matches(name, registered, n=1)
        if near:
            hint = f"Did you mean {near[0]!r}?"
        elif registered:
            hint = f"Registered indexes: {', '.join(map(repr, registered))}."
        else:
            hint = "No index is registered: call autocomplete.register() in the module indexes.py of an app."
        super().__init__(f"No autocomplete index {name!r} is registered. {hint}")
        self.name = name
