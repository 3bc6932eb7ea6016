"""The live objects of a class in this process, such as the rate limits that the dashboard lists."""

from __future__ import annotations

import threading
import weakref
from typing import Generic, TypeVar

from django_redis_components.core.forks import after_fork_in_child

T = TypeVar("T")


class Instances(Generic[T]):
    """A set of objects that any thread may add to. It holds weak references: an object of one request is freed."""

    def __init__(self) -> None:
        self._references: weakref.WeakSet[T] = weakref.WeakSet()
        self._unlock()
        after_fork_in_child(self._unlock)

    def add(self, instance: T) -> None:
        """Add an object."""
        with self._mutex:
            self._references.add(instance)

    def all(self) -> list[T]:
        """Return the live objects, in no order."""
        with self._mutex:
            return list(self._references)

    def _unlock(self) -> None:
        """Replace the mutex: in a forked child a thread of the parent may hold it."""
        self._mutex = threading.Lock()
