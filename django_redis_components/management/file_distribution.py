"""Publishing and receiving of many files, for `manage.py distribute_files`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from django_redis_components.files import (
    ChannelFull,
    FileChannel,
    FileChannelError,
    FileConsumer,
    FileUnavailable,
    RemoteFile,
)

#: Files of each kind that a result lists; a consumer may run for weeks.
MAX_LISTED = 1_000

#: Shows how many bytes of which file were written.
Progress = Callable[[str, int], object]


@dataclasses.dataclass(slots=True)
class Distribution:
    """What was published or received.

    Attributes:
        count, bytes: of the files that were.
        failed_count: number of files that were not.
        files: name, bytes and SHA-256 of the first 1,000.
        failed: name and reason of the first 1,000.
    """

    count: int = 0
    bytes: int = 0
    failed_count: int = 0
    files: list[dict[str, object]] = dataclasses.field(default_factory=list)
    failed: list[dict[str, str]] = dataclasses.field(default_factory=list)

    def add(self, name: str, size: int, sha256: str) -> None:
        """Record a file."""
        self.count += 1
        self.bytes += size
        if len(self.files) < MAX_LISTED:
            self.files.append({"name": name, "bytes": size, "sha256": sha256})

    def add_failure(self, name: str, reason: object) -> None:
        """Record a file that was not published or received."""
        self.failed_count += 1
        if len(self.failed) < MAX_LISTED:
            self.failed.append({"name": name, "reason": str(reason)})


def publish_all(
    channel: FileChannel, paths: Sequence[str], timeout_s: float | None, progress: Progress
) -> Distribution:
    """Publish files, and those below directories, under their path below the directory.

    A file that cannot be published is recorded, and the others follow, unless the channel is full.

    Args:
        timeout_s: seconds to wait for room for each file; None: without a limit.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    result = Distribution()
    for path, name in _expand(paths, result):
        try:
            published = channel.publish(path, name=name, timeout=timeout_s, progress=partial(progress, name))
        except (FileChannelError, OSError, ValueError) as exc:
            result.add_failure(name, exc)
            if isinstance(exc, ChannelFull):
                break
        else:
            result.add(published.name, published.size, published.sha256)
    return result


def receive_all(consumer: FileConsumer, directory: Path, timeout_s: float | None, progress: Progress) -> Distribution:
    """Save the files of a consumer below a directory; a file of the same name is replaced.

    A file that cannot be saved is recorded and stays in the channel. Ctrl-C ends the call; the next one continues.

    Args:
        timeout_s: seconds to wait for the next file; None: without a limit.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    result = Distribution()
    with contextlib.suppress(KeyboardInterrupt):
        for file in _files(consumer, timeout_s, result):
            try:
                target = safe_path(directory, file.name)
                target.parent.mkdir(parents=True, exist_ok=True)
                file.save_to(target, partial(progress, file.name))
            except (FileChannelError, OSError, ValueError) as exc:
                result.add_failure(file.name, exc)
            else:
                result.add(file.name, file.size, file.sha256)  # first: Ctrl-C may interrupt the call
                file.done()
    return result


def safe_path(directory: Path, name: str) -> Path:
    """Return the path of a published file below a directory; names come from producers.

    Raises:
        ValueError: the name is absolute or leads out of the directory, also through a symbolic link.
    """
    root = directory.resolve()
    target = (root / name).resolve()
    if Path(name).is_absolute() or ".." in Path(name).parts or root not in target.parents:
        raise ValueError(f"{name!r} is not a path below {str(directory)!r}: not saved.")
    return root / name


@contextlib.contextmanager
def byte_progress(total: int | None) -> Iterator[Progress]:
    """Show a progress bar on a terminal, if tqdm is installed.

    Args:
        total: bytes of all files; None if it is not known.
    """
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda name, count: None
        return
    with tqdm(total=total, unit="B", unit_scale=True, unit_divisor=1024, disable=None, file=sys.stderr) as bar:

        def update(name: str, count: int) -> None:
            bar.set_description(name[-30:], refresh=False)
            bar.update(count)

        yield update


def total_bytes(paths: Sequence[str]) -> int:
    """Return the bytes of all files, for the progress bar."""
    total = 0
    for path, _ in _expand(paths, Distribution()):
        with contextlib.suppress(OSError):
            total += Path(path).stat().st_size
    return total


def _files(consumer: FileConsumer, timeout_s: float | None, result: Distribution) -> Iterator[RemoteFile]:
    """Yield files; record those whose record the server evicted."""
    while True:
        try:
            yield from consumer.files(timeout_s)
        except FileUnavailable as exc:
            result.add_failure(exc.name, exc)
        else:
            return


def _expand(paths: Sequence[str], result: Distribution) -> Iterator[tuple[str, str]]:
    """Yield each file and the name under which it is published; symbolic links to directories are not followed."""
    for path in paths:
        if not Path(path).is_dir():
            yield path, Path(path).name
            continue
        for folder, folders, names in os.walk(path, onerror=partial(result.add_failure, path)):
            folders.sort()
            for name in sorted(names):
                found = Path(folder) / name
                yield str(found), str(found.relative_to(path))
