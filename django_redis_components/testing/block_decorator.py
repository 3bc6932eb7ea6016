"""The base of context managers that also decorate functions."""

from __future__ import annotations

import functools
import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class BlockDecorator:
    """A context manager that is a decorator for functions and coroutine functions."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, *exc_info: object) -> None: ...

    @abstractmethod
    def _copy(self) -> BlockDecorator:
        """Return a new object with the same options."""

    def __call__(self, func: F) -> F:
        """Decorate a function: each call runs inside a new block with the same options."""
        if not inspect.isfunction(func):
            raise TypeError(f"{func!r}: expected a function. In a TestCase, use self.enterContext(…) in setUp.")
        if inspect.iscoroutinefunction(func):

            @functools.wraps(func)
            async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
                with self._copy():
                    return await func(*args, **kwargs)

            return async_wrapper  # type: ignore[return-value]

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self._copy():
                return func(*args, **kwargs)

        return wrapper  # type: ignore[return-value]
