"""Deploys: the versions of the site's code, each by when a worker first reported it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.units import moment_of_ms
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.workers import MAX_VERSION

#: Versions that are kept, as in lua/shared/deploys.lua.
MAX_DEPLOYS = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Deploy:
    """A version of the site's code, and when the first worker with it reported."""

    version: str
    at: datetime


def read_deploys(shard: Shard) -> Flow[list[Deploy]]:
    """Read the latest deploys, oldest first."""
    pairs = yield Read("ZREVRANGE", shard.key(Key.deploys), 0, MAX_DEPLOYS - 1, "WITHSCORES")
    return parse_deploys(pairs)


def parse_deploys(pairs: Sequence[bytes]) -> list[Deploy]:
    """Return the deploys from versions and times in turn, the latest first."""
    found = [
        Deploy(version.decode(errors="replace")[:MAX_VERSION], moment_of_ms(int(float(at_ms))))
        for version, at_ms in pairs_of(pairs)
    ]
    return found[::-1]
