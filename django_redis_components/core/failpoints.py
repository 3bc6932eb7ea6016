"""Named points at which a crash test may kill the process.

Nothing is installed in a running site: `point` costs one look at a global.
"""

from __future__ import annotations

from collections.abc import Callable

#: Set by crash tests only. Gets the name of the point that is passed.
hook: Callable[[str], None] | None = None


def point(name: str) -> None:
    """Pass the named point: after_pop, before_body, after_effect, before_ack, before_tend, after_tend,
    before_fire, after_fire."""
    if hook is not None:
        hook(name)
