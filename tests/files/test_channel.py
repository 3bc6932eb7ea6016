"""File channels: publish, reserve, read, resume, remove; on every store, sync and async."""

from __future__ import annotations

import asyncio
import gzip
import os
import re
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.files import (
    ChannelFull,
    ChecksumMismatch,
    DecompressionFailed,
    FileChanged,
    FileChannel,
    FileTooLarge,
    FileUnavailable,
    LineTooLong,
    UploadExpired,
)
from tests.support import Store, eventually, run_async
from tests.support.proxy import Proxy
from tests.support.together import run_together

CHUNK = 1_024


def new_channel(consumers: list[str] | None = None, limit_bytes: int = 100_000, **options: Any) -> FileChannel:
    return FileChannel("logs", consumers or ["a"], limit_bytes, **({"chunk_bytes": CHUNK} | options))


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def chunk_keys(store: Store) -> list[bytes]:
    keys = store.keys()
    return [key for key in keys if re.search(rb":file:\w+:\d+$", key)]


@pytest.mark.contract
@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1, 10 * CHUNK + 7])
def test_each_consumer_reads_the_bytes_that_were_published(store: Store, tmp_path: Path, size: int) -> None:
    data, logs = os.urandom(size), new_channel(["a", "b"])

    published = logs.publish(write(tmp_path / "x.bin", data))

    for name in ("a", "b"):
        [file] = logs.consumer(name).files(timeout=0)
        assert (file.name, file.size, file.sha256) == ("x.bin", size, published.sha256)
        assert file.read() == data
        assert file.read() == b""
        file.done()
    assert store.keys() == []


@pytest.mark.contract
def test_async_twins_publish_and_read(store: Store, tmp_path: Path) -> None:
    data, logs = b"line\n" * 1_000, new_channel(["a"])
    path = write(tmp_path / "x.log", data)

    async def scene() -> list[object]:
        published = await logs.apublish(path)
        found: list[object] = []
        async for file in logs.consumer("a").afiles(timeout=0):
            found.append(b"".join([chunk async for chunk in file.achunks()]) == data)
            file.seek(0)
            found.append([line async for line in file.alines()] == ["line"] * 1_000)
            file.seek(5)
            found.append(b"".join([block async for block in file.ablocks()]) == data[5:])
            file.seek(0)
            found.append(await file.aread(4))
            await file.acheckpoint()
            await file.asave_to(tmp_path / "copy")
            found.append((await logs.ainfo()).reserved_bytes)
            await file.adone()
        await logs.aremove(published.id)
        return found

    assert run_async(scene) == [True, True, True, b"line", 5_000]
    assert (tmp_path / "copy").read_bytes() == data
    assert store.keys() == []


@pytest.mark.contract
def test_file_is_kept_until_the_last_of_ten_consumers_is_done(store: Store, tmp_path: Path) -> None:
    names = [str(number) for number in range(10)]
    logs = new_channel(names)
    logs.publish(write(tmp_path / "x", b"data"))

    for done, name in enumerate(names):
        assert logs.info().file_count == 1, f"removed after {done} of 10 consumers"
        [file] = logs.consumer(name).files(timeout=0)
        file.done()
        file.done()  # repeated

    assert store.keys() == []


@pytest.mark.contract
def test_files_come_in_the_order_of_their_announcement_and_once_in_an_iteration(store: Store, tmp_path: Path) -> None:
    logs = new_channel()
    for number in range(5):
        logs.publish(write(tmp_path / str(number), b"x"))

    first = list(logs.consumer("a").files(timeout=0))
    first[1].done()
    second = [file.name for file in logs.consumer("a").files(timeout=0)]

    assert [file.name for file in first] == ["0", "1", "2", "3", "4"]
    assert second == ["0", "2", "3", "4"]


@pytest.mark.contract
def test_every_key_has_a_ttl_and_one_hash_tag(store: Store, tmp_path: Path) -> None:
    logs = new_channel(["a", "b"], limit_bytes=5_000, ttl=100)
    logs.publish(write(tmp_path / "x", b"x" * 5_000))
    with pytest.raises(ChannelFull):
        logs.publish(write(tmp_path / "y", b"y"), timeout=0)
    [file] = logs.consumer("a").files(timeout=0)
    file.read()
    file.checkpoint()
    file.done()

    keys = store.keys()
    for key in keys:
        assert key.startswith(f"{store.prefix}:files:{{logs}}:".encode())
        assert 0 < store.raw.pttl(key) <= 300_000, key


