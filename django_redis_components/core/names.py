"""Validation of names: of locks, queues, indexes, sites. Names of functions and classes."""

from __future__ import annotations

import re
from typing import Any

from django_redis_components.core.arguments import is_text, plain_text, short_repr

#: Longest name in UTF-8 bytes. Each key contains the name, so longer ones cost memory.
MAX_NAME_BYTES = 200
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f{}]")


def validate_name(name: object, what: str = "name") -> str:
    """Return the name, whose class is `str`, if it is valid in a key.

    Args:
        name: the name.
        what: what the name is for, in errors ("lock name").

    Raises:
        TypeError: not a string.
        ValueError: empty, over 200 bytes, with a control character, a brace or a lone surrogate.
    """
    if not is_text(name):
        raise TypeError(f"{what} {short_repr(name)}: expected a string, got {type(name).__name__}.")
    if not name:
        raise ValueError(f"{what} is empty: expected 1 to {MAX_NAME_BYTES} bytes of text.")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{what} {name!r}: expected text that UTF-8 can encode.") from None
    if size > MAX_NAME_BYTES:
        raise ValueError(f"{what} {name[:40]!r}… has {size} bytes: expected at most {MAX_NAME_BYTES}.")
    found = _FORBIDDEN.search(name)
    if found is None:
        return plain_text(name)
    if found[0] in "{}":
        raise ValueError(f"{what} {name!r}: braces are not accepted; they mark the Cluster slot in keys.")
    raise ValueError(f"{what} {name!r}: control character {found[0]!r} is not accepted.")


def stored_name(data: bytes) -> str | None:
    """Return a name that was read from an index in Redis; None if another program has written what is no name."""
    try:
        return validate_name(data.decode())
    except ValueError:
        return None


def dotted_path(func: Any) -> str:
    """Return module and qualified name of a function or class; of another object, such as a partial, its class's."""
    named = func if hasattr(func, "__qualname__") else type(func)
    return f"{named.__module__}.{named.__qualname__}"
