"""A name stands for one class, and "at" for a moment."""

from __future__ import annotations

import ast
import re
from collections import Counter

from tests.architecture.sources import PACKAGE, ROOT, called_name, modules

#: Parts of names of modules whose classes may have the names of others: Django derives permissions and URLs from the
#: name of a model, a process imports one of the two backends, and the sync client is generated from the async one.
EXCEPTIONS = (".dashboard.models", ".django_tasks.backport", ".client._sync.")
#: Names that Django expects; and `Group`, by which `manage.py redis` finds what a module of its groups declares.
#: A `Batch` of requests of the core, and one of calls, the option of a task: both are the word for it.
EXPECTED_NAMES = ("Command", "Meta", "Group", "Batch")


def test_no_two_classes_share_a_name() -> None:
    names = Counter(
        node.name
        for module in modules()
        if not any(part in module.name for part in EXCEPTIONS)
        for node in module.nodes
        if isinstance(node, ast.ClassDef) and node.name not in EXPECTED_NAMES
    )

    assert [name for name, count in names.items() if count > 1] == []


def test_at_is_a_moment_and_no_index() -> None:
    in_python = [
        f"{module.name}:{node.target.lineno}"
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.For | ast.comprehension)
        and first_name(node.target) == "at"
        and isinstance(node.iter, ast.Call)
        and called_name(node.iter) in ("enumerate", "range")
    ]
    scripts = (ROOT / PACKAGE).rglob("*.lua")
    in_lua = [path.name for path in scripts if re.search(r"^\s*for at\b", path.read_text(), re.M)]

    assert in_python + in_lua == []


def first_name(target: ast.expr) -> str | None:
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    return first.id if isinstance(first, ast.Name) else None
