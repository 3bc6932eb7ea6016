"""Publishing and receiving of many files, for `manage.py distribute_files`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType

from django_redis_components.files import (
    ChannelFull,
    FileChannel,
    FileChannelError,
    FileConsumer,
    FileUnavailable,
    RemoteFile,
)
from django_redis_components.management.progress import Advance

#: Files of each kind that a result lists; a consumer may run for weeks.
MAX_LISTED = 1_000
#: Seconds after which a consumer tries again to save the files that it could not save.
RETRY_S = 60.0

#: Is called with the name of a file that was not published or received, and the reason.
OnFailure = Callable[[str, str], object]


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

    def remove_failure(self, name: str, reason: str) -> None:
        """Record that a file was received after all."""
        self.failed_count -= 1
        with contextlib.suppress(ValueError):
            self.failed.remove({"name": name, "reason": reason})


def publish_all(
    channel: FileChannel, paths: Sequence[str], timeout_s: float | None, advance: Advance, codec: str | None = None
) -> Distribution:
    """Publish files, and those below directories, under their path below the directory.

    A file that cannot be published is recorded, and the others follow, unless the channel is full.

    Args:
        timeout_s: seconds to wait for room for each file; None: without a limit.
        codec: see `FileChannel.publish`.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    result = Distribution()
    for path, name in _expand(paths, result):
        try:
            published = channel.publish(
                path, name=name, codec=codec, timeout=timeout_s, progress=partial(advance, name=name)
            )
        except (FileChannelError, OSError, ValueError) as exc:
            result.add_failure(name, exc)
            if isinstance(exc, ChannelFull):
                break
        else:
            result.add(published.name, published.size, published.sha256)
    return result


def receive_all(
    consumer: FileConsumer, directory: Path, timeout_s: float | None, advance: Advance, on_failure: OnFailure
) -> Distribution:
    """Save the files of a consumer below a directory; a file of the same name is replaced.

    A file that cannot be saved stays in the channel, and is tried again after a minute. Ctrl-C and SIGTERM end the
    call; the next one continues.

    Args:
        timeout_s: seconds to wait for the next file; None: without a limit.
        on_failure: is called when a file cannot be saved, once for each reason.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    receiver = _Receiver(consumer, directory, advance, on_failure)
    with contextlib.suppress(KeyboardInterrupt), _interrupted_by_sigterm():
        receiver.run(timeout_s)
    return receiver.result


class _Receiver:
    """One call of `receive_all`."""

    def __init__(self, consumer: FileConsumer, directory: Path, advance: Advance, on_failure: OnFailure) -> None:
        self.result = Distribution()
        self._consumer = consumer
        self._directory = directory
        self._advance = advance
        self._on_failure = on_failure
        #: Why files could not be saved, by their id.
        self._reasons: dict[str, str] = {}

    def run(self, timeout_s: float | None) -> None:
        """Save files until there is none for some time."""
        idle_since = time.monotonic()
        while True:
            started_at = time.monotonic()
            left_s = RETRY_S if timeout_s is None else min(RETRY_S, max(0.0, idle_since + timeout_s - started_at))
            try:
                for file in self._consumer.files(left_s):
                    is_new = file.id not in self._reasons
                    if self._save(file) or is_new:
                        idle_since = time.monotonic()
                    if self._reasons and time.monotonic() - started_at > RETRY_S:
                        break  # the next iteration yields the failed files again
            except FileUnavailable as exc:  # the server evicted its record
                self._fail(exc.name, exc.name, str(exc))
                continue
            if timeout_s is not None and time.monotonic() - idle_since >= timeout_s:
                return

    def _save(self, file: RemoteFile) -> bool:
        """Save a file; return whether it was."""
        try:
            target = safe_path(self._directory, file.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.save_to(target, progress=partial(self._advance, name=file.name))
        except (FileChannelError, OSError, ValueError) as exc:
            self._fail(file.id, file.name, str(exc))
            return False
        if (reason := self._reasons.pop(file.id, None)) is not None:
            self.result.remove_failure(file.name, reason)
        self.result.add(file.name, file.size, file.sha256)  # first: Ctrl-C may interrupt the call
        file.done()
        return True

    def _fail(self, file_id: str, name: str, reason: str) -> None:
        former = self._reasons.get(file_id)
        if former == reason:
            return
        if former is not None:
            self.result.remove_failure(name, former)
        self._reasons[file_id] = reason
        self.result.add_failure(name, reason)
        self._on_failure(name, reason)


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM, so that the result is printed. Only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


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


def total_bytes(paths: Sequence[str]) -> int:
    """Return the bytes of all files, for the progress bar."""
    total = 0
    for path, _ in _expand(paths, Distribution()):
        with contextlib.suppress(OSError):
            total += Path(path).stat().st_size
    return total


def _expand(paths: Sequence[str], result: Distribution) -> Iterator[tuple[str, str]]:
    """Yield each file and the name under which it is published; symbolic links to directories are not followed."""
    for path in paths:
        if not os.path.isdir(path):  # noqa: PTH112 - of Path it raises if the name is too long
            yield path, Path(path).name
            continue
        for folder, folders, names in os.walk(path, onerror=partial(result.add_failure, path)):
            folders.sort()
            for name in sorted(names):
                found = Path(folder) / name
                yield str(found), found.relative_to(path).as_posix()
