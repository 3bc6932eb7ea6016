"""File channels beside `cp` and beside plain SET and GET of chunks: MB/s, and the memory of both processes.

    python -m benchmarks.files [--mib 1024] [--consumers 1] [--rounds 1]

A producer and consumers, each in a separate process. A file of random bytes goes through the channel as one file, and
as files of 64 MiB within the default budget of 256 MiB. RSS is the growth of each process after its imports.
``REDIS_URL`` names another server; otherwise one is started.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.locks import set_up
from tools.localserver import LocalServer

MIB = 1024 * 1024
#: Size of the files that share the default budget.
PART_MIB = 64
LIMIT_BYTES = 256 * MIB


def main() -> None:
    """Run the rows and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="size of the file in MiB (default: 1024)")
    parser.add_argument("--consumers", type=int, default=1, help="number of consumers (default: 1)")
    parser.add_argument("--rounds", type=int, default=1, help="interleaved rounds (default: 1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "source"
        write_random(path, options.mib)
        if url := os.environ.get("REDIS_URL"):
            measure(url, options, path)
            return
        with LocalServer(directory=Path(directory)) as server:
            measure(server.url, options, path)


def write_random(path: Path, mib: int) -> None:
    """Write random bytes, so that nothing on the way can be compressed."""
    with path.open("wb") as out:
        for _ in range(mib):
            out.write(os.urandom(MIB))


def measure(url: str, options: argparse.Namespace, path: Path) -> None:
    """Print all rows of each round."""
    size = path.stat().st_size
    print(f"{size / MIB:,.0f} MiB, {options.consumers} consumers, {os.cpu_count()} processors")
    for _ in range(options.rounds):
        row("cp", size, timed(lambda: subprocess.run(["cp", path, f"{path}.copy"], check=True)))
        Path(f"{path}.copy").unlink()
        row("SHA-256 of the file alone", size, timed(lambda: sha256(path)))
        plain(url, path, size)
        through_channel(url, path, size, options.consumers, "one file", size, size)
        through_channel(url, path, size, options.consumers, f"files of {PART_MIB} MiB", PART_MIB * MIB, LIMIT_BYTES)


def plain(url: str, path: Path, size: int) -> None:
    """SET and GET of the same chunks by redis-py, four in a pipeline, without checksums."""
    from redis import Redis

    from django_redis_components.files.channel import CHUNK_BYTES

    client = Redis.from_url(url)
    count = -(-size // CHUNK_BYTES)

    def write() -> None:
        with path.open("rb") as source:
            for first in range(0, count, 4):
                pipe = client.pipeline(transaction=False)
                for number in range(first, min(first + 4, count)):
                    pipe.set(f"plain:{number}", source.read(CHUNK_BYTES))
                pipe.execute()

    def read() -> None:
        for first in range(0, count, 4):
            pipe = client.pipeline(transaction=False)
            for number in range(first, min(first + 4, count)):
                pipe.get(f"plain:{number}")
            pipe.execute()

    row("plain SET", size, timed(write))
    row("plain GET", size, timed(read))
    client.flushall()


def through_channel(
    url: str, path: Path, size: int, consumers: int, title: str, part_bytes: int, limit_bytes: int
) -> None:
    """Publish and receive in separate processes; print the times and the memory of each."""
    from redis import Redis

    names = [f"c{number}" for number in range(consumers)]
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(dir=path.parent) as directory, context.Pool(consumers + 1) as pool:
        parts = split(path, Path(directory), part_bytes) if part_bytes < size else [path]
        started_at = time.perf_counter()
        receiving = [pool.apply_async(receive, (url, names, limit_bytes, name, len(parts))) for name in names]
        published_s, producer_kib = pool.apply(publish, (url, names, limit_bytes, list(map(str, parts))))
        received: list[Any] = [each.get() for each in receiving]
        took_s = time.perf_counter() - started_at
    row(f"channel, {title}: publish", size, published_s, f"RSS +{producer_kib / 1024:,.1f} MiB")
    for read_s, kib in received:
        row(f"channel, {title}: read", size, read_s, f"RSS +{kib / 1024:,.1f} MiB")
    row(f"channel, {title}: both", size, took_s, "with the start of the processes")
    left = Redis.from_url(url).dbsize()
    print(f"{'':38} {left} keys left")


def publish(url: str, names: list[str], limit_bytes: int, paths: list[str]) -> tuple[float, int]:
    """Publish the files; return the seconds and the growth of memory in KiB."""
    channel = open_channel(url, names, limit_bytes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started_at = time.perf_counter()
    for path in paths:
        channel.publish(path, timeout=None)
    return time.perf_counter() - started_at, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def receive(url: str, names: list[str], limit_bytes: int, name: str, count: int) -> tuple[float, int]:
    """Read the files; return the seconds from the first one on, and the growth of memory in KiB."""
    channel = open_channel(url, names, limit_bytes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took_s = 0.0
    for number, file in enumerate(channel.consumer(name).files(), 1):
        started_at = time.perf_counter()
        for _ in file.chunks():
            pass
        file.done()
        took_s += time.perf_counter() - started_at
        if number == count:
            break
    return took_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def open_channel(url: str, names: list[str], limit_bytes: int) -> Any:
    """Return the channel of this process, connected."""
    set_up(url)
    from django_redis_components.files import FileChannel

    channel = FileChannel("benchmark", names, limit_bytes=limit_bytes)
    channel.info()
    return channel


def split(path: Path, directory: Path, part_bytes: int) -> list[Path]:
    """Write the parts of a file as files."""
    parts = []
    with path.open("rb") as source:
        while data := source.read(part_bytes):
            parts.append(directory / str(len(parts)))
            parts[-1].write_bytes(data)
    return parts


def sha256(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def timed(call: Callable[[], object]) -> float:
    """Return how long a call takes, in seconds."""
    started_at = time.perf_counter()
    call()
    return time.perf_counter() - started_at


def row(title: str, size: int, seconds: float, note: str = "") -> None:
    """Print a row."""
    print(f"{title:38} {size / seconds / 1e6:8,.0f} MB/s {seconds:7.2f} s  {note}", flush=True)


if __name__ == "__main__":
    main()
