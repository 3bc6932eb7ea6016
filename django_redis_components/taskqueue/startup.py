"""Start a worker or a poller: what `runworker` and `runpoller` do after they have parsed their arguments."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from redis.exceptions import (
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from django_redis_components.core import keys
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.client.retry import AUTHENTICATION_ERRORS, NOT_EXECUTED_ERRORS
from django_redis_components.core.client.server import is_refused
from django_redis_components.core.protocol import Command, run
from django_redis_components.core.slot_waits import slot_wait_limit
from django_redis_components.core.stored_formats import formats_key, record_formats
from django_redis_components.core.text import counted
from django_redis_components.taskqueue import forks, registry
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.options import check_queue
from django_redis_components.taskqueue.outage_log import OutageLog
from django_redis_components.taskqueue.shard_clients import prompt_client
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.stats.queue_stats import eviction_policy_of
from django_redis_components.taskqueue.store.unregistered import requeue_unregistered
from django_redis_components.taskqueue.supervisor.autoreload import ReloaderClient
from django_redis_components.taskqueue.supervisor.health import Health
from django_redis_components.taskqueue.supervisor.shard_keeper import ShardKeeper, source_of
from django_redis_components.taskqueue.supervisor.supervisor import Supervisor
from django_redis_components.taskqueue.worker.options import WorkerOptions
from django_redis_components.taskqueue.worker.process_signals import QUIET, STOP_SIGNALS
from django_redis_components.taskqueue.worker.restart_policy import check_memory

#: Seconds between two tries to connect at start.
START_RETRY_S = 1.0
#: Tasks of one queue that are listed at start.
MAX_LISTED_TASKS = 20
#: Logged if the server may delete tasks.
EVICTION_WARNING = (
    "The server's maxmemory-policy is %s: when its memory is full it deletes keys, including tasks."
    " Set it to noeviction, or use a separate server for the queue."
)

Log = Callable[[str], object]


def run_worker(
    options: WorkerOptions,
    log: Log,
    *,
    processes: int = 1,
    poller: bool = True,
    using: str = "default",
    health_file: Path | None = None,
    health_address: tuple[str, int] | None = None,
    reloader: ReloaderClient | None = None,
) -> int:
    """Check the options and the server, then run workers until stopped; return the exit code.

    Args:
        reloader: set if a reloader has started this process.

    Raises:
        ValueError, UnknownQueue: an option is not accepted.
        UnsupportedServer: the server is too old.
        StoredFormatTooNew: a newer release has written the stored data.
        redis.exceptions.AuthenticationError: the server rejected the login.
    """
    for name in options.queues:
        keys.validate_name(name, "queue name")
        check_queue(name)
    _import_tasks(reloader)
    check_memory(options.max_memory_mib)
    health = Health(health_file, health_address)
    stops, _ = _handle_stop_signals()
    quiets: list[int] = []
    forks.set_signal_handler(QUIET, lambda number, _: quiets.append(number))
    prepare_shard = partial(_prepare_shard, queues=options.queues)
    _retry_until_available(lambda: _reach_any(using, prepare_shard), log, stops, reloader)
    if stops:
        return 0
    for line in describe_worker(options, processes=processes, poller=poller, using=using):
        log(line)
    _warn_about_queues(options.queues, using)
    supervisor = Supervisor(options, processes, poller=poller, using=using, health=health, reloader=reloader)
    code = supervisor.run(stops, quiets)
    log("Worker stopped.")
    return code


def describe_worker(options: WorkerOptions, *, processes: int, poller: bool, using: str) -> Iterator[str]:
    """Yield the lines that a worker logs at start: its options, its queues, and the tasks of each queue."""
    order = "by weight" if options.weights else "strict order"
    weights = options.weights or [0] * len(options.queues)
    queues = [f"{queue}={weight}" if weight else queue for queue, weight in zip(options.queues, weights, strict=True)]
    yield (
        f"Worker: queues {', '.join(queues)} ({order}),"
        f" {counted(processes, 'process', 'processes')} with {counted(options.threads, 'thread')}"
        f" and {counted(options.async_concurrency, 'coroutine')}"
        f"{'' if poller else ', no embedded poller'}."
    )
    tasks = _tasks_by_queue(using)
    for queue in options.queues:
        found = tasks.get(queue, [])
        if found:
            listed = ", ".join(found[:MAX_LISTED_TASKS])
            more = f", and {len(found) - MAX_LISTED_TASKS} more" if len(found) > MAX_LISTED_TASKS else ""
            yield f"Queue {queue}: {counted(len(found), 'task')}: {listed}{more}."
    others = [
        f"{queue} ({counted(len(names), 'task')})" for queue, names in tasks.items() if queue not in options.queues
    ]
    if others:
        yield f"Queues that this worker does not serve: {', '.join(sorted(others))}."


def _warn_about_queues(queues: Sequence[str], using: str) -> None:
    """Warn about served queues that no task uses by default. A call may choose them with `using(queue_name=…)`."""
    tasks = _tasks_by_queue(using)
    if not tasks:
        logger.warning("No tasks are registered. Define them in the tasks.py of an app in INSTALLED_APPS.")
        return
    for queue in queues:
        if queue not in tasks:
            used = ", ".join(sorted(tasks))
            logger.warning('No registered task uses queue "%s" by default. Queues of tasks: %s.', queue, used)


def _tasks_by_queue(using: str) -> dict[str, list[str]]:
    """Return the names of the registered tasks of a connection, by their default queue."""
    found: dict[str, list[str]] = {}
    for name in registry.names():
        task = registry.find(name)
        if task.connection == using:
            found.setdefault(task.options.queue_name, []).append(name)
    return found


def run_poller(log: Log, *, using: str = "default", beside: AbstractContextManager[None] | None = None) -> int:
    """Run a poller until stopped; return the exit code.

    Args:
        beside: what runs beside it, entered after the server and the stored data were checked.

    Raises:
        StoredFormatTooNew: a newer release has written the stored data.
    """
    registry.autodiscover()
    stops, wake_fd = _handle_stop_signals()
    _retry_until_available(lambda: _reach_any(using, _prepare_shard), log, stops)
    shards = shards_of(using)
    keepers = [ShardKeeper(shard, None, (), wake_fd, poller=True) for shard in shards]
    source = source_of(keepers, wake_fd)
    for keeper in keepers:
        log(keeper.describe())
    with beside or nullcontext():
        while not stops:
            for keeper in keepers:
                keeper.step()
            source.wait(60.0)
        source.close()
    log("Poller stopped.")
    return 0


def _handle_stop_signals() -> tuple[list[int], int]:
    """Append stop signals to the returned list, and make the returned file descriptor readable."""
    stops: list[int] = []
    wake_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    forks.close_in_children(wake_fd, write_fd)
    forks.set_wakeup_fd(write_fd)
    for number in STOP_SIGNALS:
        forks.set_signal_handler(number, lambda number, _: stops.append(number))
    return stops, wake_fd


def _import_tasks(reloader: ReloaderClient | None) -> None:
    """Import the `tasks` modules, and report their files to the reloader, including a file with an error."""
    try:
        registry.autodiscover()
    except Exception as exc:
        if reloader:
            reloader.report_files(exc)
        raise
    if reloader:
        reloader.report_files()


def _retry_until_available(
    step: Callable[[], None], log: Log, stops: Sequence[int], reloader: ReloaderClient | None = None
) -> None:
    """Call `step` until Redis is available. Rejected credentials and an unsupported server are not retried."""
    outage = OutageLog(log, log)
    while not stops and not (reloader and reloader.has_exited()):
        try:
            with slot_wait_limit(0):  # stop signals are checked between two tries
                step()
        except RedisError as exc:
            if not _is_temporary(exc):
                raise
            outage.failed(f"Waiting for Redis: {exc}")
            time.sleep(START_RETRY_S)
        else:
            outage.succeeded()
            return


def _reach_any(using: str, prepare: Callable[[Shard], None]) -> None:
    """Prepare the shards that answer. Those that do not are logged; an error is raised if none does."""
    shards, errors = shards_of(using), list[RedisError]()
    for shard in shards:
        try:
            prepare(shard)
        except RedisError as exc:
            if len(shards) == 1 or not _is_temporary(exc):
                raise
            logger.warning("Shard %s: %s; the other shards are served.", shard.name, exc)
            errors.append(exc)
    if len(errors) == len(shards):
        raise errors[0]


def _prepare_shard(shard: Shard, queues: Sequence[str] = ()) -> None:
    """Check a shard's server and its stored data, and requeue the unregistered tasks of these queues."""
    client = prompt_client(shard)
    _check_eviction(shard, client)
    _check_formats(client)
    if queues:
        requeue_unregistered(shard, queues)


def _check_formats(client: SyncClient) -> None:
    """Compare the formats of the stored data with those of this release, and record these.

    A site whose Redis user has no right to the key yet, or whose server is full, needs its workers nevertheless.
    """
    try:
        run(client, record_formats(str(client.endpoint)))
    except (NoPermissionError, OutOfMemoryError) as exc:
        message = "The formats of the stored data (key %s) are not checked or not recorded: %s"
        logger.warning(message, formats_key(), exc)


def _check_eviction(shard: Shard, client: SyncClient) -> None:
    try:
        info = client.execute(Command("INFO", "memory", key=shard.base, retry=True))
    except ResponseError as exc:
        if not is_refused(exc):
            raise
        return  # the server is available, which is sufficient; its policy stays unknown
    policy = eviction_policy_of(info)
    if policy not in (None, "noeviction"):
        logger.warning(EVICTION_WARNING, policy)


def _is_temporary(exc: RedisError) -> bool:
    """Return whether the server may be available later: it is down, loading or failing over, or lacks a node."""
    if isinstance(exc, AUTHENTICATION_ERRORS):
        return False
    return isinstance(exc, (ConnectionError, TimeoutError, *NOT_EXECUTED_ERRORS))
