"""The only place where a name becomes a key.

A key is ``<prefix>:<room>:{<name>}[:<part>]``. The name stands in braces, so that all keys of one
object share a Cluster slot. Names are checked at the door; what comes from visitors is hashed
(`digest`) and never refused.
"""

from __future__ import annotations

import hashlib
import re

from django_redis_components.core import conf

#: Longest name in UTF-8 bytes. Longer ones cost memory in every key that is made of them.
MAX_NAME_BYTES = 200
_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f{}]")


def validate_name(name: object, what: str = "name") -> str:
    """Return the name if it may be part of a key.

    Args:
        name: the name.
        what: what it names, for the error ("lock name").

    Raises:
        TypeError: not a string.
        ValueError: empty, over 200 bytes, with a control character, a brace or a lone surrogate.
    """
    if not isinstance(name, str):
        raise TypeError(f"{what} {name!r}: expected a string, got {type(name).__name__}.")
    if not name:
        raise ValueError(f"{what} is empty: expected 1 to {MAX_NAME_BYTES} bytes of text.")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{what} {name!r}: expected text that UTF-8 can encode.") from None
    if size > MAX_NAME_BYTES:
        raise ValueError(f"{what} {name[:40]!r}… has {size} bytes: expected at most {MAX_NAME_BYTES}.")
    found = _REFUSED.search(name)
    if found is None:
        return name
    if found[0] in "{}":
        raise ValueError(f"{what} {name!r}: braces are not accepted; they mark the Cluster slot in keys.")
    raise ValueError(f"{what} {name!r}: control character {found[0]!r} is not accepted.")


def key(room: str, name: str, *parts: str) -> str:
    """The key of a room's object: ``<prefix>:<room>:{<name>}[:<part>…]``. The name must be validated."""
    base = f"{conf.settings().prefix}:{room}:{{{name}}}"
    return ":".join((base, *parts)) if parts else base


def digest(value: str | bytes) -> str:
    """Sixteen bytes of BLAKE2b in hexadecimal: how visitors' text gets into a key."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return hashlib.blake2b(data, digest_size=16).hexdigest()
