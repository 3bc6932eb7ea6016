"""File channels: from publishing to removal, on every store, sync and async."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, run
from django_redis_components.files import (
    ChannelFull,
    FileChannel,
    UnknownConsumer,
)
from django_redis_components.files.publishing import REAP_COUNT
from django_redis_components.files.scripts import REAP
from tests.files.support import CHUNK, new_channel, write
from tests.support import Store, eventually, run_async
from tests.support.proxy import Proxy


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
    logs = new_channel(["a", "b"], ttl=1)
    logs.publish(write(tmp_path / "x", b"x" * 5_000))
    [file] = logs.consumer("a").files(timeout=0)
    file.done()

    eventually(lambda: list(logs.consumer("b").files(timeout=0)) == [])

    assert store.keys() == []
    assert "Removed 'x' from channel 'logs': it expired before these consumers were done: b." in caplog.text
    [log] = [record for record in caplog.records if "expired" in record.message]
    assert log.levelname == "WARNING"


def test_one_call_removes_one_large_file_or_ten_small_ones(redis_server: Store, tmp_path: Path) -> None:
    logs, client = new_channel(limit_bytes=5_000_000), connections.client("default")
    sizes = [1_100_000] * 3 + [0] * 12
    published = [
        logs.publish(write(tmp_path / "x", bytes(size)), name=str(number)) for number, size in enumerate(sizes)
    ]
    deadlines = {file.id: number for number, file in enumerate(published)}
    redis_server.raw.zadd(f"{redis_server.prefix}:files:{{logs}}:deadlines", deadlines)

    def reap() -> Flow[list[bytes]]:
        reply = yield REAP(base=f"{redis_server.prefix}:files:{{logs}}", count=REAP_COUNT)
        return reply[2::3]  # type: ignore[no-any-return]

    names = [[int(name) for name in run(client, reap())] for _ in range(5)]

    assert names == [[0], [1], [2], list(range(3, 13)), [13, 14]]
    assert redis_server.keys() == []


@pytest.mark.contract
def test_files_whose_records_expired_are_reported_as_expired_and_not_as_evicted(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs, path = new_channel(["a", "b"]), write(tmp_path / "x", b"x" * 3_000)
    for _ in range(25):  # more than one call removes
        published = logs.publish(path)
        base = f"{store.prefix}:files:{{logs}}"
        store.raw.delete(f"{base}:file:{published.id}")
        store.raw.zadd(f"{base}:deadlines", {published.id: 1})
    last = logs.publish(path, name="last")

    assert [file.name for file in logs.consumer("b").files(timeout=0)] == ["last"]

    assert "Removed 'x' from channel 'logs': it expired before these consumers were done: a, b." in caplog.text
    logs.remove(last.id)
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


def test_info_has_budget_files_and_progress(redis_server: Store, tmp_path: Path) -> None:
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
        ({"limit_bytes": 0}, ValueError, "limit_bytes=0: expected an integer from 1 to 1125899906842624."),
        ({"limit_bytes": 1.5}, TypeError, "limit_bytes=1.5: expected an integer from 1 to 1125899906842624."),
        ({"chunk_bytes": 10}, ValueError, "chunk_bytes=10: expected an integer from 1024 to 16777216."),
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
        UnknownConsumer, match=r"^Channel 'logs' has no consumer 'stat'. Consumers: stats, web. Did you mean"
    ):
        FileChannel("logs", ["stats", "web"]).consumer("stat")
