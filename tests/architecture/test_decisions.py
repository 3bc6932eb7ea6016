"""The records of decisions name what exists. One whose names have changed says how they are called, under "Today"."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGE_DIR, ROOT

DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))

#: A name, dotted or called, in backticks. One without an underscore may be a word of another project.
NAME = re.compile(r"`@?([A-Za-z][\w.]*_[\w.]*)(?:\([^`]*\))?`")
FILE = re.compile(r"`([\w/]+\.(?:py|lua|html|js|css))`")


@cache
def known() -> set[str]:
    """Return all words of the package, its tests and its pages."""
    folders = [PACKAGE_DIR, ROOT / "tests", ROOT / "tools", ROOT / "benchmarks", ROOT / "docs" / "components"]
    paths = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".lua", ".js", ".md")]
    return {word for path in paths if path != Path(__file__) for word in re.findall(r"\w+", path.read_text())}


def current(text: str) -> str:
    """Return what must be true today: all of a decision, or its last section "Today"."""
    return text.rpartition("\n## Today\n")[2]


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_names_in_a_decision_exist(path: Path) -> None:
    parts = {part for name in NAME.findall(current(path.read_text())) for part in name.split(".")}

    assert parts - known() == set(), 'Add a section "## Today" that has the names of today.'


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_files_in_a_decision_exist(path: Path) -> None:
    names = FILE.findall(current(path.read_text()))

    missing = {name for name in names if not (ROOT / name).exists() and not any(PACKAGE_DIR.rglob(name))}
    assert missing == set(), 'Add a section "## Today" that has the files of today.'
