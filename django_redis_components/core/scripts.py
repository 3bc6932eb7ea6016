"""Lua scripts: one file, one operation, called by name.

    ACQUIRE = LuaScript("locks", "acquire", keys=("lock",), args=("token", "ttl_ms"), idempotent=True)
    reply = yield ACQUIRE(lock=key, token=token, ttl_ms=30_000)

The file is ``<room>/lua/<name>.lua``. A line ``-- @include part`` is replaced by
``<room>/lua/shared/part.lua`` (or ``core/lua/shared/part.lua``) before the SHA-1 is computed, so
that the script needs no network until it is first called. A part may include others. The last key
or argument may be variadic: it is declared with a trailing ``*`` and takes a sequence.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib import resources
from operator import itemgetter
from typing import Any

from django_redis_components.core.protocol import Call, CommandArgs

_INCLUDE = re.compile(r"^-- @include[ \t]+(\w+)[ \t]*$", re.MULTILINE)
_DERIVED = re.compile(r"^-- DERIVED\b", re.MULTILINE)
#: What decides on the slot of a key, if a key has it.
_TAG = re.compile(r"[^{]*\{[^}]+\}")
_PACKAGE = "django_redis_components"


class LuaScript:
    """One operation that Redis runs whole or not at all.

    Args:
        room: the package that owns it ("locks").
        name: file name without ".lua".
        keys: names of KEYS, in order.
        args: names of ARGV, in order.
        idempotent: whether it may be sent again after a lost reply, because it recognises its own
            token, id or absolute value.
    """

    def __init__(
        self,
        room: str,
        name: str,
        *,
        keys: Sequence[str],
        args: Sequence[str] = (),
        idempotent: bool = False,
    ) -> None:
        self.room = room
        self.name = name
        self.keys = tuple(keys)
        self.args = tuple(args)
        self.idempotent = idempotent
        self._names = frozenset(name.removesuffix("*") for name in (*self.keys, *self.args))
        self._keys_of = _getter(self.keys)
        self._args_of = _getter(self.args)

    def __repr__(self) -> str:
        return f"<LuaScript {self.room}/{self.name}>"

    def __call__(self, **named: Any) -> Call:
        """The call of this script with these keys and arguments.

        Raises:
            TypeError: a name is missing or unknown, or a variadic one is no sequence.
        """
        if named.keys() != self._names:
            raise TypeError(self._complaint(set(named)))
        keys, args = self._keys_of(named), self._args_of(named)
        return Call(self, keys, args)

    @cached_property
    def source(self) -> str:
        """The Lua text with its shared parts in place."""
        return _with_parts(self.room, _read(self.room, f"{self.name}.lua"))

    @cached_property
    def sha(self) -> str:
        """SHA-1 of the source, by which the server knows the script."""
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    @cached_property
    def derives(self) -> bool:
        """Whether it builds keys from those that are declared, as its header says."""
        return bool(_DERIVED.search(self.source))

    def evalsha_args(self, keys: CommandArgs, args: CommandArgs) -> CommandArgs:
        """The command that runs the script by its SHA."""
        return ("EVALSHA", self.sha, len(keys), *keys, *args)

    def eval_args(self, keys: CommandArgs, args: CommandArgs) -> CommandArgs:
        """The command that runs the script by its text, when the server does not have it."""
        return ("EVAL", self.source, len(keys), *keys, *args)

    def cluster_keys(self, keys: CommandArgs) -> CommandArgs:
        """The keys as a Cluster gets them: with the guard key behind them, if the script derives keys.

        The guard never exists, so that a node refuses the whole script while it moves the slot (`slots`).
        """
        return (*keys, guard_key(keys[0])) if keys and self.derives else keys

    def _complaint(self, given: set[str]) -> str:
        takes = f"it takes {', '.join((*self.keys, *self.args))}."
        if unknown := given - self._names:
            return f"{self!r} does not know {', '.join(sorted(unknown))}: {takes}"
        return f"{self!r} misses {', '.join(sorted(self._names - given))}: {takes}"


def guard_key(key: Any) -> str:
    """A key in the slot of `key` that nothing ever writes."""
    text = key.decode() if isinstance(key, bytes) else str(key)
    return f"{text}:guard" if _TAG.match(text) else f"{{{text}}}:guard"


def _getter(names: tuple[str, ...]) -> Callable[[dict[str, Any]], CommandArgs]:
    """What takes the values of these names, in order, out of the arguments of a call."""
    if names and names[-1].endswith("*"):
        fixed, last = _getter(names[:-1]), names[-1].removesuffix("*")
        return lambda named: fixed(named) + _spread(last, named[last])
    if len(names) > 1:
        return itemgetter(*names)  # twice as fast as a comprehension, and every call of every room comes by here
    return lambda named: tuple([named[name] for name in names])


def _spread(name: str, values: Any) -> CommandArgs:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{name}={values!r}: expected a sequence of keys or arguments.")
    return tuple(values)


def _with_parts(room: str, text: str) -> str:
    return _INCLUDE.sub(lambda found: _with_parts(room, _shared(room, found[1])), text)


def _read(room: str, *path: str) -> str:
    return resources.files(_PACKAGE).joinpath(room, "lua", *path).read_text(encoding="utf-8")


def _shared(room: str, part: str) -> str:
    for owner in (room, "core"):
        place = resources.files(_PACKAGE).joinpath(owner, "lua", "shared", f"{part}.lua")
        if place.is_file():
            return place.read_text(encoding="utf-8").rstrip("\n")
    raise FileNotFoundError(f"{room}/lua/shared/{part}.lua")
