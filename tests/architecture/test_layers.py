"""A module imports only lower layers; components of one layer are independent; no modules import in a cycle."""

from __future__ import annotations

import re

import pytest

import django_redis_components
from tests.architecture.sources import ENTRY_POINTS, LAYERS, PACKAGE, TASKQUEUE_LAYERS, Module, modules

TASKQUEUE = f"{PACKAGE}.taskqueue."

#: Layer of each module and subpackage of ``taskqueue``.
RANKS = {name: rank for rank, layer in enumerate(TASKQUEUE_LAYERS) for name in layer}


def test_components_import_lower_layers_only() -> None:
    assert layer_violations(modules()) == []


def test_modules_import_without_cycles_also_inside_functions_and_for_types() -> None:
    assert cycles(modules()) == []


def test_every_component_and_entry_point_has_a_layer() -> None:
    unknown = {module.component for module in modules() if module.component} - set(LAYERS)

    assert not unknown, f"Add {sorted(unknown)} to LAYERS in tests/architecture/sources.py."


def test_docstring_of_the_package_lists_every_component_with_its_layer() -> None:
    listed = re.findall(r"^``(\w+)`` +(\d) ", django_redis_components.__doc__ or "", re.MULTILINE)

    components = {name: layer for name, layer in LAYERS.items() if layer < ENTRY_POINTS}
    assert {name: int(layer) for name, layer in listed} == components
    assert [int(layer) for _, layer in listed] == sorted(components.values())


def test_every_module_of_the_taskqueue_has_a_layer() -> None:
    unknown = {_first_part(module.name) for module in modules() if module.name.startswith(TASKQUEUE)} - set(RANKS)

    assert not unknown, f"Add {sorted(unknown)} to TASKQUEUE_LAYERS in tests/architecture/sources.py."


def test_taskqueue_modules_import_lower_layers_only() -> None:
    assert set(upward_imports(modules())) == set()


def test_nothing_below_the_worker_imports_it() -> None:
    above = ("worker", "supervisor", "startup")
    known = {module.name for module in modules()}
    importers = {
        module.name
        for module in modules()
        if module.component == "taskqueue" and _first_part(module.name) not in above
        if any(target.startswith(f"{TASKQUEUE}{name}") for target in module.imports(known) for name in above)
    }

    assert importers == set()


def test_protocol_knows_no_client() -> None:
    known = {module.name for module in modules()}
    (protocol,) = [module for module in modules() if module.name == f"{PACKAGE}.core.protocol"]

    assert not [name for name in protocol.imports(known) if name.startswith(f"{PACKAGE}.core.client")]


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
def test_import_of_a_higher_or_equal_layer_is_found(importer: str, statement: str) -> None:
    found = [
        *(
            Module(f"{PACKAGE}.{component}", "", is_package=True)
            for component in ("core", "semaphores", "taskqueue", "dashboard")
        ),
        Module(PACKAGE, "", is_package=True),
        Module(f"{PACKAGE}.semaphores.semaphore", ""),
        Module(f"{PACKAGE}.dashboard.panels", ""),
        Module(f"{PACKAGE}.locks", "", is_package=True),
        Module(f"{PACKAGE}.{importer}", statement, is_package="." not in importer),
    ]

    assert len(layer_violations(found)) == 1


def test_cycle_is_found() -> None:
    found = [
        Module(f"{PACKAGE}.locks", "from .lock import Lock", is_package=True),
        Module(f"{PACKAGE}.locks.lock", "from . import decorators"),
        Module(f"{PACKAGE}.locks.decorators", "def late():\n    from django_redis_components.locks.lock import Lock"),
    ]

    assert cycles(found) == [f"{PACKAGE}.locks.decorators -> {PACKAGE}.locks.lock -> {PACKAGE}.locks.decorators"]


def layer_violations(found: list[Module]) -> list[str]:
    known = {module.name for module in found}
    return [
        f"{module.name} (layer {LAYERS[module.component]}) imports {target}"
        for module in found
        if module.component
        for target in sorted(module.imports(known))
        if not _may_import(module.component, target.split(".")[1] if "." in target else "")
    ]


def _may_import(component: str, target: str) -> bool:
    if target in ("", component):
        return True
    return LAYERS[target] < LAYERS[component] or LAYERS[target] == LAYERS[component] == ENTRY_POINTS


def upward_imports(found: list[Module]) -> list[tuple[str, str]]:
    """Return (importer, imported) for each import of a higher layer of ``taskqueue``."""
    known = {module.name for module in found}
    return [
        (module.name.removeprefix(TASKQUEUE), target.removeprefix(TASKQUEUE))
        for module in found
        if module.name.startswith(TASKQUEUE)
        for target in sorted(module.imports(known, typing_only=False))
        if target.startswith(TASKQUEUE) and RANKS[_first_part(target)] > RANKS[_first_part(module.name)]
    ]


def _first_part(name: str) -> str:
    """Return "worker" for "django_redis_components.taskqueue.worker.fetcher"."""
    return name.removeprefix(TASKQUEUE).partition(".")[0]


def cycles(found: list[Module]) -> list[str]:
    """Return each cycle once, starting with its alphabetically first module."""
    known = {module.name for module in found}
    graph = {module.name: sorted(module.imports(known) - {module.name}) for module in found}
    seen: set[str] = set()
    result: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            cycle = path[path.index(name) :]
            first = cycle.index(min(cycle))
            rotated = cycle[first:] + cycle[:first]
            result.add(" -> ".join([*rotated, rotated[0]]))
        elif name not in seen:
            for target in graph[name]:
                visit(target, (*path, name))
            seen.add(name)

    for name in sorted(graph):
        visit(name, ())
    return sorted(result)
