"""Replacing the data of an index by a new generation. See `lua/shared/generations.lua`."""

from __future__ import annotations

from django_redis_components.core.protocol import Flow
from django_redis_components.search.scripts import DROP_GENERATION, FINISH_REBUILD, START_REBUILD

#: Keys that one call deletes.
DROP_COUNT = 500


def start_rebuild(root: str, token: str) -> Flow[None]:
    """Start a generation that is written beside the one that is read."""
    yield START_REBUILD(root=root, token=token)


def finish_rebuild(root: str, token: str, *, keep: bool) -> Flow[bool]:
    """Read the new generation from now on, or abandon it, and delete the other one.

    Returns:
        Whether no later rebuild has started.
    """
    code = yield FINISH_REBUILD(root=root, token=token, keep=int(keep))
    while (yield DROP_GENERATION(root=root, limit=DROP_COUNT)):
        pass
    return bool(code > 0)
