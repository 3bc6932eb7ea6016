"""Limits of the length of files and functions."""

from __future__ import annotations

import ast

from tests.architecture.sources import modules

#: Lines. Most are far shorter.
FILE_LIMIT, FUNCTION_LIMIT = 400, 50

#: Files that are longer, each with the reason why it is one noun that stays whole.
LONG_FILES: dict[str, str] = {
    "django_redis_components.core.client.retry": "what is sent again after an error is decided in one place",
    "django_redis_components.core.settings.sections": "the settings of all components are one file (decision 36)",
    "django_redis_components.taskqueue.fields": "the names of all keys and fields are one catalogue",
    "django_redis_components.taskqueue.worker.execution": "a run decides its outcome alike in a thread and on the loop",
    "django_redis_components.taskqueue.worker.worker": "the steps of a run share its threads, permits and settling",
}


def test_every_file_above_the_limit_is_named_with_its_reason() -> None:
    long = {module.name for module in modules() if module.text.count("\n") > FILE_LIMIT}

    assert long == set(LONG_FILES), (
        "Look for the second noun in a file of more than 400 lines. If there is none, do not split it: add it to"
        " LONG_FILES with the reason. Remove those that have become shorter."
    )


def test_no_function_is_longer_than_the_limit() -> None:
    lengths = {
        f"{module.name}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LIMIT} == {}
