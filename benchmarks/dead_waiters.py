"""Waiting behind waiters that died: the time from a release to the first grant of a waiter that lives.

    python -m benchmarks.dead_waiters [--counts 0 1 3 10 500] [--live 5] [--repeat 3] [--only lock group ...]

A process queues so many waiters for one object that somebody holds, and after them so many live ones queue up in
this process. Then the first process ends: by kill -9, by SIGTERM, or it is stopped (SIGSTOP), so that its connections
stay open. Then the holder releases. The table has the milliseconds until the first live waiter was granted (median and
maximum), and, behind a plus sign, those from that to the last of the live ones, who release at once. A dead waiter
should cost about 200 ms and a stopped one 2 s, whatever their number. ``REDIS_URL`` names another server.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from benchmarks.environment import server_url
from benchmarks.locks import set_up

#: How the process of the waiters ends.
ENDS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGSTOP": signal.SIGSTOP}
#: Permits of the semaphore; the holder has all of them.
PERMITS = 3
#: Seconds for which anything may take.
LIMIT_S = 120.0


def makers(name: str) -> dict[str, Callable[[int], Any]]:
    """Kind to what makes the object for the waiter of a number; number 0 is the holder's."""
    from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
    from django_redis_components.semaphores import Semaphore

    both = ReadWriteLock(name, timeout=LIMIT_S)
    return {
        "lock": lambda _: Lock(name, timeout=LIMIT_S),
        "group": lambda _: MultiLock(name, f"{name}:2", group=name, timeout=LIMIT_S),
        "readwrite": lambda number: both.read() if number % 2 else both.write(),
        "semaphore": lambda _: Semaphore(name, PERMITS, timeout=LIMIT_S),
    }


KINDS = ("lock", "group", "readwrite", "semaphore")


def waiting(kind: str, name: str) -> int:
    """How many wait for it."""
    state = _readwrite(name).inspect() if kind == "readwrite" else makers(name)[kind](0).inspect()
    return int(state[name].waiting if kind == "group" else state.waiting)


def _readwrite(name: str) -> Any:
    from django_redis_components.locks import ReadWriteLock

    return ReadWriteLock(name)


def measure(url: str, kind: str, dead: int, end: str, live: int) -> tuple[float, float, list[int]]:
    """Seconds from the release to the first live grant, those to the last of them, and their order.

    Our settings for this server must be in place.
    """
    name = f"dead-{uuid.uuid4().hex}"
    holders = [makers(name)[kind](0) for _ in range(PERMITS if kind == "semaphore" else 1)]
    for holder in holders:
        assert holder.acquire()
    victims = start_victims(url, kind, name, dead) if dead else None
    try:
        reached(lambda: waiting(kind, name) == dead)
        grants: list[tuple[float, int]] = []
        threads = []
        for number in range(live):
            threads.append(threading.Thread(target=wait_once, args=(kind, name, 2 * number, grants)))
            threads[-1].start()
            reached(lambda number=number: waiting(kind, name) == dead + number + 1)  # type: ignore[misc]
        if victims is not None:
            victims.send_signal(ENDS[end])
            if end != "SIGSTOP":
                victims.wait()
            time.sleep(0.05)  # so that the server has seen the ends of the connections
        released_at = time.monotonic()
        for holder in holders:
            holder.release()
        for thread in threads:
            thread.join()
    finally:
        if victims is not None:
            victims.kill()
            victims.wait()
    times = [at - released_at for at, _ in grants]
    return times[0], times[-1], [number for _, number in grants]


def start_victims(url: str, kind: str, name: str, count: int) -> subprocess.Popen[bytes]:
    """A process whose tasks wait."""
    command = [sys.executable, "-m", "benchmarks.dead_waiters", "--victims", url, kind, name, str(count)]
    return subprocess.Popen(command)


def wait_once(kind: str, name: str, number: int, grants: list[tuple[float, int]]) -> None:
    """A live waiter, in a thread: note its grant, and release."""
    lock = makers(name)[kind](number)
    lock.acquire()
    grants.append((time.monotonic(), number // 2))
    lock.release()


def be_victims(url: str, kind: str, name: str, count: int) -> None:
    """Wait, in this number of tasks, until this process is ended."""
    set_up(url)

    async def main() -> None:
        await asyncio.gather(*[makers(name)[kind](number).aacquire() for number in range(count)])
        await asyncio.sleep(LIMIT_S)

    asyncio.run(main())


def reached(check: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + LIMIT_S
    while not check():
        if time.monotonic() > deadline:
            raise SystemExit("this does not come to pass")
        time.sleep(0.005)


def main() -> None:
    """Measure all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[0, 1, 3, 10, 500], help="dead waiters")
    parser.add_argument("--live", type=int, default=5, help="live waiters behind them (default: 5)")
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each (default: 3)")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS, help="kinds (default: all)")
    parser.add_argument("--ends", nargs="+", choices=list(ENDS), default=list(ENDS), help="how they end (default: all)")
    parser.add_argument("--victims", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.victims:
        url, kind, name, count = options.victims
        be_victims(url, kind, name, int(count))
        return
    with server_url() as url:
        table(url, options)


def table(url: str, options: argparse.Namespace) -> None:
    """All rows."""
    set_up(url)
    print(f"{'':22}" + "".join(f"{f'{count} dead':>26}" for count in options.counts))
    for kind in options.only:
        for end in options.ends:
            cells = [cell(url, kind, count, end, options) for count in options.counts]
            print(f"{kind:12}{end:10}" + "".join(f"{each:>26}" for each in cells), flush=True)


def cell(url: str, kind: str, dead: int, end: str, options: argparse.Namespace) -> str:
    """What one count of dead waiters costs, in milliseconds."""
    found = [measure(url, kind, dead, end, options.live) for _ in range(options.repeat)]
    first = sorted(each[0] * 1e3 for each in found)
    rest = statistics.median((each[1] - each[0]) * 1e3 for each in found)
    return f"{statistics.median(first):.0f} max {first[-1]:.0f} (+{rest:.0f})"


if __name__ == "__main__":
    main()
