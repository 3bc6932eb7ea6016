"""Tests use no private name of the package: they state what it promises, not how it is built.

Where a test must look inside a process of the worker, it uses the private name: nothing becomes public for a test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from functools import cache

import pytest

from tests.architecture.sources import PACKAGE, ROOT, called_name, modules

#: Functions that get or set the attribute named by one of their arguments.
BY_NAME = {"getattr", "setattr", "delattr", "hasattr", "patch"}

#: Objects of the standard library with private names that the package uses as well.
OTHERS = {"os", "sys", "asyncio"}

#: Private names of Django's models.
OF_MODELS = {"_state"}

#: The name that a definition or an assignment binds.
DEFINITION = re.compile(
    r"\b(?:def|class) (_\w+)|\b(?:self|cls)\.(_\w+)[^=\n(]*=(?!=)|^ *(_\w+)(?:, _?\w+)*(?:: [^=\n]+)? =(?!=)",
    re.MULTILINE,
)

#: What may be a private name in a text.
PRIVATE = re.compile(r"\b_\w+")

#: Folders of tests of internals, and the packages of `taskqueue` whose private names they may use.
INTERNALS = {"tests/taskqueue/worker/": ("worker",), "tests/taskqueue/supervisor/": ("supervisor", "worker")}

#: Files that may, and why.
EXCEPTIONS = {
    "tests/architecture/test_documented_names.py": "`_actions` is argparse's: it has no public list of options",
    "tests/core/test_caches.py": "`_pools` is django-redis's: it keeps pools for the whole process",
    "tests/core/test_pool.py": "sets the limits of the pools, whose generated modules are private",
}


def test_tests_use_no_private_name_of_the_package() -> None:
    found = [
        f"{path}:{line}: {name}"
        for path in files_of_tests()
        if path not in EXCEPTIONS
        for line, name in private_uses((ROOT / path).read_text(), allowed_in(path))
    ]

    assert found == []


def test_tests_of_internals_may_use_the_private_names_of_their_package_only() -> None:
    allowed = allowed_in("tests/taskqueue/worker/test_worker.py")

    assert list(private_uses("worker._running", allowed)) == []
    assert list(private_uses("queue._arun", allowed))
    assert allowed_in("tests/taskqueue/test_logs.py") == set()


@pytest.mark.parametrize("path", EXCEPTIONS)
def test_each_exception_is_needed(path: str) -> None:
    assert list(private_uses((ROOT / path).read_text()))


@pytest.mark.parametrize(
    "text",
    [
        "worker._running",
        "get_queue('default')._run(flow)",
        "worker._running = {}",
        "monkeypatch.setattr(worker, '_running', {})",
        "monkeypatch.setattr('django_redis_components.taskqueue.worker.worker.Worker._running', {})",
        "from django_redis_components.core.client._async import pool",
        "from django_redis_components.core.client.connections import _pools",
        "import django_redis_components.core.client._async",
    ],
)
def test_private_name_is_found(text: str) -> None:
    assert list(private_uses(text))


@pytest.mark.parametrize(
    "text",
    ["os._exit(0)", "self._running", "worker.running", "model._state", "class A:\n    _running = 1\n\nA()._running"],
)
def test_other_names_are_not_found(text: str) -> None:
    assert list(private_uses(text)) == []


def files_of_tests() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py"))


def allowed_in(path: str) -> set[str]:
    """Return the private names that the tests of this file may use."""
    packages = next((names for folder, names in INTERNALS.items() if path.startswith(folder)), ())
    starts = tuple(f"{PACKAGE}.taskqueue.{name}." for name in packages)
    return {
        name for module in modules() if starts and module.name.startswith(starts) for name in private_names(module.text)
    }


def private_uses(text: str, allowed: Set[str] = frozenset()) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each use of a private name of the package that the text does not define.

    Args:
        allowed: private names that it may use.
    """
    private = package_names() - private_names(text) - OF_MODELS - allowed
    if private.isdisjoint(PRIVATE.findall(text)):  # parsing all tests would take seconds
        return
    for node in ast.walk(ast.parse(text)):
        for name in used_names(node):
            if private.intersection(name.split(".")):
                yield node.lineno, name  # type: ignore[attr-defined]


def used_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        if not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls", *OTHERS}):
            yield node.attr
    elif isinstance(node, ast.ImportFrom):
        if (node.module or "").startswith(PACKAGE):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.startswith(PACKAGE))
    elif isinstance(node, ast.Call) and called_name(node) in BY_NAME:
        yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


@cache
def package_names() -> set[str]:
    """Return all private names that the package defines, also those of modules."""
    defined = {name for module in modules() for name in private_names(module.text)}
    return defined | {part for module in modules() for part in module.name.split(".") if is_private(part)}


def private_names(text: str) -> set[str]:
    return {name for names in DEFINITION.findall(text) for name in names if is_private(name)}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"
