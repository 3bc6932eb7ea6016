"""Redis keys from names.

A key is ``<prefix>:<component>:{<name>}[:<part>]``. The name is the hash tag, so all keys of an object share a Cluster
slot. Names are validated (`validate_name`); text from visitors is hashed (`digest`).
"""

from __future__ import annotations

import hashlib
from datetime import date

from django_redis_components.core.names import MAX_NAME_BYTES, validate_name
from django_redis_components.core.settings import conf

__all__ = ["MAX_NAME_BYTES", "day_stamp", "digest", "key", "validate_name"]


def key(component: str, name: str, *parts: str) -> str:
    """Return a key: ``<prefix>:<component>:{<name>}[:<part>…]``. The name must have been validated."""
    base = f"{conf.settings().prefix}:{component}:{{{name}}}"
    return ":".join((base, *parts)) if parts else base


def digest(value: str | bytes) -> str:
    """Return a 16-byte BLAKE2b hash as hexadecimal, for text of visitors in keys."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def day_stamp(day: date) -> str:
    """Return the day as it appears in keys: ``20261231``."""
    return day.isoformat().replace("-", "")
