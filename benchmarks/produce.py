"""The sending side, in a separate process: ``python -m benchmarks.produce PEER ACTION [ARGUMENTS]``.

Prints one line of JSON. `bullmq/produce.cjs` does the same for BullMQ.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

#: Delay in seconds of tasks that must stay scheduled: a week.
FAR_S = 7 * 86_400
#: Tasks in a call that piles up delayed ones.
CHUNK = 5_000


def fill(side: Any, count: str) -> dict[str, float]:
    """No-ops between two marks, sent one by one; how many a second."""
    side.send("mark", "begin")
    rate = _rate(int(count), lambda: _each(range(int(count)), lambda number: side.send("noop", number)))
    side.send("mark", "end")
    return {"single": rate}


def fill_in_bulk(side: Any, count: str) -> dict[str, float]:
    """No-ops between two marks, sent in bulk where the queue can."""
    if side.send_many is None:
        return fill(side, count)
    side.send("mark", "begin")
    calls = [(number,) for number in range(int(count))]
    rate = _rate(len(calls), lambda: side.send_many("noop", calls))
    side.send("mark", "end")
    return {"bulk": rate}


def ones(side: Any, count: str) -> dict[str, float]:
    """Many ``noop(1)``, to weigh them."""
    if side.send_many is not None:
        side.send_many("noop", [(1,)] * int(count))
    else:
        _each(range(int(count)), lambda _: side.send("noop", 1))
    return {}


def passing(side: Any, count: str) -> dict[str, float]:
    """No-ops whose results are kept for a second (ours only)."""
    for start in range(0, int(count), CHUNK):
        side.send_many("noop", [(start,)] * min(CHUNK, int(count) - start), result_ttl=1)
    side.send("mark", "end")
    return {}


def pick_up(side: Any, count: str, pause_s: str) -> dict[str, float]:
    """Tasks that record their lateness, one at a time."""
    for _ in range(int(count)):
        time.sleep(float(pause_s))
        side.send("late", time.time())
    return {}


def nap(side: Any, seconds: str) -> dict[str, float]:
    """One task that takes some time (ours only)."""
    side.send("nap", float(seconds))
    return {}


def burst(side: Any, count: str) -> dict[str, float]:
    """Tasks that record their lateness, all at once (ours only)."""
    side.send_many("late", [(time.time(),)] * int(count))
    return {}


def delay(side: Any, count: str, over_s: str) -> dict[str, float]:
    """Tasks that fall due one after the other, on whole milliseconds, and record their lateness."""
    first = time.time() + 2.0 + int(count) / 500
    for number in range(int(count)):
        due = round(first + number * float(over_s) / int(count), 3)
        side.send_at("late", due, due)
    return {"ends_in_s": first + float(over_s) - time.time()}


def pile(side: Any, count: str) -> dict[str, float]:
    """Delayed tasks that stay scheduled (ours only)."""
    for start in range(0, int(count), CHUNK):
        side.send_many("noop", [(start,)] * min(CHUNK, int(count) - start), run_after=FAR_S)
    return {}


def _each(numbers: range, act: Callable[[int], object]) -> None:
    for number in numbers:
        act(number)


def _rate(count: int, act: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    act()
    return count / (time.perf_counter() - started_at)


ACTIONS = (fill, fill_in_bulk, ones, passing, pick_up, nap, burst, delay, pile)


def main() -> None:
    peer, action, *arguments = sys.argv[1:]
    side = importlib.import_module(f"benchmarks.sides.{peer}")
    done = {known.__name__: known for known in ACTIONS}[action](side, *arguments)
    print(json.dumps(done))


if __name__ == "__main__":
    main()
