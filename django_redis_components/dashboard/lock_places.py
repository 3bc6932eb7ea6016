"""Which lock, read-write lock, name of a group or semaphore is meant: by its key, or by what a link says."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from django_redis_components.core import conf, keys

#: Kinds, in the order in which they stand on the page.
KINDS = ("lock", "readwrite", "group", "semaphore")


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Place:
    """Something that can be held.

    Attributes:
        kind: one of `KINDS`.
        name: its name; for "group" one of the names of a `MultiLock` with a group.
        group: that group; "" for the others.
    """

    name: str
    kind: str
    group: str = ""

    @property
    def key(self) -> str:
        """The key that says who holds it, or the writers' of two."""
        room = "semaphores" if self.kind == "semaphore" else "locks"
        if self.kind == "group":
            return keys.key(room, self.group, "group", "held", self.name)
        return keys.key(room, self.name, "rw", "writer") if self.kind == "readwrite" else keys.key(room, self.name)


def beginnings() -> tuple[str, str]:
    """What the keys of locks and of semaphores begin with; both begin with what they share."""
    prefix = conf.settings().prefix
    return f"{prefix}:locks:{{", f"{prefix}:semaphores:{{"


def place_of(key: str) -> Place | None:
    """What a key tells of; None for one that says nothing of a holder."""
    for beginning, kinds in zip(beginnings(), (_LOCKS, _SEMAPHORES), strict=True):
        if key.startswith(beginning):
            rest = key[len(beginning) :]
            for kind, pattern in kinds.items():
                if found := pattern.fullmatch(rest):
                    return _valid(kind, found["name"], found.groupdict().get("group") or "")
    return None


def place_from(data: Mapping[str, str]) -> Place | None:
    """What a form or a link names; None for nonsense."""
    kind = data.get("kind", "")
    group = data.get("group", "") if kind == "group" else ""
    return _valid(kind, data.get("name", ""), group) if kind in KINDS else None


def places_named(name: str, group: str) -> list[Place]:
    """Everything that may have this name.

    Raises:
        ValueError: nothing can.
    """
    keys.validate_name(name)
    if group:
        return [Place(name, "group", keys.validate_name(group, "group"))]
    return [Place(name, kind) for kind in KINDS if kind != "group"]


#: What follows the opening brace of a key that says who holds something.
_LOCKS = {
    "lock": re.compile(r"(?P<name>[^{}]+)\}"),
    "readwrite": re.compile(r"(?P<name>[^{}]+)\}:rw:(?:writer|readers)"),
    "group": re.compile(r"(?P<group>[^{}]+)\}:group:held:(?P<name>.+)"),
}
_SEMAPHORES = {"semaphore": _LOCKS["lock"]}


def _valid(kind: str, name: str, group: str) -> Place | None:
    try:
        keys.validate_name(name)
        if kind == "group":
            keys.validate_name(group)
    except ValueError:
        return None
    return Place(name, kind, group)
