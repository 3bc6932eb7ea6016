"""A script's file, its header, its declaration and its callers agree."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from django_redis_components.core.leasing.scripted_kind import ScriptedKind
from django_redis_components.core.scripts import LuaScript
from tests.architecture.lua import KIND_FUNCTIONS, read_script, top_level_names, undeclared_names
from tests.architecture.sources import PACKAGE_DIR, lua_files, modules

#: Lines that a script's file may have.
LIMIT = 250

#: What a script puts before a colon without making a key of it.
NO_KEYS = {"ratelimits/lua/sliding.lua": {"id"}}

GOOD = """\
-- Takes the lock.
-- Precondition: none.
-- KEYS[1] lock  string: the holder's token
-- KEYS[2..] wakeups  list
-- ARGV[1] token  opaque
-- ARGV[2] ttl_ms  milliseconds
-- DERIVED <lock>:wakeup
-- Returns 1: taken
-- Returns 0: held
-- Cost: O(1)
-- @include clock
local lock = KEYS[1]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])
return 1
"""


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE_DIR))


@cache
def declarations() -> dict[str, list[tuple[str, LuaScript]]]:
    """File below the package -> (name of the constant or attribute, declaration): several if it has several kinds."""
    found: dict[str, list[tuple[str, LuaScript]]] = {}
    for module in modules():
        if module.name.endswith(".scripts"):
            for constant, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, LuaScript):
                    found.setdefault(file_of(value), []).append((constant, value))
    for kind in lease_kinds():
        for attribute, script in vars(kind.scripts).items():
            found.setdefault(file_of(script), []).append((attribute, script))
    return found


def declared_scripts() -> list[tuple[str, LuaScript]]:
    """Return the file below the package and each declaration of it, for all files."""
    return [(name_of(path), script) for path in lua_files() for _, script in declarations()[name_of(path)]]


def file_of(script: LuaScript) -> str:
    return f"{script.component}/lua/{script.name}.lua"


def lease_kinds() -> list[type[ScriptedKind]]:
    """Return the kinds of locks and semaphores."""
    for module in modules():
        if module.component in ("locks", "semaphores"):
            importlib.import_module(module.name)
    return ScriptedKind.__subclasses__()


def test_a_script_is_laid_out_as_the_style_guide_says() -> None:
    texts = {name_of(path): path.read_text() for path in lua_files()}

    assert {name: problems for name, text in texts.items() if (problems := read_script(text).problems)} == {}
    assert {name: lines for name, text in texts.items() if (lines := len(text.splitlines())) > LIMIT} == {}


def test_a_scripts_header_equals_its_declaration() -> None:
    headers = {name_of(path): read_script(path.read_text()) for path in lua_files()}

    assert headers.keys() - declarations().keys() == set(), "no LuaScript in the component's scripts.py declares them"
    for name, header in headers.items():
        for _, declared in declarations()[name]:
            assert (list(declared.keys), list(declared.args)) == (header.keys, header.args), name


def test_a_script_that_derives_keys_says_so_and_has_room_for_the_guard_key() -> None:
    for name, script in declared_scripts():
        source = "\n".join(line.partition("--")[0] for line in script.source.splitlines())
        derived = set(re.findall(r"""(\w+(?:\[\w+\])?) *\.\. *["']:""", source)) - NO_KEYS.get(name, set())

        if not script.kind:  # of a kind the file says it for all of them
            assert script.derives == bool(derived), (
                f"{name} builds keys from {sorted(derived)}; the header's DERIVED line says so"
            )
        assert script.derives or not derived, name
        if script.derives:  # on a Cluster the last of its KEYS is the guard
            assert re.findall(r"#KEYS|\(KEYS\b|, *KEYS\)", source) == [], name


def test_every_declaration_has_its_file() -> None:
    assert sorted(set(declarations()) - {name_of(path) for path in lua_files()}) == []


def test_every_script_has_a_caller() -> None:
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for module in modules()
        if not module.name.endswith(".scripts")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute | ast.Name)
    }

    unused = {constant: file for file, found in declarations().items() for constant, _ in found if constant not in used}
    assert unused == {}


def test_every_shared_part_is_included_and_every_include_exists() -> None:
    included = {
        part
        for path in PACKAGE_DIR.rglob("*.lua")
        for part in re.findall(r"^-- @(?:include|lazy) (\w+)", path.read_text(), re.M)
    }

    kinds = {kind.scripts.read.kind.split("/")[1] for kind in lease_kinds()}
    assert {path.stem for path in PACKAGE_DIR.rglob("lua/shared/*.lua")} == included - {"kind"} | kinds
    assert all("-- @" not in script.source for found in declarations().values() for _, script in found)


@pytest.mark.parametrize("kind", lease_kinds())
def test_a_lease_kind_defines_what_the_scripts_use(kind: type[ScriptedKind]) -> None:
    component, part = kind.scripts.read.kind.split("/")

    assert top_level_names(PACKAGE_DIR / component / f"lua/shared/{part}.lua", set()) >= KIND_FUNCTIONS


