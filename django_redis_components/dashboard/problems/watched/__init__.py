"""Checks that read more than a page may: one process of the site makes them, and stores what it has found.

To add one, write a module with a `WatchedCheck`, and add it here.
"""

from __future__ import annotations

from django_redis_components.dashboard.problems.watched import (
    data_loss,
    files,
    limits,
    locks,
    memory,
    messages,
    moves,
    persistence,
    poller,
    searches,
    tasks,
    traffic,
)
from django_redis_components.dashboard.problems.watched.check import WatchedCheck

CHECKS: tuple[WatchedCheck, ...] = (
    data_loss.CHECK,
    persistence.CHECK,
    poller.CHECK,
    moves.CHECK,
    tasks.CHECK,
    traffic.CHECK,
    locks.CHECK,
    files.CHECK,
    messages.CHECK,
    limits.CHECK,
    searches.CHECK,
    memory.CHECK,
)
