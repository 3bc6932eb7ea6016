"""Helpers for tests of the task queue: run tasks in this thread, read stored state."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Call, Command, Read
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import TaskResult
from django_redis_components.taskqueue.options import MAX_DELIVERIES
from django_redis_components.taskqueue.poller import worker_lost_error as lost_error
from django_redis_components.taskqueue.shards import home, shards_of
from django_redis_components.taskqueue.stats import fingerprint as fingerprints
from django_redis_components.taskqueue.store.finished import finished_bounds
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.store.scripts import MAINTAIN, RENEW_LEASES
from django_redis_components.taskqueue.worker.batch_execution import execute_leased
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.options import ASYNC_CONCURRENCY, WorkerOptions
from django_redis_components.taskqueue.worker.worker import Worker
from tests.support import Child, Store, eventually
from tests.support.processes import Children
from tests.support.waiting import TIMEOUT_S

#: For `Children.manage`: a site whose tasks are those of `tests.taskqueue.tasks`.
SITE = {"DJANGO_SETTINGS_MODULE": "tests.taskqueue.site"}

_slots = itertools.count()


def new_fetcher(*queues: str, worker: str = "here:1", using: str = "default") -> Fetcher:
    return Fetcher(home(using), connections.client(using), worker, queues or ("default",))


def work_off(*queues: str, worker: str = "here:1") -> list[Job]:
    """Run all ready tasks one by one in this thread; return their jobs in order."""
    fetcher = new_fetcher(*queues, worker=worker)
    slot = f"slot{next(_slots)}"  # request numbers of a slot start at 0
    ran = []
    while jobs := fetcher.fetch(slot, 1):
        for job, ack in execute_leased(jobs[0]):
            ran.append(job)
            fetcher.settle_run(job, ack)
    return ran


def work_until_finished(*results: TaskResult, worker: str = "here:1") -> None:
    """Run tasks of queue "default", also those that become due, until these have finished."""

    def finished() -> bool:
        work_off(worker=worker)
        for result in results:
            result.refresh()
        return all(result.is_finished for result in results)

    eventually(finished)


def settle_now(fetcher: Fetcher, *acks: Ack) -> None:
    for ack in acks:
        fetcher.settle(ack)
    fetcher.fetch("acks", 0)


def queue_key(store: Store, part: str, queue: str = "default") -> str:
    return f"{store.prefix}:taskqueue:{{default}}:q:{queue}:{part}"


def base_key(store: Store, *parts: str) -> str:
    return ":".join([f"{store.prefix}:taskqueue:{{default}}", *parts])


def server_ms(store: Store) -> float:
    """The server's clock, in milliseconds since the epoch."""
    time = store.raw.time()
    seconds, micros = next(iter(time.values())) if isinstance(time, dict) else time
    return seconds * 1_000 + micros / 1_000


def renewal(
    worker: str, leases: list[str], *, lease_ms: int, info: str = "{}", supervisor: str = "", executed: str = ""
) -> Call:
    """Return a supervisor's heartbeat for one process; with `supervisor` it reads the commands."""
    return RENEW_LEASES(
        base=home().base,
        worker=worker,
        lease_ms=lease_ms,
        info=info,
        supervisor=supervisor,
        executed=executed,
        leases=leases,
    )


def end_lease(store: Store, *task_ids: str, queue: str = "default") -> None:
    """Expire the leases of these tasks, in this order."""
    for moment, task_id in enumerate(task_ids, 1):
        assert store.raw.zadd(queue_key(store, "running", queue), {task_id: moment}, xx=True, ch=True) == 1


