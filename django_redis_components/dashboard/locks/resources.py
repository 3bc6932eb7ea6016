"""Resources: locks, read-write locks, names of a group, and semaphores, identified by a key or by a form."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from django_redis_components.core import keys
from django_redis_components.core.settings import conf

if TYPE_CHECKING:
    from django_redis_components.core.leasing.scripted_kind import ScriptedKind

#: Components with resources, in the order of the page.
COMPONENTS = ("locks", "semaphores")


@functools.cache
def kinds_of(component: str) -> tuple[type[ScriptedKind], ...]:
    """Return the kinds of resources of a component, in the order of the page. The first is that of its decorator.

    This imports the component, so a process that finds no resource of it does not.
    """
    if component == "locks":
        from django_redis_components.locks.group import GroupKind
        from django_redis_components.locks.lock import PlainKind
        from django_redis_components.locks.readwrite import ReadWriteKind

        return PlainKind, ReadWriteKind, GroupKind
    from django_redis_components.semaphores.permits import PermitKind

    return (PermitKind,)


@functools.cache
def all_kinds() -> dict[str, type[ScriptedKind]]:
    """Return the kinds of all components, by what operators call them."""
    return {kind.slug: kind for component in COMPONENTS for kind in kinds_of(component)}


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Resource:
    """Something that can be held.

    Attributes:
        kind: one of `all_kinds`.
        name: its name; for "group" one of the names of a `MultiLock` with a group.
        group: that group; "" for other kinds.
    """

    name: str
    kind: str
    group: str = ""

    def lease_kind(self) -> ScriptedKind:
        """Return what makes the requests about it."""
        kinds = (kind for component in COMPONENTS for kind in kinds_of(component))  # not `all_kinds`: it imports all
        return next(kind for kind in kinds if kind.slug == self.kind).named(self.name, self.group)


def resource_of_key(key: str) -> Resource | None:
    """Return the resource whose holder a key contains; None for other keys."""
    prefix = conf.settings().prefix
    for component in COMPONENTS:
        start = f"{prefix}:{component}:{{"
        if key.startswith(start):
            for kind in kinds_of(component):
                if found := kind.holder_keys.fullmatch(key, len(start)):
                    return _validated(kind, found["name"], found.groupdict().get("group") or "")
    return None


def resource_from_form(data: Mapping[str, str]) -> Resource | None:
    """Return the resource that a form or a link names; None if invalid."""
    kind = all_kinds().get(data.get("kind", ""))
    if kind is None:
        return None
    return _validated(kind, data.get("name", ""), data.get("group", "") if kind.is_in_group else "")


def resources_named(name: str, group: str) -> list[Resource]:
    """Return the resources of each kind with a name.

    Raises:
        ValueError: the name or the group is invalid.
    """
    keys.validate_name(name)
    if group:
        keys.validate_name(group, "group")
    return [Resource(name, kind.slug, group) for kind in all_kinds().values() if kind.is_in_group == bool(group)]


def _validated(kind: type[ScriptedKind], name: str, group: str) -> Resource | None:
    try:
        keys.validate_name(name)
        if kind.is_in_group:
            keys.validate_name(group)
    except ValueError:
        return None
    return Resource(name, kind.slug, group)
