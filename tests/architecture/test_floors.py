"""Imports go down only; rooms of one floor never meet; nothing imports in a circle."""

from __future__ import annotations

import pytest

from tests.architecture.sources import DOORS, FLOORS, PACKAGE, Module, modules


def test_imports_go_down_and_never_sideways() -> None:
    assert floor_violations(modules()) == []


def test_no_module_imports_in_a_circle_not_even_inside_a_function() -> None:
    assert circles(modules()) == []


def test_every_room_and_door_has_a_floor() -> None:
    unknown = {module.room for module in modules() if module.room} - set(FLOORS)

    assert not unknown, f"give {sorted(unknown)} a floor in tests/architecture/sources.py, as the design has it"


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("core.keys", "from django_redis_components.locks import Lock"),
        ("locks.lock", "from django_redis_components.semaphores.semaphore import Semaphore"),
        ("locks.lock", "from ..semaphores import Semaphore"),
        ("locks.lock", "from django_redis_components import semaphores"),
        ("locks.lock", "def late():\n    import django_redis_components.taskqueue"),
        ("locks", "from .. import taskqueue"),
        ("taskqueue.worker", "import_module('django_redis_components.dashboard.overview.page')"),
    ],
)
def test_a_planted_violation_is_found(importer: str, statement: str) -> None:
    planted = [
        *(
            Module(f"{PACKAGE}.{room}", "", is_package=True)
            for room in ("core", "semaphores", "taskqueue", "dashboard")
        ),
        Module(PACKAGE, "", is_package=True),
        Module(f"{PACKAGE}.semaphores.semaphore", ""),
        Module(f"{PACKAGE}.dashboard.panels", ""),
        Module(f"{PACKAGE}.locks", "", is_package=True),
        Module(f"{PACKAGE}.{importer}", statement, is_package="." not in importer),
    ]

    assert len(floor_violations(planted)) == 1


def test_a_planted_circle_is_found() -> None:
    planted = [
        Module(f"{PACKAGE}.locks", "from .lock import Lock", is_package=True),
        Module(f"{PACKAGE}.locks.lock", "from . import decorators"),
        Module(f"{PACKAGE}.locks.decorators", "def late():\n    from django_redis_components.locks.lock import Lock"),
    ]

    assert circles(planted) == [f"{PACKAGE}.locks.decorators -> {PACKAGE}.locks.lock -> {PACKAGE}.locks.decorators"]


def floor_violations(found: list[Module]) -> list[str]:
    known = {module.name for module in found}
    return [
        f"{module.name} (floor {FLOORS[module.room]}) imports {target}"
        for module in found
        if module.room
        for target in sorted(module.imports(known))
        if not _may_import(module.room, target.split(".")[1] if "." in target else "")
    ]


def _may_import(room: str, target: str) -> bool:
    if target in ("", room):
        return True
    return FLOORS[target] < FLOORS[room] or FLOORS[target] == FLOORS[room] == DOORS


def circles(found: list[Module]) -> list[str]:
    """The circles, each once, written from its first module in the order of the alphabet."""
    known = {module.name for module in found}
    graph = {module.name: sorted(module.imports(known, typing_only=False) - {module.name}) for module in found}
    seen: set[str] = set()
    result: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = path[path.index(name) :]
            first = circle.index(min(circle))
            turned = circle[first:] + circle[:first]
            result.add(" -> ".join([*turned, turned[0]]))
        elif name not in seen:
            for target in graph[name]:
                walk(target, (*path, name))
            seen.add(name)

    for name in sorted(graph):
        walk(name, ())
    return sorted(result)
