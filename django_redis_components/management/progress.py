"""Progress bars of commands: shown on a terminal, if tqdm is installed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(name: str, total: Callable[[], int], unit: str) -> Iterator[Callable[[int], object]]:
    """Show a progress bar on standard error, and give the function that advances it by a number.

    Args:
        total: returns the number of units; it is called only if the bar is shown.
    """
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda count: None
        return
    is_shown = sys.stderr.isatty()
    with tqdm(total=total() if is_shown else None, desc=name, unit=f" {unit}", disable=None, file=sys.stderr) as bar:
        yield bar.update
