"""A descriptor that ends the wait of the thread that waits for wakeups: at a stop, or because the pool has changed."""

from __future__ import annotations

import os
import selectors
import threading
import weakref

from django_redis_components.taskqueue import forks


class Interrupt:
    """Ends the wait for a wakeup.

    Attributes:
        fd: readable when the worker must stop, and after `set` until `clear`.
    """

    def __init__(self, stop_fd: int) -> None:
        self._read_fd, self._write_fd = os.pipe()
        selector = selectors.DefaultSelector()  # it is itself a descriptor to wait for
        selector.register(stop_fd, selectors.EVENT_READ)
        selector.register(self._read_fd, selectors.EVENT_READ)
        self.fd = selector.fileno()
        forks.close_in_children(self._read_fd, self._write_fd, self.fd)
        weakref.finalize(self, _close, selector, self._read_fd, self._write_fd)
        #: Whether the pipe has its one byte.
        self._is_set = False
        self._lock = threading.Lock()

    def set(self) -> None:
        """End the wait, or the next one."""
        with self._lock:
            if not self._is_set:
                os.write(self._write_fd, b"x")
                self._is_set = True

    def clear(self) -> bool:
        """Return whether it was set since the last call. If it was not, that costs nothing."""
        if not self._is_set:
            return False
        with self._lock:
            os.read(self._read_fd, 1)
            self._is_set = False
        return True


def _close(selector: selectors.DefaultSelector, *descriptors: int) -> None:
    forks.keep_in_children(selector.fileno(), *descriptors)
    selector.close()
    for descriptor in descriptors:
        os.close(descriptor)
