"""The process that `runworker` starts: it runs no task code, so nothing a task does can stop it.

It forks the worker processes, renews their leases while their beacons are fresh, kills one that
stalls, replaces one that died, and tends the queue as an embedded poller. One thread, one
`select`: a fork is safe at any time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Sequence

from redis.exceptions import RedisError

from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.client.slot_migration import slot_wait_limit
from django_redis_components.core.outage_log import OutageLog
from django_redis_components.core.protocol import Command
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue import forks
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.schedules import schedule as declared
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.unregistered import requeue_unregistered
from django_redis_components.taskqueue.supervisor.autoreload import Watched
from django_redis_components.taskqueue.supervisor.cancel_listener import Hearing, bell_of
from django_redis_components.taskqueue.supervisor.child import QUIET, STOP_NOW, STOP_SIGNALS, Child, WorkerOptions
from django_redis_components.taskqueue.supervisor.health import Health
from django_redis_components.taskqueue.supervisor.lease_renewal import renew
from django_redis_components.taskqueue.supervisor.termination import Endings
from django_redis_components.taskqueue.worker.process import spawn

logger = logging.getLogger("django_redis_components.taskqueue")

#: Renewals in the life of a lease.
RENEWALS_PER_LEASE = 3
#: Seconds beyond the grace after which a process that does not stop is killed.
KILL_AFTER_S = 10.0
#: Seconds between two checks of the unregistered tasks: during a rolling deploy old workers set aside new tasks.
UNPARK_S = 60.0
#: Longest pause before a process that dies again and again is replaced, in seconds.
MAX_RESTART_S = 30.0


class Supervisor:
    """Keeps `processes` workers alive until it is told to stop."""

    def __init__(
        self,
        options: WorkerOptions,
        processes: int,
        *,
        poller: bool = True,
        using: str = "default",
        health: Health | None = None,
        watched: Watched | None = None,
    ) -> None:
        self._watched = watched
        self._id = f"{socket.gethostname()}:{secrets.token_hex(3)}"
        self._endings = Endings(options.queues, using)
        self._health = health or Health()
        self._options = options
        self._count = processes
        self._with_poller = poller
        self._using = using
        self._lease_s = to_ms(conf.settings().taskqueue.lease_s, "lease") / 1_000
        self._grace_s = to_ms(conf.settings().taskqueue.grace_s, "grace", zero=True) / 1_000
        self._children: list[Child] = []
        self._stops = 0
        self._quiet = False
        self._renew_at = 0.0
        self._outage = OutageLog(logger.warning, logger.info, "Leases: ")
        self._unpark_at = time.monotonic() + UNPARK_S
        self._restart_at: list[float] = []
        self._short_lives = 0
        self._kill_at = float("inf")
        self._exit_code = 0

    def run(self, stops: Sequence[int] = (), quiets: Sequence[int] = ()) -> int:
        """Work until stopped; the value is the exit code: 0, or 1 when a process had to be killed to stop.

        Args:
            stops, quiets: where signals were noted until now.
        """
        read_fd, write_fd = os.pipe()
        os.set_blocking(write_fd, False)
        os.set_blocking(read_fd, False)
        forks.close_in_children(read_fd, write_fd)
        forks.set_wakeup_fd(write_fd)
        for number in STOP_SIGNALS:
            forks.set_signal_handler(number, self._on_stop)
        forks.set_signal_handler(QUIET, self._on_quiet)
        if stops:
            return 0
        forks.set_signal_handler(signal.SIGCHLD, lambda *_: None)
        for _ in range(self._count):
            self._start_child()
        if quiets:
            self._on_quiet()
        try:
            with slot_wait_limit(0):  # signals, beacons and time limits are looked at meanwhile
                return self._loop(read_fd, self._health.watch(read_fd))
        finally:
            self._health.close()

    def _on_stop(self, *_: object) -> None:
        self._stops += 1

    def _on_quiet(self, *_: object) -> None:
        self._quiet = True

    def _start_child(self) -> None:
        port = [self._health.port] if self._health.port else []
        self._children.append(spawn(self._options, self._using, [*self._children, *port], self._id))

    def _loop(self, read_fd: int, wake_fd: int) -> int:
        """Args: read_fd: where signals are noted; wake_fd: readable when it is, or when a caller asks how it is."""
        client = connections.client(self._using)
        schedules = declared.registered(self._using)
        bell = bell_of(self._id)
        poller = Poller(client, wake_fd=wake_fd, schedules=schedules, also=[bell]) if self._with_poller else None
        hearing = Hearing(client, bell, wake_fd, poller)
        told, told_quiet = 0, False
        while self._children or self._restart_at or (self._quiet and not self._stops):
            self._reap()
            self._renew(now=hearing.must_look())
            self._endings.look(self._children)
            self._stop_if_alone()
            self._unpark()
            if self._stops > told:
                told = self._tell_stop(self._stops)
            if self._quiet and not told_quiet and not self._stops:
                told_quiet = self._tell_quiet()
            self._replace()
            self._tell_health()
            if poller is not None:
                poller.step()
            if hearing.wait(self._seconds_to_next()):
                for child in self._children:
                    child.ask()
            self._drain(read_fd)
        hearing.close()
        return self._exit_code

    def _seconds_to_next(self) -> float:
        now = time.monotonic()
        times = [self._renew_at, now + 1.0, self._kill_at, self._endings.next_at(self._children), *self._restart_at]
        return max(0.0, min(times) - now)

    @staticmethod
    def _drain(fd: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(fd, 4_096)

    def _tell_stop(self, stops: int) -> int:
        """First signal: finish what runs, within the grace. Second: hand it back now."""
        if stops == 1:
            logger.info("Stopping: running tasks have %.3g s to finish; a second signal ends them now.", self._grace_s)
        self._restart_at.clear()
        self._kill_at = time.monotonic() + (self._grace_s if stops == 1 else 0.0) + KILL_AFTER_S
        for child in self._children:
            child.signal(signal.SIGTERM if stops == 1 else STOP_NOW)
        return stops

    def _stop_if_alone(self) -> None:
        if self._stops == 0 and self._watched is not None and self._watched.is_alone():
            logger.warning("The reloader is gone; stopping.")
            self._stops = 1

    def _tell_health(self) -> None:
        if self._stops:
            self._health.stopping()
        else:
            self._health.tell(self._children, self._count, self._lease_s)

    def _tell_quiet(self) -> bool:
        logger.info("Quiet: nothing more is fetched, and what runs is finished. SIGTERM ends the worker.")
        self._restart_at.clear()
        for child in self._children:
            child.signal(QUIET)
        return True

    def _goes_on(self) -> bool:
        """Whether processes that end are replaced."""
        return self._stops == 0 and not self._quiet

    def _reap(self) -> None:
        now = time.monotonic()
        for child in list(self._children):
            child.read_beacons()
            if self._stops == 0 and child.stalled(self._lease_s):
                logger.error("Worker process %d gives no sign of life; killing it.", child.pid)
                child.signal(signal.SIGKILL)
            if now > self._kill_at:
                self._exit_code = 1
                child.signal(signal.SIGKILL)
            ended = child.ended()
            if child.beacon.leaving and self._goes_on():
                self._relieve(child, at_once=ended is not None)
            if ended is None:
                continue
            self._children.remove(child)
            self._endings.hand_back_unbegun(child)
            self._endings.bury(child)
            self._leave(child)
            done = child.relieved or (self._options.burst and ended == "exit code 0")
            if self._goes_on() and not done:
                self._plan_restart(child, ended)

    def _relieve(self, child: Child, *, at_once: bool) -> None:
        """Start another in the place of one that leaves, so that its last tasks, long ones perhaps, hold up nothing.

        No more than twice the processes live at the same time: beyond that the new one waits for the old one's end.
        """
        if not child.relieved and (at_once or len(self._children) < 2 * self._count):
            child.relieved = True
            logger.info("Worker process %d is replaced: %s.", child.pid, child.beacon.leaving)
            self._restart_at.append(time.monotonic())

    def _plan_restart(self, child: Child, ended: str) -> None:
        # A task that kills its process uses up its own deliveries; a pause would cost all others their time.
        short = child.age_s() < 5.0 and not child.sentence and not child.unbegun.running()
        self._short_lives = self._short_lives + 1 if short else 0
        pause_s = min(MAX_RESTART_S, 0.1 * 2**self._short_lives) if self._short_lives else 0.0
        logger.error("Worker process %d ended (%s); a new one starts in %.3g s.", child.pid, ended, pause_s)
        self._restart_at.append(time.monotonic() + pause_s)

    def _replace(self) -> None:
        now = time.monotonic()
        for at in [at for at in self._restart_at if at <= now]:
            self._restart_at.remove(at)
            self._start_child()

    def _renew(self, *, now: bool = False) -> None:
        if not now and time.monotonic() < self._renew_at:
            return
        self._renew_at = time.monotonic() + self._lease_s / RENEWALS_PER_LEASE
        living = [child for child in self._children if child.fresh(self._lease_s)]
        trouble = renew(living, self._lease_s, self._using)
        if trouble:
            self._outage.failed(trouble)
            self._renew_at = time.monotonic() + 0.5
        elif living:
            self._outage.succeeded()

    def _unpark(self) -> None:
        now = time.monotonic()
        if self._goes_on() and now >= self._unpark_at:
            self._unpark_at = now + UNPARK_S
            with contextlib.suppress(RedisError):  # the renewals speak of it, and there is a next time
                requeue_unregistered(self._options.queues, self._using)

    def _leave(self, child: Child) -> None:
        """Take an ended process off the list of workers."""
        base = base_key()
        client = connections.client(self._using)
        with contextlib.suppress(RedisError):
            client.execute_many(
                [
                    Command("ZREM", f"{base}:workers", child.worker_id, retry=True),
                    Command("DEL", f"{base}:worker:{child.worker_id}", retry=True),
                ]
            )
