"""The sync client is generated from the async one, and is current."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE_DIR, ROOT

GENERATOR = ROOT / "tools" / "generate_sync.py"
CLIENT = PACKAGE_DIR / "core" / "client"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the generator and the client, which a test may change."""
    shutil.copytree(CLIENT, tmp_path / CLIENT.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tools").mkdir()
    shutil.copy(GENERATOR, tmp_path / "tools")
    return tmp_path


def generate(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, root / "tools" / GENERATOR.name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_sync_client_is_current() -> None:
    done = generate(ROOT, "--check")

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_sync_module_has_an_async_one() -> None:
    assert {path.name for path in (CLIENT / "_sync").glob("*.py")} == {
        path.name for path in (CLIENT / "_async").glob("*.py")
    }


@pytest.mark.parametrize("folder", ["_async", "_sync"])
def test_check_reports_a_change_of_one_side(copy: Path, folder: str) -> None:
    changed = copy / CLIENT.relative_to(ROOT) / folder / "pool.py"
    changed.write_text(changed.read_text().replace("MAX_FREE = 64", "MAX_FREE = 65"))

    done = generate(copy, "--check")

    assert done.returncode == 1
    assert "_sync/pool.py is not current: run `make sync`." in done.stdout


def test_generator_writes_what_check_asks_for(copy: Path) -> None:
    (copy / CLIENT.relative_to(ROOT) / "_sync" / "client.py").unlink()

    assert generate(copy).returncode == 0
    assert generate(copy, "--check").returncode == 0
