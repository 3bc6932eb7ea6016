"""The pages for contributors agree with the code: files, names, layers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.sources import LAYERS, PACKAGE_DIR, ROOT, TASKQUEUE_LAYERS

FOLDER = ROOT / "docs" / "contributing"
RECIPES, ARCHITECTURE = FOLDER / "recipes.md", FOLDER / "architecture.md"

#: What a recipe is for: a change that contributors make again and again.
TITLES = ["task option", "record field", "Lua script", "lock kind", "panel", "page", "setting", "component"]

_NAMES = r"(?: \((?P<names>`[^)]+`)\))?: \S"
_STEP = re.compile(rf"^\d+\. (?:New: `[^`]+`, like )?`(?P<path>[^`]+)`{_NAMES}", re.M)

#: A file, by its path or the end of it.
FILE = re.compile(r"`([\w./-]+\.(?:py|lua|md|rst|html|po))`")


class Step(NamedTuple):
    """A numbered line of a page: a file, and names that it contains."""

    path: str
    names: list[str]


def steps_of(text: str) -> list[Step]:
    return [Step(found["path"], re.findall(r"`([^`]+)`", found["names"] or "")) for found in _STEP.finditer(text)]


STEPS = {
    f"{page.stem}-{number}": step
    for page in (RECIPES, ARCHITECTURE)
    for number, step in enumerate(steps_of(page.read_text()), 1)
}


@pytest.mark.parametrize("title", TITLES)
def test_there_is_a_recipe(title: str) -> None:
    assert re.search(rf"^## Add an? {title}$", RECIPES.read_text(), re.M)


@pytest.mark.parametrize("page", [RECIPES, ARCHITECTURE], ids=lambda page: page.stem)
def test_every_numbered_line_names_a_file(page: Path) -> None:
    text = page.read_text()

    assert len(steps_of(text)) == len(re.findall(r"^\d+\. ", text, re.M))


@pytest.mark.parametrize("step", STEPS.values(), ids=list(STEPS))
def test_file_of_a_step_exists_and_contains_its_names(step: Step) -> None:
    path = next((root / step.path for root in (ROOT, PACKAGE_DIR) if (root / step.path).is_file()), None)

    assert path, f"{step.path} does not exist"
    text = path.read_text()
    assert [name for name in step.names if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)] == []


@pytest.mark.parametrize("page", [RECIPES, ARCHITECTURE], ids=lambda page: page.stem)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    """A page may name a file by the end of its path."""
    folders = (PACKAGE_DIR, ROOT / "docs", ROOT / "tests", ROOT / "tools")
    files = {f"/{path.relative_to(ROOT)}" for folder in folders for path in folder.rglob("*.*")}
    files |= {f"/{path.name}" for path in ROOT.iterdir()}

    assert [
        name for name in FILE.findall(page.read_text()) if not any(path.endswith(f"/{name}") for path in files)
    ] == []


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("1. `a.py` (`b`, `c`): text.", Step("a.py", ["b", "c"])),
        ("12. `a.py`: text.", Step("a.py", [])),
        ("3. New: `<x>.py`, like `a.py` (`b`): text.", Step("a.py", ["b"])),
    ],
)
def test_step_is_read(line: str, step: Step) -> None:
    assert steps_of(line) == [step]


@pytest.mark.parametrize("line", ["1. Change `a.py`.", "1. New: `<x>.py`: text.", "1. `a.py` and so on."])
def test_line_without_a_file_is_no_step(line: str) -> None:
    assert steps_of(line) == []


def test_drawing_of_the_layers_is_that_of_the_tests() -> None:
    assert block_after("The layers of the package") == drawing_of_layers()


def test_drawing_of_the_taskqueue_is_that_of_the_tests() -> None:
    assert block_after("The layers of `taskqueue`") == drawing_of_taskqueue()


def drawing_of_layers() -> str:
    rows = []
    for layer in range(max(LAYERS.values()), -1, -1):
        names = [name for name, own in LAYERS.items() if own == layer]
        rows += wrapped(f"{layer}   ", names)
    return "\n".join(rows)


def drawing_of_taskqueue() -> str:
    rows = []
    for names in reversed(TASKQUEUE_LAYERS):
        shown = [f"{name}/" if (PACKAGE_DIR / "taskqueue" / name).is_dir() else name for name in names]
        rows += wrapped("", shown)
    return "\n".join(rows)


def wrapped(start: str, names: list[str]) -> list[str]:
    """Return the names in lines of at most 90 characters; further lines are indented as the first."""
    lines = [start]
    for name in names:
        if len(lines[-1]) + len(name) > 90:
            lines.append(" " * len(start))
        lines[-1] += f"{name}  "
    return [line.rstrip() for line in lines]


def block_after(text: str) -> str:
    """Return the first block of code after a text of the page of the architecture."""
    found = re.search(rf"{re.escape(text)}.*?```text\n(.*?)\n```", ARCHITECTURE.read_text(), re.S)
    assert found, f"{ARCHITECTURE.name} has no block of text after {text!r}"
    return found[1]
