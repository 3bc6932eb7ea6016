"""Limits of the length of files and functions."""

from __future__ import annotations

import ast

from tests.architecture.sources import modules

#: Lines. Most are far shorter.
FILE_LIMIT, FUNCTION_LIMIT = 400, 50


def test_no_file_is_longer_than_the_limit() -> None:
    lengths = {module.name: module.text.count("\n") for module in modules()}

    assert {name: lines for name, lines in lengths.items() if lines > FILE_LIMIT} == {}


def test_no_function_is_longer_than_the_limit() -> None:
    lengths = {
        f"{module.name}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LIMIT} == {}
