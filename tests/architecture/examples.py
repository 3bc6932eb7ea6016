"""Finding the runnable examples of the documentation.

In Markdown every ```` ```python ```` block runs, in order, in one namespace for each file, against a real
server; ``>>>`` blocks are compared with their output. A block below ``<!-- not run -->`` does not run, nor does
```` ```text ````. ``await`` is allowed at the top level.

In a docstring these run: an indented block below a line that says "Example" and ends in ``::``, and ``>>>``.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django_redis_components import search
from django_redis_components.autocomplete import unregister, widgets
from django_redis_components.autocomplete.registry import registered
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.schedules import schedule as declared
from tests.support import run_async

NOT_RUN = "<!-- not run -->"

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.M | re.S)
_LITERAL = re.compile(r"^(?P<indent> *)\S?.*[Ee]xample.*::\n\n(?P<code>(?:(?P=indent) +\S.*\n|\s*\n)+)", re.M)


@dataclass(frozen=True)
class Example:
    """One block: where it stands and what it says."""

    file: str
    line: int
    code: str


def of_markdown(path: Path) -> list[Example]:
    text = path.read_text()
    return [
        Example(str(path), text.count("\n", 0, found.start("code")) + 1, textwrap.dedent(found["code"]))
        for found in _FENCE.finditer(text)
        if found["language"] == "python" and not text[: found.start()].rstrip().endswith(NOT_RUN)
    ]


def of_docstring(name: str, docstring: str) -> list[Example]:
    text = inspect.cleandoc(docstring) + "\n"
    if ">>>" in text:
        return [Example(name, 1, text)]
    return [
        Example(name, text.count("\n", 0, found.start("code")) + 1, textwrap.dedent(found["code"]))
        for found in _LITERAL.finditer(text)
    ]


@contextlib.contextmanager
def registrations_undone() -> Iterator[None]:
    """Forget what the examples of the block register: other tests list tasks, schedules and indexes, or save models."""
    tables = registry.tasks, declared.schedules
    before, used = [dict(table) for table in tables], set(widgets.used_indexes)
    indexes, searches = {one.name for one in registered()}, {one.name for one in search.registered()}
    try:
        yield
    finally:
        for table, kept in zip(tables, before, strict=True):
            table.clear()
            table.update(kept)
        widgets.used_indexes.intersection_update(used)
        for name in {one.name for one in registered()} - indexes:
            unregister(name)
        for name in {one.name for one in search.registered()} - searches:
            search.unregister(name)


def run(examples: list[Example]) -> None:
    """Run the blocks one after the other in one module, so that each sees the names of those before."""
    module = types.ModuleType(re.sub(r"\W", "_", f"examples_of_{examples[0].file}"))
    sys.modules[module.__name__] = module
    try:
        for example in examples:
            if ">>>" in example.code:
                _compare(example, vars(module))
            else:
                _execute(example, vars(module))
    finally:
        del sys.modules[module.__name__]


def _execute(example: Example, namespace: dict[str, object]) -> None:
    source = "\n" * (example.line - 1) + example.code  # tracebacks show the document's own lines
    code = compile(source, example.file, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        run_async(types.FunctionType(code, namespace))
    else:
        exec(code, namespace)  # noqa: S102


def _compare(example: Example, namespace: dict[str, object]) -> None:
    parsed = doctest.DocTestParser().get_doctest(example.code, namespace, example.file, example.file, example.line)
    parsed.globs = namespace
    report: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.DocTestRunner(optionflags=flags).run(parsed, out=report.append, clear_globs=False)
    if result.failed:
        raise AssertionError("".join(report))


def documents(root: Path) -> Iterator[Path]:
    """Return the README and the guides; not the records of decisions."""
    yield from sorted(root.glob("README*.md"))
    yield from sorted(path for path in root.glob("docs/**/*.md") if "decisions" not in path.parts)
