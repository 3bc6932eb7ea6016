"""Synthetic access logs, and what a plain loop counts of them."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from django_redis_components.aggregation import LogEntry

DAYS = (date(2026, 10, 10), date(2026, 10, 11), date(2026, 10, 12))
PAGES = ("/", "/items/", "/items/7/?q=%20", "/login/", "/static/site.css")


def lines(count: int, seed: int = 0) -> Iterator[str]:
    """Yield lines of the combined format, in the local time of the tests, and one in a hundred that is junk."""
    rng = random.Random(seed)
    for number in range(count):
        if rng.random() < 0.01:
            yield rng.choice(
                ["", "\0\0\0\0", "GET / HTTP/1.1", '1.2.3.4 - - [99/Foo/2026:00:00:00 +0000] "GET /" 200 1']
            )
            continue
        day = rng.choice(DAYS)
        ip = f"{rng.choice([8, 90, 91])}.{rng.randrange(4)}.8.{rng.randrange(256)}"
        yield (
            f'{ip} - - [{day.day}/Oct/2026:{number % 24:02}:00:01 +0200] "GET {rng.choice(PAGES)} HTTP/1.1" 200'
            f' {number} "-" "Mozilla/5.0 (X11; Linux) \\"quoted\\""'
        )


def write_log(path: Path, count: int, seed: int = 0) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines(count, seed)))
    return path


def plain_count(*texts: str) -> Counter[tuple[date, str]]:
    """Count the pages of combined lines by day, without queries, by other means than the package."""
    found: Counter[tuple[date, str]] = Counter()
    for text in texts:
        for line in text.split("\n"):
            if match := re.match(r'[\d.]+ - - \[(\d+)/Oct/2026:[^]]+] "GET ([^ ?]+)\S* HTTP', line):
                found[date(2026, 10, int(match[1])), match[2]] += 1
    return found


def by_path(entry: LogEntry) -> str:
    return entry.path.partition("?")[0]
