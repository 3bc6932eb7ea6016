"""The names that decorators use are recorded, up to a limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_redis_components.core import registry
from django_redis_components.core.registry import DeclaredName, register_name, registered_names


@pytest.fixture(autouse=True)
def _unreached_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decorators of all tests of this process have recorded names."""
    monkeypatch.setattr(registry, "MAX_NAMES", len(registered_names()) + 100)


def names_of(func: Callable[..., Any]) -> list[DeclaredName]:
    named = func if hasattr(func, "__qualname__") else type(func)
    return [each for each in registered_names() if each.function == f"{named.__module__}.{named.__qualname__}"]


def test_names_templates_and_functions_are_distinguished() -> None:
    def work() -> None: ...

    for name in ("nightly", "order:{order_id}", lambda: "made"):
        register_name("locks", name, work, "default")

    where = f"{__name__}.{work.__qualname__}"
    assert names_of(work) == [
        DeclaredName("locks", "", where, "default", False),
        DeclaredName("locks", "nightly", where, "default", True),
        DeclaredName("locks", "order:{order_id}", where, "default", False),
    ]


def test_callable_without_a_name_is_recorded_by_its_class() -> None:
    class Work:
        def __call__(self) -> None: ...

    work = Work()

    register_name("locks", "nightly", work, "default")

    assert [each.name for each in names_of(work)] == ["nightly"]


def test_repeated_decorators_are_recorded_once_and_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None: ...

    monkeypatch.setattr(registry, "MAX_NAMES", len(registered_names()) + 3)

    for number in (0, 0, 0, 1, 2, 3, 4):
        register_name("locks", f"name-{number}", work, "default")

    assert [each.name for each in names_of(work)] == ["name-0", "name-1", "name-2"]
