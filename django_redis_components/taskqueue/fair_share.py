"""Fair share: the option `fair`, whose groups of a queue are served in turn.

A group is the text that `key` makes of a call's arguments: all tasks of a queue with this text, whatever their names.
The scripts serve the groups; this module validates the option and builds their arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django_redis_components.core.arguments import check_int, short_repr
from django_redis_components.core.name_templates import template_of
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.limits import Key, key_of_call

#: Largest weight of a group: the scripts count the tasks of a turn in 128ths of its number.
MAX_WEIGHT = 100


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
            _check_weight(self.weight)


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
    if fair is None:
        return
    template_of(fair.key, func, "fair key")
    if callable(fair.weight):
        template_of(fair.weight, func, "weight")


def fields(
    name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], fair: FairShare
) -> tuple[str, str]:
    """Return the field of the task's record and its value, "weight/group".

    Args:
        name: of the task, for errors.
        args, kwargs: the arguments of the call.
    """
    weight: Any = fair.weight
    if callable(weight):
        weight = _check_weight(weight(*args, **kwargs))
    return Field.fair_share, f"{weight}/{key_of_call(fair.key, 'fair key', name, func, args, kwargs)}"


def group_of(share: str) -> str:
    """Return the group, from "weight/group"."""
    return share.partition("/")[2]


def _check_weight(weight: Any) -> int:
    return check_int(weight, "weight", 1, MAX_WEIGHT)
