"""Producers and consumers in processes: kill -9, resume, and the byte budget as the server sees it."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.files.processes import CONSUMERS, LIMIT, channel
from tests.support import Store, eventually
from tests.support.processes import Children

PROCESSES = "tests.files.processes"
#: Runs a function in several processes, which start at the same time.
TOGETHER = "tests.support.forks:run_together"
#: Files of each producer: 260 to 620 kB together are published by each.
FILES = 8


class Sampler:
    """Adds the sizes of all chunks up, again and again, and keeps the largest sum."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.largest = 0
        self.samples = 0

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        # In one script: chunks that are removed between two commands would be counted twice.
        script = (
            "local sum = 0 for _, key in ipairs(redis.call('KEYS', ARGV[1])) do"
            " if string.match(key, ':file:%x+:%d+$') then sum = sum + redis.call('STRLEN', key) end end return sum"
        )
        key = f"{self._store.prefix}:files:{{{channel().name}}}"  # on a Cluster, it selects the node
        while not self._stopped.wait(0.01):
            self.largest = max(self.largest, self._store.raw.eval(script, 1, key, f"{self._store.prefix}:files:*"))
            self.samples += 1


@pytest.mark.contract
def test_three_producers_and_ten_consumers_of_which_one_is_killed(
    store: Store, children: Children, tmp_path: Path
) -> None:
    total = 3 * FILES
    with Sampler(store) as sampler:
        killed = children.call(f"{PROCESSES}:consume_files", CONSUMERS[0], total, 0.01)
        calls = [[name, total] for name in CONSUMERS[1:]]
        others = children.call(TOGETHER, f"{PROCESSES}:consume_files", calls)
        calls = [[str(tmp_path), number, FILES] for number in range(3)]
        producers = children.call(TOGETHER, f"{PROCESSES}:publish_files", calls)
        killed.wait_for("finished")
        killed.wait_for("read")
        killed.kill()
        killed.wait()  # until all that it has printed is read
        before = dict(re.findall(r"^finished (\S+) (\S+)$", killed.output, re.M))
        resumed = children.call(f"{PROCESSES}:consume_files", CONSUMERS[0], total - len(before))
        found: Any = [producers.result(120), others.result(120), resumed.result(120)]

    published = {name: sha256 for part in found[0] for name, sha256 in part.items()}
    received = [*found[1], before | found[2]]

    assert len(before) < len(published) == total
    assert received == [published] * 10
    assert store.keys() == []
    assert LIMIT / 2 < sampler.largest <= LIMIT
    assert sampler.samples > 10


@pytest.mark.contract
def test_file_of_a_killed_producer_is_removed(
    store: Store, children: Children, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(300_000))
    producer = children.call(f"{PROCESSES}:publish_and_stop", str(path), 0.5)
    producer.wait_for("half published")
    producer.kill()

    found = channel().publish(path)  # 600,000 bytes do not fit: it waits for the lease of the other

    assert "Removed 'x' from channel 'shared': its producer died while it published it." in caplog.text
    assert channel().info().reserved_bytes == 300_000
    channel().remove(found.id)
    assert store.keys() == []


def test_killed_producer_in_the_queue_does_not_stop_those_behind_it(
    redis_server: Store, children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(300_000))
    first = channel().publish(path)
    waiting = children.call(f"{PROCESSES}:wait_for_room", str(path), 1.0)
    eventually(lambda: channel().info().waiting == 1)
    waiting.kill()
    monkeypatch.setattr("django_redis_components.files.publishing.WAITING_S", 0.3)
    thread = threading.Thread(target=channel().publish, args=(path,))
    thread.start()
    eventually(lambda: channel().info().waiting == 2)

    channel().remove(first.id)
    thread.join(60)

    assert channel().info().file_count == 1


def test_killed_producer_in_the_queue_of_an_idle_channel_is_forgotten(
    redis_server: Store, children: Children, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(300_000))
    first = channel().publish(path)
    waiting = children.call(f"{PROCESSES}:wait_for_room", str(path), 0.3)
    eventually(lambda: channel().info().waiting == 1)
    waiting.kill()
    channel().remove(first.id)

    eventually(lambda: list(channel().consumer("c0").files(timeout=0)) == [] and redis_server.keys() == [])


def test_killed_consumer_continues_at_its_checkpoint(redis_server: Store, children: Children, tmp_path: Path) -> None:
    source, copy = tmp_path / "x.log", tmp_path / "copy"
    lines = [f"line {number:05}" for number in range(3_000)]
    source.write_text("\n".join(lines))
    channel().publish(source)
    first = children.call(f"{PROCESSES}:copy_lines", "c0", str(copy), 0.02)
    for _ in range(5):
        first.wait_for("checkpoint")
    first.kill()

    second = children.call(f"{PROCESSES}:copy_lines", "c0", str(copy), 0)
    offset = int(second.wait_for("begins at").split()[-1])
    second.result()

    found = copy.read_text().splitlines()
    assert offset >= 500 * len("line 00000\n")
    assert list(dict.fromkeys(found)) == lines  # at least once, in order
    assert len(found) <= len(lines) + 100


def test_killed_copy_is_continued(redis_server: Store, children: Children, tmp_path: Path) -> None:
    source, copy = tmp_path / "x", tmp_path / "copy"
    source.write_bytes(bytes(range(250)) * 1_000)
    channel().publish(source)
    killed = children.call(f"{PROCESSES}:save_slowly", "c0", str(copy))
    killed.wait_for("part written")
    killed.kill()
    assert not copy.exists()
    [file] = channel().consumer("c0").files(timeout=0)

    file.save_to(copy)

    assert copy.read_bytes() == source.read_bytes()
    assert [each.name for each in tmp_path.iterdir()] == ["x", "copy"] or not list(tmp_path.glob("*.part"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_of_both_sides_does_not_grow_with_the_file(
    redis_server: Store, children: Children, tmp_path: Path
) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    for path, mib in ((small, 4), (large, 64)):
        with path.open("wb") as file:
            file.truncate(mib * 1024**2)

    growth = [
        children.call("tests.files.processes:memory_of_publishing", str(small), str(large)).result(),
        children.call("tests.files.processes:memory_of_reading").result(),
    ]

    assert max(growth) < 12 * 1024**2, growth
