"""The state of a channel: its budget, files, and the progress of the consumers."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.core.units import moment_of_ms
from django_redis_components.files.publishing import ChannelOptions

#: Files that are described, those that expire first.
MAX_FILES = 20


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerProgress:
    """How far a consumer is with a file.

    Attributes:
        consumer: name.
        read: bytes it has read of the file as it was published.
        is_done: whether it is done.
    """

    consumer: str
    read: int
    is_done: bool


@dataclasses.dataclass(frozen=True, slots=True)
class FileInfo:
    """A file of a channel.

    Attributes:
        size: bytes.
        is_ready: False while it is being published.
        published_at: None while it is being published.
        expires_at: when it is removed, even if consumers are not done.
        consumers: their progress.
    """

    id: str
    name: str
    size: int
    is_ready: bool
    published_at: datetime | None
    expires_at: datetime
    consumers: tuple[ConsumerProgress, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelInfo:
    """The state of a channel.

    Attributes:
        limit_bytes: byte budget: that of the channel while it has files, otherwise that of this process.
        reserved_bytes: bytes of the files in the channel, also of those that are being published.
        file_count: number of these files.
        waiting: producers that wait for room.
        pending: consumer -> number of files that it is not done with.
        files: at most 20 of the files, those that expire first.
    """

    name: str
    limit_bytes: int
    reserved_bytes: int
    file_count: int
    waiting: int
    pending: dict[str, int]
    files: tuple[FileInfo, ...]


def read_info(
    options: ChannelOptions, max_files: int = MAX_FILES, max_consumers: int | None = None
) -> Flow[ChannelInfo]:
    """Read the state of a channel in two round trips.

    Args:
        max_files, max_consumers: how many are described; None: all.
    """
    base, consumers = options.base, options.consumers[:max_consumers]
    reserved, limit, count, waiting, ids, *pending = yield Batch(
        [
            Read("GET", f"{base}:bytes"),
            Read("GET", f"{base}:limit"),
            Read("HLEN", f"{base}:sizes"),
            Read("ZCARD", f"{base}:waiting"),
            Read("ZRANGE", f"{base}:deadlines", 0, max_files - 1),
            *(Read("ZCARD", f"{base}:pending:{consumer}") for consumer in consumers),
        ]
    )
    return ChannelInfo(
        name=options.name,
        limit_bytes=int(limit or options.limit_bytes),
        reserved_bytes=int(reserved or 0),
        file_count=count,
        waiting=waiting,
        pending=dict(zip(consumers, pending, strict=True)),
        files=(yield from _read_files(base, [file_id.decode() for file_id in ids], consumers)),
    )


def _read_files(base: str, ids: list[str], consumers: tuple[str, ...]) -> Flow[tuple[FileInfo, ...]]:
    reads = []
    for file_id in ids:
        key = f"{base}:file:{file_id}"
        reads.append(Read("HMGET", key, "name", "size", "state", "published_ms", "expires_ms"))
        reads.append(Read("HMGET", f"{key}:progress", *(f"read:{consumer}" for consumer in consumers)))
        reads.append(Read("SMISMEMBER", f"{key}:done", *consumers))
    replies = (yield Batch(reads)) if reads else []
    files = []
    for file_id, fields, read, done in zip(ids, replies[::3], replies[1::3], replies[2::3], strict=True):
        name, size, state, published_ms, expires_ms = fields
        if name is None:  # removed between the two round trips
            continue
        progress = tuple(
            ConsumerProgress(consumer, int(size) if is_done else int(offset or 0), bool(is_done))
            for consumer, offset, is_done in zip(consumers, read, done, strict=True)
        )
        published_at = moment_of_ms(published_ms) if published_ms else None
        is_ready = state == b"ready"
        files.append(
            FileInfo(file_id, name.decode(), int(size), is_ready, published_at, moment_of_ms(expires_ms), progress)
        )
    return tuple(files)
