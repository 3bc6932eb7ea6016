"""A consumer of a channel."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.client import connections
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Batch, Flow, Wait, arun, run
from django_redis_components.core.units import Seconds, to_seconds
from django_redis_components.files.exceptions import FileUnavailable
from django_redis_components.files.manifest import Manifest
from django_redis_components.files.publishing import REAP_COUNT, ChannelOptions, log_reaped
from django_redis_components.files.remote_file import RemoteFile
from django_redis_components.files.scripts import NEXT, REAP

logger = guarded_logger("django_redis_components.files")

#: Longest wait before the state is read again, in seconds: a wakeup may be lost.
LOOK_AGAIN_S = 60.0


class FileConsumer:
    """Receives the files of a channel under one of its consumer names.

    Two processes of one name both get each file, and the first `done` ends it for both: give each process its own name.

    Attributes:
        channel: name of the channel.
        name: of the consumer.
    """

    def __init__(self, options: ChannelOptions, name: str, using: str) -> None:
        """Made by `FileChannel.consumer`."""
        self.channel = options.name
        self.name = name
        self._options = options
        self._using = using

    def __repr__(self) -> str:
        return f"<FileConsumer {self.name!r}>"

    def files(self, timeout: Seconds | None = None) -> Iterator[RemoteFile]:
        """Yield the files that this consumer is not done with, in the order of their announcement, and wait for more.

        A file for which `done` is not called is yielded once by this iteration, and again by the next one.

        Args:
            timeout: seconds to wait for the next file before the iteration ends; 0: none; None: without a limit.

        Raises:
            FileUnavailable: the server evicted the record of a file. The next iteration continues after it.
            redis.exceptions.RedisError: Redis is unavailable.
        """
        wait_s = None if timeout is None else to_seconds(timeout, "timeout", zero=True)
        client, after = connections.client(self._using), "0"
        while (found := run(client, self._next(after, wait_s))) is not None:
            file, order = found
            yield file
            after = after if file.is_done else order

    async def afiles(  # the twin of files()
        self,
        timeout: Seconds | None = None,  # noqa: ASYNC109
    ) -> AsyncIterator[RemoteFile]:
        """See `files`."""
        wait_s = None if timeout is None else to_seconds(timeout, "timeout", zero=True)
        client, after = connections.aclient(self._using), "0"
        while (found := await arun(client, self._next(after, wait_s))) is not None:
            file, order = found
            yield file
            after = after if file.is_done else order

    def _next(self, after: str, wait_s: float | None) -> Flow[tuple[RemoteFile, str] | None]:
        """Return the next file and its order; None if there is none in time."""
        base, started_at = self._options.base, time.monotonic()
        while True:
            reaped, reply = yield Batch(
                [REAP(base=base, count=REAP_COUNT), NEXT(base=base, consumer=self.name, after=after)]
            )
            expires_s = log_reaped(self.channel, reaped)
            if len(reply) == 1:
                logger.warning("Removed %r from channel %r: it had expired.", _decoded(reply[0]), self.channel)
                continue
            if reply:
                return self._file(reply), reply[1].decode()
            left_s = LOOK_AGAIN_S if wait_s is None else wait_s - (time.monotonic() - started_at)
            if left_s <= 0:
                return None
            yield Wait(f"{base}:wakeup:{self.name}", min(left_s, LOOK_AGAIN_S, expires_s + 0.001))

    def _file(self, reply: list[object]) -> RemoteFile:
        file_id, fields = _decoded(reply[0]), reply[2:]
        if not fields:
            reason = 'its record is missing. The server evicted it: "maxmemory-policy" must be "noeviction".'
            raise FileUnavailable(self.channel, file_id, reason)
        pairs = [_decoded(each) for each in fields[0]]  # type: ignore[attr-defined]
        record = dict(pairs_of(pairs))
        saved = {"raw": int(record["saved_raw"]), "data": int(record["saved_data"])}
        manifest = Manifest.from_fields(file_id, record)
        return RemoteFile(self._using, self._options.base, self.channel, self.name, manifest, saved)


def _decoded(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
