"""Start a race of processes for one lock or semaphore."""

from __future__ import annotations

import os

from tests.support import Proxy, Store
from tests.support.processes import Children

SECONDS = float(os.environ.get("RACE_SECONDS", "2"))
#: Share of replies that are lost.
LOSS = 0.05


def run_race(
    children: Children,
    proxy: Proxy,
    store: Store,
    component: str,
    limit: int,
    seconds: float,
    *edits: tuple[str, str, str],
) -> dict[str, int]:
    """Run the processes, and return what they counted."""
    proxy.drop_random(LOSS)
    child = children.call("tests.locks.race_workers:race", component, limit, 16, seconds, edits)
    child.result(timeout_s=seconds + 90)
    proxy.drop_random(0)
    stats = f"{store.prefix}:race"
    names = ("grants", "violations", "errors", "not_owned", "inside")
    return {name: int(store.raw.get(f"{stats}:{name}") or 0) for name in names} | {
        "most": int(store.raw.zscore(f"{stats}:most", "inside") or 0),
        "dropped": proxy.dropped,
    }
