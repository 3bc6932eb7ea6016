"""The lock and semaphore names that decorators of the site use, for the dashboard.

The catalogue has the decorated functions that any process has called, each with the name or template of its decorator.
It does not have what a template makes of the arguments of calls: those names have no bound, and the page of locks finds
the held ones among the keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from django_redis_components.core.arguments import check_string
from django_redis_components.core.names import dotted_path
from django_redis_components.core.observability.catalog import RECORDER, CatalogEntry, NameUse, names_flow
from django_redis_components.core.protocol import Flow

#: The list of the catalogue. The names in it are those of the functions.
KIND = "Decorator"
#: What a decorator declares a name of.
COMPONENTS = ("locks", "semaphores")


@dataclasses.dataclass(frozen=True, slots=True)
class DeclaredName:
    """A name that a decorator uses.

    Attributes:
        component: "locks" or "semaphores".
        name: the name or its template; "" if a function makes it.
        function: module and name of the decorated function.
        using: the connection alias.
        is_exact: whether it is a name and not a template.
    """

    component: str
    name: str
    function: str
    using: str
    is_exact: bool


def declare(
    component: str, name: str | Callable[..., str], func: Callable[..., Any], using: str, **options: Any
) -> tuple[NameUse, CatalogEntry]:
    """Return what a decorator passes to `RECORDER.record` when a call finds that the use is due.

    Args:
        component: one of `COMPONENTS`.
        name: the name, its template, or the function that makes it.
        func: the decorated function.
        using: the connection alias.
        options: those of the decorator that all processes of a site should agree on.

    Raises:
        TypeError: `using` is not a string.
    """
    using = check_string(using, "using")
    function = dotted_path(func)
    declared = {"component": component, "name": name if isinstance(name, str) else "", **options}
    return RECORDER.use(KIND, function, using), CatalogEntry(KIND, function, using, declared)


def declared_flow(using: str) -> Flow[list[DeclaredName]]:
    """Return the flow that reads the names declared for a connection, in order."""
    entries = yield from names_flow(KIND)
    found = [_declared(entry) for entry in entries if entry.using == using]
    return sorted(filter(None, found), key=lambda each: (each.name, each.component, each.function))


def _declared(entry: CatalogEntry) -> DeclaredName | None:
    """Return a declared name; None if another version of the code has written the entry."""
    component, name = entry.options.get("component"), entry.options.get("name")
    if component not in COMPONENTS or not isinstance(name, str):
        return None
    is_exact = bool(name) and "{" not in name and "}" not in name
    return DeclaredName(component, name, entry.name, entry.using, is_exact)
