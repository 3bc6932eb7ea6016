"""The kind of a `MultiLock` with a group: one script acquires all names or none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Self

from django.utils.translation import gettext_lazy

from django_redis_components.core import keys
from django_redis_components.core.leasing.scripted_kind import ScriptedKind
from django_redis_components.core.leasing.scripts import KindScripts
from django_redis_components.core.protocol import Flow
from django_redis_components.core.units import Seconds
from django_redis_components.locks.state import LockState, read_locks

#: Most names of one `MultiLock`: each is a few commands in a script, and the server runs nothing else meanwhile.
MAX_NAMES = 100


def sorted_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names in the order in which all locks acquire them, without duplicates.

    Raises:
        TypeError, ValueError: a name is not valid, or there are none or too many.
    """
    found = tuple(sorted({keys.validate_name(name, "lock name") for name in names}))
    if not 1 <= len(found) <= MAX_NAMES:
        raise ValueError(f"{len(found)} names: a MultiLock takes 1 to {MAX_NAMES}.")
    return found


class GroupKind(ScriptedKind):
    """The kind of a `MultiLock` with a group."""

    scripts = KindScripts("locks/group")
    slug, noun, label = "group", "Lock", gettext_lazy("group lock")
    holder_keys = re.compile(r"(?P<group>[^{}]+)\}:group:held:(?P<name>.+)")
    is_in_group = True

    def __init__(self, names: Sequence[str], group: str, timeout: Seconds = 1.0) -> None:
        """Args: names: those of `sorted_names`."""
        super().__init__(keys.validate_name(group, "group"), timeout)
        self.names = tuple(names)
        self.options = "\n".join(names)

    @classmethod
    def named(cls, name: str, group: str) -> Self:
        """Return one name of a group."""
        return cls([name], group)

    @property
    def identity(self) -> str:
        """The group and its names."""
        return f"{self.base}\n{self.options}"

    def make_keys(self) -> tuple[str, str]:
        """Return the group, which stores also what its waiters want."""
        group = keys.key("locks", self.name, "group")
        return group, group

    def inspect(self) -> Flow[dict[str, LockState]]:
        """Read the state of each name, at one moment."""
        return read_locks([self], self.names)

    def parts(self) -> Sequence[ScriptedKind]:
        """Return each name, which may have another holder."""
        return [GroupKind([name], self.name) for name in self.names]
