"""docs/api.md is current and whole."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys

import pytest
from django.dispatch import Signal

from django_redis_components.templatetags import redis_components
from django_redis_components.urls import urlpatterns
from tests.architecture.sources import ENTRY_POINTS, LAYERS, PACKAGE, ROOT, modules

PAGE = ROOT / "docs" / "api.md"
GENERATOR = ROOT / "docs" / "_extensions" / "public_api.py"

#: Ends of the names of classes that a site names or extends, and whose objects it does not use.
WITHOUT_REPR = ("CachedFunction", "Middleware", "Panel", "allow_hits", "deny_hits")

#: Components whose names sites import.
PUBLIC = [name for name, layer in LAYERS.items() if 0 < layer < ENTRY_POINTS and name != "contrib"]


def test_the_page_of_the_public_api_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, f"docs/api.md is out of date; run `make docs`. {done.stderr}"


@pytest.mark.parametrize("component", PUBLIC)
def test_page_lists_every_public_name_of_a_component(component: str) -> None:
    public = importlib.import_module(f"{PACKAGE}.{component}").__all__

    assert set(public) - listed() == set()


@pytest.mark.parametrize("component", PUBLIC)
def test_objects_of_the_package_have_a_repr_of_their_own(component: str) -> None:
    public = importlib.import_module(f"{PACKAGE}.{component}")
    classes = [value for value in map(vars(public).get, public.__all__) if inspect.isclass(value) and is_ours(value)]

    assert [
        kind for kind in classes if kind.__repr__ is object.__repr__ and not kind.__name__.endswith(WITHOUT_REPR)
    ] == []


def test_page_lists_the_fields_of_named_tuples_and_of_numbers() -> None:
    text = PAGE.read_text()

    assert re.search(r"^LogEntry\(day: date, address: str, ", text, re.M)
    assert re.search(r"^Estimate\(value: int, \*, error: float = ", text, re.M)


def test_page_lists_neither_internals_nor_what_another_library_documents() -> None:
    text = PAGE.read_text()

    assert re.search(r"^Point = tuple\[float, float\]$", text, re.M)
    assert re.findall(r"^.*[(,] ?_[a-z]\w*: .*$", text, re.M) == []
    assert [
        name for name in ("queued_commands", "declared_options", "needs_multipart_form") if f".{name}" in text
    ] == []
    assert re.findall(r"^(?:MemberFlow|RunContext|ResultReference|Signature|EmbeddedServer)\(", text, re.M) == []


def test_page_lists_every_signal() -> None:
    sources = [importlib.import_module(module.name) for module in modules() if module.name.endswith(".signals")]
    signals = {name for source in sources for name, value in vars(source).items() if isinstance(value, Signal)}

    assert signals
    assert {name for name in signals if f"\n{name}: Signal\n" not in PAGE.read_text()} == set()


def test_page_lists_every_template_tag_filter_and_url() -> None:
    text = PAGE.read_text()

    register = redis_components.register
    assert [name for name in register.tags if f"\ntag {name}(" not in text] == []
    assert [name for name in register.filters if f"\nfilter {name}(" not in text] == []
    assert [pattern.name for pattern in urlpatterns if f"\n{PACKAGE}:{pattern.name}  " not in text] == []


def is_ours(kind: type) -> bool:
    """Return whether a class extends none of another library."""
    return all(base.__module__.startswith((PACKAGE, "builtins", "typing", "abc")) for base in kind.__mro__)


def listed() -> set[str]:
    """Return the names at the beginning of the page's lines."""
    return set(re.findall(r"^(\w+)", PAGE.read_text(), re.M))
