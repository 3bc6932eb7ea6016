"""Producers and consumers in separate processes."""

from __future__ import annotations

import hashlib
import random
import time
from pathlib import Path

from django_redis_components.files import FileChannel, publishing
from tests.support.child import print_line

#: Bytes of the channel that the processes share; less than half of the files that are published.
LIMIT = 400_000
CHUNK = 8_192
CONSUMERS = [f"c{number}" for number in range(10)]


def channel(lease: float = 30, using: str = "default") -> FileChannel:
    """Return the channel that all processes use."""
    return FileChannel("shared", CONSUMERS, limit_bytes=LIMIT, chunk_bytes=CHUNK, lease=lease, using=using)


def publish_files(directory: str, producer: int, count: int) -> dict[str, str]:
    """Publish files of random bytes; return the checksum of each by its name."""
    published, random_bytes = {}, random.Random(producer).randbytes
    for number in range(count):
        path = Path(directory) / f"{producer}-{number}"
        path.write_bytes(random_bytes(20_000 + 9_001 * number))
        published[path.name] = channel().publish(path, timeout=None).sha256
    return published


def consume_files(consumer: str, count: int, pause_s: float = 0) -> dict[str, str]:
    """Read files until this number is done; return the checksum of each."""
    found = {}
    while len(found) < count:
        for file in channel().consumer(consumer).files(timeout=60):
            digest = hashlib.sha256()
            for chunk in file.chunks():
                digest.update(chunk)
                print_line("read", file.name, file.offset)
                time.sleep(pause_s)
            found[file.name] = digest.hexdigest()
            file.done()
            print_line("finished", file.name, digest.hexdigest())
            if len(found) == count:
                break
    return found


def copy_lines(consumer: str, path: str, pause_s: float) -> None:
    """Append the lines of a file to a path, with a checkpoint every 100 lines, and print where it begins."""
    file = next(channel().consumer(consumer).files())
    print_line("begins at", file.offset)
    with Path(path).open("a") as out:
        for number, line in enumerate(file.lines(), 1):
            out.write(f"{line}\n")
            if number % 100 == 0:
                out.flush()
                file.checkpoint()
                print_line("checkpoint", file.offset)
                time.sleep(pause_s)
    file.done()


def publish_and_stop(path: str, lease: float) -> None:
    """Publish a file, and stop in the middle of it."""

    def stop(count: int) -> None:
        print_line("half published")
        time.sleep(600)

    channel(lease).publish(path, progress=stop)


def wait_for_room(path: str, waiting_s: float) -> None:
    """Wait for room for a file, and count as dead after this time without a call."""
    publishing.WAITING_S = waiting_s
    print_line("waiting")
    channel().publish(path, timeout=None)


def save_slowly(consumer: str, path: str) -> None:
    """Save a file, and stop after its first chunk."""

    def stop(count: int) -> None:
        print_line("part written")
        time.sleep(600)

    next(channel().consumer(consumer).files()).save_to(path, progress=stop)


def memory_of_publishing(small: str, large: str) -> int:
    """Publish a small file, then a large one; return by how many bytes the second has increased the peak of memory."""
    memory = FileChannel("memory", ["one"])
    memory.publish(small)
    before = peak_bytes()
    memory.publish(large)
    return peak_bytes() - before


def memory_of_reading() -> int:
    """Read a small file, then a large one; return by how many bytes the second has increased the peak of memory."""
    small, large = FileChannel("memory", ["one"]).consumer("one").files(timeout=0)
    for _ in small.blocks():
        pass
    before = peak_bytes()
    for _ in large.blocks():
        pass
    return peak_bytes() - before


def peak_bytes() -> int:
    """Return the peak of memory of this process; that of getrusage includes its parent's."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
