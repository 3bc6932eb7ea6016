"""Servers that are started as a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from example_project.localserver import LocalServer


def kill_all(servers: Iterable[LocalServer]) -> None:
    """kill -9: the data of a test run is worth nothing."""
    for server in servers:
        server.kill()


@contextmanager
def killed_unless_all_start() -> Iterator[list[LocalServer]]:
    """A list to add servers to: when the block fails, those in it are killed."""
    servers: list[LocalServer] = []
    try:
        yield servers
    except BaseException:
        kill_all(servers)
        raise
