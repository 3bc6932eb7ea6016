"""Publishing: the byte budget, local files that change, and what is left after a failure."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.files import (
    ChannelFull,
    FileChanged,
    FileTooLarge,
    LimitMismatch,
    UploadExpired,
)
from django_redis_components.files.publishing import LocalFile
from tests.files.support import chunk_keys, new_channel, write
from tests.support import Store, eventually, run_async
from tests.support.proxy import Proxy
from tests.support.together import run_together


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


def rewrite_with_the_same_time(path: Path) -> None:
    stat = path.stat()
    with path.open("r+b") as file:
        file.write(b"changed")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda path: path.unlink(), "vanished"),
        (lambda path: path.write_bytes(bytes(100_000)), "changed its size from 8,192 to 100,000 bytes"),
        (lambda path: os.truncate(path, 5_000), "changed its size from 8,192 to "),
        (lambda path: os.utime(path, ns=(1, 1)), "was modified"),
        (rewrite_with_the_same_time, "was modified"),
        (lambda path: (path.rename(path.with_suffix(".1")), path.write_bytes(bytes(8_192))), "was replaced"),
    ],
    ids=["vanished", "grown", "truncated", "modified", "modified-back", "replaced"],
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


def test_upload_that_outlasts_its_ttl_is_an_error(redis_server: Store, tmp_path: Path) -> None:
    logs, progress = new_channel(ttl=0.1), []

    def wait_for_the_end(count: int) -> None:
        progress.append(count)
        if sum(progress) == 9_000:
            ends_at = time.monotonic() + 0.15
            eventually(lambda: time.monotonic() > ends_at)

    with pytest.raises(UploadExpired, match=r"took longer than the ttl of 0.1 s"):
        logs.publish(write(tmp_path / "x", bytes(9_000)), progress=wait_for_the_end)

    assert redis_server.keys() == []


def test_file_that_is_removed_before_its_announcement_is_an_error(
    redis_server: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = new_channel()
    check_unchanged = LocalFile.check_unchanged

    def remove(local: LocalFile) -> None:
        check_unchanged(local)
        redis_server.delete_keys()

    monkeypatch.setattr(LocalFile, "check_unchanged", remove)

    with pytest.raises(UploadExpired, match="or another process removed it"):
        logs.publish(write(tmp_path / "x", bytes(9_000)))


@pytest.mark.contract
def test_producer_with_another_limit_is_refused_until_it_is_set(store: Store, tmp_path: Path) -> None:
    small, large = new_channel(limit_bytes=10_000), new_channel(limit_bytes=20_000)
    small.publish(write(tmp_path / "x", bytes(9_000)))
    problem = (
        "Channel 'logs' has limit_bytes=10,000; this producer has limit_bytes=20,000. Nothing was published. Use one"
        " limit in all producers: another one applies once the channel is empty, or after set_limit()."
    )

    with pytest.raises(LimitMismatch, match=f"^{re.escape(problem)}$"):
        large.publish(tmp_path / "x")
    assert large.info().limit_bytes == 10_000
    large.set_limit()
    large.publish(tmp_path / "x")

    with pytest.raises(LimitMismatch):
        small.publish(tmp_path / "x", timeout=0)
    keys = store.keys()
    assert all(store.raw.pttl(key) > 0 for key in keys)
    for file in large.consumer("a").files(timeout=0):
        file.done()
    run_async(small.aset_limit)
    small.publish(tmp_path / "x")
    [file] = small.consumer("a").files(timeout=0)
    file.done()
    assert store.keys() == []


def test_producer_that_pauses_for_longer_than_its_lease_gets_an_error(
    redis_server: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs, other = new_channel(lease=0.05), new_channel()

    def pause(count: int) -> None:
        eventually(lambda: list(other.consumer("a").files(timeout=0)) == [] and redis_server.keys() == [])

    problem = (
        "The upload of 'x' to channel 'logs' was removed: it paused for more than its lease of 0.05 s, took longer than"
        " the ttl of 86400 s, or another process removed it. Nothing was published."
    )
    with pytest.raises(UploadExpired, match=f"^{re.escape(problem)}$"):
        logs.publish(write(tmp_path / "x", bytes(9_000)), progress=pause)

    assert redis_server.keys() == []
    assert "Removed 'x' from channel 'logs': its producer died while it published it." in caplog.text


def test_publish_succeeds_if_all_consumers_are_done_before_the_announcement_is_repeated(
    proxy: Proxy, redis_server: Store, tmp_path: Path
) -> None:
    logs, path, reader = new_channel(using="proxied"), write(tmp_path / "x", os.urandom(3_000)), new_channel()
    count = 5

    def consume() -> None:
        for number, file in enumerate(reader.consumer("a").files(), 1):
            file.done()
            if number == count:
                return

    thread = threading.Thread(target=consume)
    thread.start()
    for _ in range(count):
        proxy.drop_next_reply(after=b"\r\n$64\r\n")  # the checksum
        logs.publish(path)
    thread.join(30)

    assert proxy.dropped == count
    assert redis_server.keys() == []


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


def test_outage_in_the_middle_of_publishing_is_an_error_and_leaves_nothing_after_the_lease(
    proxy: Proxy, redis_server: Store, tmp_path: Path
) -> None:
    logs, other = new_channel(using="proxied", lease=0.3), new_channel()

    def cut_connection(count: int) -> None:
        proxy.stop_accepting()
        proxy.cut()

    with pytest.raises(ConnectionError):
        logs.publish(write(tmp_path / "x", bytes(9_000)), progress=cut_connection)
    eventually(lambda: list(other.consumer("a").files(timeout=0)) == [] and redis_server.keys() == [])
    proxy.accept_again()

    logs.publish(tmp_path / "x")
    [file] = logs.consumer("a").files(timeout=0)
    assert file.read() == bytes(9_000)
