"""A child process of the demo, started in its own session.

In its own session it does not receive the terminal's Ctrl-C, so the demo controls the order of shutdown.
If the demo is killed, the watcher process of ``localserver`` stops its children.
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

from example_project.demo.console import Console
from tools import localserver

ROOT = Path(__file__).resolve().parents[2]

#: Poll interval in seconds while waiting for an exit.
POLL_S = 0.05


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
        """Start the process and copy its output to the console."""
        self._process = subprocess.Popen(
            self._argv,
            cwd=ROOT,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        localserver.stop_with_parent(self._process.pid)
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    @property
    def code(self) -> int | None:
        """The exit code, None while the process runs."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def wait(self, is_cancelled: Callable[[], bool]) -> int | None:
        """Wait for the exit and return its code, or None if ``is_cancelled`` returns True first."""
        while self.code is None and not is_cancelled():
            time.sleep(POLL_S)
        code = self.code
        if code is not None:
            self._finish()
        return code

    def stop(self, grace_s: float, is_urgent: Callable[[], bool]) -> bool:
        """SIGTERM, then kill -9 of its whole session after ``grace_s`` or when ``is_urgent`` returns True.

        Returns whether it exited within the grace period.
        """
        if self._process is None:
            return True
        deadline = time.monotonic() + grace_s
        self._process.terminate()
        while self._process.poll() is None and time.monotonic() < deadline and not is_urgent():
            time.sleep(POLL_S)
        exited = self._process.poll() is not None
        self._finish()
        return exited

    def _finish(self) -> None:
        """Reap it and kill the remaining processes of its session."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        localserver.forget_process(self._process.pid)
        if self._reader is not None:
            self._reader.join(2)
        self._process = None

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # noqa: S101 - it was given a pipe
        with process.stdout:
            for line in process.stdout:
                self._console.line(self.name, line.rstrip("\n"))