def test_the_wait_queue_lists_the_functions_of_a_kind() -> None:
    header = (PACKAGE_DIR / "core/lua/shared/wait_queue.lua").read_text().partition("-- @include")[0]

    assert set(re.findall(r"^--   (\w+)\(ctx", header, re.M)) == KIND_FUNCTIONS


def test_a_script_is_sent_without_comments_and_with_each_part_once() -> None:
    for name, script in declared_scripts():
        lines = script.source.splitlines()
        functions = re.findall(r"^ *local function (\w+)", script.source, re.M)

        assert [line for line in lines if not line.strip() or line.lstrip().startswith("--")] == [], name
        if script.component == "taskqueue" or script.kind:
            assert sorted({part for part in functions if functions.count(part) > 1}) == [], name


def test_a_file_declares_the_lazy_functions_that_it_uses() -> None:
    for path in sorted(PACKAGE_DIR.rglob("*.lua")):
        assert_lazy_functions_declared(path)


def assert_lazy_functions_declared(path: Path) -> None:
    text = path.read_text()

    for part in set(re.findall(r"^-- @lazy (\w+)", text, re.M)) | set(re.findall(r"(?<![\w.])(\w+)\(\)\.", text)):
        named = ", ".join(re.findall(rf"^-- @lazy {part}: (.+)$", text, re.M))
        aliases = [line.split("=")[0].split(",")[-1] for line in re.findall(rf"^ *local (.*\b{part}\(\))$", text, re.M)]
        objects = "|".join([rf"{part}\(\)", *(rf"{alias.strip()}" for alias in aliases)])
        used = set(re.findall(rf"(?<![\w.])(?:{objects})\.(\w+)", text)) | uses_by_way_of(path.stem, part)
        assert used == set(filter(None, named.split(", "))), (name_of(path), part)


def uses_by_way_of(outer: str, part: str) -> set[str]:
    """Return the functions of a lazy part that any file calls as ``outer().part().function()``."""
    return {name for *parts, name in calls_by_way() if parts == [outer, part]}


@cache
def calls_by_way() -> set[tuple[str, str, str]]:
    """Return the three names of each ``outer().part().function()``."""
    calls = re.compile(r"\b(?=(\w+)\(\)\.(\w+)\(\)\.(\w+))")
    return {names for path in PACKAGE_DIR.rglob("*.lua") for names in calls.findall(path.read_text())}


def test_a_shared_part_is_a_readable_file() -> None:
    lines = {name_of(path): len(path.read_text().splitlines()) for path in shared_parts()}

    assert {name: number for name, number in lines.items() if number > LIMIT} == {}


def test_a_shared_part_reads_only_what_it_declares_or_receives() -> None:
    assert {name_of(path): names for path in shared_parts() if (names := undeclared_names(path))} == {}


def shared_parts() -> list[Path]:
    return sorted(PACKAGE_DIR.rglob("lua/shared/*.lua"))


def test_an_ambient_local_is_found(tmp_path: Path) -> None:
    body = 'return ctx.now_us + now_ms, { at = "text" }, LIMIT, ARGV[1] -- comment'
    (tmp_path / "part.lua").write_text(f"local LIMIT = 3\nlocal function f(ctx)\n  {body}\nend\n")

    assert undeclared_names(tmp_path / "part.lua") == {"now_ms", "ARGV"}


def test_a_good_script_has_no_problems() -> None:
    script = read_script(GOOD)

    assert script.problems == []
    assert script.keys == ["lock", "wakeups*"]
    assert script.args == ["token", "ttl_ms"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("-- Takes the lock.\n", "", "the header does not begin with the purpose"),
        ("-- Precondition: none.\n", "", "the header has no 'precondition' line"),
        ("-- Cost: O(1)\n", "", "the header has no 'cost' line"),
        ("-- Returns 1: taken\n-- Returns 0: held\n", "", "the header has no 'returns' line"),
        ("lock  string: the holder's token", "lock", "KEYS[1] lock has no type"),
        ("ARGV[2] ttl_ms  milliseconds", "ARGV[3] ttl_ms  milliseconds", "ARGV[3] is out of order"),
        ("local lock = KEYS[1]", "local key = KEYS[1]", "KEYS[1] is bound to key, not to lock"),
        ("token, ttl_ms = A", "ttl_ms, token = A", "ARGV[1] is bound to ttl_ms, not to token"),
        ("return 1", "redis.call('keys', '*')", "calls an unbounded command"),
        ("-- KEYS[1] lock  s", "-- KEYS[1]: lock  s", "not of the form 'KEYS[n] name  type'"),
    ],
)
def test_a_planted_fault_is_found(old: str, new: str, problem: str) -> None:
    assert any(problem in found for found in read_script(GOOD.replace(old, new)).problems)
