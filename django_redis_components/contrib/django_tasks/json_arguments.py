"""Normalize arguments with the framework, and name the place of a value that it rejects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.utils.datastructures import MultiValueDict

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.serialization import several_values

Normalize = Callable[[Any], Any]


def normalize_arguments(args: Any, kwargs: Any, normalize: Normalize) -> tuple[list[Any], dict[str, Any]]:
    """Convert arguments to JSON data: bytes become text, tuples become lists.

    Raises:
        TypeError: JSON cannot represent a value. The message names its place: ``args[0]['when']``.
    """
    _reject_multi_value_dicts(args, "args")
    _reject_multi_value_dicts(kwargs, "kwargs")
    try:
        return normalize(args), normalize(kwargs)
    except TypeError as exc:
        place = _rejected_place(args, "args", normalize) or _rejected_place(kwargs, "kwargs", normalize)
        raise TypeError(f"{exc} at {place}. Send an id or a string instead.") from None


def _reject_multi_value_dicts(value: Any, path: str) -> None:
    """Reject a `MultiValueDict`: the framework would keep only the last value of each name."""
    if isinstance(value, MultiValueDict):
        raise several_values(value, path)
    if isinstance(value, dict | list | tuple):
        for at, item in _items(value, path):
            _reject_multi_value_dicts(item, at)


def _rejected_place(value: Any, path: str, normalize: Normalize) -> str:
    """Return the innermost place that the framework rejects, or "" if it accepts the value."""
    try:
        normalize(value)
    except TypeError:
        return next(
            (found for at, item in _items(value, path) if (found := _rejected_place(item, at, normalize))), path
        )
    return ""


def _items(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(f"{path}[{short_repr(key)}]", item) for key, item in value.items()]
    if isinstance(value, Sequence):
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    return []
