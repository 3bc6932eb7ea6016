"""Numbers in the output of commands: one of a thing has no plural."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import django_redis_components
from django_redis_components.core.text import counted

MANAGEMENT = Path(django_redis_components.__file__).parent / "management"
#: A number with a separator of thousands, and a plural behind it.
PLURAL = re.compile(r"\{\} (?:[a-z-]+ )?(?!bytes\b|seconds\b|is\b|was\b|has\b)[a-z-]+s\b")


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (1, ("task",), "1 task"),
        (0, ("task",), "0 tasks"),
        (1_204, ("running task",), "1,204 running tasks"),
        (1, ("entry", "entries"), "1 entry"),
        (2, ("entry", "entries"), "2 entries"),
    ],
)
def test_number_of_things(count: int, words: tuple[str, ...], text: str) -> None:
    assert counted(count, *words) == text


def test_no_command_writes_a_number_before_a_plural() -> None:
    found = []
    for path in MANAGEMENT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                counts = [
                    isinstance(part, ast.FormattedValue) and ast.unparse(part.format_spec or ast.Constant("")) == "f','"
                    for part in node.values
                ]
                text = "".join(
                    ("{}" if is_count else "{…}") if isinstance(part, ast.FormattedValue) else str(part.value)  # type: ignore[attr-defined]
                    for part, is_count in zip(node.values, counts, strict=True)
                )
                if PLURAL.search(text) and not re.search(r"MAX_\w+", ast.unparse(node)):
                    found.append(f"{path.name}:{node.lineno}: {text}")

    assert found == []
