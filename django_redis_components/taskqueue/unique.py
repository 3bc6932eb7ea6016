"""Unique tasks: the option `unique`, and the key that such a task claims."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, Literal

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.name_templates import template_of
from django_redis_components.core.units import Seconds, to_ms

#: Bytes of a digest: a collision is expected after 2^64 tasks.
DIGEST_BYTES = 16
#: Prefixes of claims by the value of `until`; the prefix of a duration is "t".
_LETTERS = {"finished": "f", "started": "s"}
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_ACCEPTED = '"finished", "started", or a duration in seconds or as a timedelta'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """While a task has a key, `enqueue` accepts no other task with it and returns the result of the first.

    Attributes:
        until: when the key is released. "finished": when the task has finished, retries included. "started": when a
            worker leases it. A duration (seconds or a timedelta): that long after the task was accepted.
        key: a template over the call's arguments (``"order:{order_id}"``), a callable that receives them, or None:
            all arguments. Different tasks never share a key.
    """

    until: Literal["finished", "started"] | Seconds = "finished"
    key: str | Callable[..., str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.until, str):
            if self.until not in _LETTERS:
                raise ValueError(f"until={short_repr(self.until)}: expected {_ACCEPTED}.")
        elif isinstance(self.until, bool) or not isinstance(self.until, int | float | timedelta):
            raise TypeError(f"until={short_repr(self.until)}: expected {_ACCEPTED}.")
        else:
            to_ms(self.until, "until")
        if self.key is not None and not isinstance(self.key, str) and not callable(self.key):
            raise TypeError(f"key={short_repr(self.key)}: expected a template, a callable, or None.")


def unique_of(option: Any) -> Unique | None:
    """Return the option `unique` as a `Unique`.

    Raises:
        TypeError, ValueError: the value is not accepted.
    """
    if option is None or option is False:
        return None
    if isinstance(option, Unique):
        return option
    if option is True:
        return Unique()
    if not isinstance(option, str | int | float | timedelta):
        raise TypeError(f"unique={short_repr(option)}: expected True, {_ACCEPTED}, or a Unique.")
    until: Any = option
    try:
        return Unique(until=until)
    except ValueError as exc:
        raise ValueError(str(exc).replace("until=", "unique=", 1)) from exc


def claim_of(
    unique: Unique, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """Return the claim of a call as a script argument: a prefix, the digest of the key, and for "t" milliseconds.

    Args:
        name: of the task.
        args, kwargs: the arguments as JSON values.

    Raises:
        TypeError, ValueError: the key cannot be built from these arguments.
    """
    if unique.key is None:
        value = _all_arguments(func, args, kwargs)
    else:
        value = template_of(unique.key, func, "unique key").format(tuple(args), kwargs)
        if not isinstance(value, str):
            raise TypeError(f"The unique key of {name} is {short_repr(value)}: expected text.")
    # A key of all arguments differs from a key whose text equals their JSON.
    kind = "arguments" if unique.key is None else "key"
    text = f"{name}\0{kind}\0{value}".encode("utf-8", "surrogatepass")
    digest = base64.urlsafe_b64encode(hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()).decode().rstrip("=")
    if isinstance(unique.until, str):
        return _LETTERS[unique.until] + digest
    return f"t{digest} {to_ms(unique.until, 'until')}"


def check_key(unique: Unique, func: Callable[..., Any]) -> None:
    """Validate the key template against the function's parameters.

    Raises:
        ValueError: the template names an argument that the function does not have.
    """
    if unique.key is not None:
        template_of(unique.key, func, "unique key")


def _all_arguments(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The arguments by name, with defaults, as canonical JSON: f(1) and f(a=1) are the same call."""
    with contextlib.suppress(TypeError):  # in a flow a result comes before them; or a default is not JSON
        bound = _signature(func).bind(*args, **kwargs)
        bound.apply_defaults()
        return _canonical(bound.arguments)
    return _canonical([args, kwargs])


@lru_cache(maxsize=1_024)
def _signature(func: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(func)
