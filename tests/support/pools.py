"""Close the connection pools of the package after a test."""

from __future__ import annotations

import sys
from types import ModuleType


def close_pools() -> None:
    """Close the pools of ``core.client.connections``."""
    if (module := _connections()) is not None:
        module.close_all()


async def aclose_pools() -> None:
    """Close the async pools, in the event loop that opened them."""
    if (module := _connections()) is not None:
        await module.aclose_all()


def _connections() -> ModuleType | None:
    """Return the module if a test has imported it; else no pool is open."""
    return sys.modules.get("django_redis_components.core.client.connections")
