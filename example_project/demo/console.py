"""Output of several processes in one terminal, each line prefixed with the name of its process."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TextIO

from django_redis_components.management.plain_output import accept_any_text

#: Terminal color of each name.
COLORS = {"demo": "1", "site": "36", "worker": "32", "poller": "33", "server": "35"}

#: Width of the longest name.
WIDTH = max(map(len, COLORS))


class Console:
    """Writes whole lines; thread-safe."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        accept_any_text(self._stream)
        self._lock = threading.Lock()
        wanted = "NO_COLOR" not in os.environ and (self._stream.isatty() or "FORCE_COLOR" in os.environ)
        self._colored = wanted

    def line(self, name: str, text: str) -> None:
        """Write a line of a process."""
        label = f"{name:<{WIDTH}} |"
        if self._colored:
            label = f"\x1b[{COLORS.get(name, '0')}m{label}\x1b[0m"
        self._write(f"{label} {text}\n")

    def info(self, text: str) -> None:
        """Write a line of the demo itself."""
        self.line("demo", text)

    def _write(self, text: str) -> None:
        with self._lock, contextlib.suppress(OSError, ValueError):  # the terminal may be closed; shutdown must continue
            self._stream.write(text)
            self._stream.flush()
