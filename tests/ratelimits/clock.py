"""The scripts of rate limits on a clock that a test sets: their own text, but for where the time comes from.

Each visitor has its own clock, beside its keys. What the scripts store lives an hour longer, so that the server's own
clock ends nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.ratelimits import scripts
from django_redis_components.ratelimits.limit import RateLimit
from tests.support import Store

#: Where a test's clock begins, in microseconds since 1970.
BEGIN_US = 1_700_000_000_000_000

TIME = 'redis.call("TIME")'
SET_TIME = '{ string.match(redis.call("GET", string.match(KEYS[1], "^.-}") .. ":clock"), "(%d+) (%d+)") }'
#: How much longer, in milliseconds, stored keys live in these tests.
LONGER_MS = 3_600_000
LIVES = {
    '"PX", life_ms)': f'"PX", life_ms + {LONGER_MS})',
    "math.ceil(period_us / 1000))": f"math.ceil(period_us / 1000) + {LONGER_MS})",
    "math.ceil(block_us / 1000))": f"math.ceil(block_us / 1000) + {LONGER_MS})",
}


def set_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all scripts of the room read the clock of `Clock`."""
    for name in ("GCRA", "SLIDING", "FIXED", "REFUND_GCRA", "REFUND_FIXED"):
        script = getattr(scripts, name)
        text = script.source
        assert TIME in text
        text = text.replace(TIME, SET_TIME)
        for old, new in LIVES.items():
            text = text.replace(old, new)
        monkeypatch.setitem(vars(script), "source", text)
        monkeypatch.delitem(vars(script), "sha", raising=False)


@pytest.fixture
def settable(monkeypatch: pytest.MonkeyPatch) -> Any:
    """See `set_clocks`. Afterwards the scripts are as they were."""
    with monkeypatch.context() as patch:
        set_clocks(patch)
        yield
    for name in ("GCRA", "SLIDING", "FIXED", "REFUND_GCRA", "REFUND_FIXED"):
        vars(getattr(scripts, name)).pop("sha", None)
        vars(getattr(scripts, name)).pop("source", None)


class Clock:
    """The clock of one visitor."""

    def __init__(self, store: Store, limit: RateLimit, key: str) -> None:
        self._store = store
        self._key = limit._limiter._visitor(key) + ":clock"
        self.now_us = BEGIN_US
        self.advance(0)

    def advance(self, us: int) -> None:
        self.now_us += us
        seconds, micros = divmod(self.now_us, 1_000_000)
        self._store.raw.set(self._key, f"{seconds} {micros}")
