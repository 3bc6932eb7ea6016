"""Test modules import helpers from support modules, not from each other; the tests of the library need no demo."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.architecture.sources import ROOT, Module

TESTS = ROOT / "tests"
#: Folders of tests that run the demo.
DEMO = ("tests/example/", "tests/browser/")


def test_no_module_imports_a_test_module() -> None:
    assert [f"{path} imports {name}" for path, name in imports() if is_test_module(name)] == []


@pytest.mark.parametrize(
    "statement",
    [
        "from tests.locks.test_lock import hold",
        "from tests.locks import test_lock",
        "import tests.locks.test_lock",
        "def late():\n    from tests.locks.test_lock import hold",
    ],
)
def test_import_of_a_test_module_is_found(statement: str) -> None:
    assert any(is_test_module(name) for name in imported_by(statement))


@pytest.mark.parametrize("statement", ["from tests.locks.steps import acquisition", "from tests.support import Store"])
def test_import_of_a_support_module_is_allowed(statement: str) -> None:
    assert not any(is_test_module(name) for name in imported_by(statement))


def test_only_the_tests_of_the_demo_import_it() -> None:
    found = {path for path, name in imports() if name.startswith("example_project")}

    assert {path for path in found if not path.startswith(DEMO)} == set()


@cache
def imports() -> list[tuple[str, str]]:
    """Return each module of the tests with each name that it imports."""
    paths = sorted(TESTS.rglob("*.py"))
    return [(str(path.relative_to(ROOT)), name) for path in paths for name in imported_by(path.read_text())]


def imported_by(text: str) -> Iterator[str]:
    for node in Module("", text).nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_test_module(name: str) -> bool:
    """Return whether the name is in a file of tests: "tests.locks.test_lock.hold"."""
    parts = name.split(".")
    files = ("/".join(parts[:length]) for length in range(2, len(parts) + 1))
    return any(file.startswith("tests/") and file.rpartition("/")[2].startswith("test_") for file in files)
