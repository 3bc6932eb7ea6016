"""What a supervisor does in one shard: renew leases, run the embedded poller, wait for wakeups, requeue, unregister.

Of several shards one that does not answer is left alone for `AWAY_S`, so that a hung server does not delay the renewals
in the others: the supervisor has one thread.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from redis.exceptions import RedisError

from django_redis_components.core.client.wakeup_listener import WakeupGroup, WakeupListener
from django_redis_components.core.protocol import Command
from django_redis_components.core.text import counted
from django_redis_components.taskqueue.fields import Key, Part
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.outage_log import OutageLog
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.schedules import schedule
from django_redis_components.taskqueue.shard_clients import prompt_client
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.store.unregistered import requeue_unregistered
from django_redis_components.taskqueue.supervisor.child import Child
from django_redis_components.taskqueue.supervisor.remote_control import RemoteControl
from django_redis_components.taskqueue.supervisor.renewals import renew_leases
from django_redis_components.taskqueue.supervisor.termination import WakeupSource, wakeup_key_of

#: Seconds for which a shard that does not answer is left alone, if there are others. A lease lasts longer.
AWAY_S = 5.0


class ShardKeeper:
    """A supervisor's work in one shard.

    Attributes:
        poller: the embedded poller; None without one.
        listener: waits for its wakeups.
    """

    def __init__(
        self, shard: Shard, supervisor: str | None, queues: Sequence[str], wake_fd: int, *, poller: bool
    ) -> None:
        """
        Args:
            supervisor: id of the supervisor; None: only a poller runs.
            queues: that its processes have served; it may grow.
            wake_fd: readable after a signal or a health request.
            poller: whether it runs a poller.
        """
        self._shard = shard
        self._client = prompt_client(shard)
        self._queues = queues
        self._is_only = len(shards_of(shard.using)) == 1
        self._away_until = 0.0
        keys = [] if supervisor is None else [wakeup_key_of(shard, supervisor)]
        self.poller: Poller | None = None
        self._schedules: list[schedule.Schedule] = []
        if poller:
            self._schedules = schedule.registered(shard.using, shard)
            self.poller = Poller(shard, self._client, wake_fd=wake_fd, schedules=self._schedules, other_keys=keys)
            self.listener = self.poller.wakeups
        else:
            self.listener = WakeupListener(shard.client(), keys, wake_fd=wake_fd)
        name = "" if self._is_only else f"Shard {shard.name}: "
        self._outage = OutageLog(logger.warning, logger.info, f"{name}Leases: ")
        self._prefix = name

    def describe(self) -> str:
        """Return the line that a poller logs at its start."""
        of_shard = "" if self._is_only else f" of shard {self._shard.name}"
        poller = "" if self.poller is None else self.poller.id
        return f"Poller {poller}{of_shard}: started with {counted(len(self._schedules), 'schedule')}."

    def is_away(self) -> bool:
        """Return whether the shard is left alone, because it has not answered."""
        return time.monotonic() < self._away_until

    def renew(
        self, children: Sequence[Child], lease_s: float, control: RemoteControl, infos: Mapping[str, str]
    ) -> bool:
        """Renew the leases of these processes in the shard; return False if that failed, and must be repeated.

        Args:
            control: receives the commands.
            infos: what is stored of each process, by the worker's id.
        """
        if self.is_away():
            return True
        error = renew_leases(self._shard, children, lease_s, control, infos)
        if error:
            self._outage.failed(self._prefix + error)
            self._leave_alone()
            return False
        if children:
            self._outage.succeeded()
        return True

    def step(self) -> None:
        """Let the poller run a round if one is due."""
        if self.poller is not None and not self.is_away():
            self.poller.step()
            if self.poller.is_unavailable:
                self._leave_alone()

    def requeue_unregistered(self) -> None:
        """Requeue the unregistered tasks whose names are registered now."""
        if not self.is_away():
            with contextlib.suppress(RedisError):  # the renewal of leases logs the outage, and this is repeated
                requeue_unregistered(self._shard, self._queues)

    def unregister(self, worker: str) -> None:
        """Remove an exited process from the list of workers."""
        self._remove(
            [
                Command("ZREM", self._shard.key(Key.workers), worker, retry=True),
                Command("DEL", self._shard.key(Key.worker, worker), retry=True),
                *self._removals(worker, self._queues),
            ]
        )

    def leave_queues(self, worker: str, queues: Iterable[str]) -> None:
        """Remove a process from the lists of workers of queues that it serves no more."""
        self._remove([*self._removals(worker, queues)])

    def _removals(self, worker: str, queues: Iterable[str]) -> Iterator[Command]:
        for queue in queues:
            yield Command("ZREM", self._shard.queue(queue, Part.workers), worker, retry=True)

    def _remove(self, removals: Sequence[Command]) -> None:
        """Remove entries that would expire otherwise: nothing is repeated."""
        if removals and not self.is_away():
            with contextlib.suppress(RedisError):
                self._client.execute_many(removals)

    def note_wakeup(self) -> bool:
        """Return whether the last wakeup concerns the supervisor, not only its poller."""
        return self.poller is None or self.poller.note_wakeup()

    def close(self) -> None:
        """End the wait; the poller releases its lease."""
        if self.poller is not None and not self.is_away():
            self.poller.close()
        else:
            self.listener.close()

    def _leave_alone(self) -> None:
        if not self._is_only:
            self._away_until = time.monotonic() + AWAY_S


class AllShards:
    """Waits for the wakeups of all shards; see `CancelListener`."""

    def __init__(self, keepers: Sequence[ShardKeeper], wake_fd: int) -> None:
        self._keepers = {keeper.listener: keeper for keeper in keepers}
        self._group = WakeupGroup(list(self._keepers), wake_fd, lambda listener: self._keepers[listener].is_away())

    def wait(self, seconds: float) -> bool:
        """Wait for a wakeup, the file descriptor, the next round of a poller, or `seconds`.

        Returns:
            Whether a wakeup concerns the supervisor.
        """
        for keeper in self._keepers.values():
            if keeper.poller is not None and not keeper.is_away():
                seconds = keeper.poller.seconds_to_round(seconds)
        self._group.wait(seconds)
        concern = [self._keepers[listener].note_wakeup() for listener in self._group.woken]
        return any(concern)

    def close(self) -> None:
        """End the waits; the pollers release their leases."""
        for keeper in self._keepers.values():
            keeper.close()


def source_of(keepers: Sequence[ShardKeeper], wake_fd: int) -> WakeupSource:
    """Return the source of the wakeups of a supervisor."""
    if len(keepers) > 1:
        return AllShards(keepers, wake_fd)
    [keeper] = keepers
    return keeper.poller or keeper.listener


def poller_state(keepers: Sequence[ShardKeeper]) -> str:
    """Return the state of the embedded pollers: active if one is, standby or none."""
    pollers = [keeper.poller for keeper in keepers if keeper.poller is not None]
    if not pollers:
        return "none"
    return "active" if any(poller.is_active for poller in pollers) else "standby"
