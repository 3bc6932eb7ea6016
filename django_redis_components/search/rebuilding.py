"""Replacing the data of an index by a new generation. See `lua/shared/generations.lua`."""

from __future__ import annotations

from django_redis_components.core.protocol import Flow
from django_redis_components.search.exceptions import SearchError
from django_redis_components.search.scripts import (
    DROP_GENERATION,
    FINISH_REBUILD,
    RENEW_REBUILD,
    START_REBUILD,
    SUPERSEDED,
)

#: Keys that one call deletes.
DROP_COUNT = 500
#: TTL of a rebuild in milliseconds, renewed with each chunk: a killed one is written to so long.
TTL_MS = 15 * 60 * 1_000


def start_rebuild(root: str, token: str) -> Flow[None]:
    """Start a generation that is written beside the one that is read."""
    yield START_REBUILD(root=root, token=token, ttl_ms=TTL_MS)


def renew_rebuild(root: str, name: str, token: str) -> Flow[None]:
    """Renew a rebuild of an index, so that it is not abandoned.

    Raises:
        SearchError: a later rebuild has started, or this one was abandoned.
    """
    code = yield RENEW_REBUILD(root=root, token=token, ttl_ms=TTL_MS)
    if code < 0:
        raise _not_replaced(name, code)


def finish_rebuild(root: str, name: str, token: str, *, keep: bool) -> Flow[None]:
    """Read the new generation from now on, or abandon it, and delete the other one.

    Raises:
        SearchError: the generation should be kept, but a later rebuild has started, or this one was abandoned.
    """
    code = yield FINISH_REBUILD(root=root, token=token, keep=int(keep))
    while (yield DROP_GENERATION(root=root, limit=DROP_COUNT)):
        pass
    if keep and code < 0:
        raise _not_replaced(name, code)


def _not_replaced(name: str, code: int) -> SearchError:
    reason = (
        "a later rebuild has started" if code == SUPERSEDED else f"no document came for {TTL_MS / 60_000:g} minutes"
    )
    return SearchError(f"Search index {name!r} was not replaced: {reason}.")
