"""Commands that errors, pages, help texts and the documentation name exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from django.core.management import get_commands

from django_redis_components.management import redis
from django_redis_components.management.jobs.rebuilding import COMPARISONS
from django_redis_components.management.redis.groups import GROUPS
from tests.architecture.sources import PACKAGE_DIR, ROOT, called_name, modules

#: Commands of the examples, of the tutorial, of other packages that guides name, and of Django.
OTHERS = {"demo", "rush", "qcluster", "qinfo", "rqworker", "rundramatiq", "run_huey", "export_chats", "runserver"}
#: A command line in a text, up to the second word of `redis`.
NAMED = re.compile(r"manage\.py[ \n]+([a-z][a-z_]+)(?:[ \n]+([a-z]+))?(?:[ \n]+([a-z]+(?:-[a-z]+)*))?")
#: The same without `manage.py`, between backticks.
SHORT = re.compile(r"`redis ([a-z]+)(?: ([a-z]+(?:-[a-z]+)*))?[^`]*`")


@cache
def verbs_of(group: str) -> set[str]:
    """Return the subcommands of a group: its methods `perform_VERB`; none if it executes its command itself."""
    found = import_module(f"{redis.__name__}.{group}").Group
    return {name.removeprefix("perform_").replace("_", "-") for name in dir(found) if name.startswith("perform_")}


def unknown_in(text: str) -> Iterator[str]:
    """Yield the commands of a text that do not exist."""
    for name, group, verb in NAMED.findall(text):
        if name != "redis":
            if name not in get_commands() and name not in OTHERS:
                yield name
        elif group:
            yield from _unknown(group, verb)
    for group, verb in SHORT.findall(text):
        yield from _unknown(group, verb)


def _unknown(group: str, verb: str) -> Iterator[str]:
    known = {*COMPARISONS} if group == "search" else verbs_of(group) if group in GROUPS else set()
    if group not in GROUPS or (verb and known and verb not in known):
        yield f"redis {group} {verb}"


def advised() -> Iterator[tuple[str, list[str]]]:
    """Yield the calls of `command_line` with their words, as far as they are constants."""
    for module in modules():
        for node in module.nodes:
            if isinstance(node, ast.Call) and called_name(node) == "command_line":
                words = [each.value if isinstance(each, ast.Constant) else "" for each in node.args]
                if words:
                    yield f"{module.name}:{node.lineno}", words


@pytest.mark.parametrize("ending", ["py", "html", "po", "lua"])
def test_commands_that_the_package_names_exist(ending: str) -> None:
    found = {
        (path.name, unknown)
        for path in PACKAGE_DIR.rglob(f"*.{ending}")
        for unknown in unknown_in(path.read_text().replace('"\n"', ""))
    }

    assert found == set()


def test_commands_that_the_documentation_names_exist() -> None:
    pages: list[Path] = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.rst")]
    found = {
        (path.name, unknown)
        for path in pages
        if "decisions" not in path.parts and path.name != "CHANGELOG.md"
        for unknown in unknown_in(path.read_text())
    }

    assert found == set()


def test_command_lines_that_are_advised_exist() -> None:
    lines = dict(advised())

    assert len(lines) > 10
    wrong = {
        place: words
        for place, words in lines.items()
        if words[0] not in ("", *get_commands())
        or (words[0] == "redis" and words[1] and any(_unknown(words[1], words[2] if len(words) > 2 else "")))
    }
    assert wrong == {}
