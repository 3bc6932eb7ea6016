"""Lua scripts: one file, one operation, called by name.

    ACQUIRE = LuaScript("locks", "acquire", keys=("lock",), args=("token", "ttl_ms"), idempotent=True)
    reply = yield ACQUIRE(lock=key, token=token, ttl_ms=30_000)

The file is ``<component>/lua/<name>.lua``. Before its SHA-1 is computed, the loader drops comments and unused
functions and replaces three notations. A script needs no network until it is first called.

``-- @include part``
    The text of ``<component>/lua/shared/part.lua`` (or ``core/lua/shared/part.lua``), which may include others. A part
    that is already in scope is not repeated.
``-- @include part: function, function``
    Only these functions of the part, with what they use. The rest follows where the part is included without names. For
    parts of which the common case needs little: Lua creates every function that it passes.
``-- @include kind``
    The text of the script's kind: ``kind="locks/plain"`` is ``locks/lua/shared/plain.lua``. A file that is declared
    with several kinds is several scripts.
``-- @lazy part: function, function``
    A function ``part()`` that creates the functions of the part at its first call and returns them in a table. For
    parts that most calls do not need: Lua creates every included function in every call. The functions may be those of
    parts that it includes, or of lazy parts that it declares: ``part().other().function()``. Without names, the
    directive only makes the part available to parts that are included later, so that they share it.
``F.lease``
    A constant of the script's legend, as a literal. An unknown name is an error.

The last key or argument may be variadic: it is declared with a trailing ``*`` and takes a sequence.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import resources
from operator import itemgetter
from typing import Any

from django_redis_components.core.protocol import Call, CommandArgs

#: "-- @include part", "-- @include part: function, function", "-- @lazy part: function, function".
_DIRECTIVE = re.compile(r"^-- @(include|lazy)[ \t]+(\w+)(?::[ \t]*(\w+(?:,[ \t]*\w+)*))?[ \t]*$", re.MULTILINE)
#: A function whose body starts on the next line: indentation and name.
_FUNCTION_START = re.compile(r"^( *)local function (\w+)\(.*\)$")
_WORD = re.compile(r"\w+")
_FUNCTION = re.compile(r"^local function (\w+)", re.MULTILINE)
#: Where a local at the top level begins, and its name.
_LOCAL = re.compile(r"^(?=local )", re.MULTILINE)
_LOCAL_NAME = re.compile(r"local (?:function )?(\w+)")
#: Lines that are not sent: comments and blank ones.
_COMMENT = re.compile(r"^[ \t]*(?:--.*)?\n", re.MULTILINE)
_DERIVED = re.compile(r"^-- DERIVED\b", re.MULTILINE)
#: The hash tag of a key, which decides on its Cluster slot.
_TAG = re.compile(r"[^{]*\{[^}]+\}")
_PACKAGE = "django_redis_components"


class LuaScript:
    """One operation that Redis runs whole or not at all.

    Args:
        component: the package that owns the script ("locks", "core/leasing").
        name: path below its ``lua`` folder, without ".lua" ("acquire", "admin/pause").
        keys: names of KEYS, in order.
        args: names of ARGV, in order.
        idempotent: whether it may be sent again after a lost reply, because it recognizes its own
            token, id or absolute value.
        reads_only: whether it only reads. The server refuses its writes, and the dashboard may call it. Idempotent.
        kind: what ``-- @include kind`` means: component and shared part ("locks/plain").
        legend: classes whose attributes the Lua text names, by prefix: ``{"F": Field}`` for ``F.lease``.
    """

    def __init__(
        self,
        component: str,
        name: str,
        *,
        keys: Sequence[str],
        args: Sequence[str] = (),
        idempotent: bool = False,
        reads_only: bool = False,
        kind: str = "",
        legend: Mapping[str, type] | None = None,
    ) -> None:
        self.component = component
        self.name = name
        self.keys = tuple(keys)
        self.args = tuple(args)
        self.idempotent = idempotent or reads_only
        self.reads_only = reads_only
        self.evalsha = "EVALSHA_RO" if reads_only else "EVALSHA"
        self.kind = kind
        self._legend = dict(legend or {})
        self._names = frozenset(name.removesuffix("*") for name in (*self.keys, *self.args))
        self._keys_of = _getter(self.keys)
        self._args_of = _getter(self.args)

    def __repr__(self) -> str:
        return f"<LuaScript {self.component}/{self.name}{f' of {self.kind}' if self.kind else ''}>"

    def __call__(self, **named: Any) -> Call:
        """Return the call of this script with these keys and arguments.

        Raises:
            TypeError: a name is missing or unknown, or a variadic one is not a sequence.
        """
        if named.keys() != self._names:
            raise TypeError(self._mismatch(set(named)))
        keys, args = self._keys_of(named), self._args_of(named)
        return Call(self, keys, args)

    @cached_property
    def source(self) -> str:
        """The Lua text as it is sent: with shared parts and constants in place, without lines of comment.

        Raises:
            FileNotFoundError: an included part does not exist.
            ValueError: a named function or a constant does not exist.
        """
        text = _COMMENT.sub("", _Expansion(self.component, self._own_source, self.kind).expand())
        return _with_constants(self, self._legend, _without_unused(text))

    @cached_property
    def sha(self) -> str:
        """SHA-1 of the source: the server's name for the script."""
        return hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    def __copy__(self) -> LuaScript:
        """It never changes."""
        return self

    def __deepcopy__(self, memo: object) -> LuaScript:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it by its declaration: objects of the site have calls of scripts, and may go to another process."""
        options = {"idempotent": self.idempotent, "reads_only": self.reads_only, "kind": self.kind}
        return _declared, (self.component, self.name, self.keys, self.args, {**options, "legend": self._legend})

    @cached_property
    def reader(self) -> LuaScript:
        """This script for calls with which it only reads."""
        reader = object.__new__(type(self))
        vars(reader).update(vars(self))  # with its text, if that has been composed
        reader.idempotent = reader.reads_only = True
        reader.evalsha = "EVALSHA_RO"
        return reader

    @cached_property
    def derives(self) -> bool:
        """Whether the script derives keys from those in KEYS, as its header's DERIVED line says."""
        return bool(_DERIVED.search(self._own_source))

    @cached_property
    def _own_source(self) -> str:
        folder = resources.files(_PACKAGE).joinpath(self.component, "lua")
        return folder.joinpath(f"{self.name}.lua").read_text(encoding="utf-8")

    def eval_args(self, keys: CommandArgs, args: CommandArgs) -> CommandArgs:
        """Return the command that runs the script by its text, for a server that does not have it."""
        return ("EVAL_RO" if self.reads_only else "EVAL", self.source, len(keys), *keys, *args)

    def cluster_keys(self, keys: CommandArgs) -> CommandArgs:
        """Return the keys for a Cluster: followed by the guard key if the script derives keys.

        The guard key never exists, so that a node refuses the whole script while it moves the slot (`slot_migration`).
        """
        return (*keys, guard_key(keys[0])) if keys and self.derives else keys

    def _mismatch(self, names: set[str]) -> str:
        expected = f"expected {', '.join((*self.keys, *self.args))}."
        if unknown := names - self._names:
            return f"{self!r} got unknown {', '.join(sorted(unknown))}: {expected}"
        return f"{self!r} is missing {', '.join(sorted(self._names - names))}: {expected}"


