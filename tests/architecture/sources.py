"""The package's sources as the architecture tests see them: modules, imports, scripts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "django_redis_components"
PACKAGE_DIR = ROOT / PACKAGE

#: The floors, as in the design. What stands at the package's root is a room or a door.
FLOORS: dict[str, int] = {
    "core": 0,
    **dict.fromkeys(
        ["locks", "semaphores", "ratelimits", "bloom", "analytics", "search", "messaging", "files", "aggregation"], 1
    ),
    **dict.fromkeys(["transactions", "expiry", "autocomplete", "taskqueue"], 2),
    **dict.fromkeys(["contrib", "dashboard", "testing"], 3),
    **dict.fromkeys(["apps", "checks", "admin", "models", "urls", "templatetags", "management"], 4),
}

#: Doors may use each other; rooms of one floor never do.
DOORS = 4

#: Calls that import what their first argument names.
IMPORTERS = {"import_module", "import_string"}


@dataclass(frozen=True)
class Module:
    """One Python file: its dotted name and its text."""

    name: str
    text: str
    is_package: bool = False

    @property
    def room(self) -> str:
        """The first name below the package: "locks"; "" for the package itself."""
        return self.name.split(".")[1] if "." in self.name else ""

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def imports(self, known: set[str], *, typing_only: bool = True) -> set[str]:
        """The modules of the package that this one imports, wherever in the file, by name of ``known``."""
        return {found for name in self._imported_names(typing_only) if (found := _longest(name, known))}

    def _imported_names(self, typing_only: bool) -> Iterator[str]:
        skipped = set() if typing_only else _typing_nodes(self.tree)
        for node in ast.walk(self.tree):
            if node in skipped:
                continue
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node)
                yield from (f"{base}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Call) and called_name(node) in IMPORTERS:
                yield from (str(arg.value) for arg in node.args[:1] if isinstance(arg, ast.Constant))

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        parts = parts[: len(parts) - node.level + self.is_package]
        return ".".join([*parts, *filter(None, [node.module])])


def called_name(node: ast.Call) -> str:
    """The last name of what is called: "sleep" for ``time.sleep(1)``."""
    func = node.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def modules() -> list[Module]:
    """Every module of the package."""
    return [_module(path) for path in sorted(PACKAGE_DIR.rglob("*.py"))]


def rooms() -> list[str]:
    """The rooms that exist now, by name."""
    return sorted(
        path.parent.name for path in PACKAGE_DIR.glob("*/__init__.py") if FLOORS.get(path.parent.name, 9) < DOORS
    )


def lua_files() -> list[Path]:
    """The script of every operation, without the parts in ``lua/shared``."""
    return sorted(path for path in PACKAGE_DIR.glob("*/lua/**/*.lua") if path.parent.name != "shared")


def _module(path: Path) -> Module:
    parts = path.relative_to(ROOT).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    return Module(".".join(parts[:-1] if is_package else parts), path.read_text(), is_package)


def _longest(name: str, known: set[str]) -> str:
    """The module that an imported name is or comes from; "" for one outside the package."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def _typing_nodes(tree: ast.Module) -> set[ast.AST]:
    """What stands below ``if TYPE_CHECKING:``, which never runs."""
    return {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for child in ast.walk(statement)
    }
