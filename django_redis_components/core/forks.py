"""What must happen in a forked child. A platform that cannot fork (Windows) needs none of it."""

from __future__ import annotations

import os
from collections.abc import Callable


def after_fork_in_child(callback: Callable[[], object]) -> None:
    """Call this in each forked child, before its other code. It must not raise."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=callback)
