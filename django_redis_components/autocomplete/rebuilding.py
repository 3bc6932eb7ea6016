"""Rebuild an index: load it in chunks next to the old one, then replace that in one step."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import suppress
from itertools import islice

from redis.exceptions import RedisError

from django_redis_components.autocomplete.entries import Entry, Id, check_id
from django_redis_components.autocomplete.exceptions import RebuildSuperseded
from django_redis_components.autocomplete.scripts import (
    BUILD,
    REBUILD_ABANDON,
    REBUILD_BEGIN,
    REBUILD_LOAD,
    REBUILD_SWAP,
    SUPERSEDED,
)
from django_redis_components.core.protocol import AsyncClientProtocol, Flow, SyncClientProtocol, arun, run

#: Entries per script call. Longer calls delay other clients of the server.
CHUNK = 200
#: TTL of a rebuild in milliseconds, renewed by each chunk; the data of a crashed rebuild expires after it.
TTL_MS = 15 * 60 * 1_000
#: Milliseconds for which a repeated swap is recognized: longer than any client retries.
REMEMBER_MS = 10 * 60 * 1_000

Given = Entry | tuple[Id, str]


class Rebuild:
    """The steps of one rebuild, each a flow.

    Args:
        name: name of the index, for errors.
        keys: the keys of the index and of a rebuild, by their names in the scripts.
        built: key with the token of the last completed rebuild.
    """

    def __init__(self, name: str, keys: dict[str, str], built: str) -> None:
        self._name = name
        self._keys = keys
        self._built = built
        self._token = secrets.token_hex(16)

    def begin(self) -> Flow[None]:
        """Start the rebuild; supersede an active one."""
        yield REBUILD_BEGIN(**self._all(), token=self._token, ttl_ms=TTL_MS)

    def load(self, chunk: list[Given]) -> Flow[None]:
        """Load one chunk."""
        pairs = [part for given in chunk for part in _pair(given)]
        reply = yield REBUILD_LOAD(
            **{name: self._keys[name] for name in BUILD}, token=self._token, ttl_ms=TTL_MS, pairs=pairs
        )
        self._check(reply)

    def swap(self) -> Flow[int]:
        """Replace the index and return its number of entries."""
        reply: int = yield REBUILD_SWAP(**self._keys, built=self._built, token=self._token, remember_ms=REMEMBER_MS)
        self._check(reply)
        return reply

    def abandon(self) -> Flow[None]:
        """Delete the loaded entries."""
        yield REBUILD_ABANDON(**self._all(), token=self._token)

    def _all(self) -> dict[str, object]:
        return {"build": self._keys["build"], "rest": [self._keys[name] for name in BUILD[1:]]}

    def _check(self, reply: int) -> None:
        if reply == SUPERSEDED:
            raise RebuildSuperseded(self._name, TTL_MS / 1_000)


def rebuild(steps: Rebuild, client: SyncClientProtocol, iterable: Iterable[Given]) -> int:
    """Run a rebuild in this thread."""
    run(client, steps.begin())
    try:
        for chunk in _chunks(iterable):
            run(client, steps.load(chunk))
        return run(client, steps.swap())
    except BaseException:
        with suppress(RedisError):  # the data expires anyway
            run(client, steps.abandon())
        raise


async def arebuild(
    steps: Rebuild, client: AsyncClientProtocol, iterable: Iterable[Given] | AsyncIterable[Given]
) -> int:
    """Run a rebuild on the event loop."""
    await arun(client, steps.begin())
    try:
        async for chunk in _achunks(iterable):
            await arun(client, steps.load(chunk))
        return await arun(client, steps.swap())
    except BaseException:
        with suppress(RedisError):
            await arun(client, steps.abandon())
        raise


def _pair(given: Given) -> tuple[str, str]:
    if isinstance(given, tuple) and len(given) == 2:
        given = Entry(*given)
    if not isinstance(given, Entry):
        raise TypeError(f"{given!r}: expected an Entry or a tuple of id and text.")
    return check_id(given.id), given.record()


def _chunks(iterable: Iterable[Given]) -> Iterator[list[Given]]:
    source = iter(iterable)
    while chunk := list(islice(source, CHUNK)):
        yield chunk


async def _achunks(iterable: Iterable[Given] | AsyncIterable[Given]) -> AsyncIterator[list[Given]]:
    if not isinstance(iterable, AsyncIterable):
        for chunk in _chunks(iterable):
            yield chunk
        return
    chunk = []
    async for given in iterable:
        chunk.append(given)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