#: Scripts that were unpickled, which compose their text once.
_unpickled: dict[tuple[Any, ...], LuaScript] = {}


def _declared(
    component: str, name: str, keys: tuple[str, ...], args: tuple[str, ...], options: dict[str, Any]
) -> LuaScript:
    flags = options["idempotent"], options["reads_only"], options["kind"]
    declaration = component, name, tuple(keys), tuple(args), *flags
    return _unpickled.get(declaration) or _unpickled.setdefault(
        declaration, LuaScript(component, name, keys=keys, args=args, **options)
    )


def guard_key(key: Any) -> str:
    """Return a key in the slot of `key` that is never written."""
    text = key.decode() if isinstance(key, bytes) else str(key)
    return f"{text}:guard" if _TAG.match(text) else f"{{{text}}}:guard"


def _getter(names: tuple[str, ...]) -> Callable[[dict[str, Any]], CommandArgs]:
    """Return a function that takes the values of these names, in order, from the arguments of a call."""
    if names and names[-1].endswith("*"):
        fixed, last = _getter(names[:-1]), names[-1].removesuffix("*")
        return lambda named: fixed(named) + _sequence(last, named[last])
    if len(names) > 1:
        return itemgetter(*names)  # twice as fast as a comprehension, and on the path of every call
    return lambda named: tuple([named[name] for name in names])


def _sequence(name: str, values: Any) -> CommandArgs:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{name}={values!r}: expected a sequence of keys or arguments.")
    return tuple(values)


