"""The wheel holds everything the app needs and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE, PACKAGE_DIR, ROOT, modules

#: What of the package's folder goes into the wheel.
SHIPPED = {".py", ".lua", ".html", ".txt", ".js", ".css", ".svg", ".mo", ".po", ".typed"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy, so that nothing left in the work tree gets into it."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, copy)
    for name in (PACKAGE, "tests", "example_project"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(out),
        str(copy),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_file_of_the_package_is_in_the_wheel(contents: set[str]) -> None:
    wanted = {
        str(path.relative_to(ROOT))
        for path in PACKAGE_DIR.rglob("*")
        if path.suffix in SHIPPED or path.name == "py.typed"
        if "__pycache__" not in path.parts
    }

    assert wanted - contents == set()


def test_the_package_has_no_file_that_the_wheel_leaves_out() -> None:
    files = {path for path in PACKAGE_DIR.rglob("*") if path.is_file() and "__pycache__" not in path.parts}

    assert {path.name for path in files if path.suffix not in SHIPPED and path.name != "py.typed"} == set()


def test_nothing_but_the_package_is_in_the_wheel(contents: set[str]) -> None:
    assert {name.split("/")[0] for name in contents} == {PACKAGE, f"{PACKAGE}-0.1.0.dist-info"}


def test_every_catalogue_is_compiled() -> None:
    catalogues = set(PACKAGE_DIR.glob("locale/*/LC_MESSAGES/*.po"))

    assert {path for path in catalogues if not path.with_suffix(".mo").exists()} == set()


def test_the_license_and_the_needed_versions_are_in_the_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{PACKAGE}-0.1.0.dist-info/METADATA").decode()

    assert "License-File: LICENSE" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert {line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra" not in line} == {
        "Requires-Dist: Django<6.2,>=5.2",
        "Requires-Dist: django-redis<8,>=7.0",
        "Requires-Dist: redis[hiredis]<9,>=8.0.1",
    }


#: Imports the package from the unpacked wheel, and reads every script it declares.
SCRIPT = f"""
import importlib, sys
import {PACKAGE}
from {PACKAGE}.core.scripts import LuaScript
assert {PACKAGE}.__file__.startswith(sys.argv[1]), {PACKAGE}.__file__
for name in sys.argv[2:]:
    for script in vars(importlib.import_module(name)).values():
        if isinstance(script, LuaScript):
            assert script.source and script.sha
"""


def test_the_unpacked_wheel_imports_and_finds_its_scripts(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    names = [module.name for module in modules() if module.name.endswith(".scripts")]
    env = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), *names],
        cwd=tmp_path,
        env=env | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
