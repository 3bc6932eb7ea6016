"""The exceptions of file channels."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from django_redis_components.core.exceptions import RedisComponentsError


class FileChannelError(RedisComponentsError):
    """Base class of the exceptions of file channels."""


class FileTooLarge(FileChannelError, ValueError):
    """Raised when a file can never be published: it is larger than the channel's limit, or has too many chunks."""


class ChannelFull(FileChannelError):
    """Raised when there was no room for a file in time: consumers have not done enough files.

    Attributes:
        channel: name of the channel.
        bytes: size of the file.
        reserved: bytes of the files in the channel.
        limit: bytes of the channel.
        pending: consumer -> number of files that it is not done with.
    """

    def __init__(
        self, channel: str, bytes: int, reserved: int, limit: int, waited_s: float, pending: dict[str, int]
    ) -> None:
        slowest = sorted(pending.items(), key=lambda each: -each[1])[:3]
        super().__init__(
            f"Channel {channel!r} had no room for {bytes:,} bytes within {waited_s:g} s: {reserved:,} of {limit:,}"
            " bytes are reserved, or other producers wait before this one. Nothing was published. Pending files of the"
            f" slowest consumers: {', '.join(f'{consumer} {count:,}' for consumer, count in slowest)}."
        )
        self.channel = channel
        self.bytes = bytes
        self.reserved = reserved
        self.limit = limit
        self.pending = pending


class UnknownConsumer(FileChannelError):
    """Raised when a channel has no consumer of a name.

    Attributes:
        channel: name of the channel.
        name: that was asked for.
    """

    def __init__(self, channel: str, name: object, consumers: Sequence[str]) -> None:
        near = difflib.get_close_matches(str(name), consumers, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"Channel {channel!r} has no consumer {name!r}. Consumers: {', '.join(consumers)}.{hint}")
        self.channel = channel
        self.name = name


class LimitMismatch(FileChannelError):
    """Raised when a channel has files under another limit than that of this producer. Nothing was published.

    Attributes:
        limit: of this producer.
        stored: of the channel.
    """

    def __init__(self, channel: str, limit: int, stored: int) -> None:
        super().__init__(
            f"Channel {channel!r} has limit_bytes={stored:,}; this producer has limit_bytes={limit:,}. Nothing was"
            " published. Use one limit in all producers: another one applies once the channel is empty, or after"
            " set_limit()."
        )
        self.limit = limit
        self.stored = stored


class FileChanged(FileChannelError):
    """Raised when a file vanished or changed while it was published. Nothing was published."""

    def __init__(self, path: str, change: str) -> None:
        super().__init__(f"{path!r} {change} while it was published. Nothing was published.")
        self.path = path


class UploadExpired(FileChannelError):
    """Raised when a producer paused for longer than its lease, or took longer than the TTL of the file.

    Or another process has removed the file meanwhile. Nothing was published.
    """

    def __init__(self, channel: str, name: str, lease_s: float, ttl_s: float) -> None:
        super().__init__(
            f"The upload of {name!r} to channel {channel!r} was removed: it paused for more than its lease of"
            f" {lease_s:g} s, took longer than the ttl of {ttl_s:g} s, or another process removed it. Nothing was"
            " published."
        )


class FileUnavailable(FileChannelError):
    """Raised when a file can no longer be read: it expired, was removed, or the server evicted a part of it."""

    def __init__(self, channel: str, name: str, reason: str) -> None:
        super().__init__(f"File {name!r} of channel {channel!r} cannot be read: {reason}")
        self.channel = channel
        self.name = name


class ChecksumMismatch(FileChannelError):
    """Raised when the bytes of a file are not those that were published."""

    def __init__(self, channel: str, name: str, what: str) -> None:
        super().__init__(f"File {name!r} of channel {channel!r} is damaged: {what}.")
        self.channel = channel
        self.name = name


class DecompressionFailed(FileChannelError):
    """Raised when the data of a file are not valid gzip, bzip2, xz or zstd, or end in the middle."""

    def __init__(self, name: str, codec: str, reason: str) -> None:
        super().__init__(f"File {name!r} is not valid {codec}: {reason}.")
        self.name = name
        self.codec = codec


class LineTooLong(FileChannelError):
    """Raised when a line is longer than `max_line_bytes`; it would have to be held in memory."""

    def __init__(self, name: str, limit: int, offset: int) -> None:
        super().__init__(
            f"The line at byte {offset:,} of file {name!r} is longer than max_line_bytes={limit:,}."
            " Pass a larger value, or read blocks instead of lines."
        )
        self.name = name
        self.offset = offset
