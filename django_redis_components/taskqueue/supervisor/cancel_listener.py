"""How a supervisor hears that tasks of its processes are to be cancelled: a bell of its own, rung by `cancel`."""

from __future__ import annotations

import select
import time

from redis.exceptions import RedisError

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.store.fields import base_key

#: After a ring the leases are looked at twice, in seconds: when the processes have had time to say which they hold,
#: and once more for one that was slow to say it.
LOOKS_S = (0.05, 1.2)
#: Longest pause after an error, in seconds.
ERROR_PAUSE_S = 0.5


def bell_of(supervisor: str) -> str:
    """The key of a supervisor's bell."""
    return f"{base_key()}:bell:s:{supervisor}"


class Hearing:
    """Waits for the supervisor; with an embedded poller both wait for their bells in one command."""

    def __init__(self, client: SyncClient, bell: str, wake_fd: int, poller: Poller | None) -> None:
        """Args: poller: the one that listens to the bell too; None without one."""
        self._ears = _Ears(client, bell, wake_fd) if poller is None else poller
        self._looks: list[float] = []

    def wait(self, seconds: float) -> bool:
        """Wait until the bell rings (then the value is True), the descriptor is readable, or time has passed."""
        until_look_s = min(self._looks, default=float("inf")) - time.monotonic()
        rang = self._ears.wait(max(0.0, min(seconds, until_look_s)))
        if rang:
            self._looks = [time.monotonic() + look_s for look_s in LOOKS_S]
        return rang

    def must_look(self) -> bool:
        """Whether it is time to look for tasks that were asked to end."""
        due = [at for at in self._looks if at <= time.monotonic()]
        self._looks = [at for at in self._looks if at not in due]
        return bool(due)

    def close(self) -> None:
        """Give up the wait; a poller gives its place up too."""
        self._ears.close()


class _Ears:
    """Waits for the bell alone."""

    def __init__(self, client: SyncClient, bell: str, wake_fd: int) -> None:
        self._bell = WakeupListener(client, [bell], wake_fd=wake_fd)
        self._wake_fd = wake_fd
        self.close = self._bell.close

    def wait(self, seconds: float) -> bool:
        try:
            return self._bell.wait(seconds)
        except RedisError:  # the renewals speak of it
            select.select([self._wake_fd], [], [], min(seconds, ERROR_PAUSE_S))
            return False
