"""The options of `@cached`, and serialization of values."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, Literal, get_args

from django_redis_components.core.arguments import check_callable, check_choice, check_number
from django_redis_components.core.decorators import function_name, refuse_deferred_function
from django_redis_components.core.name_templates import NameTemplate

#: What a call does while Redis is unavailable: compute the value, or raise the error.
OnError = Literal["compute", "raise"]
ON_ERROR: tuple[OnError, ...] = get_args(OnError)


@dataclasses.dataclass(frozen=True, slots=True)
class CacheOptions:
    """How the values of one function are computed and cached."""

    func: Callable[..., Any]
    name: NameTemplate
    ttl_ms: int
    lease_ms: int
    #: XFetch's beta. 0 never computes early; 1 is optimal without knowledge of the load; above 1 is earlier.
    eagerness: float
    dumps: Callable[[Any], str | bytes]
    loads: Callable[[bytes], Any]
    spread: float
    using: str
    #: What happens while Redis is unavailable, one of `ON_ERROR`.
    on_error: str

    def serialize(self, value: Any) -> bytes:
        """Return the serialized value.

        Raises:
            TypeError: `dumps` does not accept the value, or does not return bytes or text that UTF-8 can encode.
        """
        try:
            body = self.dumps(value)
            encoded = body.encode() if isinstance(body, str) else body
        except (TypeError, ValueError) as exc:  # UnicodeEncodeError is a ValueError
            raise TypeError(
                f"{function_name(self.func)}() returned a value that cannot be stored: {str(exc).rstrip('.')}. "
                "Pass dumps= and loads= to @cached."
            ) from exc
        if not isinstance(encoded, bytes):
            raise TypeError(f"dumps={self.dumps!r} returned {type(body).__name__}: expected str or bytes.")
        return encoded


def to_json(value: Any) -> str:
    """Return standard JSON: NaN and Infinity are rejected."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def parse_early(early: object) -> float:
    """Return the factor of XFetch.

    Raises:
        TypeError: neither a bool nor a number.
        ValueError: not above 0.
    """
    if isinstance(early, bool):
        return 1.0 if early else 0.0
    return check_number(early, "early", above=0, hint=", or True or False")


def check_on_error(on_error: object) -> str:
    """Return the value.

    Raises:
        TypeError, ValueError: it is none of `ON_ERROR`.
    """
    return check_choice(on_error, "on_error", ON_ERROR)


def check_function(value: Any, what: str) -> None:
    """Raise unless the value is a synchronous callable.

    Raises:
        TypeError: it is not callable, or is a coroutine function.
    """
    check_callable(value, what, "a callable")
    refuse_deferred_function(value, what)
