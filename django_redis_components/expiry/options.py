"""What `@cached` was told, checked; and how values become bytes."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

from django_redis_components.core.decorators import function_name, refuse_coroutine_function
from django_redis_components.core.name_templates import NameTemplate


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """How the values of one function are computed and kept."""

    func: Callable[..., Any]
    name: NameTemplate
    ttl_ms: int
    lease_ms: int
    #: 0 never computes early; above 1 earlier than what is best for a site that knows nothing more.
    eagerness: float
    dumps: Callable[[Any], str | bytes]
    loads: Callable[[bytes], Any]
    spread: float
    using: str

    def body(self, value: Any) -> bytes:
        """What is stored.

        Raises:
            TypeError: `dumps` does not accept the value, or made no text of it, or text that is not UTF-8.
        """
        try:
            body = self.dumps(value)
            encoded = body.encode() if isinstance(body, str) else body
        except (TypeError, ValueError) as exc:  # UnicodeEncodeError is a ValueError
            raise TypeError(
                f"{function_name(self.func)}() returned what cannot be stored: {exc}. Give @cached dumps= and loads=."
            ) from exc
        if not isinstance(encoded, bytes):
            raise TypeError(f"dumps={self.dumps!r} made {type(body).__name__}: expected str or bytes.")
        return encoded


def to_json(value: Any) -> str:
    """JSON without what other readers could not read."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def eagerness_of(early: object) -> float:
    """The factor of XFetch.

    Raises:
        TypeError: neither a bool nor a number.
        ValueError: not above 0.
    """
    if isinstance(early, bool):
        return 1.0 if early else 0.0
    if not isinstance(early, int | float):
        raise TypeError(f"early={early!r}: expected True, False or a number above 0.")
    if not 0 < early < math.inf:
        raise ValueError(f"early={early!r}: expected True, False or a number above 0.")
    return float(early)


def check_callable(value: object, what: str) -> None:
    """Refuse what cannot be called.

    Raises:
        TypeError: it cannot be called, or is a coroutine function.
    """
    if not callable(value):
        raise TypeError(f"{what}={value!r}: expected a callable.")
    refuse_coroutine_function(value, what)
