"""A child of the demo: started in a session of its own, read line by line, stopped with patience.

In a session of its own it does not get the terminal's Ctrl-C; the demo decides the order in which its
children end. Should the demo itself be killed, the watcher process of ``localserver`` ends them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from example_project import localserver
from example_project.demo.console import Console

ROOT = Path(__file__).resolve().parents[2]

#: Seconds between two looks at a child that is to end.
LOOK_S = 0.05


class Child:
    """One process of the demo."""

    def __init__(self, name: str, args: list[str], env: Mapping[str, str], console: Console) -> None:
        self.name = name
        self._argv = [sys.executable, str(ROOT / "manage.py"), *args]
        self._env = {**os.environ, "PYTHONUNBUFFERED": "1", "DJANGO_RUNSERVER_HIDE_WARNING": "true", **env}
        self._console = console
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        """Start it and have its lines written to the console."""
        self._process = subprocess.Popen(
            self._argv,
            cwd=ROOT,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        localserver.end_with_us(self._process.pid)
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def wait(self, given_up: Callable[[], bool]) -> int | None:
        """Its exit code when it has ended; None when ``given_up`` says so first."""
        while self.code is None and not given_up():
            time.sleep(LOOK_S)
        code = self.code
        if code is not None:
            self._finish()
        return code

    def stop(self, grace_s: float, hurry: Callable[[], bool]) -> bool:
        """SIGTERM, then kill -9 of its whole session after ``grace_s`` or when ``hurry`` says so.

        Returns whether it ended by itself.
        """
        if self._process is None:
            return True
        deadline = time.monotonic() + grace_s
        self._process.terminate()
        while self._process.poll() is None and time.monotonic() < deadline and not hurry():
            time.sleep(LOOK_S)
        by_itself = self._process.poll() is not None
        self._finish()
        return by_itself

    def _finish(self) -> None:
        """Reap it, and end whatever of its session is still there."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        localserver.ended(self._process.pid)
        if self._reader is not None:
            self._reader.join(2)
        self._process = None

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # noqa: S101 - it was given a pipe
        with process.stdout:
            for line in process.stdout:
                self._console.line(self.name, line.rstrip("\n"))