@pytest.mark.contract
def test_file_expires_after_its_ttl(store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = new_channel(["a", "b"], ttl=0.2)
    logs.publish(write(tmp_path / "x", b"x" * 5_000))
    [file] = logs.consumer("a").files(timeout=0)
    file.done()

    eventually(lambda: list(logs.consumer("b").files(timeout=0)) == [])

    assert store.keys() == []
    assert "Removed 'x' from channel 'logs': it expired before these consumers were done: b." in caplog.text
    [log] = [record for record in caplog.records if "expired" in record.message]
    assert log.levelname == "WARNING"


@pytest.mark.contract
def test_producer_waits_until_there_is_room(store: Store, tmp_path: Path) -> None:
    logs = new_channel(limit_bytes=10_000)
    logs.publish(write(tmp_path / "1", b"1" * 6_000))
    [file] = logs.consumer("a").files(timeout=0)
    thread = threading.Thread(target=logs.publish, args=(write(tmp_path / "2", b"2" * 6_000),))

    thread.start()
    eventually(lambda: logs.info().waiting == 1)
    file.done()
    thread.join(30)

    assert [each.read() for each in logs.consumer("a").files(timeout=0)] == [b"2" * 6_000]
    assert (logs.info().waiting, logs.info().reserved_bytes) == (0, 6_000)


@pytest.mark.contract
def test_small_file_does_not_overtake_a_large_one_that_waits(store: Store, tmp_path: Path) -> None:
    logs = new_channel(limit_bytes=10_000)
    logs.publish(write(tmp_path / "1", b"1" * 6_000))
    [file] = logs.consumer("a").files(timeout=0)
    threads = []
    for count, size in enumerate((10_000, 1), 1):
        path = write(tmp_path / f"waits {size}", b"x" * size)
        threads.append(threading.Thread(target=logs.publish, args=(path,)))
        threads[-1].start()
        eventually(lambda count=count: logs.info().waiting == count)

    file.done()

    large = next(logs.consumer("a").files(timeout=30))
    assert large.size == 10_000
    assert logs.info().waiting == 1
    large.done()
    for thread in threads:
        thread.join(30)
    assert [each.size for each in logs.consumer("a").files(timeout=0)] == [1]


@pytest.mark.contract
def test_full_channel_refuses_after_the_timeout_and_leaves_nothing(store: Store, tmp_path: Path) -> None:
    logs = new_channel(["a", "b", "c", "d"], limit_bytes=10_000)
    first = logs.publish(write(tmp_path / "1", b"1" * 6_000))
    for name in "ad":
        [file] = logs.consumer(name).files(timeout=0)
        file.done()
    problem = (
        "Channel 'logs' had no room for 6,000 bytes within 0.05 s: 6,000 of 10,000 bytes are reserved, or other"
        " producers wait before this one. Nothing was published. Pending files of the slowest consumers: b 1, c 1, a 0."
    )

    with pytest.raises(ChannelFull, match=f"^{re.escape(problem)}$") as raised:
        logs.publish(write(tmp_path / "2", b"2" * 6_000), timeout=0.05)

    assert (raised.value.reserved, raised.value.limit, raised.value.bytes) == (6_000, 10_000, 6_000)
    logs.remove(first.id)
    assert store.keys() == []


def test_concurrent_producers_never_exceed_the_budget(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel(limit_bytes=20_000)
    paths = [write(tmp_path / str(number), bytes(9_000)) for number in range(8)]
    results: list[object] = []

    def one(number: int) -> None:
        try:
            results.append(logs.publish(paths[number], timeout=0))
        except ChannelFull as exc:
            results.append(exc)

    run_together(8, one)

    stored = sum(redis_server.raw.strlen(key) for key in chunk_keys(redis_server))
    assert stored == logs.info().reserved_bytes == 18_000
    assert sum(isinstance(each, ChannelFull) for each in results) == 6


def test_empty_files_are_limited_by_their_number(
    redis_server: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_redis_components.files.publishing.MAX_FILES", 3)
    logs, path = new_channel(), write(tmp_path / "empty", b"")

    for _ in range(3):
        logs.publish(path)
    with pytest.raises(ChannelFull, match=r"0 of 100,000 bytes are reserved.* consumers: a 3"):
        logs.publish(path, timeout=0)


def test_file_of_the_whole_limit_is_accepted_and_a_larger_one_refused(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel(limit_bytes=100)

    logs.publish(write(tmp_path / "fits", bytes(100)))

    path = write(tmp_path / "large", bytes(101))
    problem = f"{str(path)!r} has 101 bytes; channel 'logs' accepts files of up to its limit_bytes=100."
    with pytest.raises(FileTooLarge, match=f"^{re.escape(problem)}$"):
        logs.publish(path)
    assert logs.info().file_count == 1


def test_file_of_too_many_chunks_is_refused(
    redis_server: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_redis_components.files.publishing.MAX_CHUNKS", 4)
    path = write(tmp_path / "x", bytes(5_000))

    with pytest.raises(FileTooLarge, match=r"5 chunks of chunk_bytes=1,024; a file has at most 4 chunks. Use chunk_by"):
        new_channel().publish(path)
    assert redis_server.keys() == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda path: path.unlink(), "vanished"),
        (lambda path: path.write_bytes(bytes(100_000)), "changed its size from 8,192 to 100,000 bytes"),
        (lambda path: os.truncate(path, 5_000), "changed its size from 8,192 to "),
        (lambda path: os.utime(path, ns=(1, 1)), "was modified"),
        (lambda path: (path.rename(path.with_suffix(".1")), path.write_bytes(bytes(8_192))), "was replaced"),
    ],
    ids=["vanished", "grown", "truncated", "modified", "replaced"],
)
def test_file_that_changes_while_it_is_published_is_refused(
    redis_server: Store, tmp_path: Path, change: Callable[[Path], object], text: str
) -> None:
    path, logs = write(tmp_path / "x", bytes(8_192)), new_channel()
    changes = [change]

    def progress(count: int) -> None:
        if changes:
            changes.pop()(path)

    with pytest.raises(FileChanged, match=rf"{re.escape(text)}.* while it was published. Nothing was published.$"):
        logs.publish(path, progress=progress)

    assert redis_server.keys() == []


def test_error_of_the_local_file_leaves_nothing(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel()

    with pytest.raises(FileNotFoundError, match="missing"):
        logs.publish(tmp_path / "missing")
    with pytest.raises(ValueError, match=f"^{re.escape(repr(str(tmp_path)))} is not a regular file: expected the path"):
        logs.publish(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is not a regular file"):
        logs.publish(tmp_path / "pipe")

    assert redis_server.keys() == []


def test_interrupted_publish_leaves_nothing(redis_server: Store, tmp_path: Path) -> None:
    def interrupt(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        new_channel().publish(write(tmp_path / "x", bytes(9_000)), progress=interrupt)

    assert redis_server.keys() == []


@pytest.mark.contract
def test_cancelled_async_producers_leave_nothing(store: Store, tmp_path: Path) -> None:
    logs = new_channel(limit_bytes=10_000)
    path = write(tmp_path / "x", bytes(9_000))

    async def scene() -> None:
        first = await logs.apublish(path)
        waiting = [asyncio.ensure_future(logs.apublish(path)) for _ in range(3)]
        async with asyncio.timeout(30):
            while (await logs.ainfo()).waiting < 3:  # noqa: ASYNC110 - the state is in Redis
                await asyncio.sleep(0)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert (await logs.ainfo()).waiting == 0
        await logs.aremove(first.id)

        def cancel(count: int) -> None:
            task.cancel()

        task = asyncio.ensure_future(logs.apublish(path, progress=cancel))
        with pytest.raises(asyncio.CancelledError):
            await task

    run_async(scene)
    assert store.keys() == []


def test_async_consumers_wait_while_producers_publish(redis_server: Store, tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    logs = new_channel(names, limit_bytes=20_000)
    paths = [write(tmp_path / str(number), os.urandom(7_000)) for number in range(10)]

    async def consume(name: str) -> dict[str, bytes]:
        found = {}
        async for file in logs.consumer(name).afiles():
            found[file.name] = await file.aread()
            await file.adone()
            if len(found) == len(paths):
                break
        return found

    async def scene() -> list[dict[str, bytes]]:
        consumers = [asyncio.ensure_future(consume(name)) for name in names]
        await asyncio.gather(*(logs.apublish(path) for path in paths))
        return await asyncio.gather(*consumers)

    expected = {path.name: path.read_bytes() for path in paths}
    assert run_async(scene) == [expected] * 3
    assert redis_server.keys() == []


def test_producer_that_pauses_for_longer_than_its_lease_is_told(
    redis_server: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs, other = new_channel(lease=0.05), new_channel()

    def pause(count: int) -> None:
        eventually(lambda: list(other.consumer("a").files(timeout=0)) == [] and redis_server.keys() == [])

    problem = (
        "The upload of 'x' to channel 'logs' was removed: it paused for more than its lease of 0.05 s, or took longer"
        " than the ttl of 86400 s. Nothing was published."
    )
    with pytest.raises(UploadExpired, match=f"^{re.escape(problem)}$"):
        logs.publish(write(tmp_path / "x", bytes(9_000)), progress=pause)

    assert redis_server.keys() == []
    assert "Removed 'x' from channel 'logs': its producer died while it published it." in caplog.text


def test_publish_survives_a_lost_reply_of_each_step(proxy: Proxy, redis_server: Store, tmp_path: Path) -> None:
    logs, path = new_channel(using="proxied"), write(tmp_path / "x", os.urandom(3_000))
    reader = new_channel()
    logs.publish(path)
    for marker in (b"publishing", b"\r\n$64\r\n"):  # the fields of the reservation; the checksum of the announcement
        proxy.drop_next_reply(after=marker)
        logs.publish(path)
    proxy.drop_next_reply(after=path.read_bytes()[:64])  # a chunk
    logs.publish(path)

    assert proxy.dropped == 3
    assert [file.read() for file in reader.consumer("a").files(timeout=0)] == [path.read_bytes()] * 4
    assert reader.info().reserved_bytes == 12_000


def test_all_calls_survive_random_lost_replies(proxy: Proxy, redis_server: Store, tmp_path: Path) -> None:
    logs, data = new_channel(["a", "b"], using="proxied"), b"one line\n" * 3_000
    path = write(tmp_path / "x", data)
    proxy.drop_random(0.1, seed=4)

    for _ in range(5):
        logs.publish(path)
        for name in ("a", "b"):
            for file in logs.consumer(name).files(timeout=0):
                assert sum(1 for line in file.lines() if line == "one line") == 3_000
                file.checkpoint()
                file.done()

    proxy.drop_random(0)
    assert proxy.dropped > 0
    assert redis_server.keys() == []


def test_outage_in_the_middle_of_publishing_is_an_error_and_leaves_nothing_after_the_lease(
    proxy: Proxy, redis_server: Store, tmp_path: Path
) -> None:
    logs, other = new_channel(using="proxied", lease=0.3), new_channel()

    def go_away(count: int) -> None:
        proxy.stop_accepting()
        proxy.cut()

    with pytest.raises(ConnectionError):
        logs.publish(write(tmp_path / "x", bytes(9_000)), progress=go_away)
    eventually(lambda: list(other.consumer("a").files(timeout=0)) == [] and redis_server.keys() == [])
    proxy.accept_again()

    logs.publish(tmp_path / "x")
    [file] = logs.consumer("a").files(timeout=0)
    assert file.read() == bytes(9_000)


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
def test_waiting_consumer_gets_a_file_without_polling(store: Store, tmp_path: Path) -> None:
    logs = new_channel(["a", "b"])
    found: list[bytes] = []

    def consume() -> None:
        for file in logs.consumer("a").files():
            found.append(file.read())
            file.done()
            if len(found) == 2:
                return

    thread = threading.Thread(target=consume)
    thread.start()
    logs.publish(write(tmp_path / "1", b"1"))
    eventually(lambda: len(found) == 1)
    if not store.is_cluster:
        eventually(lambda: store.raw.info("clients")["blocked_clients"] > 0)
    logs.publish(write(tmp_path / "2", b"2"))
    thread.join(30)

    assert found == [b"1", b"2"]


def test_idle_consumer_sends_no_commands(own_server: Store) -> None:
    consumer = new_channel().consumer("a")
    thread = threading.Thread(target=lambda: list(consumer.files(timeout=1.5)))

    thread.start()
    eventually(lambda: own_server.raw.info("clients")["blocked_clients"] == 1)
    before = own_server.raw.info("commandstats")
    thread.join(30)

    after = own_server.raw.info("commandstats")
    assert "cmdstat_evalsha" in before
    assert after["cmdstat_evalsha"]["calls"] - before["cmdstat_evalsha"]["calls"] <= 2


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
    assert next(first.lines()) == lines[600]  # the same object goes on

    [second] = logs.consumer("a").files(timeout=0)

    assert list(second.lines()) == lines[600:]


def test_lines_go_across_chunks_and_the_last_one_needs_no_newline(redis_server: Store, tmp_path: Path) -> None:
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
    with pytest.raises(ValueError, match=r"^codec='xz': expected 'gzip', 'zstd', '' or None.$"):
        logs.publish(tmp_path / "x", codec="xz")


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


@pytest.mark.contract
def test_saved_copy_appears_whole_and_is_continued(store: Store, tmp_path: Path) -> None:
    data, logs = os.urandom(9_000), new_channel()
    logs.publish(write(tmp_path / "x", data))
    [file] = logs.consumer("a").files(timeout=0)
    target, counts = tmp_path / "copy", []
    part = tmp_path / f"copy.{file.id}.part"
    part.write_bytes(data[:2_500])  # of a process that died: two chunks, and a piece of the third

    file.save_to(target, counts.append)

    assert target.read_bytes() == data
    assert (counts[0], sum(counts)) == (2_048, 9_000)
    assert not part.exists()


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

    first.save_to(target, save_again)

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


def test_info_tells_budget_files_and_progress(redis_server: Store, tmp_path: Path) -> None:
    logs = new_channel(["a", "b"])
    logs.publish(write(tmp_path / "x", bytes(9_000)), name="logs/x")
    [file] = logs.consumer("a").files(timeout=0)
    file.read(6_000)
    logs.publish(write(tmp_path / "y", bytes(10)))
    [_, y] = logs.consumer("b").files(timeout=0)
    y.done()

    info = logs.info()

    assert (info.reserved_bytes, info.limit_bytes, info.file_count) == (9_010, 100_000, 2)
    assert info.pending == {"a": 2, "b": 1}
    assert [(each.name, each.size, each.is_ready) for each in info.files] == [("logs/x", 9_000, True), ("y", 10, True)]
    x, y_info = ({each.consumer: (each.read, each.is_done) for each in file.consumers} for file in info.files)
    assert x == {"a": (4_096, False), "b": (0, False)}
    assert y_info == {"a": (0, False), "b": (10, True)}


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"name": "a{b"}, ValueError, "channel name 'a{b': braces are not accepted"),
        ({"consumers": "a"}, TypeError, "consumers='a': expected a list of names."),
        ({"consumers": []}, ValueError, "consumers has 0 names: expected 1 to 100."),
        ({"consumers": ["a", "b", "a"]}, ValueError, "consumers names 'a' twice."),
        ({"consumers": ["a\n"]}, ValueError, "consumer name 'a\\n': control character"),
        ({"limit_bytes": 0}, ValueError, "limit_bytes=0: expected 1 to "),
        ({"limit_bytes": 1.5}, TypeError, "limit_bytes=1.5: expected a number of bytes."),
        ({"chunk_bytes": 10}, ValueError, "chunk_bytes=10: expected 1,024 to 16,777,216 bytes."),
        ({"ttl": 0}, ValueError, "ttl=0: expected a number of seconds above 0"),
        ({"lease": -1}, ValueError, "lease=-1: expected"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        FileChannel(**({"name": "logs", "consumers": ["a"]} | arguments))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "file name '' has 0 bytes: expected 1 to 1024."),
        ("a\nb", "control character"),
        ("\udcff", "that UTF-8 can"),
    ],
)
def test_invalid_file_names_are_refused(redis_server: Store, tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        new_channel().publish(write(tmp_path / "x", b"x"), name=name)
    assert redis_server.keys() == []


def test_unknown_consumer_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(
        ValueError, match=r"^Channel 'logs' has no consumer 'stat'. Consumers: stats, web. Did you mean"
    ):
        FileChannel("logs", ["stats", "web"]).consumer("stat")
