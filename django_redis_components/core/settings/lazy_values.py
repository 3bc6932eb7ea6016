"""Settings given as lazy values of Django: they are evaluated once, when the setting is read."""

from __future__ import annotations

import copy
from typing import Any

from django.utils.functional import LazyObject, Promise


def evaluated(value: Any) -> Any:
    """Return the value that a lazy one stands for, also within a list or tuple; any other value as it is.

    A `SimpleLazyObject` passes for a string or a number in every check, but hiredis and `getattr` refuse it.
    """
    if issubclass(type(value), LazyObject):
        value.__class__  # noqa: B018 - evaluates it: the copy of one that is not evaluated is lazy, too
        return copy.copy(value)
    if isinstance(value, Promise):  # of `lazystr`, `reverse_lazy` or `gettext_lazy`
        return str(value)
    return type(value)(map(evaluated, value)) if type(value) in (list, tuple) else value
