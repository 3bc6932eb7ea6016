"""`runworker --reload`: a process that watches the site's files with Django's reloader and restarts the worker.

The reloader runs no task and imports no module again, so an error in a file ends the worker only. The worker is another
`runworker` process in a new process group, so that it receives each Ctrl-C once, through the reloader. It reports which
files it has imported, and stops when the reloader has exited.
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

from django_redis_components.taskqueue.supervisor.orphans import OrphanReaper
from django_redis_components.taskqueue.worker.process_signals import QUIET, STOP_SIGNALS

#: Environment variable for the worker: the reloader's pid, and where to write the list of imported files.
VARIABLE = "REDIS_COMPONENTS_RELOADER"
#: Seconds that running tasks have to finish after a change; then they return to their queue.
GRACE_S = 3.0


class Reloader:
    """Runs a worker, and restarts it after each change.

    Attributes:
        changed: the files that have changed since the worker started.
        stop_count: number of stop signals received.
        worker_started_at: when the worker started, in seconds since the epoch.
    """

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._reloader = autoreload.StatReloader()
        self._mtimes: dict[Path, float] = {}
        self.changed: list[Path] = []
        self.stop_count = 0
        self._orphans = OrphanReaper()
        self._worker: subprocess.Popen[bytes] | None = None
        self._stopped_worker: subprocess.Popen[bytes] | None = None
        self._files_read_at = 0
        self.worker_started_at = 0.0

    def run(self) -> int:
        """Watch until stopped, or until the worker exits with code 0; return the exit code."""
        for number in (*STOP_SIGNALS, QUIET):
            signal.signal(number, self._forward_signal)
        autoreload.file_changed.connect(self._note_change, sender=self._reloader)
        autoreload.autoreload_started.send(sender=self._reloader)
        with tempfile.TemporaryDirectory(prefix="runworker-") as directory:
            return self._run(Path(directory) / "files.json")

    def _run(self, files: Path) -> int:
        while True:
            worker = self._worker = self._start(files)
            self._wait_for_change(files, worker)
            has_exited = worker.poll() is not None
            code = worker.returncode if has_exited else self._stop(worker)
            if self.stop_count or (has_exited and code == 0):
                return code if code >= 0 else 128 - code
            if has_exited:
                self._log(f"The worker exited with code {code}; it restarts when a file changes.")
                self._wait_for_change(files, None)
                if not self.changed:
                    return 0
            self._log(f"{self.changed[0]} has changed; restarting the worker.")
            self.changed.clear()

    def _start(self, files: Path) -> subprocess.Popen[bytes]:
        self.worker_started_at = time.time()
        variables = os.environ | {VARIABLE: f"{os.getpid()} {files}"}
        return subprocess.Popen(autoreload.get_child_arguments(), env=variables, process_group=0)

    def _wait_for_change(self, files: Path, worker: subprocess.Popen[bytes] | None) -> None:
        """Check the files once a second, until one changes, a stop signal arrives, or the worker exits."""
        while not self.changed and not self.stop_count and (worker is None or worker.poll() is None):
            self._check_files()
            self._add_files(files)
            self._orphans.reap([worker.pid] if worker else [])
            time.sleep(self._reloader.SLEEP_TIME)

    def _check_files(self) -> None:
        """Note what has changed since the last check. The loop of Django's reloader misses changes before its first."""
        for path, mtime in self._reloader.snapshot_files():
            if mtime > self._mtimes.setdefault(path, mtime):
                self._mtimes[path] = mtime
                self._reloader.notify_file_changed(path)

    def _add_files(self, files: Path) -> None:
        """Watch the files that the worker has imported; they may have changed before it reported them."""
        if files.exists() and files.stat().st_mtime_ns != self._files_read_at:
            self._files_read_at = files.stat().st_mtime_ns
            new = set(map(Path, json.loads(files.read_text()))) - self._reloader.extra_files
            self._reloader.extra_files |= new
            for path in new:
                self._mtimes.setdefault(path, _modified_at(path))
            self.changed += [path for path in new if self._mtimes[path] > self.worker_started_at]

    def _stop(self, worker: subprocess.Popen[bytes]) -> int:
        """Stop the worker, unless a stop signal was forwarded to it. Running tasks have `GRACE_S` to finish."""
        if self._stopped_worker is not worker:
            worker.terminate()
        if not self.stop_count:
            try:
                return worker.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                worker.terminate()
        return worker.wait()

    def _forward_signal(self, number: int, _: Any) -> None:
        if number != QUIET:
            self.stop_count += 1
            self._stopped_worker = self._worker
        if self._worker is not None:
            self._worker.send_signal(number)

    def _note_change(self, *, file_path: Path, **_: Any) -> bool:
        """Note a change. True: Django must not act on it."""
        self.changed.append(file_path)
        return True


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it was deleted, or is not a file
        return 0.0


class ReloaderClient:
    """The worker's connection to the reloader that has started it."""

    def __init__(self, reloader_pid: int, files: Path) -> None:
        """
        Args:
            files: where to write the list of imported files.
        """
        self._reloader_pid = reloader_pid
        self._files = files

    @classmethod
    def from_environment(cls) -> ReloaderClient | None:
        """Return None without a reloader. The variable is removed, so that child processes have no reloader."""
        value = os.environ.pop(VARIABLE, "")
        pid, _, files = value.partition(" ")
        return cls(int(pid), Path(files)) if value else None

    def has_exited(self) -> bool:
        """Return whether the reloader has exited."""
        return os.getppid() != self._reloader_pid

    def report_files(self, error: Exception | None = None) -> None:
        """Report which files are imported, and in which ones an error has occurred."""
        files = {str(path) for path in autoreload.iter_all_python_module_files()}
        if error is not None:
            files.update(frame.filename for frame in traceback.extract_tb(error.__traceback__))
        if isinstance(error, SyntaxError) and error.filename:
            files.add(error.filename)
        new = self._files.with_suffix(".new")
        new.write_text(json.dumps(sorted(files)))
        new.replace(self._files)
