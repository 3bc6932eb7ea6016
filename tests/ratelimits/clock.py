"""The scripts of rate limits on a clock that the test sets: their text, with the source of the time replaced.

Each limit key has its own clock, stored beside its keys. Stored keys have an hour added to their TTL, so that the
server's own clock expires none of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.ratelimits import scripts
from tests.ratelimits.redis_keys import base_key
from tests.support import Store

#: The start of a test's clock, in microseconds since 1970.
BEGIN_US = 1_700_000_000_000_000

SCRIPTS = ("GCRA", "SLIDING", "FIXED", "REFUND_GCRA", "REFUND_SLIDING", "REFUND_FIXED", "BLOCK", "BLOCK_SLIDING")
TIME = 'redis.call("TIME")'
SET_TIME = '{ string.match(redis.call("GET", string.match(KEYS[1], "^.-}") .. ":clock"), "(%d+) (%d+)") }'
#: How much longer, in milliseconds, stored keys live in these tests.
LONGER_MS = 3_600_000
LIVES = {
    '"PX", ttl_ms)': f'"PX", ttl_ms + {LONGER_MS})',
    "math.ceil(period_us / 1000))": f"math.ceil(period_us / 1000) + {LONGER_MS})",
    "math.ceil(kept_us / 1000))": f"math.ceil(kept_us / 1000) + {LONGER_MS})",
    "math.ceil(block_us / 1000))": f"math.ceil(block_us / 1000) + {LONGER_MS})",
}


def set_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all scripts of rate limits read the time from `Clock`."""
    for name in SCRIPTS:
        script = getattr(scripts, name)
        text = script.source
        assert TIME in text
        text = text.replace(TIME, SET_TIME)
        for old, new in LIVES.items():
            text = text.replace(old, new)
        monkeypatch.setitem(vars(script), "source", text)
        for name in ("sha", "reader"):
            monkeypatch.delitem(vars(script), name, raising=False)


@pytest.fixture
def settable(monkeypatch: pytest.MonkeyPatch) -> Any:
    """See `set_clocks`. Restores the scripts afterwards."""
    with monkeypatch.context() as patch:
        set_clocks(patch)
        yield
    for name in SCRIPTS:
        for cached in ("sha", "source", "reader"):
            vars(getattr(scripts, name)).pop(cached, None)


class Clock:
    """The clock of one limit key."""

    def __init__(self, store: Store, name: str, key: str) -> None:
        self._store = store
        self._key = base_key(name, key) + ":clock"
        self.now_us = BEGIN_US
        self.advance(0)

    def advance(self, us: int) -> None:
        self.now_us += us
        seconds, micros = divmod(self.now_us, 1_000_000)
        self._store.raw.set(self._key, f"{seconds} {micros}")
