"""The options of `atomic_update`."""

from __future__ import annotations

import dataclasses
import inspect
import re
import secrets
from collections.abc import Callable
from typing import Any

from django_redis_components.core.arguments import check_callable, check_int
from django_redis_components.core.client.slot_migration import slot_of
from django_redis_components.core.decorators import function_name, is_async
from django_redis_components.core.keys import digest, key
from django_redis_components.core.units import Seconds, to_seconds

#: The hash tag of a key: the text in its first braces.
_TAG = re.compile(r"\{([^}]+)\}")


@dataclasses.dataclass(frozen=True, slots=True)
class UpdateOptions:
    """The keys to watch and the bounds of the attempts."""

    keys: tuple[str, ...]
    max_attempts: int
    timeout_s: float
    lock_after: int | None
    using: str

    @property
    def lock_name(self) -> str:
        """The name of the lock that all writers of these keys share."""
        return f"transactions:{digest(' '.join(sorted(self.keys)))}"

    def new_marker(self) -> str:
        """Return a key in the slot of the watched keys that identifies one EXEC."""
        return key("transactions", _tag_of(self.keys[0]), "done", secrets.token_hex(8))

    def slot(self) -> int:
        """Return the Cluster slot of the keys.

        Raises:
            ValueError: they are in different slots.
        """
        first, *others = self.keys
        for other in others:
            if slot_of(other) != slot_of(first):
                raise ValueError(
                    f"keys {first!r} and {other!r} are in different Cluster slots: give them the same hash tag, "
                    "such as 'stock:{42}' and 'sold:{42}'."
                )
        return slot_of(first)


def parse_options(
    func: Callable[..., Any],
    keys: tuple[str | bytes, ...],
    max_attempts: int,
    timeout: Seconds,
    lock_after: int | None,
    using: str,
) -> UpdateOptions:
    """Check the arguments of a call.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    check_callable(func, "func", "a callable that takes the pipe")
    if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        raise TypeError(f"{function_name(func)}() is a generator function: a call runs nothing of it.")
    if not keys:
        raise ValueError("no keys: expected at least one key to watch.")
    check_int(max_attempts, "max_attempts", 1)
    if lock_after is not None:
        check_int(lock_after, "lock_after", 0)
    watched = tuple(_key(each) for each in keys)
    return UpdateOptions(watched, max_attempts, to_seconds(timeout, "timeout"), lock_after, using)


def refuse_coroutine(func: Callable[..., Any]) -> None:
    """Raise for a function that needs `aatomic_update`.

    Raises:
        TypeError: it is a coroutine function.
    """
    if is_async(func):
        raise TypeError(f"{function_name(func)}() is a coroutine function: use aatomic_update().")


def _key(key: object) -> str:
    if not isinstance(key, str | bytes):
        raise TypeError(f"key {key!r}: expected str or bytes, got {type(key).__name__}.")
    if not key:
        raise ValueError(f"key {key!r} is empty.")
    try:
        text = key.decode() if isinstance(key, bytes) else key
        text.encode()
    except UnicodeError:
        raise ValueError(f"key {key!r}: expected UTF-8.") from None
    if slot_of(f"{{{_tag_of(text)}}}") != slot_of(text):
        raise ValueError(f"key {key!r}: braces mark the Cluster slot; expected a pair with text between, or none.")
    return text


def _tag_of(key: str) -> str:
    found = _TAG.search(key)
    return found[1] if found else key
