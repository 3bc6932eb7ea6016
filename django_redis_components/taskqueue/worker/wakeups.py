"""What a worker waits for when its queues are empty: the wakeups of its shards."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from redis.exceptions import RedisError

from django_redis_components.core.client.wakeup_listener import WakeupGroup, WakeupListener
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue.fields import Ttl
from django_redis_components.taskqueue.shard_clients import prompt_client
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.sharded_fetcher import ShardedFetcher


def open_wakeups(
    shards: Sequence[Shard], fetcher: Fetcher | ShardedFetcher, queues: Sequence[str], wake_fd: int
) -> WakeupListener | WakeupGroup:
    """Return what a worker of these queues waits for."""
    listeners = {
        WakeupListener(shard.client(), [shard.wakeup(f"q:{queue}") for queue in queues], wake_fd=wake_fd): shard
        for shard in shards
    }
    return _Wakeups(fetcher, listeners, wake_fd) if isinstance(fetcher, ShardedFetcher) else next(iter(listeners))


def notify_others(shards: Sequence[Shard], queues: Sequence[str]) -> None:
    """Notify another worker of each of these queues: this one may have taken the wakeup before it left them."""
    for shard in shards:
        with contextlib.suppress(RedisError):  # other workers look without a wakeup, too, every few seconds
            prompt_client(shard).execute_many(
                [
                    command
                    for key in (shard.wakeup(f"q:{queue}") for queue in queues)
                    for command in (
                        Command("ZADD", key, "0", "1", retry=True),
                        Command("PEXPIRE", key, Ttl.wakeup_ms, retry=True),
                    )
                ]
            )


class _Wakeups(WakeupGroup):
    """The wakeups of all shards of a fetcher; it learns which shard has one."""

    def __init__(self, fetcher: ShardedFetcher, shards: Mapping[WakeupListener, Shard], wake_fd: int) -> None:
        super().__init__(list(shards), wake_fd, lambda listener: fetcher.is_away(shards[listener]))
        self._fetcher, self._shards = fetcher, shards

    def wait(self, seconds: float) -> bool:
        """See `WakeupGroup.wait`."""
        was_woken = super().wait(seconds)
        for listener in self.woken:
            self._fetcher.note_wakeup(self._shards[listener])
        return was_woken