class Held:
    """Controls a task `hold(name)` from the test."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    def _pids(self, what: str) -> list[int]:
        return [int(pid) for pid in self._store.raw.lrange(f"{self._store.prefix}:{what}:{self._name}", 0, -1)]

    def started(self, times: int = 1, timeout_s: float = TIMEOUT_S) -> int:
        """Wait until it has started `times` times; return the pid of the last process."""
        return eventually(lambda: self._pids("started")[times - 1 :], timeout_s)[0]

    def starts(self) -> int:
        return len(self._pids("started"))

    def ends(self) -> int:
        return len(self._pids("ended"))

    def release(self) -> None:
        self._store.raw.set(f"{self._store.prefix}:let-go:{self._name}", "1", ex=60)


@contextmanager
def running_worker(
    *queues: str,
    threads: int = 1,
    burst: bool = False,
    using: str = "default",
    worker: str = "here:1",
    async_concurrency: int = ASYNC_CONCURRENCY,
) -> Iterator[Worker]:
    """Run a worker in threads of this process; stop it and its threads at the end of the block."""
    stop_read, stop_write = os.pipe()
    options = WorkerOptions(queues or ("default",), threads=threads, burst=burst, async_concurrency=async_concurrency)
    made = Worker(shards_of(using), worker, options, stop_read)
    made.start()
    try:
        yield made
    finally:
        os.write(stop_write, b"x")
        made.stop()
        eventually(lambda: not made.is_alive())
        made.return_jobs()  # as its process does: its flusher may still be sending acks
        made.outcome_calls.wait(60)
        os.close(stop_read)
        os.close(stop_write)


def taskqueue_settings(settings: Any, **options: Any) -> None:
    """Set `REDIS_COMPONENTS["TASKQUEUE"]`."""
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": options}


def fall_due(
    store: Store, result: TaskResult, ms_ago: int = 0, queue: str = "default", now_ms: float | None = None
) -> None:
    """Make a scheduled task due `ms_ago`. Tasks whose order matters share a `now_ms`."""
    due_ms = int(server_ms(store) if now_ms is None else now_ms) - ms_ago
    assert store.raw.zadd(queue_key(store, "scheduled", queue), {result.id: due_ms}, xx=True, ch=True) == 1


def let_recovery_begin(using: str = "default") -> None:
    """Store an old contact of supervisors with the server, so that a poller recovers tasks at once."""
    client = connections.client(using)
    seconds, micros = client.execute(Read("TIME", key=home().base))
    now_ms = int(seconds) * 1_000 + int(micros) // 1_000
    client.execute(Command("HSET", f"{home().base}:contact", "last", now_ms, "hold", 0))


def recover(*, max_deliveries: int = MAX_DELIVERIES, prune: bool = True) -> list[tuple[str, str, str]]:
    """Run a round of the poller; return (id, queue, outcome) of each task whose lease has expired."""
    settings = conf.settings().taskqueue
    let_recovery_begin()
    call = MAINTAIN(
        base=home().base,
        poller="here:poller",
        poller_lease_ms=10_000,
        lease_ms=round(settings.lease_s * 1_000),
        contact="",
        prune=int(prune),
        keep_ms=round(settings.failed_ttl_s * 1_000),
        failed_limit=settings.failed_limit,
        lost_error=lost_error(),
        max_deliveries=max_deliveries,
        lost_fingerprint=fingerprints.WORKER_LOST.fingerprint,
        lost_description=fingerprints.WORKER_LOST.description,
        first=0,
        **finished_bounds(),
    )
    found = [word.decode() for word in connections.client().execute(call)[3]]
    return list(zip(found[::3], found[1::3], found[2::3], strict=True))


def queue_worker(children: Children, *args: str, env: dict[str, str] | None = None, anew: bool = False) -> Child:
    """Start `manage.py runworker` on the tests' site; return when it runs."""
    child = children.manage("runworker", *args, env=SITE | (env or {}), anew=anew)
    child.wait_for("Worker: queues")
    return child


def processes_of(pid: int) -> list[int]:
    """Return the pids of the children of a process."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        return [int(word) for word in path.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def kill_processes(pids: Iterable[int]) -> None:
    """Kill these processes (SIGKILL). Some may have exited by themselves meanwhile."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it exited before the file was opened, or read
        return False


def renew(worker: str, leases: dict[str, str], lease_ms: int = 30_000) -> list[str]:
    """The supervisor's renewal; the value is what is lost."""
    pairs = [part for pair in leases.items() for part in pair]
    info = json.dumps({"pid": 1, "version": "1.0"})
    call = renewal(worker, pairs, lease_ms=lease_ms, info=info)
    return [task_id.decode() for task_id in connections.client().execute(call)[0]]
