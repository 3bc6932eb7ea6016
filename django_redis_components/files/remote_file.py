"""A published file as its consumer reads it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

from django_redis_components.core.arguments import check_int, short_repr
from django_redis_components.core.client import connections
from django_redis_components.core.decompression import Decompressor
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.units import moment_of
from django_redis_components.files.chunk_reader import ChunkReader
from django_redis_components.files.exceptions import DecompressionFailed
from django_redis_components.files.lines import MAX_LINE_BYTES, LineSplitter
from django_redis_components.files.manifest import Manifest
from django_redis_components.files.saving import save_flow
from django_redis_components.files.scripts import DONE, PROGRESS


class RemoteFile:
    """A file of a channel, for one consumer. For one thread or task at a time.

    Reading continues where the consumer has called `checkpoint` last, also in another process; otherwise at the start.

    Attributes:
        id: of the file in the channel.
        name: file name or relative path, as the producer has given it. Do not use it as a path without a check.
        size: bytes, as published.
        sha256: checksum, hexadecimal.
        codec: "gzip", "bzip2", "xz", "zstd" or "". `blocks` and `lines` decompress; `read` and `chunks` do not.
        published_at: when it was announced.
        is_done: whether `done` was called here.
    """

    def __init__(
        self, using: str, base: str, channel: str, consumer: str, manifest: Manifest, saved: dict[str, int]
    ) -> None:
        """Made by `FileConsumer.files`."""
        self.id, self.name, self.size = manifest.id, manifest.name, manifest.size
        self.sha256, self.codec = manifest.sha256, manifest.codec
        self.published_at = moment_of(int(manifest.published_ms * 1_000))
        self.is_done = False
        self._using = using
        self._base = base
        self._channel = channel
        self._consumer = consumer
        self._manifest = manifest
        #: The offset of each kind, "raw" or "data" (decompressed), at which reading starts.
        self._starts = saved
        #: The method that reads the file; "" before the first call and after `seek`.
        self._way = ""
        self._kind = "raw"
        self._offset = 0
        self._reader = ChunkReader(base, channel, consumer, manifest, 0)
        self._decompressor = self._new_decompressor("")
        self._blocks: Iterator[bytes] = iter(())
        #: Decompressed bytes that were processed before the last checkpoint.
        self._skip = 0
        self._splitter = LineSplitter(self.name, 0, MAX_LINE_BYTES)
        self._lines: Iterator[bytes] = iter(())

    def __repr__(self) -> str:
        return f"<RemoteFile {self.name!r}>"

    @property
    def offset(self) -> int:
        """The byte after what was returned last: for `blocks` and `lines` of the decompressed bytes."""
        return self._offset if self._way else self._starts["raw"] or self._starts["data"]

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes as they were published, not decompressed.

        Args:
            size: number of bytes, fewer only at the end of the file; -1: all that remain, in memory.

        Returns:
            b"" at the end of the file, never because bytes are missing.

        Raises:
            FileUnavailable: the file expired or was removed, or the server evicted a chunk.
            ChecksumMismatch: the bytes are not those that were published.
        """
        return run(self._client(), self._read(size))

    async def aread(self, size: int = -1) -> bytes:
        """See `read`."""
        return await arun(self._aclient(), self._read(size))

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes as they were published, chunk by chunk. Raises as `read`."""
        client = self._client()
        while chunk := run(client, self._read_chunk()):
            yield chunk

    async def achunks(self) -> AsyncIterator[bytes]:
        """See `chunks`."""
        client = self._aclient()
        while chunk := await arun(client, self._read_chunk()):
            yield chunk

    def blocks(self) -> Iterator[bytes]:
        """Yield the decompressed bytes in blocks of at most a chunk, or 512 KiB.

        Raises:
            DecompressionFailed: the data are not valid, or end in the middle.
            ImportError: the package for zstd is not installed.
            FileUnavailable, ChecksumMismatch: see `read`.
        """
        client = self._client()
        self._start("blocks")
        while block := run(client, self._read_block()):
            self._offset += len(block)
            yield block

    async def ablocks(self) -> AsyncIterator[bytes]:
        """See `blocks`."""
        client = self._aclient()
        self._start("blocks")
        while block := await arun(client, self._read_block()):
            self._offset += len(block)
            yield block

    def lines(
        self, encoding: str = "utf-8", errors: str = "replace", *, max_line_bytes: int = MAX_LINE_BYTES
    ) -> Iterator[str]:
        """Yield the decompressed lines without their ends (LF or CRLF), also a last one without a newline.

        Args:
            encoding: must encode a newline as a single byte, as UTF-8 does and UTF-16 does not.
            errors: as in `bytes.decode`.
            max_line_bytes: a longer line is an error, because it is held in memory.

        Raises:
            LineTooLong: a line is too long.
            ValueError: the encoding is not accepted.
            DecompressionFailed, FileUnavailable, ChecksumMismatch: see `blocks`.
        """
        client, decode = self._client(), _line_decoder(encoding, errors)
        self._start("lines", max_line_bytes)
        while (line := run(client, self._read_line())) is not None:
            yield decode(line)

    async def alines(
        self, encoding: str = "utf-8", errors: str = "replace", *, max_line_bytes: int = MAX_LINE_BYTES
    ) -> AsyncIterator[str]:
        """See `lines`."""
        client, decode = self._aclient(), _line_decoder(encoding, errors)
        self._start("lines", max_line_bytes)
        while (line := await arun(client, self._read_line())) is not None:
            yield decode(line)

    def seek(self, offset: int = 0) -> None:
        """Start the next reading at this byte. It may then be by another method.

        Args:
            offset: of the published bytes for `read` and `chunks`, of the decompressed ones for `blocks` and `lines`.

        Raises:
            TypeError, ValueError: not an integer of at least 0, or beyond the end of the file.
        """
        check_int(offset, "offset", 0, None if self.codec else self.size)
        self._way = ""
        self._starts = {"raw": offset, "data": offset}

    def checkpoint(self) -> None:
        """Record that everything up to `offset` is processed: a restarted consumer continues there.

        Call it after the results are stored. Without it a restarted consumer reads the file from the start.
        """
        run(self._client(), self._checkpoint())

    async def acheckpoint(self) -> None:
        """See `checkpoint`."""
        await arun(self._aclient(), self._checkpoint())

    def done(self) -> None:
        """Say that this consumer needs the file no more; after the last consumer it is removed. May be repeated."""
        run(self._client(), self._done())

    async def adone(self) -> None:
        """See `done`."""
        await arun(self._aclient(), self._done())

    def save_to(self, path: str | os.PathLike[str], *, progress: Callable[[int], object] | None = None) -> None:
        """Write the file as it was published to a path, which appears whole or not at all.

        The bytes are written to ``<path>.<id>.part``. If the process dies, the next call continues there (on
        Windows it starts over). The SHA-256 of the whole file is compared before it is renamed. Does not call `done`.

        Args:
            path: of the file; an existing one is replaced.
            progress: is called with the number of bytes that were written.

        Raises:
            OSError: it cannot be written, or another process writes it.
            FileUnavailable, ChecksumMismatch: see `read`.
        """
        run(self._client(), save_flow(self._manifest, self._reader_at, os.fspath(path), progress))

    async def asave_to(self, path: str | os.PathLike[str], *, progress: Callable[[int], object] | None = None) -> None:
        """See `save_to`."""
        await arun(self._aclient(), save_flow(self._manifest, self._reader_at, os.fspath(path), progress))

    def _client(self) -> connections.SyncClient:
        return connections.client(self._using)

    def _aclient(self) -> connections.AsyncClient:
        return connections.aclient(self._using)

    def _reader_at(self, offset: int) -> ChunkReader:
        return ChunkReader(self._base, self._channel, self._consumer, self._manifest, offset)

    def _new_decompressor(self, codec: str) -> Decompressor:
        return Decompressor(codec, partial(DecompressionFailed, self.name, codec))

    def _start(self, way: str, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        """Start to read the file by one of the methods, or continue."""
        if self._way == way:
            return
        if self._way:
            raise ValueError(f"{self.name!r} is being read by {self._way}(): call seek(0) before {way}().")
        self._kind = "raw" if way == "read" or not self.codec else "data"
        decompressor = self._new_decompressor(self.codec if self._kind == "data" else "")
        self._way, self._offset = way, self._starts[self._kind]
        self._reader = self._reader_at(self._offset if self._kind == "raw" else 0)
        self._decompressor, self._blocks = decompressor, iter(())
        self._skip = self._offset if self._kind == "data" else 0
        self._splitter, self._lines = LineSplitter(self.name, self._offset, max_line_bytes), iter(())

    def _read(self, size: int) -> Flow[bytes]:
        self._start("read")
        parts: list[bytes] = []
        bytes_left = self.size if size < 0 else size
        try:
            while bytes_left > 0 and (part := (yield from self._reader.read(bytes_left))):
                parts.append(part)
                bytes_left -= len(part)
        except BaseException:
            self._reader.put_back(parts)  # the caller may call again after an outage
            raise
        self._offset += sum(map(len, parts))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_chunk(self) -> Flow[bytes]:
        self._start("read")
        chunk = yield from self._reader.read()
        self._offset += len(chunk)
        return chunk

    def _read_block(self) -> Flow[bytes]:
        """Return the next decompressed block after those that are skipped; b"" at the end."""
        while True:
            for block in self._blocks:
                skipped = min(self._skip, len(block))
                self._skip -= skipped
                if skipped < len(block):
                    return block[skipped:]
            part = yield from self._reader.read()
            if not part:
                self._decompressor.finish()
                return b""
            self._blocks = self._decompressor.feed(part)

    def _read_line(self) -> Flow[bytes | None]:
        while True:
            for line in self._lines:
                self._offset = self._splitter.offset
                return line
            block = yield from self._read_block()
            self._lines = self._splitter.feed(block) if block else self._splitter.finish()
            if not block:
                last = next(self._lines, None)
                self._offset = self._splitter.offset
                return last

    def _checkpoint(self) -> Flow[None]:
        if self._way:
            yield PROGRESS(base=self._base, id=self.id, consumer=self._consumer, kind=self._kind, offset=self._offset)

    def _done(self) -> Flow[None]:
        yield DONE(base=self._base, id=self.id, consumer=self._consumer)
        self.is_done = True


def _line_decoder(encoding: str, errors: str) -> Callable[[bytes], str]:
    """Return a function that decodes a line and removes its end."""
    try:
        newline: Any = "\n".encode(encoding)
    except LookupError:
        raise ValueError(f"encoding={short_repr(encoding)}: expected the name of an encoding of Python.") from None
    if newline != b"\n":
        raise ValueError(
            f"encoding={short_repr(encoding)}: expected one that encodes a newline as one byte; read blocks instead."
        )

    def decode(line: bytes) -> str:
        if line.endswith(b"\n"):
            line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        return line.decode(encoding, errors)

    return decode
