"""A bounded scan of the package's keys: the largest, and those that belong to nothing."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from typing import Any

from redis.exceptions import NoPermissionError, ResponseError

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.command_line import command_line
from django_redis_components.core.key_scan import COUNT, count_keys, escape_glob, scan_step, start, step_size
from django_redis_components.core.protocol import Command, Read, run
from django_redis_components.core.settings import conf
from django_redis_components.core.stored_formats import WRITTEN
from django_redis_components.core.text import counted
from django_redis_components.management.former_indexes import FormerIndex, RegisteredVersions
from django_redis_components.management.redis.doctor.findings import Finding, Report
from django_redis_components.taskqueue.fields import Field, Key, Part
from django_redis_components.taskqueue.shards import Shard

#: Largest keys that are listed.
LARGEST = 10
#: Bytes above which a key is reported: commands that read or delete it whole block the server.
LARGE_BYTES = 100 * 1024 * 1024
#: Most keys named in a finding.
MAX_NAMED = 5
#: Second parts of the keys of this package.
COMPONENTS = frozenset(WRITTEN) | {"format"}
#: Parts of a queue that contain tasks.
_TASK_PARTS = {
    Part.ready, Part.requeued, Part.priority, Part.scheduled, Part.limited, Part.grouped, Part.running, Part.waiting,
    Part.failed, Part.unregistered,
}  # fmt: skip
#: States whose tasks are in the zset of the same name. Ready tasks are in lists, which cannot be searched cheaply.
_INDEXED = {b"running": Part.running, b"waiting": Part.waiting}


class KeyScan:
    """A scan of at most `limit` keys of the server, and what it has found.

    Attributes:
        scanned: how many keys the server has looked at, about.
        total: keys of the server, of all programs.
        largest: (bytes, key) of the largest keys, largest first.
        orphans: keys that belong to nothing, at most `limit`.
        former: indexes of search and autocomplete that this release does not read.
    """

    def __init__(self, shard: Shard, client: SyncClient, limit: int) -> None:
        self._shard = shard
        self._client = client
        self._limit = limit
        self._suspects: set[str] = set()
        self._versions = RegisteredVersions()
        self.scanned = 0
        self.total = 0
        self.largest: list[tuple[int, str]] = []
        self.orphans: list[str] = []
        self.former: set[FormerIndex] = set()

    def run(self) -> None:
        """Scan, then look at each suspect again: a task may have changed its state meanwhile."""
        anchors = self._client.key_per_primary()
        self.total = run(self._client, count_keys(anchors))
        cursors, pattern = start(anchors), f"{escape_glob(conf.settings().prefix)}:*"
        while cursors and self.scanned < self._limit:
            count = min(COUNT, -(-(self._limit - self.scanned) // len(cursors)))
            self.scanned += step_size(cursors, count)
            found, cursors = run(self._client, scan_step(cursors, pattern, count=count))
            self._look_at(found)
        suspects = sorted(self._suspects)
        self.orphans += self._lost_tasks(suspects)
        self.scanned = min(self.scanned, self.total)

    def _look_at(self, found: list[bytes]) -> None:
        sizes = self._replies([Read("MEMORY", "USAGE", key, "SAMPLES", 5, key=key) for key in found])
        keys = [key.decode(errors="backslashreplace") for key in found]
        measured = [(size, key) for size, key in zip(sizes, keys, strict=True) if isinstance(size, int)]
        self.largest = heapq.nlargest(LARGEST, [*self.largest, *measured])
        self.orphans += [key for key in keys if _component(key) not in COMPONENTS]
        self.orphans += self._lost_queues(keys)
        self.former.update(filter(None, map(self._versions.former, keys)))
        base = self._shard.record("")
        records = [key for key in keys if key.startswith(base) and ":" not in key.removeprefix(base)]
        self._suspects.update(self._lost_tasks(records))

    def _lost_queues(self, keys: list[str]) -> list[str]:
        """Return keys with tasks of queues that are not in the index: no command and no page shows them."""
        pattern = re.compile(re.escape(self._shard.key(Key.queue)) + r":(.+):(\w+)")
        found = [(key, match[1]) for key in keys if (match := pattern.fullmatch(key)) and match[2] in _TASK_PARTS]
        declared = conf.settings().taskqueue.queues or ()
        scores = self._replies([Read("ZSCORE", self._shard.key(Key.queues), queue) for _, queue in found])
        return [
            key for (key, queue), score in zip(found, scores, strict=True) if score is None and queue not in declared
        ]

    def _lost_tasks(self, records: Sequence[str]) -> list[str]:
        """Return records without TTL of tasks that should be in an index and are not."""
        reads = [Read("HMGET", key, Field.queue, Field.state) for key in records]
        replies = self._replies([*reads, *(Read("PTTL", key) for key in records)])
        found = []
        for key, fields, ttl_ms in zip(records, replies[: len(records)], replies[len(records) :], strict=True):
            part = _INDEXED.get(fields[1]) if isinstance(fields, list) else None
            if part is not None and fields[0] is not None and ttl_ms == -1:
                found.append(
                    (
                        key,
                        Read(
                            "ZSCORE",
                            self._shard.queue(fields[0].decode(), part),
                            key.removeprefix(self._shard.record("")),
                        ),
                    )
                )
        scores = self._replies([request for _, request in found])
        return [key for (key, _), score in zip(found, scores, strict=True) if score is None]

    def _replies(self, requests: list[Command]) -> list[Any]:
        replies = self._client.execute_many(requests) if requests else []
        for reply in replies:
            if isinstance(reply, NoPermissionError):
                raise reply
        return replies


def check_keys(shard: Shard, client: SyncClient, report: Report, limit: int) -> None:
    """Report orphaned and very large keys among the first `limit` keys of the server; 0: none."""
    if not limit:
        report.skipped.append("Orphaned and large keys: --scan 0.")
        return
    scan = KeyScan(shard, client, limit)
    try:
        scan.run()
    except ResponseError as exc:
        report.skipped.append(f"Orphaned and large keys: {exc}")
        return
    report.facts |= {
        "keys": scan.total,
        "scanned": scan.scanned,
        "largest_keys": [{"key": key, "bytes": size} for size, key in scan.largest],
    }
    report.findings.extend(key_findings(scan, shard.alias))


def key_findings(scan: KeyScan, using: str) -> Iterator[Finding]:
    """Yield the findings of a scan."""
    if scan.former:
        yield _former_finding(sorted(scan.former), using)
    if scan.orphans:
        named = ", ".join(scan.orphans[:MAX_NAMED])
        more = f", and {len(scan.orphans) - MAX_NAMED:,} more" if len(scan.orphans) > MAX_NAMED else ""
        text = f"{counted(len(scan.orphans), 'key')} without a component, queue or lease: {named}{more}."
        fix = "Another program or an older version may have written them. Look at each before you delete it:"
        yield Finding("warning", "orphaned_keys", text, fix, "redis-cli TYPE KEY, then redis-cli UNLINK KEY")
    for size, key in scan.largest:
        if size > LARGE_BYTES:
            text = f"Key {key} has {size / 1024**2:,.0f} MiB."
            yield Finding("warning", "large_key", text, "Commands that read or delete it whole block the server.")


def _former_finding(former: Sequence[FormerIndex], using: str) -> Finding:
    named = ", ".join(f"{each.component} {each.name!r} {each.stored}" for each in former[:MAX_NAMED])
    more = f", and {len(former) - MAX_NAMED:,} more" if len(former) > MAX_NAMED else ""
    text = f"{counted(len(former), 'index', 'indexes')} that this release does not read: {named}{more}."
    fix = (
        "`redis migrate` lists all of them, with what rebuilds those in use. When no process of the release before is"
        " left, delete them:"
    )
    command = command_line("redis", "migrate", options=["--delete-former"], using=using)
    return Finding("warning", "former_indexes", text, fix, command)


def _component(key: str) -> str:
    return key.removeprefix(f"{conf.settings().prefix}:").partition(":")[0]
