"""`runworker --reload`: a process that watches the site's files with Django's reloader, and starts the worker anew.

The watcher runs no task and imports nothing again, so a file with a mistake in it ends the worker
only. The worker is `runworker` as ever, in a process group of its own, so that each Ctrl-C reaches
it once, through the watcher. It tells which files it has imported, and stops when the watcher is gone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.utils import autoreload

from django_redis_components.taskqueue.supervisor.child import QUIET, STOP_SIGNALS

#: How the worker is told that it is watched: the watcher's pid, and where to write its files.
VARIABLE = "REDIS_COMPONENTS_RELOADER"
#: Seconds that running tasks have to finish when a file has changed; then they go back to their queue.
GRACE_S = 3.0


class Watcher:
    """Keeps one worker running, a new one after each change."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._reloader = autoreload.StatReloader()
        self._mtimes: dict[Path, float] = {}
        self._changed: list[Path] = []
        self._stops = 0
        self._worker: subprocess.Popen[bytes] | None = None
        self._told: subprocess.Popen[bytes] | None = None
        self._learned_at = 0
        self._started_at = 0.0

    def run(self) -> int:
        """Watch until stopped, or until the worker has ended well; the value is the exit code."""
        for number in (*STOP_SIGNALS, QUIET):
            signal.signal(number, self._forward)
        autoreload.file_changed.connect(self._note, sender=self._reloader)
        autoreload.autoreload_started.send(sender=self._reloader)
        with tempfile.TemporaryDirectory(prefix="runworker-") as directory:
            return self._keep_running(Path(directory) / "files.json")

    def _keep_running(self, files: Path) -> int:
        while True:
            worker = self._worker = self._start(files)
            self._wait_for_change(files, worker)
            ended_itself = worker.poll() is not None
            code = worker.returncode if ended_itself else self._end(worker)
            if self._stops or (ended_itself and code == 0):
                return code if code >= 0 else 128 - code
            if ended_itself:
                self._say(f"The worker ended with exit code {code}; it starts again when a file changes.")
                self._wait_for_change(files, None)
                if not self._changed:
                    return 0
            self._say(f"{self._changed[0]} has changed: the worker starts again.")
            self._changed.clear()

    def _start(self, files: Path) -> subprocess.Popen[bytes]:
        self._started_at = time.time()
        told = {VARIABLE: f"{os.getpid()} {files}"}
        return subprocess.Popen(autoreload.get_child_arguments(), env=os.environ | told, process_group=0)

    def _wait_for_change(self, files: Path, worker: subprocess.Popen[bytes] | None) -> None:
        """Look at the files once a second, until one changes, somebody stops us, or the worker ends."""
        while not self._changed and not self._stops and (worker is None or worker.poll() is None):
            self._look()
            self._learn(files)
            time.sleep(self._reloader.SLEEP_TIME)

    def _look(self) -> None:
        """Note what has changed since the last look. The reloader's own loop misses what changes before its first."""
        for path, mtime in self._reloader.snapshot_files():
            if mtime > self._mtimes.setdefault(path, mtime):
                self._mtimes[path] = mtime
                self._reloader.notify_file_changed(path)

    def _learn(self, files: Path) -> None:
        """Watch what the worker has imported besides; it may have changed before we heard of it."""
        if files.exists() and files.stat().st_mtime_ns != self._learned_at:
            self._learned_at = files.stat().st_mtime_ns
            new = set(map(Path, json.loads(files.read_text()))) - self._reloader.extra_files
            self._reloader.extra_files |= new
            for path in new:
                self._mtimes.setdefault(path, _modified_at(path))
            self._changed += [path for path in new if self._mtimes[path] > self._started_at]

    def _end(self, worker: subprocess.Popen[bytes]) -> int:
        """Stop the worker; its running tasks have a moment, and go back then. Who is stopped himself has told it."""
        if self._told is not worker:
            worker.terminate()
        if not self._stops:
            try:
                return worker.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                worker.terminate()
        return worker.wait()

    def _forward(self, number: int, _: Any) -> None:
        if number != QUIET:
            self._stops += 1
            self._told = self._worker
        if self._worker is not None:
            self._worker.send_signal(number)

    def _note(self, *, file_path: Path, **_: Any) -> bool:
        """Note a change. True: nobody else need act upon it."""
        self._changed.append(file_path)
        return True


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it is gone, or never was a file
        return 0.0


class Watched:
    """What a worker does for the watcher that has started it."""

    def __init__(self, watcher: int, files: Path) -> None:
        """Args: watcher: its pid; files: where it reads which files to watch."""
        self._watcher = watcher
        self._files = files

    @classmethod
    def from_environment(cls) -> Watched | None:
        """None if nobody watches. What this process starts itself is not watched."""
        told = os.environ.pop(VARIABLE, "")
        pid, _, files = told.partition(" ")
        return cls(int(pid), Path(files)) if told else None

    def is_alone(self) -> bool:
        """Whether the watcher is gone."""
        return os.getppid() != self._watcher

    def tell_files(self, error: Exception | None = None) -> None:
        """Tell which files are imported, and in which ones an error has occurred."""
        files = {str(path) for path in autoreload.iter_all_python_module_files()}
        if error is not None:
            files.update(frame.filename for frame in traceback.extract_tb(error.__traceback__))
        if isinstance(error, SyntaxError) and error.filename:
            files.add(error.filename)
        new = self._files.with_suffix(".new")
        new.write_text(json.dumps(sorted(files)))
        new.replace(self._files)
