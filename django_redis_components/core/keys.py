"""The only place where a name becomes a key.

A key is ``<prefix>:<room>:{<name>}[:<part>]``. The name stands in braces, so that all keys of one
object share a Cluster slot. Names are checked at the door; what comes from visitors is hashed
(`digest`) and never refused.
"""

from __future__ import annotations

import hashlib

from django_redis_components.core import conf
from django_redis_components.core.names import MAX_NAME_BYTES, validate_name

__all__ = ["MAX_NAME_BYTES", "digest", "key", "validate_name"]


def key(room: str, name: str, *parts: str) -> str:
    """The key of a room's object: ``<prefix>:<room>:{<name>}[:<part>…]``. The name must be validated."""
    base = f"{conf.settings().prefix}:{room}:{{{name}}}"
    return ":".join((base, *parts)) if parts else base


def digest(value: str | bytes) -> str:
    """Sixteen bytes of BLAKE2b in hexadecimal: how visitors' text gets into a key."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return hashlib.blake2b(data, digest_size=16).hexdigest()
