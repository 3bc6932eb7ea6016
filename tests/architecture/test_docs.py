"""The examples of the documentation run, and the pages of components have the same headings."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_redis_components.dashboard.panel import PAGES
from django_redis_components.management.redis.groups import GROUPS
from tests.architecture import examples
from tests.architecture.sources import LAYERS, PACKAGE, ROOT, components
from tests.support import Store

pytestmark = [pytest.mark.docs, pytest.mark.django_db(transaction=True)]

#: Components for site code: the docstring of each has an example.
WITH_EXAMPLE = [name for name in components() if 0 < LAYERS[name] < 3]

#: Second-level headings of a component's page, in order.
HEADINGS = [
    "Quick start",
    "How it works",
    "Guarantees",
    "Limits",
    "Options",
    "Failure behavior",
    "Examples",
    "See also",
]


@pytest.fixture(autouse=True)
def _registered_by_examples() -> Iterator[None]:
    with examples.registrations_undone():
        yield


@pytest.fixture
def server(redis_server: Store) -> Iterator[Store]:
    """A server without what examples write: they use keys without a test's prefix, and two of them the same one."""
    before = set(redis_server.raw.scan_iter(count=1_000))
    yield redis_server
    if written := set(redis_server.raw.scan_iter(count=1_000)) - before:
        redis_server.raw.unlink(*written)


COMPONENT_PAGES = sorted((ROOT / "docs" / "components").glob("*.md"))


@pytest.mark.parametrize("path", COMPONENT_PAGES, ids=lambda path: path.stem)
def test_component_page_has_the_common_headings_in_order(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)

    assert re.findall(r"^## (.+)$", text, re.M) == HEADINGS


@pytest.mark.parametrize("path", COMPONENT_PAGES, ids=lambda path: path.stem)
def test_component_page_links_to_another_page_at_its_end(path: Path) -> None:
    assert re.search(r"\]\([\w./-]+\.md", path.read_text().partition("\n## See also\n")[2])


@pytest.mark.parametrize(
    "path", [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md"))], ids=lambda path: path.name
)
def test_relative_links_of_pages_outside_the_documentation_exist(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    targets = re.findall(r"""\]\(([^)#]+)|(?:src|srcset|href)="([^"]+)""", text)

    linked = {link for pair in targets for link in pair if link and "://" not in link}
    assert {link for link in linked if not (path.parent / link).exists()} == set()


@pytest.mark.parametrize("component", WITH_EXAMPLE)
def test_component_has_a_page(component: str) -> None:
    assert component in {path.stem for path in COMPONENT_PAGES}


@pytest.mark.parametrize("component", [name for name in components() if LAYERS[name] > 0])
def test_component_has_a_page_of_the_reference(component: str) -> None:
    folder = ROOT / "docs" / "reference" / "python"

    page = (folder / f"{component}.rst").read_text()
    assert re.search(rf"^\.\. automodule:: {PACKAGE}\.{component}(\.\w+)?$", page, re.M)
    assert f"   {component}\n" in (folder / "index.rst").read_text()


def test_guide_of_the_command_line_lists_every_command_and_group() -> None:
    names = {path.stem for path in (ROOT / "django_redis_components" / "management" / "commands").glob("[a-z]*.py")}

    text = (ROOT / "docs" / "guides" / "command-line.md").read_text().partition("Exit codes:")[0]
    assert set(re.findall(r"`([a-z_]+)`", text)) == names - {"redis"}
    assert re.findall(r"^\| `redis ([a-z]+)` \|", text, re.M) == list(GROUPS)


def test_guide_of_panels_lists_every_page() -> None:
    text = (ROOT / "docs" / "guides" / "panels.md").read_text()

    assert [page for page in PAGES if f'`"{page}"`' not in text] == []


@pytest.mark.parametrize("path", list(examples.documents(ROOT)), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_examples_of_a_document_run_and_run_again_on_the_same_data(path: Path, server: Store) -> None:
    found = examples.of_markdown(path)

    for _ in range(2 if found else 0):
        examples.run(found)


@pytest.mark.parametrize("component", WITH_EXAMPLE)
def test_example_of_a_component_runs(component: str, server: Store) -> None:
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
