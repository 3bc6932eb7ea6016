"""What a supervisor measures for the page of workers: memory, throughput, and the version of the site's code."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

from django.conf import settings

from django_redis_components.core.settings import conf

#: Shortest time over which the throughput is measured, in seconds: a wakeup may cause two heartbeats at once.
MIN_INTERVAL_S = 1.0
#: Most bytes of a file of git that are read.
MAX_GIT_BYTES = 1 << 20
#: Characters of a commit's hash that are shown.
COMMIT_LENGTH = 8
#: Folders above the settings module in which the repository is searched.
MAX_DEPTH = 10


class Throughput:
    """Tasks per minute, from the numbers of finished tasks of two heartbeats."""

    def __init__(self) -> None:
        self._at, self._finished = time.monotonic(), 0
        self._per_minute: float | None = None

    def per_minute(self, finished: int) -> float | None:
        """Return the rate since the heartbeat before; None until it can be measured.

        Args:
            finished: tasks since the start of the process.
        """
        now = time.monotonic()
        if now - self._at >= MIN_INTERVAL_S:
            self._per_minute = round((finished - self._finished) / (now - self._at) * 60, 1)
            self._at, self._finished = now, finished
        return self._per_minute


def resident_bytes(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Return the resident memory of a process; None where the system has no ``/proc``. Reads one line."""
    try:
        return int((proc / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def code_version() -> str:
    """Return the version of the site's code: the setting VERSION, or the commit of its git repository; "" if unknown.

    The repository is that of the settings module. Its files are read; git need not be installed.
    """
    version = conf.settings().taskqueue.version
    if version is not None:
        return version
    module = sys.modules.get(getattr(settings, "SETTINGS_MODULE", None) or "")
    file = getattr(module, "__file__", None)
    return _commit_of(Path(file).resolve().parent) if file else ""


def _commit_of(folder: Path) -> str:
    """Return the start of the commit that is checked out in a folder or above it; "" without a repository."""
    try:
        for above in [folder, *folder.parents][:MAX_DEPTH]:
            if (above / ".git").exists():
                return _read_head(above / ".git")
    except (OSError, ValueError):
        pass
    return ""


def _read_head(git: Path) -> str:
    if git.is_file():  # of a worktree or a submodule: "gitdir: <path>"
        git = git.parent / _read(git).removeprefix("gitdir:").strip()
    head = _read(git / "HEAD").strip()
    if not head.startswith("ref: "):
        return _short(head)
    ref = head.removeprefix("ref: ")
    common = git / "commondir"
    shared = git / _read(common).strip() if common.exists() else git
    if (shared / ref).exists():
        return _short(_read(shared / ref).strip())
    found = re.search(rf"^([0-9a-f]+) {re.escape(ref)}$", _read(shared / "packed-refs"), re.MULTILINE)
    return _short(found[1]) if found else ""


def _read(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(MAX_GIT_BYTES).decode()


def _short(commit: str) -> str:
    return commit[:COMMIT_LENGTH] if re.fullmatch(r"[0-9a-f]{40,64}", commit) else ""
