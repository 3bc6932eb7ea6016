"""Progress bars of commands: shown on standard error if it is a terminal and tqdm is installed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

#: Advances a bar by a number.
Advance = Callable[[int], object]


@contextlib.contextmanager
def progress(name: str, total: Callable[[], int], unit: str) -> Iterator[Advance]:
    """Show a progress bar, and give the function that advances it.

    Args:
        total: returns the number of units; it is called only if the bar is shown.
    """
    is_shown = sys.stderr.isatty()
    with _bar(desc=name, total=total() if is_shown else None, unit=f" {unit}") as advance:
        yield advance


@contextlib.contextmanager
def byte_progress(name: str, total: int) -> Iterator[Advance]:
    """Show a progress bar in bytes, and give the function that advances it.

    Args:
        total: bytes.
    """
    with _bar(desc=name, total=total, unit="B", unit_scale=True) as advance:
        yield advance


@contextlib.contextmanager
def _bar(**options: Any) -> Iterator[Advance]:
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda count: None
        return
    with tqdm(disable=None, file=sys.stderr, **options) as bar:
        yield bar.update
