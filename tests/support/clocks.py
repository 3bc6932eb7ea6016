"""Set the clock of a server forward and back with libfaketime (Debian: ``apt-get install faketime``)."""

from __future__ import annotations

from pathlib import Path

from tests.support.missing import skip_missing
from tools.localserver import valkey_binary


class ServerClock:
    """The clock of a Valkey that is started with `binary`. Its monotonic clock does not change.

    Not for Debian's Redis: its allocator reads the time before libfaketime is ready.
    """

    def __init__(self, directory: Path) -> None:
        """Skip the test if libfaketime is not installed."""
        libraries = _libraries()
        if not libraries:
            skip_missing("libfaketime is not installed: apt-get install faketime")
        directory.mkdir(parents=True, exist_ok=True)
        self._offset = directory / "offset"
        self._offset_s = 0
        self.step(0)
        self.binary = directory / "valkey-with-a-clock"
        environment = f"LD_PRELOAD={libraries[0]} FAKETIME_TIMESTAMP_FILE={self._offset} FAKETIME_NO_CACHE=1"
        self.binary.write_text(
            f'#!/bin/sh\nexec env {environment} FAKETIME_DONT_FAKE_MONOTONIC=1 {valkey_binary()} "$@"\n'
        )
        self.binary.chmod(0o755)

    @staticmethod
    def is_available() -> bool:
        """Return whether libfaketime is installed."""
        return bool(_libraries())

    def step(self, seconds: int) -> None:
        """Set the clock forward, or back if negative."""
        self._offset_s += seconds
        written = self._offset.with_suffix(".new")
        written.write_text(f"{self._offset_s:+d}\n")
        written.replace(self._offset)


def _libraries() -> list[Path]:
    return sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
