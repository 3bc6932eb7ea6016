"""The names of stored data: each is used, and Python reads records by them."""

from __future__ import annotations

import ast
import re

import pytest

from django_redis_components.taskqueue.fields import LEGEND, Field
from tests.architecture.sources import PACKAGE_DIR, modules

LETTERS = {value for name, value in vars(Field).items() if not name.startswith("_")}

#: Fields that the page of a task does not read: what only scripts need.
NOT_SHOWN = {"waiters", "nonce", "fingerprint", "moving"}


def letters_read(text: str) -> list[str]:
    """Return the fields that are read or written by their stored names, as ``record["s"]`` or ``fields.get("s")``."""
    keys: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Subscript):
            keys.append(node.slice)
        elif isinstance(node, ast.Dict):
            keys += node.keys
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            keys += node.args[:1] if node.func.attr in ("get", "pop", "setdefault", "_text", "_time") else []
    return [key.value for key in keys if isinstance(key, ast.Constant) and key.value in LETTERS]


def test_no_module_reads_a_record_by_letter() -> None:
    found = {
        module.name: letters
        for module in modules()
        if module.component in ("taskqueue", "testing", "contrib")
        and not module.name.endswith(".fields")
        and (letters := letters_read(module.text))
    }

    assert found == {}


def test_letter_is_found() -> None:
    assert sorted(letters_read('record["s"] + fields.get("n") + text.split("s") + {"q": 1}["long"]')) == ["n", "q", "s"]


@pytest.mark.parametrize("letter", sorted(LEGEND))
def test_each_name_of_the_legend_is_used(letter: str) -> None:
    legend = LEGEND[letter]
    lua = "\n".join(path.read_text() for path in PACKAGE_DIR.rglob("taskqueue/lua/**/*.lua"))
    python = "\n".join(module.text for module in modules() if module.name.startswith("django_redis_components."))
    names = getattr(legend, "__members__", None) or [name for name in vars(legend) if not name.startswith("_")]

    used = set(re.findall(rf"\b{letter}\.(\w+)", lua)) | set(re.findall(rf"\b{legend.__name__}\.(\w+)", python))
    assert [name for name in names if name not in used] == []


def test_page_of_a_task_reads_every_field_of_its_record() -> None:
    text = (PACKAGE_DIR / "taskqueue" / "lua" / "stats" / "explain.lua").read_text()
    names = re.search(r"^local NAMES = \{(.+?)\}", text, re.M | re.S)
    assert names is not None

    read = set(re.findall(r"F\.(\w+)", names[1]))

    assert read | NOT_SHOWN == {name for name in vars(Field) if not name.startswith("_")}
    assert not read & NOT_SHOWN
