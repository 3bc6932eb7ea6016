"""What a supervisor measures: memory, throughput, and the version of the site's code."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from django_redis_components.taskqueue.supervisor import measurements
from django_redis_components.taskqueue.supervisor.measurements import (
    Throughput,
    _commit_of,
    code_version,
    resident_bytes,
)
from tests.taskqueue.support import taskqueue_settings

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def repository(folder: Path, head: str, **files: str) -> Path:
    """Write the files of a repository; return a folder within it."""
    within = folder / "site" / "settings"
    within.mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text(head)
    for name, text in files.items():
        file = folder / ".git" / {"packed": "packed-refs", "branch": "refs/heads/main"}[name]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return within


@pytest.mark.parametrize(
    ("head", "files"),
    [
        (f"{COMMIT}\n", {}),
        ("ref: refs/heads/main\n", {"branch": f"{COMMIT}\n"}),
        ("ref: refs/heads/main\n", {"packed": f"# pack-refs\n{'f' * 40} refs/heads/mains\n{COMMIT} refs/heads/main\n"}),
    ],
)
def test_commit_is_read_from_the_repository_above(tmp_path: Path, head: str, files: dict[str, str]) -> None:
    assert _commit_of(repository(tmp_path, head, **files)) == "01234567"


@pytest.mark.parametrize(
    ("head", "files"),
    [
        ("", {}),
        ("<script>", {}),
        ("ref: refs/heads/main", {}),
        ("ref: refs/heads/main", {"packed": ""}),
        ("ref: refs/heads/main", {"branch": "no commit"}),
    ],
)
def test_broken_repository_has_no_commit(tmp_path: Path, head: str, files: dict[str, str]) -> None:
    assert _commit_of(repository(tmp_path, head, **files)) == ""


def test_commit_of_a_worktree_is_read_from_its_repository(tmp_path: Path) -> None:
    repository(tmp_path / "main", "ref: refs/heads/other", branch=COMMIT)
    meta = tmp_path / "main" / ".git" / "worktrees" / "copy"
    meta.mkdir(parents=True)
    (meta / "HEAD").write_text("ref: refs/heads/main\n")
    (meta / "commondir").write_text("../..\n")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / ".git").write_text(f"gitdir: {meta}\n")

    assert _commit_of(copy) == "01234567"


def test_version_is_that_of_the_settings(settings: Any) -> None:
    taskqueue_settings(settings, VERSION="2026.11.3")

    assert code_version() == "2026.11.3"


def test_folder_without_a_repository_has_no_commit(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"abcdefghijkl")
    deep.mkdir(parents=True)

    assert _commit_of(deep) == ""


def test_memory_is_read_from_proc(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "statm").write_text("900 500 100 1 0 200 0\n")

    assert resident_bytes(7, tmp_path) == 500 * os.sysconf("SC_PAGE_SIZE")
    assert resident_bytes(8, tmp_path) is None
    (tmp_path / "7" / "statm").write_text("")
    assert resident_bytes(7, tmp_path) is None


def test_throughput_needs_two_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(measurements, "time", SimpleNamespace(monotonic=lambda: now[0]))
    throughput = Throughput()

    rates = []
    for at, finished in ((100.5, 1), (105.0, 10), (105.1, 11), (115.0, 30)):
        now[0] = at
        rates.append(throughput.per_minute(finished))

    assert rates == [None, 120.0, 120.0, 120.0]
