"""Fair share: the option `fair`, whose groups of a queue are served in turn.

A group is the text that `key` makes of a call's arguments: all tasks of a queue with this text, whatever their names.
The scripts serve the groups; this module validates the option and builds their arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_int, short_repr
from django_redis_components.core.name_templates import template_of
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.limits import Key, key_of_call

#: Largest weight of a group: the scripts count the tasks of a turn in 128ths of its number.
MAX_WEIGHT = 100
#: Start of the groups to which the calls of batches belong. No other group has it.
OF_BATCHES = "batch:"


@dataclasses.dataclass(frozen=True, slots=True)
class FairShare:
    """Serve the groups of a queue in turn: a group with many tasks delays those of another by one round only.

    Attributes:
        key: a template over the task's arguments (``"{customer_id}"``), or a function of them: one group per value.
        weight: how many tasks of the group start in each of its turns, 1 to 100; or a function of the arguments that
            returns this number. That of the task which starts counts.
    """

    key: Key
    weight: int | Callable[..., int] = dataclasses.field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) and not callable(self.key):
            raise TypeError(
                f"fair={short_repr(self.key)}: expected a template such as '{{id}}', a function or a FairShare."
            )
        if not callable(self.weight):
            object.__setattr__(self, "weight", _check_weight(self.weight))

    def _check_key(self, func: Callable[..., Any]) -> None:
        """Validate the key against the function's parameters."""
        template_of(self.key, func, "fair key")
        if callable(self.weight):
            template_of(self.weight, func, "weight")

    def _fields(
        self, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[str, ...]:
        """See `fields`."""
        weight: Any = self.weight
        if callable(weight):
            weight = _check_weight(weight(*args, **kwargs))
        group = key_of_call(self.key, "fair key", name, func, args, kwargs)
        if group.startswith(OF_BATCHES):
            group = keys.digest(group)
        return Field.fair_share, f"{weight}/{group}"


def fair_of(value: Any) -> FairShare | None:
    """Return the option `fair` as a `FairShare`.

    Raises:
        TypeError: it is not a template, a function, a `FairShare` or None.
    """
    return value if value is None or isinstance(value, FairShare) else FairShare(value)


def check_key(func: Callable[..., Any], fair: FairShare | None) -> None:
    """Validate the key against the function's parameters.

    Raises:
        TypeError, ValueError: see `core.name_templates`.
    """
    if fair is not None:
        fair._check_key(func)


def fields(
    name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], fair: FairShare
) -> tuple[str, ...]:
    """Return fields of the task's record and their values: first that of the group, "weight/group".

    Args:
        name: of the task, for errors.
        args, kwargs: the arguments of the call.
    """
    return fair._fields(name, func, args, kwargs)


def group_of(share: str) -> str:
    """Return the group, from "weight/group"."""
    return share.partition("/")[2]


def _check_weight(weight: Any) -> int:
    return check_int(weight, "weight", 1, MAX_WEIGHT)
