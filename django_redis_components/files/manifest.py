"""The record of a published file, and the validation of its name."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from django_redis_components.core.arguments import short_repr

#: Longest name of a file, in bytes. A name may be a relative path.
MAX_NAME_BYTES = 1_024
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclasses.dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file that was published.

    Attributes:
        id: of the file in the channel.
        name: file name, or relative path.
        size: bytes.
        sha256: checksum, hexadecimal.
        codec: "gzip", "bzip2", "xz", "zstd", or "".
    """

    id: str
    name: str
    size: int
    sha256: str
    codec: str


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """The record of a file in Redis.

    Attributes:
        chunk_bytes: size of each chunk but the last.
        chunks: number of chunks.
        published_ms: when it was announced, in milliseconds since 1970.
    """

    id: str
    name: str
    size: int
    sha256: str
    codec: str
    chunk_bytes: int
    chunks: int
    published_ms: int

    @classmethod
    def from_fields(cls, file_id: str, fields: Mapping[str, str]) -> Manifest:
        """Return the manifest of an announced file."""
        return cls(
            id=file_id,
            name=fields["name"],
            size=int(fields["size"]),
            sha256=fields["sha256"],
            codec=fields["codec"],
            chunk_bytes=int(fields["chunk_bytes"]),
            chunks=int(fields["chunks"]),
            published_ms=int(fields["published_ms"]),
        )

    def chunk_size(self, number: int) -> int:
        """Return the bytes of a chunk."""
        return min(self.chunk_bytes, self.size - number * self.chunk_bytes)


def check_file_name(name: object) -> str:
    """Return the name of a file if it is valid.

    Raises:
        TypeError: not a string.
        ValueError: empty, over 1,024 bytes, with a control character, or not valid in UTF-8.
    """
    if not isinstance(name, str):
        raise TypeError(f"file name {short_repr(name)}: expected a string, got {type(name).__name__}.")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError(f"file name {name!r}: expected text that UTF-8 can encode; pass another as name=…") from None
    if not 1 <= size <= MAX_NAME_BYTES:
        raise ValueError(f"file name {name[:40]!r} has {size} bytes: expected 1 to {MAX_NAME_BYTES}.")
    if found := _CONTROL.search(name):
        raise ValueError(f"file name {name!r}: control character {found[0]!r} is not accepted.")
    return name
