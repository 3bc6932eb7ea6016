"""The process that `runworker` starts. It runs no task code, so no task can stop it.

It forks the worker processes, renews their leases while they send heartbeats, kills a process that stalls, replaces one
that died, and runs the embedded poller. It has one thread, so it can fork at any time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import time
from collections.abc import Sequence

from django_redis_components.core.settings import conf
from django_redis_components.core.slot_waits import slot_wait_limit
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue import forks
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.middleware import WorkerDescription, pipeline
from django_redis_components.taskqueue.shards import shards_of
from django_redis_components.taskqueue.store.workers import POOL, RESET, STACK, VERBS, RemoteCommand
from django_redis_components.taskqueue.supervisor.autoreload import ReloaderClient
from django_redis_components.taskqueue.supervisor.child import Child, spawn
from django_redis_components.taskqueue.supervisor.health import Health
from django_redis_components.taskqueue.supervisor.orphans import OrphanReaper
from django_redis_components.taskqueue.supervisor.pool_changes import PoolChanges
from django_redis_components.taskqueue.supervisor.remote_control import RemoteControl
from django_redis_components.taskqueue.supervisor.shard_keeper import ShardKeeper, poller_state, source_of
from django_redis_components.taskqueue.supervisor.termination import CancelListener, Terminator
from django_redis_components.taskqueue.worker.options import WorkerOptions
from django_redis_components.taskqueue.worker.process_signals import QUIET, STOP_NOW, STOP_SIGNALS

#: Renewals in the lifetime of a lease.
RENEWALS_PER_LEASE = 3
#: Seconds between two reads of a heartbeat that is larger than the pipe.
READ_REST_S = 0.02
#: Seconds after the grace period when a process that does not stop is killed.
KILL_AFTER_S = 10.0
#: Seconds between two looks whether the processes have changed their pools.
POOL_LOOK_S = 0.05
#: Seconds between two checks of the unregistered tasks: during a rolling deploy old workers set aside new tasks.
REQUEUE_UNREGISTERED_S = 60.0
#: Longest delay before a process that dies repeatedly is restarted, in seconds.
MAX_RESTART_S = 30.0
#: Seconds within which another SIGTERM is a copy of the first: `timeout` and process managers send one to the process,
#: and again to its group.
COPY_S = 0.5


class Supervisor:
    """Keeps a number of worker processes running until it is stopped."""

    def __init__(
        self,
        options: WorkerOptions,
        processes: int,
        *,
        poller: bool = True,
        using: str = "default",
        health: Health | None = None,
        reloader: ReloaderClient | None = None,
    ) -> None:
        self._reloader = reloader
        self._id = f"{socket.gethostname()}:{secrets.token_hex(3)}"
        self._pools = PoolChanges(options, using)
        self._terminator = Terminator(self._pools.queues, using)
        self._health = health or Health()
        self._options = options
        self._count = processes
        self._with_poller = poller
        self._using = using
        self._keepers: list[ShardKeeper] = []
        self._lease_s = to_ms(conf.settings().taskqueue.lease_s, "lease") / 1_000
        self._grace_s = to_ms(conf.settings().taskqueue.grace_s, "grace", zero=True) / 1_000
        self._children: list[Child] = []
        self._stops = self._forwarded_stops = 0
        self._terminated_at = float("-inf")
        self._orphans = OrphanReaper()
        self._quiet = self._has_forwarded_quiet = False
        self._control = RemoteControl(self._id)
        self._renew_at = 0.0
        self._requeue_at = time.monotonic() + REQUEUE_UNREGISTERED_S
        self._restart_at: list[float] = []
        self._short_lives = 0
        self._kill_at = float("inf")
        self._reaped_at = time.monotonic()
        self._exit_code = 0

    def run(self, stops: Sequence[int] = (), quiets: Sequence[int] = ()) -> int:
        """Run until stopped; return the exit code: 0, or 1 if a process had to be killed to stop it.

        Args:
            stops, quiets: signals that were received before.
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
        worker = WorkerDescription(self._id, self._options.queues, self._using)
        pipeline.notify("on_worker_start", worker)
        for _ in range(self._count):
            self._start_child()
        if quiets:
            self._on_quiet()
        try:
            with slot_wait_limit(0):  # signals, heartbeats and time limits must not wait for a Cluster slot
                return self._loop(read_fd, self._health.watch(read_fd))
        finally:
            self._health.close()
            pipeline.notify("on_worker_stop", worker)

    def _on_stop(self, number: int, _: object) -> None:
        if number == signal.SIGTERM:
            before, self._terminated_at = self._terminated_at, time.monotonic()
            if self._terminated_at - before < COPY_S:
                return
        self._stops += 1

    def _on_quiet(self, *_: object) -> None:
        self._quiet = True

    def _start_child(self) -> None:
        port = [self._health.port] if self._health.port else []
        self._children.append(spawn(self._pools.new_pool(), self._using, [*self._children, *port], self._id))

    def _loop(self, read_fd: int, wake_fd: int) -> int:
        """
        Args:
            read_fd: readable after a signal.
            wake_fd: readable after a signal or a health request.
        """
        self._keepers = [
            ShardKeeper(shard, self._id, self._pools.queues, wake_fd, poller=self._with_poller)
            for shard in shards_of(self._using)
        ]
        listener = CancelListener(source_of(self._keepers, wake_fd), wake_fd)
        while self._children or self._restart_at or (self._quiet and not self._stops):
            self._reap()
            self._control.poller = poller_state(self._keepers)
            self._renew(now=listener.should_check())
            self._execute_commands()
            self._terminator.check(self._children)
            self._stop_if_reloader_exited()
            self._requeue_unregistered()
            if self._stops > self._forwarded_stops:
                self._forward_stop(self._stops)
            if self._quiet and not self._has_forwarded_quiet and not self._stops:
                self._forward_quiet()
            self._start_replacements()
            self._report_health()
            for keeper in self._keepers:
                keeper.step()
            if listener.wait(self._seconds_to_next()):
                for child in self._children:
                    child.request_heartbeat()
            with contextlib.suppress(BlockingIOError):
                os.read(read_fd, 4_096)
        listener.close()
        return self._exit_code

    def _seconds_to_next(self) -> float:
        now = time.monotonic()
        look_at = now + (POOL_LOOK_S if self._pools.is_pending() else 1.0)
        times = [self._renew_at, look_at, self._kill_at, self._terminator.next_at(self._children), *self._restart_at]
        times += [now + READ_REST_S for child in self._children if child.is_sending()]
        return max(0.0, min(times) - now)

    def _forward_stop(self, stops: int) -> None:
        """First signal: finish running tasks within the grace period. Second: return them now."""
        self._forwarded_stops = stops
        if stops == 1:
            message = "Stopping: running tasks have %.3g s to finish; a second signal returns them to their queues now."
            logger.info(message, self._grace_s)
        self._restart_at.clear()
        self._kill_at = time.monotonic() + (self._grace_s if stops == 1 else 0.0) + KILL_AFTER_S
        for child in self._children:
            if stops > 1:
                child.signal(signal.SIGTERM)
                child.signal(STOP_NOW)
            elif child.state() != "stopping":  # its own grace period has begun before
                child.stop(self._kill_at)

    def _stop_if_reloader_exited(self) -> None:
        if self._stops == 0 and self._reloader is not None and self._reloader.has_exited():
            logger.warning("The reloader has exited; stopping.")
            self._stops = 1

    def _report_health(self) -> None:
        if self._stops:
            self._health.set_stopping()
        else:
            self._health.update(self._children, self._count, self._lease_s)

    def _forward_quiet(self) -> None:
        logger.info("Quiet: fetching nothing more; running tasks finish. Send SIGTERM to stop the worker.")
        self._restart_at.clear()
        for child in self._children:
            child.quiet()
        self._has_forwarded_quiet = True

    def _execute_commands(self) -> None:
        """Execute the commands that the latest heartbeat has read, and report their outcomes with another one."""
        finished = [(command, self._execute(command)) for command in self._control.take()]
        changed = [*self._pools.take_finished(self._children)]
        for command, outcome in finished + changed:
            if outcome:
                self._control.finish(command, outcome)
                self._renew_at = 0.0
        for child in self._children if changed else []:
            for keeper in self._keepers:
                keeper.leave_queues(child.worker_id, {*self._pools.queues} - {*child.pool.current.queues})

    def _execute(self, command: RemoteCommand) -> str:
        """Execute a command; return its outcome: done, or why it could not be; "" if that is known later."""
        if command.verb == STACK:
            for child in [child for child in self._children if child.worker_id == command.target]:
                child.request_stack(command.argument, command.op)
            return "done"
        if self._stops:
            return "stopping"
        if command.verb in (POOL, RESET):
            return self._pools.execute(
                command, [child for child in self._children if command.target in (self._id, child.worker_id)]
            )
        if command.verb not in VERBS:
            return "unknown"
        reason = f"{command.verb} requested by {command.author}"
        if command.target == self._id:
            return self._execute_for_all(command.verb, reason)
        found = [child for child in self._children if child.worker_id == command.target]
        return self._execute_for(found[0], command.verb, reason) if found else "gone"

    def _execute_for_all(self, verb: str, reason: str) -> str:
        if verb == "stop":
            self._stops = max(self._stops, 1)
        elif verb == "quiet":
            self._quiet = True
        elif verb == "resume":
            return self._resume(reason)
        elif self._quiet:
            return "quiet"
        else:
            for child in [child for child in self._children if not child.is_restarted]:
                child.restart(reason)
        return "done"

    def _execute_for(self, child: Child, verb: str, reason: str) -> str:
        if child.state() in ("stopping", "restarting") and verb != "stop":
            return child.state()
        if verb == "stop":
            return self._stop_child(child)
        if verb == "quiet":
            child.quiet()
        elif self._quiet:
            return "quiet"
        elif verb == "resume" and not child.is_quiet:
            return "not_quiet"
        else:
            child.restart(reason)
        return "done"

    def _resume(self, reason: str) -> str:
        """Restart the quiet processes: a process that has stopped its threads cannot start them again."""
        quiet = [child for child in self._children if child.is_quiet and not child.is_restarted]
        if not self._quiet and not quiet:
            return "not_quiet"
        for child in quiet:
            child.restart(reason)
        if self._quiet:  # processes that have exited meanwhile were not restarted
            present = sum(not child.is_restarted for child in self._children) + len(self._restart_at)
            self._restart_at += [time.monotonic()] * (self._count - present)
        self._quiet = self._has_forwarded_quiet = False
        return "done"

    def _stop_child(self, child: Child) -> str:
        if child.state() == "stopping":
            return "stopping"
        if not child.is_restarted:  # no other process takes its place
            child.is_restarted = True
            self._count -= 1
        child.stop(time.monotonic() + self._grace_s + KILL_AFTER_S)
        return "done"

    def _should_restart(self) -> bool:
        """Return whether processes that exit are restarted."""
        return self._stops == 0 and not self._quiet

    def _reap(self) -> None:
        now = time.monotonic()
        if now - self._reaped_at > self._lease_s / 2:  # SIGSTOP, Ctrl-Z or `docker pause` stop all processes together
            for child in self._children:
                child.spare()
        self._reaped_at = now
        for child in list(self._children):
            child.read_heartbeats()
            if self._stops == 0 and child.is_stalled(self._lease_s):
                logger.error("Worker process %d sends no heartbeat; killing it.", child.pid)
                child.signal(signal.SIGKILL)
            if now > min(self._kill_at, child.stop_by):
                self._exit_code = 1 if self._stops else self._exit_code
                child.signal(signal.SIGKILL)
            exit_text = child.poll_exit()
            if child.has_become_quiet() and self._should_restart():
                child.restart("another program has made it quiet by a signal")
            if child.heartbeat.restart_reason and self._should_restart():
                self._restart(child, has_exited=exit_text is not None)
            if exit_text is not None:
                self._children.remove(child)
                self._clean_up(child, exit_text)
        self._orphans.reap([child.pid for child in self._children])

    def _clean_up(self, child: Child, exit_text: str) -> None:
        """Settle the leases of an exited process, and plan its restart."""
        self._terminator.return_prefetched(child)
        if child.final_acks:
            self._terminator.settle_terminated(child)
        elif exit_text != "exit code 0" or child.prefetched.running():  # a task may call os._exit(0)
            self._terminator.expire_leases(child)
        for keeper in self._keepers:
            keeper.unregister(child.worker_id)
        is_done = child.is_restarted or (self._options.burst and exit_text == "exit code 0")
        if self._should_restart() and not is_done:
            self._plan_restart(child, exit_text)

    def _restart(self, child: Child, *, has_exited: bool) -> None:
        """Start a successor at once, so that the last tasks of the process, even long ones, delay nothing.

        At most twice the number of processes exist at the same time; beyond that, the successor starts when the
        process has exited.
        """
        if not child.is_restarted and (has_exited or len(self._children) < 2 * self._count):
            child.is_restarted = True
            logger.info("Restarting worker process %d: %s.", child.pid, child.heartbeat.restart_reason)
            self._restart_at.append(time.monotonic())

    def _plan_restart(self, child: Child, exit_text: str) -> None:
        # A task that kills its process is limited by max_deliveries; a delay would hold up all other tasks.
        is_short = child.age_s() < 5.0 and not child.final_acks and not child.prefetched.running()
        delay_s = self._count_short_life() if is_short else 0.0
        if not is_short:
            self._short_lives = 0
        logger.error("Worker process %d exited (%s); starting another in %.3g s.", child.pid, exit_text, delay_s)
        self._restart_at.append(time.monotonic() + delay_s)

    def _count_short_life(self) -> float:
        """Return the delay of the next restart, which doubles with each process that dies at once."""
        self._short_lives += 1
        return min(MAX_RESTART_S, 0.1 * 2.0 ** min(self._short_lives, 30))

    def _start_replacements(self) -> None:
        now = time.monotonic()
        for at in [at for at in self._restart_at if at <= now]:
            self._restart_at.remove(at)
            try:
                self._start_child()
            except Exception:  # without memory, for example; the other processes go on
                delay_s = self._count_short_life()
                logger.exception("A worker process cannot start; trying again in %.3g s.", delay_s)
                self._restart_at.append(now + delay_s)

    def _renew(self, *, now: bool = False) -> None:
        fresh = [child for child in self._children if child.is_fresh(self._lease_s)]
        has_news = any(child.state() != child.reported_state for child in fresh)
        if not (now or has_news) and time.monotonic() < self._renew_at:
            return
        self._renew_at = time.monotonic() + self._lease_s / RENEWALS_PER_LEASE
        infos = {child.worker_id: child.info(self._control.facts(child.worker_id)) for child in fresh}
        renewed = [keeper.renew(fresh, self._lease_s, self._control, infos) for keeper in self._keepers]
        if not all(renewed):
            self._renew_at = time.monotonic() + 0.5

    def _requeue_unregistered(self) -> None:
        now = time.monotonic()
        if self._should_restart() and now >= self._requeue_at:
            self._requeue_at = now + REQUEUE_UNREGISTERED_S
            for keeper in self._keepers:
                keeper.requeue_unregistered()