class _Expansion:
    """Replaces the directives of one script.

    Args:
        component: the package whose shared parts are meant.
        source: of the script.
        kind: of the script.
    """

    def __init__(self, component: str, source: str, kind: str) -> None:
        self._component = component
        self._source = source
        self._kind_component, _, self._kind_part = kind.partition("/")
        #: Lazy part -> its functions that any directive of the script names.
        self._named: dict[str, set[str]] = {}
        #: Part -> what is left of it after it was included by names.
        self._rest: dict[str, str] = {}
        self._collect(source, set())

    def expand(self) -> str:
        """Return the text with all parts in place."""
        return self._expand(self._source, set())

    def _collect(self, source: str, seen: set[str]) -> None:
        for kind, part, functions in _DIRECTIVE.findall(source):
            if kind == "lazy":
                self._named.setdefault(part, set()).update(re.findall(r"\w+", functions))
            if part not in seen:
                seen.add(part)
                self._collect(self._shared(part), seen)

    def _expand(self, source: str, in_scope: set[str]) -> str:
        """Expand a text that can use the parts `in_scope`; those that it includes are added."""

        def replacement(directive: re.Match[str]) -> str:
            kind, part, names = directive.groups()
            if part not in in_scope:
                in_scope.add(part)
                body = self._shared(part)
                if kind == "lazy":
                    # What a lazy part includes is in scope only inside of it.
                    return self._lazy(part, self._expand(body, set(in_scope)))
                self._rest[part] = self._expand(body, in_scope)
            return self._include(part, names) if kind == "include" else ""

        return _DIRECTIVE.sub(replacement, source)

    def _include(self, part: str, names: str | None) -> str:
        """Return what is left of an included part; with names, these functions and what they use."""
        body = self._rest.pop(part, "")
        if not names:
            return body
        self._check_defined(part, set(_WORD.findall(names)), body)
        wanted, taken, rest = set(_WORD.findall(names)), "", ""
        for block in reversed(_LOCAL.split(_COMMENT.sub("", body + "\n"))):  # a function uses only earlier ones
            name = _LOCAL_NAME.match(block)
            if name and name[1] in wanted:
                taken = block + taken
                wanted.update(_WORD.findall(block))
            else:
                rest = block + rest
        self._rest[part] = rest
        return taken

    def _check_defined(self, part: str, names: set[str], body: str) -> None:
        defined = _FUNCTION.findall(body)
        for name in names.difference(defined):
            raise ValueError(f"shared/{part}.lua does not define {name}: it defines {', '.join(defined)}.")

    def _shared(self, part: str) -> str:
        """Return the text of a shared part: of the kind, of the component, or of the core."""
        for owner in filter(None, (self._kind_component, self._component, "core")):
            name = self._kind_part if part == "kind" else part
            path = resources.files(_PACKAGE).joinpath(owner, "lua", "shared", f"{name}.lua")
            if path.is_file():
                return path.read_text(encoding="utf-8").rstrip("\n")
        raise FileNotFoundError(f"{self._component}/lua/shared/{part}.lua")

    def _lazy(self, part: str, body: str) -> str:
        self._check_defined(part, self._named[part], body)
        defined = _FUNCTION.findall(body)
        table = ", ".join(f"{name} = {name}" for name in defined if name in self._named[part])
        indented = re.sub(r"^(?=.)", "    ", body, flags=re.MULTILINE)
        return (
            f"local {part}_functions\n"
            f"local function {part}()\n"
            f"  if not {part}_functions then\n"
            f"{indented}\n"
            f"    {part}_functions = {{ {table} }}\n"
            f"  end\n"
            f"  return {part}_functions\n"
            f"end"
        )


def _without_unused(source: str) -> str:
    """Remove functions that nothing outside of them names: every call of the script creates all that are left."""
    lines = source.splitlines(keepends=True)
    uses = Counter(_WORD.findall(source))
    for name, start, stop in reversed(list(_functions(lines))):  # a function is used only by later ones
        text = "".join(lines[start:stop])
        words = _WORD.findall(text) if text.count(name) >= uses[name] else []  # counting spares most of the searches
        if words and uses[name] == words.count(name):
            uses.subtract(words)
            lines[start:stop] = [""] * (stop - start)
    return "".join(lines)


def _functions(lines: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each local function, its first line and the one after its last."""
    open_functions: list[tuple[str, str, int]] = []
    for number, line in enumerate(lines):
        if found := _FUNCTION_START.match(line):
            open_functions.append((found[1], found[2], number))
        elif open_functions and line == f"{open_functions[-1][0]}end\n":
            _, name, start = open_functions.pop()
            yield name, start, number + 1


def _with_constants(script: LuaScript, legend: Mapping[str, type], source: str) -> str:
    """Replace the legend's names by literals."""
    if not legend:
        return source

    def literal(match: re.Match[str]) -> str:
        value = vars(legend[match[1]]).get(match[2])
        if not isinstance(value, str | int):
            raise ValueError(f"{script!r} names {match[0]}, which {legend[match[1]].__name__} does not define.")
        return f'"{value}"' if isinstance(value, str) else str(value)

    return re.sub(rf"(?<![\w.])({'|'.join(legend)})\.(\w+)", literal, source)
