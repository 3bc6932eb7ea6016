"""Publishing a file: reserve its bytes, write its chunks, and announce it."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from redis.exceptions import ConnectionError, RedisError, TimeoutError

from django_redis_components.core.decompression import MAGIC_BYTES, detect_codec
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Batch, Flow, LocalIO, Read, Sleep, Wait
from django_redis_components.files.exceptions import (
    ChannelFull,
    FileChanged,
    FileTooLarge,
    LimitMismatch,
    UploadExpired,
)
from django_redis_components.files.manifest import PublishedFile
from django_redis_components.files.scripts import ANNOUNCE, REAP, REMOVE, RENEW, RESERVE, WRITE

#: Chunks that are read and sent together. A process holds this many in memory.
WINDOW = 4
#: Most chunks of a file. One script call deletes all of them: 20,000 took the server 25 to 40 ms.
MAX_CHUNKS = 20_000
#: Most files of a channel. Without it, empty files would have no limit.
MAX_FILES = 10_000
#: Seconds after which a producer that waits for room counts as dead. It asks again after a third of this time.
WAITING_S = 15.0
#: Calls that announce a file while replies are lost, and the backoff after the first in seconds; it doubles.
ANNOUNCE_ATTEMPTS, ANNOUNCE_BACKOFF_S = 4, 0.05
#: The reply of `announce` if there is no such file.
_MISSING = -1
#: Dead or expired files that one call removes; fewer if they have many chunks.
REAP_COUNT = 10

logger = guarded_logger("django_redis_components.files")


class ChannelOptions(NamedTuple):
    """The options of a channel; see `FileChannel`."""

    name: str
    base: str
    consumers: tuple[str, ...]
    limit_bytes: int
    chunk_bytes: int
    ttl_ms: int
    lease_ms: int


class LocalFile:
    """A local file that must not change while it is read.

    Args:
        path: of a regular file.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is not a regular file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        if not stat.S_ISREG(Path(path).stat().st_mode):  # before opening it: that of a named pipe waits for its writer
            raise ValueError(f"{path!r} is not a regular file: expected the path of one.")
        self._file: BinaryIO = Path(path).open("rb")  # noqa: SIM115 - `close` closes it
        self._stat = os.fstat(self._file.fileno())
        self.size = self._stat.st_size

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer only at the end."""
        return self._file.read(size)

    def peek(self) -> bytes:
        """Return the first bytes, which tell the codec. Nothing may have been read before."""
        first = self._file.read(MAGIC_BYTES)
        self._file.seek(0)
        return first

    def check_unchanged(self) -> None:
        """Compare size, inode, and times of modification and of change with those at the start.

        A program may set the time of modification back, but not that of change.

        Raises:
            FileChanged: the file was removed, replaced or written to.
        """
        try:
            now = Path(self.path).stat()
        except FileNotFoundError:
            raise FileChanged(self.path, "vanished") from None
        before = self._stat
        if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
            raise FileChanged(self.path, "was replaced")
        if now.st_size != before.st_size:
            raise FileChanged(self.path, f"changed its size from {before.st_size:,} to {now.st_size:,} bytes")
        if (now.st_mtime_ns, now.st_ctime_ns) != (before.st_mtime_ns, before.st_ctime_ns):
            raise FileChanged(self.path, "was modified")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Upload:
    """One call of `FileChannel.publish`.

    Args:
        options: of the channel.
        path: of the local file.
        name: under which it is published.
        codec: "", "gzip", "bzip2", "xz" or "zstd"; None: by the first bytes of the file.
        wait_s: seconds to wait for room; None: without a limit.
        progress: is called with the number of bytes that were written.
    """

    def __init__(
        self,
        options: ChannelOptions,
        path: str,
        name: str,
        codec: str | None,
        wait_s: float | None,
        progress: Callable[[int], object] | None,
    ) -> None:
        self._options = options
        self._path = path
        self._name = name
        self._codec = codec
        self._wait_s = wait_s
        self._progress = progress
        self._id = secrets.token_hex(8)
        #: When the lease was renewed last, by the monotonic clock, at the earliest.
        self._renewed_at = 0.0

    def flow(self) -> Flow[PublishedFile]:
        """Publish the file; leave nothing behind if that fails."""
        local: LocalFile = yield LocalIO(lambda: LocalFile(self._path))
        try:
            chunks = self._count_chunks(local.size)
            codec = detect_codec((yield LocalIO(local.peek))) if self._codec is None else self._codec
            try:
                yield from self._reserve(local.size, chunks, codec)
                sha256 = yield from self._write(local, chunks)
                yield from self._announce(local, sha256)
            except BaseException:
                with suppress(RedisError):  # the reaper removes it when its lease expires
                    yield REMOVE(base=self._options.base, id=self._id)
                raise
        finally:
            local.close()
        return PublishedFile(self._id, self._name, local.size, sha256, codec)

    def _count_chunks(self, size: int) -> int:
        limit, chunk_bytes = self._options.limit_bytes, self._options.chunk_bytes
        if size > limit:
            raise FileTooLarge(
                f"{self._path!r} has {size:,} bytes; channel {self._options.name!r} accepts files of up to its"
                f" limit_bytes={limit:,}."
            )
        chunks = -(-size // chunk_bytes)
        if chunks > MAX_CHUNKS:
            raise FileTooLarge(
                f"{self._path!r} has {size:,} bytes, {chunks:,} chunks of chunk_bytes={chunk_bytes:,}; a file has at"
                f" most {MAX_CHUNKS:,} chunks. Use chunk_bytes={-(-size // MAX_CHUNKS):,} or more."
            )
        return chunks

    def _reserve(self, size: int, chunks: int, codec: str) -> Flow[None]:
        """Reserve the bytes of the file; wait for room in the order of the producers."""
        options, started_at = self._options, time.monotonic()
        fields = {
            "name": self._name,
            "size": size,
            "chunk_bytes": options.chunk_bytes,
            "chunks": chunks,
            "codec": codec,
            "consumers": "\n".join(options.consumers),
            "state": "publishing",
        }
        while True:
            self._renewed_at = time.monotonic()
            reserve = RESERVE(
                base=options.base,
                id=self._id,
                bytes=size,
                chunks=chunks,
                limit=options.limit_bytes,
                max_files=MAX_FILES,
                lease_ms=options.lease_ms,
                ttl_ms=options.ttl_ms,
                waiting_ms=int(WAITING_S * 1_000),
                fields=[part for field in fields.items() for part in field],
            )
            reaped, (reply, reserved, _) = yield Batch([REAP(base=options.base, count=REAP_COUNT), reserve])
            expires_s = log_reaped(options.name, reaped)
            if reply < 0:
                raise LimitMismatch(options.name, options.limit_bytes, int(reserved))
            if reply:
                return
            waited_s = time.monotonic() - started_at
            left_s = float("inf") if self._wait_s is None else self._wait_s - waited_s
            if left_s <= 0:
                raise (yield from self._full(size, int(reserved)))
            yield Wait(f"{options.base}:room:{self._id}", min(left_s, WAITING_S / 3, expires_s + 0.001))

    def _full(self, size: int, reserved: int) -> Flow[ChannelFull]:
        """Return the error for a channel without room, which names the slowest consumers."""
        options = self._options
        counts = yield Batch([Read("ZCARD", f"{options.base}:pending:{consumer}") for consumer in options.consumers])
        pending = dict(zip(options.consumers, counts, strict=True))
        return ChannelFull(options.name, size, reserved, options.limit_bytes, self._wait_s or 0, pending)

    def _write(self, local: LocalFile, chunks: int) -> Flow[str]:
        """Write the chunks; return the SHA-256 of the file."""
        total, digest, size = 0, hashlib.sha256(), self._options.chunk_bytes
        for first in range(0, chunks, WINDOW):
            count = min(WINDOW, chunks - first)
            parts: list[bytes] = yield LocalIO(partial(_read_parts, local, size, count, digest.update))
            if len(parts) < count:
                break
            total += sum(map(len, parts))
            started_at = time.monotonic()
            replies = yield Batch(
                [
                    WRITE(
                        base=self._options.base,
                        id=self._id,
                        number=number,
                        crc=zlib.crc32(part).to_bytes(4, "big"),
                        lease_ms=self._options.lease_ms,
                        data=part,
                    )
                    for number, part in enumerate(parts, first)
                ]
            )
            self._check_lease(min(replies), started_at)
            if self._progress is not None:
                self._progress(sum(map(len, parts)))
        if total != local.size:
            raise FileChanged(self._path, f"changed its size from {local.size:,} to {total:,} bytes")
        return digest.hexdigest()

    def _announce(self, local: LocalFile, sha256: str) -> Flow[None]:
        """Announce the file, unless it has changed."""
        started_at = time.monotonic()
        self._check_lease(
            (yield RENEW(base=self._options.base, id=self._id, lease_ms=self._options.lease_ms)), started_at
        )
        yield LocalIO(local.check_unchanged)
        reply, was_lost = yield from self._send_announcement(sha256)
        if reply == _MISSING and was_lost and time.monotonic() - self._renewed_at < self._options.lease_ms / 1_000:
            # The call whose reply was lost has announced it, and all consumers are done: its lease has not expired.
            return
        self._check_lease(reply, started_at)

    def _send_announcement(self, sha256: str) -> Flow[tuple[int, bool]]:
        """Return the reply, and whether an earlier one was lost."""
        for attempt in range(ANNOUNCE_ATTEMPTS):
            try:
                return (yield ANNOUNCE(base=self._options.base, id=self._id, sha256=sha256)), attempt > 0
            except (ConnectionError, TimeoutError):
                if attempt == ANNOUNCE_ATTEMPTS - 1:
                    raise
            yield Sleep(ANNOUNCE_BACKOFF_S * 2**attempt)
        raise AssertionError("The loop returns or raises.")

    def _check_lease(self, reply: int, sent_at: float) -> None:
        if reply < 0:
            options = self._options
            raise UploadExpired(options.name, self._name, options.lease_ms / 1_000, options.ttl_ms / 1_000)
        self._renewed_at = sent_at


def log_reaped(channel: str, reply: list[int | bytes]) -> float:
    """Log the files that `reap` removed; return the seconds until the next one expires, infinite without files."""
    wait_ms, rest = int(reply[0]), [part.decode() for part in reply[1:] if isinstance(part, bytes)]
    for state, name, consumers in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if state == "publishing":
            logger.warning("Removed %r from channel %r: its producer died while it published it.", name, channel)
        else:
            logger.warning(
                "Removed %r from channel %r: it expired before these consumers were done: %s.",
                name, channel, ", ".join(consumers.split("\n")) or "unknown",
            )  # fmt: skip
    return wait_ms / 1_000 if wait_ms >= 0 else float("inf")


def _read_parts(local: LocalFile, size: int, count: int, update: Callable[[bytes], object]) -> list[bytes]:
    """Read some chunks and add them to the checksum."""
    parts = []
    for _ in range(count):
        part = local.read(size)
        if part:
            update(part)
            parts.append(part)
    return parts
