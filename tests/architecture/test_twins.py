"""A method and its async twin have the same name but for an "a", and the same parameters."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.architecture.sources import PACKAGE, modules

#: Modules whose async names must have a sync twin: the root of each component.
PUBLIC = [
    f"{PACKAGE}.{name}"
    for name in (
        "aggregation", "analytics", "autocomplete", "bloom", "expiry", "files", "geoip", "locks", "messaging",
        "ratelimits", "search", "semaphores", "taskqueue", "transactions",
    )
]  # fmt: skip

#: Classes whose async methods are named as redis-py's: the same function takes the sync and the async pipe.
NAMED_AS_REDIS_PY = {"AsyncPipe"}

#: Parts of names of modules without twins: the client is generated, and adapters have the names of their frameworks.
WITHOUT_TWINS = ("._sync", "._async", ".contrib.")


def pairs() -> Iterator[tuple[str, Any, Any]]:
    """Yield the path, the sync function and the async one of each pair of the package."""
    for module in modules():
        if any(part in module.name for part in WITHOUT_TWINS):
            continue
        yield from _pairs_in(module.name, vars(importlib.import_module(module.name)), module.name)


def _pairs_in(path: str, names: dict[str, Any], home: str) -> Iterator[tuple[str, Any, Any]]:
    for name, member in names.items():
        function = getattr(member, "__func__", member)
        if name.startswith(("_", "sync_")) or getattr(function, "__module__", home) != home:
            continue
        if inspect.isclass(member):
            yield from _pairs_in(f"{path}.{name}", dict(vars(member)), home)
        twin = names.get(f"a{name}")
        if callable(function) and twin is not None:
            yield f"{path}.{name}", function, getattr(twin, "__func__", twin)


def test_twins_have_the_same_parameters() -> None:
    found = {path: (_parameters(sync), _parameters(twin)) for path, sync, twin in pairs()}

    assert len(found) > 200
    assert {path: both for path, both in found.items() if both[0] != both[1]} == {}


@pytest.mark.parametrize("module", PUBLIC)
def test_async_functions_have_a_sync_twin(module: str) -> None:
    public = importlib.import_module(module)
    classes = [(name, value) for name in public.__all__ if inspect.isclass(value := getattr(public, name))]
    classes = [(name, kind) for name, kind in classes if name not in NAMED_AS_REDIS_PY]
    alone = [
        f"{module}.{owner}.{name}"
        for owner, kind in classes
        for name in dir(kind)
        if not name.startswith("_") and _is_async(getattr(kind, name))
        if not (name.startswith("a") and hasattr(kind, name[1:]))
    ]

    assert alone == []


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    return [(item.name, item.kind, _default(item)) for item in inspect.signature(function).parameters.values()]


def _default(parameter: inspect.Parameter) -> Any:
    """Return the default; the code of a lambda, because each is another object."""
    code = getattr(parameter.default, "__code__", None)
    return parameter.default if code is None else code.co_code
