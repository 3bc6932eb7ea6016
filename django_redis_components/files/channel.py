"""A channel that distributes files to several consumers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_choice, check_int, check_progress, check_sequence
from django_redis_components.core.component import Component
from django_redis_components.core.decompression import CODECS
from django_redis_components.core.protocol import Flow
from django_redis_components.core.units import Seconds, to_ms, to_seconds
from django_redis_components.files.consumer import FileConsumer
from django_redis_components.files.exceptions import UnknownConsumer
from django_redis_components.files.info import MAX_FILES, ChannelInfo, read_info
from django_redis_components.files.manifest import PublishedFile, check_file_name
from django_redis_components.files.publishing import ChannelOptions, Upload
from django_redis_components.files.scripts import REMOVE, SET_LIMIT

#: Bytes of a chunk: 64 below 512 KiB, so that the string with its header takes 512 KiB of the allocator and not 640.
CHUNK_BYTES = 512 * 1024 - 64
#: Accepted sizes of a chunk. Redis accepts 512 MB, but a chunk is held in memory, and a script copies it.
MIN_CHUNK_BYTES, MAX_CHUNK_BYTES = 1_024, 16 * 1024 * 1024
#: Most consumers of a channel.
MAX_CONSUMERS = 100


class FileChannel(Component):
    """Distributes files to consumers through Redis, within a byte budget. For processes without a common file system.

    Args:
        name: name of the channel.
        consumers: names of all consumers, 1 to 100. A file is removed when all of them are done with it. The names are
            stored with each file; a consumer that is added later gets the files that are published from then on.
        limit_bytes: most bytes of all files in the channel, over all producers. A file must not be larger. It is stored
            while the channel has files, and producers with another limit are refused meanwhile; see `set_limit`.
        chunk_bytes: size of the chunks, 1 KiB to 16 MiB.
        ttl: seconds after which a file is removed even if consumers are not done, from the start of its publishing.
        lease: seconds after which a producer that stopped in the middle counts as dead; its file is removed.
        using: connection alias.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    component = "files"
    name_label = "channel name"
    catalog_kind = "FileChannel"

    def __init__(
        self,
        name: str,
        consumers: Sequence[str],
        *,
        limit_bytes: int = 256 * 1024 * 1024,
        chunk_bytes: int = CHUNK_BYTES,
        ttl: Seconds = 86_400,
        lease: Seconds = 30,
        using: str = "default",
    ) -> None:
        super().__init__(name, using=using)
        self.consumers = _check_consumers(consumers)
        self.limit_bytes = check_int(limit_bytes, "limit_bytes", 1, 2**50)
        self.chunk_bytes = check_int(chunk_bytes, "chunk_bytes", MIN_CHUNK_BYTES, MAX_CHUNK_BYTES)
        self._ttl_ms = to_ms(ttl, "ttl")
        self._lease_ms = to_ms(lease, "lease")

    def publish(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        codec: str | None = None,
        timeout: Seconds | None = 60,
        progress: Callable[[int], object] | None = None,
    ) -> PublishedFile:
        """Publish a file to all consumers; wait until there is room for it.

        Its bytes are reserved before the first one is written. Producers get room in the order of their calls. If the
        call raises, nothing is left; of a producer that dies, nothing after `lease` seconds.

        Args:
            path: of a regular file, which must not change meanwhile.
            name: under which consumers get it, up to 1,024 bytes (default: the file name).
            codec: "gzip", "bzip2", "xz", "zstd" or "": how its lines are compressed (default: by its first bytes).
                It is published as it is.
            timeout: seconds to wait for room; 0: not at all; None: without a limit.
            progress: is called with the number of bytes that were written.

        Returns:
            Its id, name, size and checksum.

        Raises:
            FileTooLarge: the file is larger than `limit_bytes`, or has more than 20,000 chunks.
            ChannelFull: there was no room in time.
            LimitMismatch: the channel has files under another limit.
            FileChanged: the file vanished or changed meanwhile.
            UploadExpired: this process paused for longer than `lease`, publishing took longer than `ttl`, or another
                process removed the file.
            OSError: the file cannot be read.
            ValueError, TypeError: an argument is not accepted, or the path is not that of a regular file.
            redis.exceptions.RedisError: Redis is unavailable. If only the last reply was lost, consumers may have got
                the file.
        """
        return self._run(self._publish(path, name, codec, timeout, progress))

    async def apublish(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        codec: str | None = None,
        timeout: Seconds | None = 60,  # noqa: ASYNC109 - the twin of publish()
        progress: Callable[[int], object] | None = None,
    ) -> PublishedFile:
        """See `publish`. The file is read in a thread; Redis is called on the event loop."""
        return await self._arun(self._publish(path, name, codec, timeout, progress))

    def consumer(self, name: str) -> FileConsumer:
        """Return a consumer.

        Raises:
            UnknownConsumer: it is not one of `consumers`.
        """
        if name not in self.consumers:
            raise UnknownConsumer(self.name, name, self.consumers)
        self._record_use()
        return FileConsumer(self._options(), name, self.using)

    def info(self) -> ChannelInfo:
        """Return the reserved bytes, the files, and how far the consumers are."""
        return self._run(info_flow(self))

    async def ainfo(self) -> ChannelInfo:
        """See `info`."""
        return await self._arun(info_flow(self))

    def remove(self, file_id: str) -> None:
        """Remove a file, even if consumers are not done with it. May be repeated."""
        self._run(self._remove(file_id))

    async def aremove(self, file_id: str) -> None:
        """See `remove`."""
        await self._arun(self._remove(file_id))

    def set_limit(self) -> None:
        """Have the limit of this object replace that of a channel that has files. May be repeated.

        Lowering it removes nothing. Producers with the former limit are refused from then on.
        """
        self._run(self._set_limit())

    async def aset_limit(self) -> None:
        """See `set_limit`."""
        await self._arun(self._set_limit())

    def _set_limit(self) -> Flow[None]:
        yield SET_LIMIT(base=self._options().base, limit=self.limit_bytes)

    def _options(self) -> ChannelOptions:
        return ChannelOptions(
            name=self.name,
            base=self._key(),
            consumers=self.consumers,
            limit_bytes=self.limit_bytes,
            chunk_bytes=self.chunk_bytes,
            ttl_ms=self._ttl_ms,
            lease_ms=self._lease_ms,
        )

    def _publish(
        self,
        path: str | os.PathLike[str],
        name: str | None,
        codec: str | None,
        timeout: Seconds | None,
        progress: Callable[[int], object] | None,
    ) -> Flow[PublishedFile]:
        local = os.fsdecode(os.fspath(path))
        published_name = check_file_name(Path(local).name if name is None else name)
        if codec is not None:
            check_choice(codec, "codec", CODECS)
        wait_s = None if timeout is None else to_seconds(timeout, "timeout", zero=True)
        check_progress(progress)
        return (yield from Upload(self._options(), local, published_name, codec, wait_s, progress).flow())

    def _catalog_options(self) -> dict[str, Any]:
        return {"consumers": self.consumers, "limit_bytes": self.limit_bytes}

    def _remove(self, file_id: str) -> Flow[None]:
        yield REMOVE(base=self._options().base, id=keys.validate_name(file_id, "file_id"))


def info_flow(channel: FileChannel, max_files: int = MAX_FILES, max_consumers: int | None = None) -> Flow[ChannelInfo]:
    """Return the flow that reads the state of a channel; see `info.read_info`."""
    return read_info(channel._options(), max_files, max_consumers)


def _check_consumers(consumers: Sequence[str]) -> tuple[str, ...]:
    check_sequence(consumers, "consumers")
    if not 1 <= len(consumers) <= MAX_CONSUMERS:
        raise ValueError(f"consumers has {len(consumers)} names: expected 1 to {MAX_CONSUMERS}.")
    names = tuple(keys.validate_name(name, "consumer name") for name in consumers)
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"consumers names {doubled!r} twice.")
    return names
