"""Decompression of gzip, bzip2, xz and zstd streams block by block, with any number of members.

Rotated logs are often concatenated: each file is a separate member. A reader that stops after the first one loses
the rest without an error.
"""

from __future__ import annotations

import importlib
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

from django_redis_components.core.exceptions import missing_extra

#: First bytes of a stream that tell its codec, and how many are looked at.
MAGIC = {
    re.compile(rb"\x1f\x8b"): "gzip",
    re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"): "bzip2",
    re.compile(rb"\xfd7zXZ\0"): "xz",
    re.compile(rb"\x28\xb5\x2f\xfd"): "zstd",
}
MAGIC_BYTES = 10
#: The accepted codecs; "" is none.
CODECS = ("", "gzip", "bzip2", "xz", "zstd")
#: Codecs whose streams may have zeros between and after their members.
_PADDED = ("gzip", "xz")
#: Most bytes of memory of an xz stream: `xz -9` needs 65 MiB, and a stream may ask for 1.5 GiB.
XZ_MEMORY = 128 * 1024 * 1024
#: Most bytes of a decompressed block. A small file may expand to gigabytes.
BLOCK_BYTES = 512 * 1024
#: Bytes that a member is given at first, and most of them: it doubles with each step. What a member does not need is
#: copied, so that a member of a few bytes must not be given all data after it.
MIN_STEP_BYTES, MAX_STEP_BYTES = 256, 64 * 1024

_NOT_ZERO = re.compile(rb"[^\0]")


class Member(Protocol):
    """A member of a gzip stream, a stream of bzip2 or xz, or a frame of a zstd stream."""

    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Decompressor:
    """Decompresses a stream. Feed it all of its bytes, then call `finish`.

    Args:
        codec: one of `CODECS`.
        failed: returns the exception to raise for data that are not valid, from the reason.

    Raises:
        ImportError: the package for zstd is not installed, or Python was built without the module for bzip2 or xz.
    """

    def __init__(self, codec: str, failed: Callable[[str], Exception]) -> None:
        self._codec = codec
        self._failed = failed
        self._member: Member | None = None
        self._has_members = False
        self._step = MIN_STEP_BYTES
        self._errors: type[Exception]
        self._new_member: Any
        self._errors, self._new_member = _member_of(codec)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed blocks of further bytes, of at most 512 KiB each.

        Raises:
            Exception: the data are not valid; see `failed`.
        """
        if not self._codec:
            yield data
            return
        at = 0
        while at < len(data):
            if self._member is None:
                if self._has_members and self._codec in _PADDED:
                    # Some programs fill the last block of a tape or disk with zeros.
                    if (found := _NOT_ZERO.search(data, at)) is None:
                        return
                    at = found.start()
                self._member, self._step, self._has_members = self._new_member(), MIN_STEP_BYTES, True
            part = data[at : at + self._step]
            at += len(part)
            self._step = min(2 * self._step, MAX_STEP_BYTES)
            block = self._decompress(self._member, part)
            if block:
                yield block
            if len(block) == BLOCK_BYTES and not self._member.eof:  # there may be more without further input
                yield from self._drain(self._member)
            if self._member.eof:
                at -= len(self._member.unused_data)
                self._member = None

    def finish(self) -> None:
        """Check that the stream is complete.

        Raises:
            Exception: it ends in the middle of a member; see `failed`.
        """
        if self._member is not None:
            raise self._failed("the data end before the end of the stream")

    def _drain(self, member: Member) -> Iterator[bytes]:
        while not member.eof:
            block = self._decompress(member, b"")
            if block:
                yield block
            if len(block) < BLOCK_BYTES:
                return

    def _decompress(self, member: Member, data: bytes) -> bytes:
        try:
            return member.decompress(data, BLOCK_BYTES)
        except self._errors as exc:
            raise self._failed(str(exc)) from exc


class _GzipMember:
    """A member of a gzip stream, with the interface of the decompressors of Python's library."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)


def detect_codec(start: bytes) -> str:
    """Return the codec of a stream by its first `MAGIC_BYTES`; "" if it is none of `CODECS`."""
    return next((codec for magic, codec in MAGIC.items() if magic.match(start)), "")


def _member_of(codec: str) -> tuple[type[Exception], Any]:
    """Return what members of a codec raise, and what makes one."""
    if codec == "bzip2":
        return OSError, importlib.import_module("bz2").BZ2Decompressor
    if codec == "xz":
        lzma = importlib.import_module("lzma")
        return lzma.LZMAError, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, XZ_MEMORY)
    if codec == "zstd":
        module = zstd_module()
        return module.ZstdError, module.ZstdDecompressor
    return zlib.error, _GzipMember


def zstd_module() -> Any:
    """Return `compression.zstd` of Python 3.14, or its backport.

    Raises:
        ImportError: neither is installed.
    """
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise missing_extra("Reading zstd files", "backports.zstd", "zstd")
