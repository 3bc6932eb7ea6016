"""Reading: checkpoints, lines, decompression, checksums and copies."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.files import (
    ChecksumMismatch,
    DecompressionFailed,
    FileUnavailable,
    LineTooLong,
)
from tests.files.support import chunk_keys, new_channel, write
from tests.support import Store
from tests.support.proxy import Proxy


def test_outage_in_the_middle_of_reading_is_an_error_and_reading_continues(
    proxy: Proxy, redis_server: Store, tmp_path: Path
) -> None:
    logs = new_channel(using="proxied")
    data = os.urandom(9_000)
    logs.publish(write(tmp_path / "x", data))
    [file] = logs.consumer("a").files(timeout=0)
    start = file.read(5_000)
    proxy.stop_accepting()
    proxy.cut()

    with pytest.raises(ConnectionError):
        file.read(4_000)
    assert file.offset == 5_000
    proxy.accept_again()

    assert start + file.read() == data


@pytest.mark.contract
def test_reading_continues_at_the_checkpoint(store: Store, tmp_path: Path) -> None:
    data, logs = os.urandom(5_000), new_channel(["a", "b"])
    logs.publish(write(tmp_path / "x", data))
    [first] = logs.consumer("a").files(timeout=0)
    first.read(1_500)
    first.checkpoint()
    first.read(1_500)  # not recorded

    [second] = logs.consumer("a").files(timeout=0)
    [other] = logs.consumer("b").files(timeout=0)

    assert (second.offset, second.read()) == (1_500, data[1_500:])
    assert (other.offset, other.read()) == (0, data)


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress], ids=["plain", "gzip"])
def test_lines_continue_at_the_checkpoint(redis_server: Store, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    lines = [f"line {number} {os.urandom(8).hex()}" for number in range(1_000)]
    logs = new_channel()
    logs.publish(write(tmp_path / "x", pack("\n".join(lines).encode())))
    [first] = logs.consumer("a").files(timeout=0)
    for number, _ in enumerate(first.lines(), 1):
        if number == 600:
            break
    first.checkpoint()
    assert next(first.lines()) == lines[600]  # the same object continues

    [second] = logs.consumer("a").files(timeout=0)

    assert list(second.lines()) == lines[600:]


def test_lines_span_chunks_and_the_last_one_needs_no_newline(redis_server: Store, tmp_path: Path) -> None:
    long = "x" * 5_000
    logs = new_channel()
    logs.publish(write(tmp_path / "x", f"first\r\n\n{long}\nümläut \x85 é\nlast".encode()))
    logs.publish(write(tmp_path / "y", b"\xff broken\n"))

    x, y = logs.consumer("a").files(timeout=0)

    assert list(x.lines()) == ["first", "", long, "ümläut \x85 é", "last"]
    assert list(y.lines()) == ["\ufffd broken"]
    assert list(y.lines()) == []


def test_line_that_is_too_long_is_an_error(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel()
    logs.publish(write(tmp_path / "x", b"ok\n" + b"x" * 5_000))
    [file] = logs.consumer("a").files(timeout=0)

    with pytest.raises(LineTooLong, match=r"^The line at byte 3 of file 'x' is longer than max_line_bytes=3,000. Pass"):
        list(file.lines(max_line_bytes=3_000))


@pytest.mark.parametrize(
    ("encoding", "text"), [("utf-16", "encodes a newline as one byte"), ("nope", "the name of an")]
)
def test_encoding_that_cannot_be_split_is_refused(
    redis_server: Store, tmp_path: Path, encoding: str, text: str
) -> None:
    logs = new_channel()
    logs.publish(write(tmp_path / "x", b"x"))
    [file] = logs.consumer("a").files(timeout=0)

    with pytest.raises(ValueError, match=text):
        next(file.lines(encoding))


def zstd_members(*parts: bytes) -> bytes:
    zstd = pytest.importorskip("backports.zstd") if not hasattr(zlib, "zstd") else None
    return b"".join(zstd.compress(part) for part in parts)  # type: ignore[union-attr]


def gzip_members(*parts: bytes) -> bytes:
    return b"".join(gzip.compress(part) for part in parts)


@pytest.mark.parametrize("members", [gzip_members, zstd_members], ids=["gzip", "zstd"])
def test_compressed_files_with_several_members_are_read_to_the_end(
    redis_server: Store, tmp_path: Path, members: Callable[..., bytes]
) -> None:
    parts = [b"".join(b"%d %d\n" % (part, number) for number in range(100)) for part in range(3)]
    packed, logs = members(*parts, b"", b"last"), new_channel()
    logs.publish(write(tmp_path / "access.log", packed))
    [file] = logs.consumer("a").files(timeout=0)

    assert file.codec in ("gzip", "zstd")
    lines = list(file.lines())
    assert (len(lines), lines[100], lines[-1]) == (301, "1 0", "last")
    file.seek(0)
    assert b"".join(file.blocks()) == b"".join(parts) + b"last"
    file.seek(0)
    assert file.read() == packed


@pytest.mark.parametrize("members", [gzip_members, zstd_members], ids=["gzip", "zstd"])
def test_small_file_that_expands_is_read_in_blocks(
    redis_server: Store, tmp_path: Path, members: Callable[..., bytes]
) -> None:
    logs = new_channel(["a"])
    logs.publish(write(tmp_path / "x", members(bytes(20_000_000), bytes(3))))
    [file] = logs.consumer("a").files(timeout=0)

    sizes = [len(block) for block in file.blocks()]

    assert sum(sizes) == 20_000_003
    assert max(sizes) <= 512 * 1024


@pytest.mark.parametrize("members", [gzip_members, zstd_members], ids=["gzip", "zstd"])
def test_torn_and_broken_compressed_files_are_errors(
    redis_server: Store, tmp_path: Path, members: Callable[..., bytes]
) -> None:
    whole, logs = members(os.urandom(5_000)), new_channel()
    codec = logs.publish(write(tmp_path / "torn", whole[:-20])).codec
    logs.publish(write(tmp_path / "junk", whole + b"junk that is not compressed"))
    torn, junk = logs.consumer("a").files(timeout=0)

    with pytest.raises(DecompressionFailed, match=f"^File 'torn' is not valid {codec}: the data end before the end of"):
        list(torn.blocks())
    with pytest.raises(DecompressionFailed, match=f"^File 'junk' is not valid {codec}: "):
        list(junk.lines())


def test_zeros_after_a_gzip_member_are_ignored(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel()
    logs.publish(write(tmp_path / "x", gzip.compress(b"a\n") + bytes(3_000) + gzip.compress(b"b\n") + bytes(700)))
    [file] = logs.consumer("a").files(timeout=0)

    assert list(file.lines()) == ["a", "b"]


def test_codec_may_be_chosen(redis_server: Store, tmp_path: Path) -> None:
    logs, packed = new_channel(), gzip.compress(b"a\n")
    logs.publish(write(tmp_path / "x", packed), codec="")
    [file] = logs.consumer("a").files(timeout=0)

    assert (file.codec, b"".join(file.blocks())) == ("", packed)
    with pytest.raises(ValueError, match=r"^codec='lz4': expected one of '', 'gzip', 'bzip2', 'xz', 'zstd'.$"):
        logs.publish(tmp_path / "x", codec="lz4")


@pytest.mark.contract
def test_missing_chunk_is_an_error_and_not_a_short_read(store: Store, tmp_path: Path) -> None:
    logs = new_channel()
    logs.publish(write(tmp_path / "x", os.urandom(3_000)))
    [file] = logs.consumer("a").files(timeout=0)
    store.raw.delete(chunk_keys(store)[1])

    problem = (
        "File 'x' of channel 'logs' cannot be read: chunk 2 of 3 is missing. The server evicted it:"
        ' "maxmemory-policy" must be "noeviction".'
    )
    with pytest.raises(FileUnavailable, match=f"^{re.escape(problem)}$"):
        file.read()


def test_damaged_chunk_is_an_error(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel()
    logs.publish(write(tmp_path / "x", os.urandom(3_000)))
    key = chunk_keys(redis_server)[1]
    whole = redis_server.raw.get(key)

    for damaged, text in ((whole[:-1], "has 1,023 instead of 1,024 bytes"), (b"?" + whole[1:], "CRC-32 of chunk 2 of")):
        redis_server.raw.set(key, damaged)
        [file] = logs.consumer("a").files(timeout=0)
        with pytest.raises(ChecksumMismatch, match=f"^File 'x' of channel 'logs' is damaged: .*{text}"):
            file.read()


def test_other_checksum_of_the_whole_file_is_an_error(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel()
    published = logs.publish(write(tmp_path / "x", os.urandom(3_000)))
    redis_server.raw.hset(f"{redis_server.prefix}:files:{{logs}}:file:{published.id}", "sha256", "0" * 64)
    [file] = logs.consumer("a").files(timeout=0)

    with pytest.raises(ChecksumMismatch, match=f"its SHA-256 is {published.sha256}, not 0000"):
        list(file.chunks())


def test_removed_file_and_evicted_record_are_errors(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel()
    first, _ = (logs.publish(write(tmp_path / name, os.urandom(3_000))) for name in ("x", "y"))
    [x, _] = logs.consumer("a").files(timeout=0)
    logs.remove(first.id)

    with pytest.raises(FileUnavailable, match=r"cannot be read: it expired, was removed, or all consumers are done.$"):
        x.read()
    x.checkpoint()
    x.done()
    third = logs.publish(tmp_path / "x")
    redis_server.raw.delete(f"{redis_server.prefix}:files:{{logs}}:file:{third.id}")
    found = logs.consumer("a").files(timeout=0)
    assert next(found).name == "y"
    with pytest.raises(FileUnavailable, match=f"File '{third.id}' of .*: its record is missing. The server evicted it"):
        next(found)
    assert [file.name for file in logs.consumer("a").files(timeout=0)] == ["y"]
    assert logs.info().reserved_bytes == 3_000


def test_file_is_not_saved_over_a_directory(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel()
    logs.publish(write(tmp_path / "x", b"a"))
    [file] = logs.consumer("a").files(timeout=0)
    (tmp_path / "received").mkdir()

    with pytest.raises(IsADirectoryError, match="expected the path of a file, not of a directory"):
        file.save_to(tmp_path / "received")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["received", "x"]


@pytest.mark.contract
def test_saved_copy_appears_whole_and_is_continued(store: Store, tmp_path: Path) -> None:
    data, logs = os.urandom(9_000), new_channel()
    logs.publish(write(tmp_path / "x", data))
    [file] = logs.consumer("a").files(timeout=0)
    target, counts = tmp_path / "copy", []
    part = tmp_path / f"copy.{file.id}.part"
    part.write_bytes(data[:2_500])  # of a process that died: two chunks, and a piece of the third

    file.save_to(target, progress=counts.append)

    assert target.read_bytes() == data
    assert (counts[0], sum(counts)) == (2_048, 9_000)
    assert not part.exists()


def test_copy_may_have_a_name_as_long_as_the_file_system_accepts(redis_server: Store, tmp_path: Path) -> None:
    data, logs = os.urandom(9_000), new_channel(["a", "b"])
    logs.publish(write(tmp_path / "x", data))
    [file] = logs.consumer("a").files(timeout=0)
    target = tmp_path / ("名" * 85)

    file.save_to(target)

    assert len(os.fsencode(target.name)) == 255
    assert target.read_bytes() == data
    assert {each.name for each in tmp_path.iterdir()} == {"x", target.name}


def test_damaged_part_of_a_copy_is_removed(redis_server: Store, tmp_path: Path) -> None:
    data, logs = os.urandom(9_000), new_channel()
    logs.publish(write(tmp_path / "x", data))
    [file] = logs.consumer("a").files(timeout=0)
    part = write(tmp_path / f"copy.{file.id}.part", bytes(2_500))

    with pytest.raises(ChecksumMismatch, match="it was removed, so that the next call starts over"):
        file.save_to(tmp_path / "copy")
    assert not part.exists()
    assert not (tmp_path / "copy").exists()

    file.save_to(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data


def test_part_of_a_file_that_was_removed_is_removed(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel()
    published = logs.publish(write(tmp_path / "x", os.urandom(9_000)))
    [file] = logs.consumer("a").files(timeout=0)
    logs.remove(published.id)

    with pytest.raises(FileUnavailable):
        file.save_to(tmp_path / "copy")

    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_parts_of_expired_files_for_the_same_path_are_removed(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel()
    logs.publish(write(tmp_path / "x", b"data"))
    [file] = logs.consumer("a").files(timeout=0)
    for name in ("copy.0123456789abcdef.part", "copy.old.part", "copy.b.0123456789abcdef.part"):
        write(tmp_path / name, b"left")

    file.save_to(tmp_path / "copy")

    assert sorted(path.name for path in tmp_path.glob("copy*")) == [
        "copy", "copy.b.0123456789abcdef.part", "copy.old.part",
    ]  # fmt: skip


def test_copy_that_another_process_writes_is_refused(redis_server: Store, tmp_path: Path) -> None:
    logs, target = new_channel(), tmp_path / "copy"
    logs.publish(write(tmp_path / "x", bytes(9_000)))
    [first] = logs.consumer("a").files(timeout=0)
    [second] = logs.consumer("a").files(timeout=0)
    errors: list[BaseException] = []

    def save_again(count: int) -> None:
        with pytest.raises(
            BlockingIOError, match=r"\.part' is being written by another process or thread\.$"
        ) as raised:
            second.save_to(target)
        errors.append(raised.value)

    first.save_to(target, progress=save_again)

    assert errors
    assert target.read_bytes() == bytes(9_000)


def test_methods_of_reading_do_not_mix(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel()
    logs.publish(write(tmp_path / "x", b"a\nb\n"))
    [file] = logs.consumer("a").files(timeout=0)
    file.read(1)

    with pytest.raises(ValueError, match=r"^'x' is being read by read\(\): call seek\(0\) before lines\(\).$"):
        next(file.lines())
    for offset, error in ((-1, ValueError), (5, ValueError), ("1", TypeError), (True, TypeError)):
        with pytest.raises(error, match=r"^offset="):
            file.seek(offset)  # type: ignore[arg-type]
    file.seek(2)
    assert list(file.lines()) == ["b"]
