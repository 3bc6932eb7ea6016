"""Reading the chunks of a file in order, each verified before it is passed on."""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from typing import Any

from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.files.exceptions import ChecksumMismatch, FileUnavailable
from django_redis_components.files.manifest import Manifest
from django_redis_components.files.scripts import PROGRESS

#: Chunks of one round trip. A process holds this many in memory.
WINDOW = 4


class ChunkReader:
    """Reads the bytes of a file from an offset on.

    Each chunk is compared with its length and CRC-32 before any of its bytes is returned. If the file is read from its
    start, its SHA-256 is compared too, before the last chunk is returned.
    """

    def __init__(self, base: str, channel: str, consumer: str, manifest: Manifest, offset: int) -> None:
        """Args: offset: first byte that is returned."""
        self._base = base
        self.channel = channel
        self._consumer = consumer
        self._manifest = manifest
        self._next, self._skip = divmod(offset, manifest.chunk_bytes)
        self._digest = hashlib.sha256() if self._next == 0 else None
        self._parts: deque[bytes] = deque()

    def read(self, size: int | None = None) -> Flow[bytes]:
        """Return further bytes, at most those of a chunk; b"" at the end of the file.

        Args:
            size: most bytes.

        Raises:
            FileUnavailable: the file or a chunk is gone.
            ChecksumMismatch: the bytes are not those that were published.
        """
        if not self._parts:
            yield from self._fetch()
        if not self._parts:
            return b""
        part = self._parts.popleft()
        if size is not None and len(part) > size:
            self._parts.appendleft(part[size:])
            return part[:size]
        return part

    def put_back(self, parts: list[bytes]) -> None:
        """Have the next calls of `read` return these parts again."""
        self._parts.extendleft(reversed(parts))

    def _fetch(self) -> Flow[None]:
        manifest = self._manifest
        numbers = range(self._next, min(self._next + WINDOW, manifest.chunks))
        if not numbers:
            return
        key = f"{self._base}:file:{manifest.id}"
        *chunks, crcs, exists = yield Batch(
            [
                *(Read("GET", f"{key}:{number}") for number in numbers),
                Read("GETRANGE", f"{key}:crc", numbers[0] * 4, numbers[-1] * 4 + 3),
                self._progress(numbers),
            ]
        )
        for position, (number, chunk) in enumerate(zip(numbers, chunks, strict=True)):
            self._verify(number, chunk, crcs[position * 4 : position * 4 + 4], bool(exists))
        self._verify_whole(chunks, is_end=numbers[-1] + 1 == manifest.chunks)
        self._next = numbers[-1] + 1
        chunks[0], self._skip = chunks[0][self._skip :], 0
        self._parts.extend(chunks)

    def _progress(self, numbers: range) -> Any:
        offset = min(numbers[0] * self._manifest.chunk_bytes, self._manifest.size)
        return PROGRESS(base=self._base, id=self._manifest.id, consumer=self._consumer, kind="read", offset=offset)

    def _verify(self, number: int, chunk: bytes | None, crc: bytes, exists: bool) -> None:
        manifest = self._manifest
        where = f"chunk {number + 1} of {manifest.chunks}"
        if chunk is None and not exists:
            reason = "it expired, was removed, or all consumers are done."
            raise FileUnavailable(self.channel, manifest.name, reason)
        if chunk is None or not crc:
            reason = f'{where} is missing. The server evicted it: "maxmemory-policy" must be "noeviction".'
            raise FileUnavailable(self.channel, manifest.name, reason)
        expected = manifest.chunk_size(number)
        if len(chunk) != expected:
            text = f"{where} has {len(chunk):,} instead of {expected:,} bytes"
            raise ChecksumMismatch(self.channel, manifest.name, text)
        if zlib.crc32(chunk).to_bytes(4, "big") != crc:
            raise ChecksumMismatch(self.channel, manifest.name, f"the CRC-32 of {where} differs")

    def _verify_whole(self, chunks: list[bytes], *, is_end: bool) -> None:
        """Add chunks to the checksum of the whole file, and compare it at the end."""
        manifest = self._manifest
        if self._digest is None:
            return
        for chunk in chunks:
            self._digest.update(chunk)
        found = self._digest.hexdigest() if is_end else manifest.sha256
        if found != manifest.sha256:
            raise ChecksumMismatch(self.channel, manifest.name, f"its SHA-256 is {found}, not {manifest.sha256}")
