"""A name stands for one class."""

from __future__ import annotations

import ast
from collections import Counter

from tests.architecture.sources import modules

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
