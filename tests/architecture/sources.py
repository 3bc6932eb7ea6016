"""The package's sources as the architecture tests see them: modules, imports, scripts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "django_redis_components"
PACKAGE_DIR = ROOT / PACKAGE

#: The layers of the package. Each name at its root is a component or an entry point; a component imports lower layers.
LAYERS: dict[str, int] = {
    "core": 0,
    **dict.fromkeys(["locks", "semaphores", "ratelimits", "bloom", "analytics", "search", "files", "geoip"], 1),
    **dict.fromkeys(["transactions", "expiry", "autocomplete", "aggregation", "messaging", "taskqueue"], 2),
    **dict.fromkeys(["dashboard", "testing"], 3),
    "contrib": 4,
    **dict.fromkeys(
        [
            "apps",
            "checks",
            "exceptions",
            "admin",
            "models",
            "urls",
            "async_urls",
            "templatetags",
            "management",
            "pytest_plugin",
        ],
        5,
    ),
}

#: The layer of the entry points, which may import each other. Components of one layer may not.
ENTRY_POINTS = 5

#: The layers of ``taskqueue``, lowest first. Modules and subpackages import their own layer and lower ones.
TASKQUEUE_LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "batches",
        "call_signature",
        "exceptions",
        "failpoints",
        "failure",
        "fair_share",
        "fields",
        "forks",
        "guarded_logger",
        "iteration",
        "json_codec",
        "limits",
        "on_commit",
        "option_names",
        "outage_log",
        "retry",
        "sealing",
        "states",
        "unique",
    ),
    ("defaults", "options", "record", "registry", "shards"),
    ("pool", "replication", "shard_clients"),
    ("store",),
    (
        "enqueue",
        "log_handler",
        "logs",
        "middleware",
        "origin",
        "outbox",
        "placement",
        "request_middleware",
        "result",
        "routing",
        "sending",
        "signals",
        "task_update",
    ),
    ("flows",),
    ("context", "run_start"),
    ("batch_task", "decorator", "start_flow", "task"),
    ("stats",),
    ("queue", "schedules"),
    ("checks", "poller"),
    ("worker",),
    ("supervisor",),
    ("startup",),
)

#: Functions that import the module named by their first argument.
IMPORTERS = {"import_module", "import_string"}


@dataclass(frozen=True)
class Module:
    """A Python file.

    Attributes:
        name: its dotted name.
        text: its source.
    """

    name: str
    text: str
    is_package: bool = False

    @property
    def component(self) -> str:
        """The first name below the package: "locks"; "" for the package itself."""
        return self.name.split(".")[1] if "." in self.name else ""

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the syntax tree."""
        return list(ast.walk(self.tree))

    def imports(self, known: set[str], *, typing_only: bool = True) -> set[str]:
        """Return the modules of ``known`` that this one imports, also inside functions.

        Args:
            typing_only: whether to include the imports below ``if TYPE_CHECKING:``.
        """
        return {found for name in self._imported_names(typing_only) if (found := _longest(name, known))}

    def _imported_names(self, typing_only: bool) -> Iterator[str]:
        skipped = set() if typing_only else _typing_nodes(self.nodes)
        for node in self.nodes:
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
    """Return the last part of the called name: "sleep" for ``time.sleep(1)``."""
    func = node.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


@cache
def modules() -> tuple[Module, ...]:
    """Return all modules of the package."""
    return tuple(_module(path) for path in sorted(PACKAGE_DIR.rglob("*.py")))


def components() -> list[str]:
    """Return the names of the components, sorted."""
    packages = [path.parent.name for path in PACKAGE_DIR.glob("*/__init__.py")]
    return sorted(name for name in packages if LAYERS.get(name, ENTRY_POINTS) < ENTRY_POINTS)


@cache
def lua_files() -> tuple[Path, ...]:
    """Return the scripts of all operations, without the parts in ``lua/shared``."""
    return tuple(path for path in sorted(PACKAGE_DIR.glob("**/lua/**/*.lua")) if path.parent.name != "shared")


def _module(path: Path) -> Module:
    parts = path.relative_to(ROOT).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    return Module(".".join(parts[:-1] if is_package else parts), path.read_text(), is_package)


def _longest(name: str, known: set[str]) -> str:
    """Return the module that an imported name is or comes from; "" if it is not known."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def _typing_nodes(nodes: list[ast.AST]) -> set[ast.AST]:
    """Return the nodes below ``if TYPE_CHECKING:``, which never run."""
    return {
        child
        for node in nodes
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for child in ast.walk(statement)
    }
