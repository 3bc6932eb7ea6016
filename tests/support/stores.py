"""The servers of a test run, as a table: started when first asked for, stopped when the run ends."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import redis
from redis.cluster import RedisCluster

from tests.support.clusters import start_cluster
from tests.support.killing import kill_all
from tests.support.missing import skip_missing
from tests.support.sentinels import SERVICE, start_sentinel
from tools.localserver import LocalServer, ServerError, redis_binary, valkey_binary


@dataclass(frozen=True)
class Store:
    """A server, or several behind one URL, and the key prefix of one test."""

    name: str
    url: str
    prefix: str
    #: A plain redis-py client for raw checks: ``Redis`` or ``RedisCluster``, bytes in replies.
    raw: Any
    #: The processes behind it. Shared by all tests: a test that stops a server takes ``own_server`` instead.
    servers: tuple[LocalServer, ...] = ()

    @property
    def is_cluster(self) -> bool:
        return isinstance(self.raw, RedisCluster)

    def keys(self) -> list[bytes]:
        """Return the keys of this test, sorted."""
        return sorted(self.raw.scan_iter(match=f"{self.prefix}:*", count=1000))

    def delete_keys(self) -> None:
        keys = self.keys()
        for start in range(0, len(keys), 1000):
            self.raw.unlink(*keys[start : start + 1000])


@dataclass(frozen=True)
class Running:
    """A store that was started, without a test's prefix yet."""

    name: str
    url: str
    raw: Any
    servers: tuple[LocalServer, ...]

    def for_test(self, prefix: str) -> Store:
        return Store(self.name, self.url, prefix, self.raw, self.servers)


def _single(binary: Callable[[], Path], name: str, directory: Path) -> Running:
    server = LocalServer(binary(), directory=directory, die_with_parent=True).start()
    return Running(name, server.url, redis.Redis.from_url(server.url), (server,))


def _cluster(binary: Callable[[], Path], name: str, directory: Path) -> Running:
    servers = start_cluster(binary(), directory)
    nodes = [f"127.0.0.1:{server.port}" for server in servers]
    raw = RedisCluster(host="127.0.0.1", port=servers[0].port or 0)
    return Running(name, f"redis+cluster://{','.join(nodes)}", raw, tuple(servers))


def _sentinel(name: str, directory: Path) -> Running:
    servers = start_sentinel(valkey_binary(), directory)
    finder = redis.Sentinel([("127.0.0.1", servers[2].port)])
    url = f"redis+sentinel://127.0.0.1:{servers[2].port}/{SERVICE}/0"
    return Running(name, url, finder.master_for(SERVICE), tuple(servers))


#: Every store that the tests marked ``contract`` run on (fixture ``store``).
STORES: dict[str, Callable[[Path], Running]] = {
    "valkey": partial(_single, valkey_binary, "valkey"),
    "redis7": partial(_single, redis_binary, "redis7"),
    "cluster": partial(_cluster, valkey_binary, "cluster"),
}

#: The store of all other tests.
DEFAULT_STORE = "valkey"

#: Set-ups that only the tests of connections ask for.
OTHERS: dict[str, Callable[[Path], Running]] = {
    "sentinel": partial(_sentinel, "sentinel"),
    "cluster7": partial(_cluster, redis_binary, "cluster7"),
}


class Stores:
    """Starts each store once per run, and stops all of them."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        self._directory: Path | None = None

    def get(self, name: str) -> Running:
        if name not in self._running:
            try:
                self._running[name] = (STORES | OTHERS)[name](self.new_directory(name))
            except ServerError as exc:
                skip_missing(f"store {name}: {exc}")
        return self._running[name]

    def new_directory(self, name: str) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="drc-tests-"))
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._directory))

    def close(self) -> None:
        for running in self._running.values():
            running.raw.close()
            kill_all(running.servers)
        self._running.clear()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
