"""The page of locks and semaphores as JSON."""

from __future__ import annotations

import math
from typing import Any

from django_redis_components.dashboard.json_data import fields_of
from django_redis_components.dashboard.locks.page import count_of
from django_redis_components.dashboard.locks.scan import cursors_to_text
from django_redis_components.dashboard.locks.snapshot import HolderState, LockSnapshot, ResourceState
from django_redis_components.dashboard.snapshot import Snapshot


def lock_data(read: Snapshot[LockSnapshot]) -> dict[str, Any]:
    """Return a snapshot. ``next`` is the value of ``?at=`` that continues the scan, "" at the end."""
    snapshot = read.value
    scan, count = snapshot.scan, count_of(snapshot)
    return {
        "using": snapshot.query.using,
        "held": [_state(state) for state in snapshot.states if snapshot.query.accepts(state)],
        "scanned": scan.scanned if scan else None,
        "keys": scan.total if scan else None,
        "not_shown": snapshot.not_shown,
        "count": count.data() if count else None,
        "next": cursors_to_text(scan.cursors) if scan else "",
        "declared": snapshot.declared,
        "problem": snapshot.problem,
    }


def _state(state: ResourceState) -> dict[str, Any]:
    return {
        **fields_of(state.resource),
        "holders": [_holder(holder) for holder in state.holders],
        "held": state.held,
        "limit": state.limit,
        "waiting": state.waiters,
        "waiters": state.queue,
        "fencing_token": state.fencing_token,
        "error": state.error,
    }


def _holder(holder: HolderState) -> dict[str, Any]:
    remaining_s = None if math.isinf(holder.remaining_s) else holder.remaining_s
    return {**fields_of(holder), "remaining_s": remaining_s}
