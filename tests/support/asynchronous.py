"""Run coroutines in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.support.pools import aclose_pools

T = TypeVar("T")


def run_async(coro_func: Callable[..., Awaitable[T]], *args: object, timeout_s: float = 30.0) -> T:
    """Run ``coro_func(*args)`` in a new event loop, and close the async connection pools in that loop.

    Raises:
        TimeoutError: it did not return in time, even if it handled the cancellation: a test that expects one would
            pass although its own was lost.
    """

    async def main() -> T:
        try:
            async with asyncio.timeout(timeout_s) as limit:
                result = await coro_func(*args)
        finally:
            await aclose_pools()
        if limit.expired():
            raise TimeoutError(f"still running after {timeout_s} s")
        return result

    return asyncio.run(main())
