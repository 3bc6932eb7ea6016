"""File channels: files that reach several consumers through Redis, within a byte budget.

Guarantees:

- A file is announced whole or not at all: its chunks are written before its record says that it is ready, and a file
  that changes meanwhile is refused.
- The bytes of all files in a channel never exceed `limit_bytes`, over all producers: they are reserved before the first
  is written. Producers wait in the order of their calls.
- A producer that dies leaves nothing: its lease expires, and its chunks and reserved bytes are released.
- Each named consumer gets each file at least once, also if it is killed, until it calls `done`. Reading continues at
  the last `checkpoint`.
- A consumer never gets a short or damaged file: missing chunks and other checksums are errors.
- All producers have one limit: one with another limit is refused while the channel has files.
- A file is removed when all consumers are done or when its TTL ends; the server keeps nothing of an empty channel.

Keys, all in the slot of ``{name}``; all have a TTL from the TTL of the files:

===============================================  ======  ==================================================
``<prefix>:files:{<name>}:bytes``, ``…:limit``   string  reserved bytes, and their limit
``…:sizes``                                      hash    file -> reserved bytes, number of chunks, name, consumers
``…:deadlines``                                  zset    file -> when its upload or the file expires
``…:pending:<consumer>``                         zset    files that a consumer is not done with, in order
``…:wakeup:<consumer>``, ``…:room:<file>``       list    wakeups of a consumer, of a waiting producer
``…:waiting``, ``…:waiting_until``               zset    producers that wait for room
``…:file:<file>``                                hash    the record of a file
``…:file:<file>:<number>``, ``…:crc``            string  a chunk; the CRC-32 of all chunks
``…:file:<file>:done``, ``…:progress``           set,    consumers that are done; how far they have read
                                                 hash
===============================================  ======  ==================================================

The server must not evict these keys (`maxmemory-policy` `noeviction`): a consumer gets an error for a file that was.

Example::

    import tempfile

    from django_redis_components.files import FileChannel

    logs = FileChannel("logs", consumers=["stats", "archive"])
    with tempfile.NamedTemporaryFile("w") as log:
        log.write("GET /\\nGET /items\\n")
        log.flush()
        logs.publish(log.name, name="access.log")

    for file in logs.consumer("stats").files(timeout=0):
        print(file.name, sum(1 for line in file.lines()))
        file.done()

See also: docs/components/files.md.
"""

from __future__ import annotations

from django_redis_components.files.channel import FileChannel
from django_redis_components.files.consumer import FileConsumer
from django_redis_components.files.exceptions import (
    ChannelFull,
    ChecksumMismatch,
    DecompressionFailed,
    FileChanged,
    FileChannelError,
    FileTooLarge,
    FileUnavailable,
    LimitMismatch,
    LineTooLong,
    UnknownConsumer,
    UploadExpired,
)
from django_redis_components.files.info import ChannelInfo, ConsumerProgress, FileInfo
from django_redis_components.files.manifest import PublishedFile
from django_redis_components.files.remote_file import RemoteFile

__all__ = [
    "ChannelFull",
    "ChannelInfo",
    "ChecksumMismatch",
    "ConsumerProgress",
    "DecompressionFailed",
    "FileChanged",
    "FileChannel",
    "FileChannelError",
    "FileConsumer",
    "FileInfo",
    "FileTooLarge",
    "FileUnavailable",
    "LimitMismatch",
    "LineTooLong",
    "PublishedFile",
    "RemoteFile",
    "UnknownConsumer",
    "UploadExpired",
]
