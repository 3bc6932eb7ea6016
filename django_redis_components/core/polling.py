"""`select.poll`, and a substitute for platforms without it (Windows).

`poll` is preferred because `select` supports no descriptor above 1023. `new_poller` is `select.poll` itself, so that
there is no call between: connections are checked often.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any, Protocol


class DescriptorPoller(Protocol):
    """What the package uses of `select.poll`."""

    def register(self, fd: Any, eventmask: int, /) -> object:
        """Watch a descriptor, or an object with `fileno`."""
        ...

    def poll(self, timeout_ms: float, /) -> list[tuple[int, int]]:
        """Return the descriptors that are ready, with their events, after at most this time."""
        ...


class SelectPoller:
    """Watches descriptors with `select.select`. Those of Windows must be sockets."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def register(self, fd: Any, eventmask: int, /) -> None:
        """Watch a descriptor, or an object with `fileno`, until it can be read."""
        self._descriptors.append(fd if isinstance(fd, int) else fd.fileno())

    def poll(self, timeout_ms: float, /) -> list[tuple[int, int]]:
        """Return the descriptors that can be read, after at most this time."""
        if not self._descriptors:  # the select of Windows rejects three empty lists
            time.sleep(timeout_ms / 1_000)
            return []
        ready, _, _ = select.select(self._descriptors, [], [], timeout_ms / 1_000)
        return [(descriptor, POLLIN) for descriptor in ready]


#: Event: a descriptor can be read.
POLLIN: int = getattr(select, "POLLIN", 1)
#: Return a new poller.
new_poller: Callable[[], DescriptorPoller] = getattr(select, "poll", SelectPoller)
