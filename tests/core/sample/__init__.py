"""A room of the tests: scripts that stand as those of the package do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest.mock import patch

from django_redis_components.core import scripts
from django_redis_components.core.scripts import LuaScript


@contextlib.contextmanager
def in_this_room() -> Iterator[None]:
    """Scripts are read from ``tests/core/<room>/lua`` instead of the package."""
    with patch.object(scripts, "_PACKAGE", "tests.core"):
        yield


def script(name: str, **declared: object) -> LuaScript:
    """Return a script of this package."""
    made = LuaScript("sample", name, **declared)  # type: ignore[arg-type]
    with in_this_room():
        assert made.source
    return made


PUT = script("put", keys=("target", "counter"), args=("value",), idempotent=True)
ONCE = script("put", keys=("target", "counter"), args=("value",))
COUNT = script("count", keys=("first", "others*"), args=("by*",))
PAIR = script("pair", keys=("base",), args=("value",), idempotent=True)
FAIL = script("fail", keys=("counter",), idempotent=True)
