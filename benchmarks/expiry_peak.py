"""``python -m benchmarks.expiry_peak``: 5,000 keys that were loaded together, and how their ends are spread.

Each way loads the keys at once and then looks at all of them again and again; a key that has ended is loaded again.
The figure is how many were loaded again in one tenth of a second, at most, over two lives of the keys. REDIS_URL
names the server; without it an embedded one is started.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import django
from django.conf import settings

KEYS = 5_000
#: Seconds that the keys live.
LIFE_S = 10
#: Seconds of one column of the figure.
WINDOW_S = 0.1


def main() -> None:
    """Measure each way in turn and print a table."""
    from tools.localserver import LocalServer

    url = os.environ.get("REDIS_URL")
    if url:
        _run(url)
        return
    with tempfile.TemporaryDirectory() as directory:
        server = LocalServer(directory=Path(directory), die_with_parent=True).start()
        try:
            _run(server.url)
        finally:
            server.stop()


def _run(url: str) -> None:
    settings.configure(
        INSTALLED_APPS=["django_redis_components"],
        REDIS_COMPONENTS={"PREFIX": "bench", "CONNECTIONS": {"default": {"URL": url}}},
        CACHES={
            name: {
                "BACKEND": "django_redis_components.expiry.cache.JitteredRedisCache",
                "LOCATION": url,
                "KEY_PREFIX": name,
                "OPTIONS": {"SPREAD": spread},
            }
            for name, spread in (("default", 0), ("tenth", 0.1), ("third", 0.3))
        },
    )
    django.setup()
    ways = {
        "no jitter": _cache("default"),
        "JitteredRedisCache, 10 %": _cache("tenth"),
        "JitteredRedisCache, 30 %": _cache("third"),
    }
    print(f"| {KEYS} keys of {LIFE_S} s | most loaded again in {WINDOW_S:g} s | in all |\n|---|---|---|")
    for name, look in ways.items():
        peak, total = measure(look)
        print(f"| {name} | {peak} | {total} |", flush=True)


def measure(look: Callable[[], int]) -> tuple[int, int]:
    """The most that were loaded again in one window, and all."""
    look()
    started_at = time.monotonic()
    loaded: Counter[int] = Counter()
    while (now := time.monotonic() - started_at) < 2 * LIFE_S:
        loaded[int(now / WINDOW_S)] += look()
        time.sleep(0.01)
    return max(loaded.values()), loaded.total()


def _cache(name: str) -> Callable[[], int]:
    """Looks at all keys in one round trip, and loads the missing ones in another."""
    from django.core.cache import caches

    keys = [f"key:{number}" for number in range(KEYS)]

    def look() -> int:
        found = caches[name].get_many(keys)
        missing = [key for key in keys if key not in found]
        caches[name].set_many(dict.fromkeys(missing, 1), LIFE_S)
        return len(missing)

    return look


if __name__ == "__main__":
    main()
