"""What is stored of a poller whose rounds fail, so that it is reported as a problem: only its host has the log."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time

from redis.exceptions import RedisError

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.exception_text import class_name, safe_text
from django_redis_components.core.protocol import Command, Flow, Read
from django_redis_components.core.text import encodable
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.shards import Shard

#: Seconds for which a report is stored, and between two of them. The first is longer than a backoff and a slow round.
REPORT_S, WRITE_S = 60.0, 10.0
#: Most characters of an error.
MAX_ERROR = 500


@dataclasses.dataclass(frozen=True, slots=True)
class PollerFailure:
    """A poller whose rounds fail.

    Attributes:
        poller: its id, which begins with its host.
        error: the class and the text of the latest error.
        count: how often it has failed without a success in between.
        since: when it failed first, in seconds since the epoch.
    """

    poller: str
    error: str
    count: int
    since: float


class FailureReport:
    """The report of one poller. Several pollers share the key: the latest one is stored."""

    def __init__(self, shard: Shard, client: SyncClient, poller: str) -> None:
        self._client = client
        self._key = shard.key(Key.poller_failure)
        self._poller = poller
        self._write_at: float | None = None

    def write(self, error: BaseException, count: int, since: float) -> None:
        """Store the failure, every `WRITE_S`."""
        now = time.monotonic()
        if self._write_at is not None and now < self._write_at:
            return
        self._write_at = now + WRITE_S
        text = encodable(f"{class_name(type(error))}: {safe_text(error)}")[:MAX_ERROR]
        stored = json.dumps({"poller": self._poller, "error": text, "count": count, "since": since})
        with contextlib.suppress(RedisError):  # the next round reports the outage
            self._client.execute(Command("SET", self._key, stored, "PX", int(REPORT_S * 1_000), retry=True))

    def remove(self) -> None:
        """Remove the report of this poller, if it has written one."""
        if self._write_at is None:
            return
        with contextlib.suppress(RedisError):  # it expires
            stored = self._client.execute(Read("GET", self._key))
            if (failure := parse_failure(stored)) and failure.poller == self._poller:
                self._client.execute(Command("DEL", self._key, retry=True))
            self._write_at = None


def read_failure(shard: Shard) -> Flow[PollerFailure | None]:
    """Read the latest report of a poller whose rounds fail."""
    return parse_failure((yield Read("GET", shard.key(Key.poller_failure))))


def parse_failure(stored: bytes | None) -> PollerFailure | None:
    """Parse a report; None for what is none."""
    try:
        found = json.loads(stored or b"null")
        return PollerFailure(str(found["poller"]), str(found["error"]), int(found["count"]), float(found["since"]))
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None
