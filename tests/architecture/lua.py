"""Reading a Lua script the way the style guide lays it out.

-- Takes the lock, or says how long it is held.            purpose, one or more lines
-- Precondition: none.
-- KEYS[1] lock  string: the token of the holder           name, two spaces or more, type
-- KEYS[2..] wakeups  list                                   a variadic last one (or KEYS[2] wakeups*)
-- ARGV[1] token  opaque                                   name, two spaces or more, unit
-- DERIVED <lock>:wakeup:<token>                             where a key is derived
-- Returns 1: taken                                        one line for each code
-- Returns 0: held by another
-- Cost: O(1)
local lock = KEYS[1]
local token = ARGV[1]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from django_redis_components.taskqueue.fields import LEGEND

#: The parts of a header after its purpose, in their order. DERIVED stands anywhere between KEYS and Returns.
ORDER = ["precondition", "keys", "argv", "returns", "cost"]

#: What the Lua file of each kind of lock or semaphore defines, and ``-- @include kind`` brings into scope.
_KIND_FUNCTIONS = """
    describe_objects expire forget grant is_ordered left_ms limit_of number_of own_queues queues_of remember renew
    revoke wait_ms
"""
KIND_FUNCTIONS = set(_KIND_FUNCTIONS.split())

_NAME = re.compile(r"\w+")
#: Names of locals, of parameters and of a loop's variables.
_DECLARATIONS = (
    r"\blocal (?:function )?(\w+(?:,\s*\w+)*)",
    r"\bfunction\b[^(\n]*\(([^)]*)\)",
    r"\bfor ([\w, ]+?) ?(?:=|in\b)",
)
#: Keywords, libraries and functions of Lua and Redis.
_LUA_NAMES = """
    and break do else elseif end error false for function if in local nil not or repeat return then true until while
    ipairs math pairs redis select string struct table tonumber tostring type unpack
"""
_KNOWN = {*_LUA_NAMES.split(), *LEGEND}

_PART = re.compile(r"--\s+(Precondition|KEYS|ARGV|DERIVED|Returns|Cost)\b", re.IGNORECASE)
_SLOT = re.compile(r"-- (KEYS|ARGV)\[(\d+)(\.\.)?\] (\w+)(\*)?(?: {2,}(\S.*))?$")
_LOCAL = re.compile(r"^local ([\w, ]+?) = (.+)$")


@dataclass
class Script:
    """A script's header and the names its body binds."""

    keys: list[str] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_script(text: str) -> Script:
    """Parse a script; what is wrong with it is in ``problems``."""
    lines = text.splitlines()
    length = next((n for n, line in enumerate(lines) if not line.startswith("--") or "@include" in line), len(lines))
    header, body = lines[:length], lines[length:]
    script = Script()
    if not header or _PART.match(header[0]):
        script.problems.append("the header does not begin with the purpose")
    _check_order(header, script)
    for line in header:
        if re.match(r"-- (KEYS|ARGV)\[", line):
            _read_slot(line, script)
    _check_bindings("\n".join(body), script)
    if re.search(r"""call\(\s*['"](KEYS|SMEMBERS|FLUSHALL|FLUSHDB)['"]""", text, re.IGNORECASE):
        script.problems.append("calls an unbounded command")
    return script


def undeclared_names(part: Path) -> set[str]:
    """Return the names that a shared part uses without declaring, including or receiving them.

    Scopes within the part are not told apart, and KEYS and ARGV are undeclared: a part is passed what it reads.
    """
    text = re.sub(r"""--[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", " ", part.read_text())
    declared = top_level_names(part, set())
    for pattern in _DECLARATIONS:
        for names in re.findall(pattern, text):
            declared.update(_NAME.findall(names))
    used = re.findall(r"(?<![\w.])([A-Za-z_]\w*)\b(?!\s*=(?!=))", text)
    return set(used) - declared - _KNOWN


def top_level_names(part: Path, seen: set[Path]) -> set[str]:
    """Return the names that a part and those that it includes define at the top level, and its lazy parts."""
    if part in seen:
        return set()
    seen.add(part)
    text = part.read_text()
    names = {
        name for found in re.findall(r"^local (?:function )?([\w, ]+)", text, re.M) for name in _NAME.findall(found)
    }
    for kind, name in re.findall(r"^-- @(include|lazy) (\w+)", text, re.M):
        if name == "kind":
            names |= KIND_FUNCTIONS
            continue
        core = part.parents[3] / "core/lua/shared"
        found = next(path for path in (part.with_stem(name), core / f"{name}.lua") if path.exists())
        names |= {name} if kind == "lazy" else top_level_names(found, seen)
    return names


def _check_order(header: list[str], script: Script) -> None:
    parts = [found[1].lower() for line in header if (found := _PART.match(line))]
    seen = [part for part in dict.fromkeys(parts) if part != "derived"]
    if seen != [part for part in ORDER if part in seen]:
        script.problems.append(f"the header's parts are in the order {seen}, not {ORDER}")
    script.problems += [f"the header has no {part!r} line" for part in ORDER if part not in seen and part != "argv"]


def _read_slot(line: str, script: Script) -> None:
    found = _SLOT.match(line)
    if not found:
        script.problems.append(f"not of the form 'KEYS[n] name  type': {line}")
        return
    kind, number, dots, name, star, meaning = found.groups()
    names = script.keys if kind == "KEYS" else script.args
    if int(number) != len(names) + 1:
        script.problems.append(f"{kind}[{number}] is out of order")
    if not meaning:
        script.problems.append(f"{kind}[{number}] {name} has no {'type' if kind == 'KEYS' else 'unit'}")
    names.append(name + ("*" if dots or star else ""))


def _check_bindings(body: str, script: Script) -> None:
    """Each fixed key and argument is bound to a local of the header's name."""
    bound: dict[str, str] = {}
    for line in body.splitlines():
        if found := _LOCAL.match(line.split("--")[0].rstrip()):
            names = [name.strip() for name in found[1].split(",")]
            bound.update(zip(_slots(found[2]), names, strict=False))
    for kind, names in (("KEYS", script.keys), ("ARGV", script.args)):
        for number, name in enumerate(names, 1):
            slot = f"{kind}[{number}]"
            if not name.endswith("*") and bound.get(slot) != name:
                script.problems.append(f"{slot} is bound to {bound.get(slot)}, not to {name}")


def _slots(expressions: str) -> list[str]:
    """Return the slot that each expression of a comma list reads: ["KEYS[1]", ""] for ``KEYS[1], f(1, 2)``."""
    depth, parts = 0, [""]
    for char in expressions:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    slots = [re.search(r"(KEYS|ARGV)\[\d+\]", part) for part in parts]
    return [found[0] if found else f"#{number}" for number, found in enumerate(slots)]
