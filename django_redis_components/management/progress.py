"""A progress bar on standard error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def byte_progress(what: str, total: int) -> Iterator[Callable[[int], object]]:
    """Show a progress bar in bytes on a terminal, if tqdm is installed.

    Args:
        what: is read, for the label.
        total: size of all files.

    Yields:
        a function that adds bytes.
    """
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda count: None
        return
    with tqdm(total=total, desc=what, unit="B", unit_scale=True, disable=None, file=sys.stderr) as bar:
        yield bar.update
