"""The examples of the documentation run."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.architecture import examples
from tests.architecture.sources import LAYERS, PACKAGE, ROOT, components
from tests.support import Store

pytestmark = [pytest.mark.docs, pytest.mark.django_db(transaction=True)]

#: Components for site code: the docstring of each has an example.
WITH_EXAMPLE = [name for name in components() if 0 < LAYERS[name] < 3]


@pytest.mark.parametrize("path", list(examples.documents(ROOT)), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_of_a_document_run(path: Path, redis_server: Store) -> None:
    found = examples.of_markdown(path)

    if found:
        examples.run(found)


@pytest.mark.parametrize("component", WITH_EXAMPLE)
def test_example_of_a_component_runs(component: str, redis_server: Store) -> None:
    found = examples.of_docstring(component, importlib.import_module(f"{PACKAGE}.{component}").__doc__ or "")

    assert found, "Add an example: an indented block below a line 'Example::', or lines with '>>>'."
    examples.run(found)


def test_a_block_runs_in_the_namespace_of_those_before(tmp_path: Path) -> None:
    document = tmp_path / "guide.md"
    document.write_text(
        "```python\nx = 1\n```\n\n<!-- not run -->\n```python\nboom()\n```\n\n```text\nno\n```\n"
        "```python\nimport asyncio\nawait asyncio.sleep(0)\nassert x == 1\n```\n```python\n>>> x + 1\n2\n```\n"
    )

    found = examples.of_markdown(document)

    assert [example.line for example in found] == [2, 14, 19]
    examples.run(found)


def test_a_wrong_block_fails_with_the_line_of_its_document(tmp_path: Path) -> None:
    document = tmp_path / "guide.md"
    document.write_text("# Title\n\n```python\nraise LookupError\n```\n")

    with pytest.raises(LookupError) as raised:
        examples.run(examples.of_markdown(document))

    assert (raised.traceback[-1].path, raised.traceback[-1].lineno + 1) == (document, 4)


def test_a_wrong_output_fails(tmp_path: Path) -> None:
    document = tmp_path / "guide.md"
    document.write_text("```python\n>>> 1 + 1\n3\n```\n")

    with pytest.raises(AssertionError, match="Expected"):
        examples.run(examples.of_markdown(document))


def test_the_examples_of_a_docstring_are_found() -> None:
    found = examples.of_docstring(
        "room", "What it is.\n\n    Example::\n\n        x = 1\n        assert x\n\n    Keys::\n\n        a b c\n"
    )

    assert [example.code.strip() for example in found] == ["x = 1\nassert x"]
    examples.run(found)
