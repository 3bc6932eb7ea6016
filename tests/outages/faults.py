"""Ways in which Redis can be away, for a server of the tests alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from tests.outages.cells import TOKEN
from tools.localserver import LocalServer

#: The server does not answer at all, or refuses writes.
AWAY, REFUSING = ("stopped", "hung"), ("read-only", "out of memory")
FAULTS = (*AWAY, *REFUSING)


@contextmanager
def fault(name: str, server: LocalServer) -> Iterator[None]:
    """Make a server fail for the duration of a block."""
    with {"stopped": _stopped, "hung": _hung, "read-only": _read_only, "out of memory": _out_of_memory}[name](server):
        yield


@contextmanager
def _stopped(server: LocalServer) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextmanager
def _hung(server: LocalServer) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@contextmanager
def _read_only(server: LocalServer) -> Iterator[None]:
    """A failover that the connection's address does not follow: the server is a replica, of a primary that is gone."""
    with redis.Redis.from_url(server.url) as raw:
        raw.replicaof("127.0.0.1", 1)
        try:
            yield
        finally:
            raw.replicaof("NO", "ONE")


@contextmanager
def _out_of_memory(server: LocalServer) -> Iterator[None]:
    with redis.Redis.from_url(server.url) as raw:
        raw.config_set("maxmemory-policy", "noeviction")
        raw.config_set("maxmemory", 1)
        try:
            yield
        finally:
            raw.config_set("maxmemory", 0)


def with_short_timeouts(components: dict[str, Any]) -> dict[str, Any]:
    """Return settings that wait for a fraction of a second only."""
    short = {"SOCKET_TIMEOUT": 0.3, "CONNECT_TIMEOUT": 0.3, "PAGE_TIMEOUT": 0.2, "RETRIES": 1}
    return components | {
        "CONNECTIONS": {alias: entry | short for alias, entry in components["CONNECTIONS"].items()},
        "ANALYTICS": {"TIMEOUT": 0.2},
        "MONITORING": {"TOKEN": TOKEN},
        "RATELIMITS": {"TIMEOUT": 0.2, "COUNT_HITS": False},
    }
