"""Lines and decompression, whatever the blocks in which the bytes come."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_redis_components.core.decompression import CODECS as ALL_CODECS
from django_redis_components.core.decompression import Decompressor, detect_codec, zstd_module
from django_redis_components.files.lines import LineSplitter

BLOCKS = st.lists(st.binary(max_size=50), max_size=20)
LINES = st.lists(st.sampled_from([b"", b"a", b"\n", b"\r\n", b"long line"]), max_size=30)


CODECS = [codec for codec in ALL_CODECS if codec]


def compressor(codec: str) -> Any:
    """Return the function that compresses a stream of one member."""
    return {"gzip": gzip, "bzip2": bz2, "xz": lzma}.get(codec, codec == "zstd" and zstd_module()).compress


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@settings(deadline=None)
@given(LINES, st.integers(1, 10))
def test_lines_are_those_of_the_whole_text(parts: list[bytes], size: int) -> None:
    data, splitter = b"".join(parts), LineSplitter("x", 0, 1_000)

    lines = [line for block in cut(data, size) for line in splitter.feed(block)]
    lines += splitter.finish()

    assert lines == [line for line in data.split(b"\n")[:-1] for line in [line + b"\n"]] + (
        [data.rpartition(b"\n")[2]] if data.rpartition(b"\n")[2] else []
    )
    assert splitter.offset == len(data)


@settings(deadline=None)
@given(BLOCKS, st.integers(1, 40), st.sampled_from(CODECS))
def test_members_in_any_pieces_are_decompressed(members: list[bytes], size: int, codec: str) -> None:
    compress = compressor(codec)
    packed = b"".join(compress(member) for member in members)
    decompressor = Decompressor(codec, ValueError)

    blocks = [block for piece in cut(packed, size) for block in decompressor.feed(piece)]
    decompressor.finish()

    assert b"".join(blocks) == b"".join(members)


class CountedInflate:
    """A decompressor of zlib that counts the bytes which it is given."""

    given = 0
    make = staticmethod(zlib.decompressobj)

    def __init__(self, wbits: int) -> None:
        self.inflate = self.make(wbits=wbits)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inflate, name)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        CountedInflate.given += len(data)
        return self.inflate.decompress(data, max_length)


@pytest.mark.parametrize(
    ("packed", "size"),
    [
        (gzip.compress(b"") * 50_000, 0),
        ((gzip.compress(b"") + b"\0") * 50_000, 0),
        ((gzip.compress(b"x") + bytes(100)) * 10_000, 10_000),
        (gzip.compress(bytes(100_000_000), 9), 100_000_000),
        (gzip.compress(random.Random(1).randbytes(1_000_000)), 1_000_000),
    ],
    ids=["empty", "with a zero", "with zeros", "expanding", "large"],
)
def test_the_work_is_proportional_to_the_bytes(monkeypatch: pytest.MonkeyPatch, packed: bytes, size: int) -> None:
    monkeypatch.setattr(zlib, "decompressobj", CountedInflate)
    monkeypatch.setattr(CountedInflate, "given", 0)
    decompressor = Decompressor("gzip", ValueError)

    found = sum(len(block) for block in decompressor.feed(packed))
    decompressor.finish()

    assert found == size
    assert CountedInflate.given <= 20 * len(packed) + size // 8


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("text", [b"", b"a line\n"])
def test_codec_is_told_from_the_first_bytes(codec: str, text: bytes) -> None:
    assert detect_codec(compressor(codec)(text)) == codec


def test_text_that_begins_like_a_codec_is_not_compressed() -> None:
    assert detect_codec(b"BZh9 is how bzip2 begins") == ""


def test_xz_stream_that_needs_too_much_memory_is_an_error() -> None:
    packed = bytearray(lzma.compress(b"x" * 100))
    packed[16] = 36  # a dictionary of 1 GiB, in the header of the block, which ends with its checksum
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")

    with pytest.raises(ValueError, match="Memory usage limit exceeded"):
        list(Decompressor("xz", ValueError).feed(bytes(packed)))


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=200), st.integers(1, 40), st.sampled_from(CODECS))
def test_stream_that_was_cut_off_is_an_error(data: bytes, size: int, codec: str) -> None:
    packed = compressor(codec)(data)
    decompressor = Decompressor(codec, ValueError)

    for piece in cut(packed[: len(packed) - 1], size):
        list(decompressor.feed(piece))

    with pytest.raises(ValueError, match=r"^the data end before the end of the stream$"):
        decompressor.finish()
