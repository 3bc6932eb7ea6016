"""What `runworker` and `runpoller` do, without argparse."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from redis.exceptions import ConnectionError, NoPermissionError, RedisError, TimeoutError

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.client.retry import AUTHENTICATION_ERRORS, NOT_EXECUTED_ERRORS
from django_redis_components.core.client.slot_migration import slot_wait_limit
from django_redis_components.core.outage_log import OutageLog
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue import forks, registry
from django_redis_components.taskqueue.options import check_queue
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.schedules import schedule as declared
from django_redis_components.taskqueue.stats.overview import eviction_policy_of
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.unregistered import requeue_unregistered
from django_redis_components.taskqueue.supervisor.autoreload import Watched
from django_redis_components.taskqueue.supervisor.child import QUIET, STOP_SIGNALS, WorkerOptions
from django_redis_components.taskqueue.supervisor.health import Health
from django_redis_components.taskqueue.supervisor.supervisor import Supervisor
from django_redis_components.taskqueue.worker.recycling import check_memory

logger = logging.getLogger("django_redis_components.taskqueue")

#: Seconds between two tries to reach Redis at the start.
START_RETRY_S = 1.0
#: What is said when the server may drop tasks.
EVICTION_WARNING = (
    "The server's maxmemory-policy is %s: when its memory is full it drops keys, tasks among them."
    " Set it to noeviction, or give the queue a server of its own."
)

Say = Callable[[str], object]


def run_worker(
    options: WorkerOptions,
    say: Say,
    *,
    processes: int = 1,
    poller: bool = True,
    using: str = "default",
    health_file: Path | None = None,
    health_address: tuple[str, int] | None = None,
    watched: Watched | None = None,
) -> int:
    """Check everything that can be checked, then supervise workers until stopped; the value is the exit code.

    Args:
        watched: set when a reloader has started this process.

    Raises:
        ValueError, UnknownQueue: a queue name is not accepted, a limit cannot be kept, or health cannot be told.
        UnsupportedServer: the server is too old.
        redis.exceptions.AuthenticationError: the login was refused.
    """
    for name in options.queues:
        keys.validate_name(name, "queue name")
        check_queue(name)
    _discover(watched)
    check_memory(options.max_memory_mib)
    health = Health(health_file, health_address)
    stops, _ = _listen()
    quiets: list[int] = []
    forks.set_signal_handler(QUIET, lambda got, _: quiets.append(got))
    _persist(lambda: _warn_of_eviction(using), say, stops, watched)
    _persist(lambda: requeue_unregistered(options.queues, using), say, stops, watched)
    if stops:
        return 0
    say(
        f"Worker: queues {_order_of(options)}, {processes} process(es) of {options.threads}"
        f" thread(s) and {options.async_concurrency} coroutine(s) at a time, "
        f"{len(registry.names())} tasks known{'' if poller else ', no embedded poller'}."
    )
    supervisor = Supervisor(options, processes, poller=poller, using=using, health=health, watched=watched)
    return supervisor.run(stops, quiets)


def _order_of(options: WorkerOptions) -> str:
    if not options.weights:
        return f"{', '.join(options.queues)} (strict order)"
    weighed = zip(options.queues, options.weights, strict=True)
    return f"{', '.join(f'{queue}={weight}' for queue, weight in weighed)} (by weight)"


def run_poller(say: Say, *, using: str = "default") -> int:
    """Tend the queue until stopped; the value is the exit code."""
    registry.autodiscover()
    stops, wake_fd = _listen()
    _persist(lambda: _warn_of_eviction(using), say, stops)
    schedules = declared.registered(using)
    poller = Poller(connections.client(using), wake_fd=wake_fd, schedules=schedules)
    knows = f" Schedules: {len(schedules)}." if schedules else ""
    say(f"Poller {poller.id}: standing by for delayed tasks and for tasks of dead workers.{knows}")
    while not stops:
        poller.step()
        poller.wait(60.0)
    poller.close()
    return 0


def _listen() -> tuple[list[int], int]:
    """From now on stop signals are noted: the list they are put on, and a descriptor that they make readable."""
    stops: list[int] = []
    wake_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    forks.close_in_children(wake_fd, write_fd)
    forks.set_wakeup_fd(write_fd)
    for number in STOP_SIGNALS:
        forks.set_signal_handler(number, lambda got, _: stops.append(got))
    return stops, wake_fd


def _discover(watched: Watched | None) -> None:
    """Import the `tasks` modules; a reloader is told which files to watch, also those with a mistake in them."""
    try:
        registry.autodiscover()
    except Exception as exc:
        if watched:
            watched.tell_files(exc)
        raise
    if watched:
        watched.tell_files()


def _persist(step: Callable[[], None], say: Say, stops: Sequence[int], watched: Watched | None = None) -> None:
    """Take a step, again and again while Redis is away. Wrong credentials or an old server end it at once."""
    outage = OutageLog(say, say)
    while not stops and not (watched and watched.is_alone()):
        try:
            with slot_wait_limit(0):  # a signal that came meanwhile is looked at between two tries
                step()
        except RedisError as exc:
            if not _passing(exc):
                raise
            outage.failed(f"Waiting for Redis: {exc}")
            time.sleep(START_RETRY_S)
        else:
            outage.succeeded()
            return


def _warn_of_eviction(using: str) -> None:
    try:
        info = connections.client(using).execute(Command("INFO", "memory", key=base_key(), retry=True))
    except NoPermissionError:  # it answers, and that is what matters; its policy stays unknown
        return
    policy = eviction_policy_of(info)
    if policy not in (None, "noeviction"):
        logger.warning(EVICTION_WARNING, policy)


def _passing(exc: RedisError) -> bool:
    """Whether the server may answer later: it is away, or loads, or fails over, or a cluster lacks a node."""
    return isinstance(exc, (ConnectionError, TimeoutError, *NOT_EXECUTED_ERRORS)) and not isinstance(
        exc, AUTHENTICATION_ERRORS
    )
