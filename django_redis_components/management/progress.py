"""Progress bars of commands: shown on standard error if it is a terminal and tqdm is installed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.key_scan import count_keys
from django_redis_components.core.protocol import run

#: Most characters of a name beside a bar, the last ones.
NAME_CHARS = 30


class Advance(Protocol):
    """Advances a bar by a number of units, and shows the name of what is being done, if any."""

    def __call__(self, count: int, name: str = "") -> object: ...


@contextlib.contextmanager
def progress(name: str, total: Callable[[], int], unit: str) -> Iterator[Advance]:
    """Show a progress bar, and give the function that advances it.

    Args:
        total: returns the number of units; it is called only if the bar is shown.
    """
    with _bar(total, desc=name, unit=f" {unit}") as advance:
        yield advance


def scan_progress(name: str, client: SyncClient) -> contextlib.AbstractContextManager[Advance]:
    """Show a progress bar of a scan of all keys of a server; see `key_scan`."""
    return progress(name, lambda: run(client, count_keys(client.key_per_primary())), "keys")


@contextlib.contextmanager
def byte_progress(name: str, total: Callable[[], int] | None) -> Iterator[Advance]:
    """Show a progress bar in bytes, and give the function that advances it.

    Args:
        total: returns the bytes; it is called only if the bar is shown. None if they are not known.
    """
    with _bar(total, desc=name, unit="B", unit_scale=True, unit_divisor=1024) as advance:
        yield advance


@contextlib.contextmanager
def _bar(total: Callable[[], int] | None, **options: Any) -> Iterator[Advance]:
    if not sys.stderr.isatty():
        yield _ignore
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield _ignore
        return
    with tqdm(total=None if total is None else total(), file=sys.stderr, **options) as bar:

        def advance(count: int, name: str = "") -> None:
            if name:
                bar.set_description(name[-NAME_CHARS:], refresh=False)
            bar.update(count)

        yield advance


def _ignore(count: int, name: str = "") -> None:
    """Show nothing."""
