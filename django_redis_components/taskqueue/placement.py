"""Placement keys: which shard of a spread queue a task goes to.

What a script decides over several tasks (a unique key, a limit) is exact only if these tasks are in one shard. So the
tasks of a queue that is spread are placed by a text that follows from their arguments: tasks that share a unique key or
a limit have the same one. The option with the fewest arguments in its key decides, since the keys of the others follow
from more arguments; two that have no such order are refused. Chosen ids, groups of `fair` and batches place tasks
without these options. Other tasks have no placement key, and go to any shard.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.name_templates import template_of
from django_redis_components.taskqueue import fair_share
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.store.messages import TaskMessage
from django_redis_components.taskqueue.unique import claim_of

#: Fields of the template of a key, or the number of the function that makes it; None: all arguments.
Scope = frozenset[str] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """What a task is placed by.

    Attributes:
        option: whose key it is: unique, concurrency or rate.
        scope: what of the arguments it follows from.
        key: the template or the function of the placement key.
        text: the placement key of all calls, if the scope is empty.
    """

    option: str
    scope: Scope
    key: Any = dataclasses.field(compare=False)
    text: str

    @property
    def is_constant(self) -> bool:
        """Whether all tasks go to one shard."""
        return self.scope == frozenset()


def placement_of(options: TaskOptions, name: str, func: Callable[..., Any]) -> Placement | None:
    """Return what tasks with these options are placed by; None if no option must be exact over several tasks.

    Args:
        name: of the task.
        func: the task's function with the parameters of `enqueue`.

    Raises:
        InvalidTask: no key follows from the arguments of all others.
    """
    scopes = dict(_scopes(options, func))
    if not scopes:
        return None
    for option, scope in scopes.items():
        if all(_follows_from(scope, other) for other in scopes.values()):
            limits = (options.concurrency, options.rate)
            groups = [each.group for each in limits if each is not None and each.group]
            key = getattr(options, option).key
            return Placement(
                option, scope, key if callable(key) else ":".join(sorted(scope or ())), *groups[:1] or [name]
            )
    raise InvalidTask(
        f"{name} is on a queue of several shards, and has {_described(options, scopes)}: tasks that share one of these"
        " keys would be in different shards. Put the queue in one shard, or let one key use only arguments that the"
        " others use too."
    )


def key_of(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], message: TaskMessage | None = None) -> str:
    """Return the placement key of a call; "" if it has none.

    Args:
        args, kwargs: the arguments as JSON values.
        message: that of the call, with its options. It spares making their keys again.

    Raises:
        InvalidTask: see `placement_of`.
        TypeError, ValueError: the key cannot be built from these arguments.
    """
    if exact := exact_key_of(task, args, kwargs, "" if message is None else message.unique):
        return exact
    if message is not None and message.nonce:  # two calls with the same id must meet
        return f"id:{message.id}"
    fair = task.options.fair
    if fair is None:
        return ""
    extra = fair_share.fields(task.name, task._enqueue_func, args, kwargs, fair) if message is None else message.extra
    fields = dict(zip(extra[::2], extra[1::2], strict=True))
    return f"group:{fair_share.group_of(fields[Field.fair_share])}"


def exact_key_of(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], claim: str = "") -> str:
    """Return the placement key that a unique key or a limit of a call requires; "" if it has neither.

    Args:
        claim: of the call, see `unique.claim_of`; "": it is made here.

    Raises:
        InvalidTask, TypeError, ValueError: see `key_of`.
    """
    options, func = task.options, task._enqueue_func
    placement = placement_of(options, task.name, func)
    if placement is None:
        return ""
    if placement.scope is None:
        claim = claim or claim_of(options.unique, task.name, func, args, kwargs)
        return f"unique:{claim[1:].partition(' ')[0]}"
    if placement.is_constant:
        return f"name:{placement.text}"
    return f"key:{template_of(placement.key, func, 'placement key').format(tuple(args), kwargs)}"


def constant_option(options: TaskOptions, placement: Placement | None) -> str:
    """Return the option because of which all tasks of a name go to one shard; "" if there is none.

    Args:
        placement: of the options.
    """
    if placement is not None:
        return placement.option if placement.is_constant else ""
    batch = getattr(options.fair, "batch", None)
    return "batch" if batch is not None and batch.key is None else ""


def _scopes(options: TaskOptions, func: Callable[..., Any]) -> Iterator[tuple[str, Scope]]:
    """Yield the options whose keys must be exact, with what of the arguments they follow from."""
    for option in ("concurrency", "rate"):
        limit = getattr(options, option)
        if limit is not None:
            yield option, frozenset() if limit.key is None else _scope_of(limit.key, func)
    if options.unique is not None:
        yield "unique", None if options.unique.key is None else _scope_of(options.unique.key, func)


def _scope_of(key: Any, func: Callable[..., Any]) -> frozenset[str]:
    return frozenset([f"function {id(key)}"] if callable(key) else template_of(key, func, "key").fields)


def _follows_from(scope: Scope, other: Scope) -> bool:
    """Return whether equal keys of the other scope have equal ones of this scope."""
    return other is None or (scope is not None and scope <= other)


def _described(options: TaskOptions, scopes: Mapping[str, Scope]) -> str:
    keys = {option: getattr(options, option).key for option in scopes}
    return " and ".join(f"{option} with the key {short_repr(key)}" for option, key in keys.items() if key is not None)
