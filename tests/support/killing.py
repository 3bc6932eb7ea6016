"""Start and kill groups of servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tools.localserver import LocalServer


def kill_all(servers: Iterable[LocalServer]) -> None:
    """Kill the servers without saving their data."""
    for server in servers:
        server.kill()


@contextmanager
def killed_unless_all_start() -> Iterator[list[LocalServer]]:
    """Yield a list for servers; if the block raises, kill the servers in it."""
    servers: list[LocalServer] = []
    try:
        yield servers
    except BaseException:
        kill_all(servers)
        raise
