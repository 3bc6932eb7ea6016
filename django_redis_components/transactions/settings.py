"""What a call of `atomic_update` asks for, checked."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Callable
from typing import Any

from django_redis_components.core import keys as own_keys
from django_redis_components.core.client.slot_migration import slot_of
from django_redis_components.core.decorators import function_name, is_async
from django_redis_components.core.units import Seconds, to_seconds

#: What decides on the slot of a key: the text in its first braces, if there is any.
_TAG = re.compile(r"\{([^}]+)\}")


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The keys to watch and the bounds of trying."""

    keys: tuple[str, ...]
    attempts: int
    deadline_s: float
    lock_after: int | None
    using: str

    @property
    def lock_name(self) -> str:
        """The lock of those who change the same keys."""
        return f"transactions:{own_keys.digest(' '.join(sorted(self.keys)))}"

    def new_marker(self) -> str:
        """A key in the slot of the watched ones, by which one EXEC is known."""
        return own_keys.key("transactions", _tag_of(self.keys[0]), "done", secrets.token_hex(8))

    def slot(self) -> int:
        """The Cluster slot of the keys.

        Raises:
            ValueError: they lie in several.
        """
        first, *others = self.keys
        for other in others:
            if slot_of(other) != slot_of(first):
                raise ValueError(
                    f"keys {first!r} and {other!r} lie in different slots of the Cluster: give them one hash tag, "
                    "as in 'stock:{42}' and 'sold:{42}'."
                )
        return slot_of(first)


def planned(
    func: Callable[..., Any],
    keys: tuple[str | bytes, ...],
    attempts: int,
    deadline: Seconds,
    lock_after: int | None,
    using: str,
) -> Plan:
    """Check the arguments of a call.

    Raises:
        TypeError, ValueError: one of them is not of its kind.
    """
    if not callable(func):
        raise TypeError(f"func={func!r}: expected a callable that takes the pipe.")
    if not keys:
        raise ValueError("no keys: expected at least one key to watch.")
    _check_count(attempts, "attempts", 1)
    if lock_after is not None:
        _check_count(lock_after, "lock_after", 0)
    watched = tuple(_key(each) for each in keys)
    return Plan(watched, attempts, to_seconds(deadline, "deadline"), lock_after, using)


def refuse_coroutine(func: Callable[..., Any]) -> None:
    """Refuse what only the twin can run.

    Raises:
        TypeError: a coroutine function.
    """
    if is_async(func):
        raise TypeError(f"{function_name(func)}() is a coroutine function: use aatomic_update().")


def _check_count(value: object, what: str, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what}={value!r}: expected a whole number of at least {least}.")
    if value < least:
        raise ValueError(f"{what}={value!r}: expected a whole number of at least {least}.")


def _key(key: object) -> str:
    if not isinstance(key, str | bytes):
        raise TypeError(f"key {key!r}: expected str or bytes, got {type(key).__name__}.")
    if not key:
        raise ValueError(f"key {key!r} is empty.")
    try:
        text = key.decode() if isinstance(key, bytes) else key
        text.encode()
    except UnicodeError:
        raise ValueError(f"key {key!r}: expected text that is UTF-8.") from None
    if slot_of(f"{{{_tag_of(text)}}}") != slot_of(text):
        raise ValueError(f"key {key!r}: braces mark the Cluster slot; expected a pair with text between, or none.")
    return text


def _tag_of(key: str) -> str:
    found = _TAG.search(key)
    return found[1] if found else key
