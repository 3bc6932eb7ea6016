"""What decorators use is noted, within bounds."""

from __future__ import annotations

import functools

import pytest

from django_redis_components.core import registry as declared
from django_redis_components.core.registry import DeclaredName, register_name


@pytest.fixture(autouse=True)
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "_declared", {})


def work() -> None:
    """Nothing."""


def test_names_templates_and_functions_are_told_apart() -> None:
    for name in ("nightly", "order:{order_id}", lambda: "made"):
        register_name("locks", name, work, "default")

    where = f"{__name__}.work"
    assert declared.registered_names() == [
        DeclaredName("locks", "", where, "default", False),
        DeclaredName("locks", "nightly", where, "default", True),
        DeclaredName("locks", "order:{order_id}", where, "default", False),
    ]


def test_what_has_no_name_of_its_own_is_called_by_its_kind() -> None:
    register_name("locks", lambda: "made", functools.partial(work), "default")

    assert [each.function for each in declared.registered_names()] == ["functools.partial"]


def test_a_decorator_that_runs_again_and_again_is_noted_once_and_many_of_them_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(declared, "MAX_DECLARED", 3)

    for number in (0, 0, 0, 1, 2, 3, 4):
        register_name("locks", f"name-{number}", work, "default")

    assert [each.name for each in declared.registered_names()] == ["name-0", "name-1", "name-2"]
