"""Closing the package's own connection pools after a test."""

from __future__ import annotations

import sys
from types import ModuleType


def close_pools() -> None:
    """Close what ``core.connections`` holds open."""
    if (module := _connections()) is not None:
        module.close_all()


async def aclose_pools() -> None:
    """Close the asynchronous ones, inside the event loop that opened them."""
    if (module := _connections()) is not None:
        await module.aclose_all()


def _connections() -> ModuleType | None:
    """The module, where a test has imported it: else there is nothing to close."""
    return sys.modules.get("django_redis_components.core.client.connections")
