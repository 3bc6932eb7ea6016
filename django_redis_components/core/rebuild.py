"""Rebuilding data: they are loaded in chunks beside those that are read, and replace them in one step.

A component defines the steps of its rebuild by four scripts, which share `lua/shared/rebuild.lua`:

``rebuild_begin``    stores the token of the rebuild, and so supersedes an active one
``rebuild_load``     adds a chunk, and renews the rebuild
``rebuild_swap``     replaces the data that are read
``rebuild_abandon``  ends a rebuild that failed

The token expires `TTL_MS` after the last step, so a rebuild whose process was killed ends by itself. What is written
to the data that are read while a rebuild is active is newer than what it loads: the component writes it to both, and
the rebuild does not overwrite it.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, ClassVar, Generic, TypeVar

from redis.exceptions import RedisError

from django_redis_components.core.arguments import check_iterable
from django_redis_components.core.chunks import chunks
from django_redis_components.core.exceptions import RebuildSuperseded
from django_redis_components.core.protocol import AsyncClientProtocol, Flow, SyncClientProtocol, arun, run

#: TTL of a rebuild in milliseconds, renewed by each chunk.
TTL_MS = 15 * 60 * 1_000

Item = TypeVar("Item")


class Rebuild(ABC, Generic[Item]):
    """The steps of one rebuild. Subclasses define them as flows that return the replies of scripts.

    Args:
        label: what is rebuilt, for errors: "index".
        name: its name, for errors.

    Attributes:
        token: of the rebuild.
    """

    #: Items of one call. Longer calls delay other clients of the server.
    chunk_size: ClassVar[int]

    def __init__(self, label: str, name: str) -> None:
        self._label = label
        self._name = name
        self.token = secrets.token_hex(16)

    @abstractmethod
    def begin(self) -> Flow[Any]:
        """Start the rebuild."""

    @abstractmethod
    def load(self, chunk: list[Item]) -> Flow[Any]:
        """Add a chunk."""

    @abstractmethod
    def swap(self) -> Flow[int]:
        """Replace the data that are read; return the number of items."""

    @abstractmethod
    def abandon(self) -> Flow[Any]:
        """Delete the loaded data, if the rebuild is the active one."""

    def run(self, client: SyncClientProtocol, items: Iterable[Item]) -> int:
        """Rebuild in this thread; return the number of items.

        Raises:
            RebuildSuperseded: a later rebuild has started, or this one has expired.
        """
        source = iter(check_iterable(items, "items"))
        try:
            run(client, self.begin())
            for chunk in chunks(source, self.chunk_size):
                self._check(run(client, self.load(chunk)))
            return self._check(run(client, self.swap()))
        except BaseException:
            with suppress(RedisError):  # it expires anyway
                run(client, self.abandon())
            raise

    async def arun(self, client: AsyncClientProtocol, items: Iterable[Item] | AsyncIterable[Item]) -> int:
        """See `run`."""
        source = _chunks(items, self.chunk_size)
        try:
            await arun(client, self.begin())
            async for chunk in source:
                self._check(await arun(client, self.load(chunk)))
            return self._check(await arun(client, self.swap()))
        except GeneratorExit:  # the loop has ended: nothing can be awaited
            raise
        except BaseException:
            with suppress(RedisError):
                await arun(client, self.abandon())
            raise

    def _check(self, reply: int) -> int:
        if reply < 0:
            raise RebuildSuperseded(self._label, self._name, TTL_MS / 1_000)
        return reply


def _chunks(items: Iterable[Item] | AsyncIterable[Item], size: int) -> AsyncIterator[list[Item]]:
    """Return chunks of any iterable. An asynchronous one is read on the event loop, like the other one."""
    if isinstance(items, AsyncIterable):
        return _async_chunks(items, size)
    return _sync_chunks(iter(check_iterable(items, "items")), size)


async def _sync_chunks(source: Iterator[Item], size: int) -> AsyncIterator[list[Item]]:
    while chunk := list(islice(source, size)):
        yield chunk


async def _async_chunks(source: AsyncIterable[Item], size: int) -> AsyncIterator[list[Item]]:
    chunk = []
    async for item in source:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
