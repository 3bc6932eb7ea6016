"""Helpers of the tests of rate limits."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from django_redis_components.core.observability import flushing
from django_redis_components.ratelimits import hit_counts


def count_hits(settings: Any, **options: Any) -> None:
    """Turn the counts on, which are off in other tests: their thread would send commands at any time."""
    section = settings.REDIS_COMPONENTS["RATELIMITS"] | {"COUNT_HITS": True} | options
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "RATELIMITS": section}


def send_counts_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only `flush` send counts, and stop the clock: denied keys are read for the current clock hour only."""
    now = time.time()
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600.0)
    clock = SimpleNamespace(time=lambda: now, monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr(hit_counts, "time", clock)
