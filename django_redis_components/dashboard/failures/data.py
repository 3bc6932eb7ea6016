"""The page of failures as JSON."""

from __future__ import annotations

from typing import Any

from django_redis_components.dashboard.clients import shown_shards
from django_redis_components.dashboard.deploy_marks import time_after_deploy
from django_redis_components.dashboard.error_text import masked_error
from django_redis_components.dashboard.failures.page import count_of
from django_redis_components.dashboard.failures.snapshot import FailureGroup, FailureSnapshot
from django_redis_components.dashboard.queues.data import task_data
from django_redis_components.dashboard.snapshot import Snapshot
from django_redis_components.taskqueue.shards import Shard


def failure_data(read: Snapshot[FailureSnapshot]) -> dict[str, Any]:
    """Return a snapshot. ``errors`` are incomplete if ``total`` is above ``shown``: both count groups of queues."""
    snapshot = read.value
    return {
        "queue": snapshot.query.queue,
        "failed": dict(snapshot.counts.by_queue),
        "errors": [_failure(failure) for failure in snapshot.failures],
        "shown": snapshot.shown,
        "total": snapshot.total,
        "count": count_of(snapshot).data(),
        "selected": _selected(snapshot.selected, snapshot) if snapshot.selected else None,
    }


def _selected(failure: FailureGroup, snapshot: FailureSnapshot) -> dict[str, Any]:
    return {
        **_failure(failure),
        "after_deploy": time_after_deploy(failure.first_at, snapshot.deploys),
        "minutes": [{"at": at, "count": count} for at, count in sorted(failure.minutes.items())],
        "tasks": {
            _key(queue, shard): {
                "failed": scan.matched,
                "is_exact": not scan.has_more,
                "names": {name: count for name, (count, _oldest) in scan.names.items()},
                "newest": [task_data(task) for task in scan.tasks],
            }
            for (shard, queue), scan in snapshot.tasks.items()
        },
    }


def _key(queue: str, shard: Shard) -> str:
    """Return the key of a queue, with the name of the shard on a page that shows several shards."""
    return queue if len(shown_shards().shards) == 1 else f"{shard.name}/{queue}"


def _failure(failure: FailureGroup) -> dict[str, Any]:
    newest, sample = failure.newest, failure.sample
    return {
        "fingerprint": newest.fingerprint,
        "class": newest.exception_class_path,
        "location": newest.location,
        "message": masked_error(newest.message),
        "count": failure.count,
        "final": failure.final,
        "first_at": failure.first_at,
        "last_at": newest.last_at,
        "queues": {_key(part.queue, shard): part.count for shard, part in failure.located},
        "sample": sample
        and {
            "id": sample.task_id,
            "name": sample.task_name,
            "message": masked_error(sample.message),
            "traceback": masked_error(sample.traceback),
        },
    }
