"""Arguments as the framework normalises them, and where the one stands that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.utils.datastructures import MultiValueDict

from django_redis_components.core.serialization import several_values

Normalise = Callable[[Any], Any]


def normalised(args: Any, kwargs: Any, normalise: Normalise) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as JSON data: bytes become text, tuples become lists.

    Raises:
        TypeError: one cannot be carried. The framework's message, and the place: ``args[0]['when']``.
    """
    _refuse_several_values(args, "args")
    _refuse_several_values(kwargs, "kwargs")
    try:
        return normalise(args), normalise(kwargs)
    except TypeError as exc:
        place = _culprit(args, "args", normalise) or _culprit(kwargs, "kwargs", normalise)
        raise TypeError(f"{exc} at {place}. Send an id or a string instead.") from None


def _refuse_several_values(value: Any, path: str) -> None:
    """The framework would take a form's data, and lose all but the last value of each name."""
    if isinstance(value, MultiValueDict):
        raise several_values(value, path)
    if isinstance(value, dict | list | tuple):
        for at, item in _items(value, path):
            _refuse_several_values(item, at)


def _culprit(value: Any, path: str, normalise: Normalise) -> str:
    """The innermost place that the framework refuses, or "" if it takes all of it."""
    try:
        normalise(value)
    except TypeError:
        return next((found for at, item in _items(value, path) if (found := _culprit(item, at, normalise))), path)
    return ""


def _items(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(f"{path}[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, Sequence):
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    return []
