"""Two servers as two shards of the site's queue."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from django_redis_components.core.client import connections
from tests.conftest import components_settings
from tests.support import Store
from tests.support.pools import close_pools
from tests.support.stores import Stores
from tests.support.waiting import TIMEOUT_S
from tests.taskqueue.tasks import note
from tools.localserver import LocalServer

#: The routes of the tests: queue "mail" goes to shard "b", the others to the home shard.
QUEUES = {"default": None, "high": None, "low": None, "mail": "b"}


@dataclasses.dataclass
class TwoShards:
    """The home shard `a`, named "default", and the shard "b"; each on a server that a test may stop."""

    a: Store
    b: Store
    server_a: LocalServer
    server_b: LocalServer

    def keys_of(self, store: Store, tag: str) -> list[bytes]:
        return [key for key in sorted(store.raw.scan_iter(match=f"{store.prefix}:*")) if f"{{{tag}}}".encode() in key]


@contextmanager
def two_servers(stores: Stores, settings: Any, **taskqueue: Any) -> Iterator[TwoShards]:
    servers = [
        LocalServer(
            None,
            directory=stores.new_directory(name),
            appendonly=True,
            die_with_parent=True,
            extra_args=("--appendfsync", "always"),
        ).start()
        for name in "ab"
    ]
    prefix = "ts"
    a, b = (
        Store(name, each.url, prefix, redis.Redis.from_url(each.url), (each,))
        for name, each in zip("ab", servers, strict=True)
    )
    settings.REDIS_COMPONENTS = {
        **components_settings(a, redis_b=b.url),
        "TASKQUEUE": {"SHARDS": {"default": "default", "b": "redis_b"}, "QUEUES": QUEUES, **taskqueue},
    }
    try:
        yield TwoShards(a, b, *servers)
    finally:
        close_pools()
        for store, server in zip((a, b), servers, strict=True):
            store.raw.close()
            server.kill()


def set_options(settings: Any, **taskqueue: Any) -> None:
    """Change options of the queue."""
    current = settings.REDIS_COMPONENTS
    settings.REDIS_COMPONENTS = {**current, "TASKQUEUE": {**current["TASKQUEUE"], **taskqueue}}


def count_in_a(shards: TwoShards) -> int:
    """Return how many tasks the home shard has."""
    return sum(b":t:" in key for key in shards.keys_of(shards.a, "default"))


def count_in(shards: TwoShards) -> tuple[int, int]:
    """Return how many tasks each shard has."""
    return count_in_a(shards), sum(b":t:" in key for key in shards.keys_of(shards.b, "b"))


def in_both(settings: Any, count: int = 3) -> tuple[list[str], list[str]]:
    """Enqueue tasks of queue "mail" in shard b, and after a change of the route in the home shard."""
    before = [note.using(queue_name="mail").enqueue(number).id for number in range(count)]
    set_options(settings, QUEUES={"mail": None, "default": None, "other": "b"})
    return before, [note.using(queue_name="mail").enqueue(number).id for number in range(count)]


class Meetings:
    """Clients that send their requests once as many others are about to."""

    def __init__(self, clients: int) -> None:
        self.count = 0
        self._barrier = threading.Barrier(clients, timeout=TIMEOUT_S)

    def client(self, alias: str) -> Any:
        real = connections.client(alias)
        meetings = self

        class Meeting:
            is_cluster = real.is_cluster

            def execute_many(self, requests: Any) -> list[Any]:
                meetings.count += 1
                meetings._barrier.wait()
                return real.execute_many(requests)

        return Meeting()


__all__ = [
    "QUEUES",
    "Meetings",
    "TwoShards",
    "count_in",
    "count_in_a",
    "in_both",
    "pytest",
    "set_options",
    "two_servers",
]
