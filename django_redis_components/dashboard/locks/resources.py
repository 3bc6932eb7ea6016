"""Resources: locks, read-write locks, names of a group, and semaphores, identified by a key or by a form."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from django_redis_components.core import conf, keys

#: Kinds of resources, in the order of the page.
KINDS = ("lock", "readwrite", "group", "semaphore")


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Resource:
    """Something that can be held.

    Attributes:
        kind: one of `KINDS`.
        name: its name; for "group" one of the names of a `MultiLock` with a group.
        group: that group; "" for other kinds.
    """

    name: str
    kind: str
    group: str = ""

    @property
    def key(self) -> str:
        """The key that contains the holder; for a read-write lock, the writer."""
        component = "semaphores" if self.kind == "semaphore" else "locks"
        if self.kind == "group":
            return keys.key(component, self.group, "group", "held", self.name)
        if self.kind == "readwrite":
            return keys.key(component, self.name, "rw", "writer")
        return keys.key(component, self.name)


def resource_of_key(key: str) -> Resource | None:
    """Return the resource whose holder a key contains; None for other keys."""
    prefix = conf.settings().prefix
    for start, patterns in ((f"{prefix}:locks:{{", _LOCKS), (f"{prefix}:semaphores:{{", _SEMAPHORES)):
        if key.startswith(start):
            rest = key[len(start) :]
            for kind, pattern in patterns.items():
                if found := pattern.fullmatch(rest):
                    return _validated(kind, found["name"], found.groupdict().get("group") or "")
    return None


def resource_from_form(data: Mapping[str, str]) -> Resource | None:
    """Return the resource that a form or a link names; None if invalid."""
    kind = data.get("kind", "")
    group = data.get("group", "") if kind == "group" else ""
    return _validated(kind, data.get("name", ""), group) if kind in KINDS else None


def resources_named(name: str, group: str) -> list[Resource]:
    """Return the resources of each kind with a name.

    Raises:
        ValueError: the name or the group is invalid.
    """
    keys.validate_name(name)
    if group:
        return [Resource(name, "group", keys.validate_name(group, "group"))]
    return [Resource(name, kind) for kind in KINDS if kind != "group"]


#: Patterns of the keys that contain holders, after the opening brace of the hash tag.
_LOCKS = {
    "lock": re.compile(r"(?P<name>[^{}]+)\}"),
    "readwrite": re.compile(r"(?P<name>[^{}]+)\}:rw:(?:writer|readers)"),
    "group": re.compile(r"(?P<group>[^{}]+)\}:group:held:(?P<name>.+)"),
}
_SEMAPHORES = {"semaphore": _LOCKS["lock"]}


def _validated(kind: str, name: str, group: str) -> Resource | None:
    try:
        keys.validate_name(name)
        if kind == "group":
            keys.validate_name(group)
    except ValueError:
        return None
    return Resource(name, kind, group)
