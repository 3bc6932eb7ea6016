"""Only what workers import, and a few guarded places, use what Windows lacks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch

import pytest

from tests.architecture.sources import PACKAGE, modules
from tests.core.windows_site import POSIX_ONLY
from tests.support import windows

#: `tests.support.windows` must leave some of these to the standard library of Linux. `socket.socketpair` is in Python.
NAMES = windows.NAMES | {
    "os": windows.NAMES["os"] + " W* waitpid sysconf",
    "socket": windows.NAMES["_socket"].replace("socketpair", ""),
}

#: Modules that a site without workers imports, and that use such names all the same. With the reason.
GUARDED = {
    f"{PACKAGE}.core.forks": "registers a callback where the platform can fork",
    f"{PACKAGE}.files.saving": "locks a part where the platform can",
    f"{PACKAGE}.taskqueue.forks": "registers its callbacks where the platform can fork",
    f"{PACKAGE}.taskqueue.log_handler": "the buffer of a worker process, for pipes",
}


def test_names_that_windows_lacks_are_used_by_workers_only() -> None:
    users = {module.name for module in modules() if any(posix_names(module.nodes))}

    assert {name for name in users if not name.startswith(POSIX_ONLY)} == GUARDED.keys()


@pytest.mark.parametrize(
    "text",
    [
        "import fcntl",
        "from termios import tcgetattr",
        "os.register_at_fork(after_in_child=clear)",
        "os.fork()",
        "os.pread(fd, 4, 0)",
        "os.WNOHANG",
        "from os import getuid",
        "STOP = signal.SIGQUIT",
        "signal.pthread_sigmask(signal.SIG_BLOCK, ())",
        "def wait():\n    select.poll()",
        "socket.AF_UNIX",
        "time.clock_gettime(0)",
    ],
)
def test_name_that_windows_lacks_is_found(text: str) -> None:
    assert any(posix_names(ast.walk(ast.parse(text))))


@pytest.mark.parametrize(
    "text", ["import os", "os.getpid()", "signal.SIGTERM", "select.select([], [], [])", "x.poll()"]
)
def test_portable_name_is_allowed(text: str) -> None:
    assert not any(posix_names(ast.walk(ast.parse(text))))


def posix_names(nodes: Iterator[ast.AST] | list[ast.AST]) -> Iterator[bool]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield any(alias.name in windows.MODULES for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module in windows.MODULES
            yield any(_is_missing(node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield _is_missing(node.value.id, node.attr)


def _is_missing(module: str, name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in NAMES.get(module, "").split())
