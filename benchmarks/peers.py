"""The queues that are compared: how each is run, and what each does with a task."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable

from benchmarks import environment

#: Threads of a worker process, and tasks at a time of a worker that runs coroutines.
THREADS, COROUTINES = 8, 32

Commands = list[list[str]]


@dataclasses.dataclass(frozen=True)
class Row:
    """One way of running one queue.

    Attributes:
        label: what the tables call it.
        peer: its sending side, a module of `benchmarks.sides`, or "bullmq".
        command: the worker's processes, given their number.
        weight: how many tasks it gets of the number asked for; slow ones get fewer.
        package: what it needs, as pip or npm call it.
        keeps: what of acknowledgement, status and result it keeps.
    """

    label: str
    peer: str
    command: Callable[[int], Commands]
    weight: float
    package: str
    keeps: str = "ack, status, result"


def ours(*options: str, threads: int = THREADS) -> Callable[[int], Commands]:
    """`runworker` as it is by default: it writes a line for each task, into a file."""
    command = ["-m", "django", "runworker", "--threads", str(threads), *options]
    return lambda processes: [[environment.python(), *command, "--processes", str(processes)]]


def _batch_one(threads: int) -> Callable[[int], Commands]:
    command = ["-m", "benchmarks.batch_one", "runworker", "--verbosity", "0", "--threads", str(threads)]
    return lambda processes: [[environment.python(), *command, "--processes", str(processes)]]


def _celery(processes: int) -> Commands:
    pool = ["threads", str(THREADS)] if processes == 1 else ["prefork", str(processes)]
    command = ["-m", "celery", "-A", "benchmarks.sides.celery", "worker", "-l", "CRITICAL"]
    return [[environment.python(), *command, "-P", pool[0], "-c", pool[1]]]


def _celery_solo(processes: int) -> Commands:
    command = ["-m", "celery", "-A", "benchmarks.sides.celery", "worker", "-l", "CRITICAL", "-P", "solo"]
    return [[environment.python(), *command, "-n", f"solo{number}"] for number in range(processes)]


def _dramatiq(processes: int) -> Commands:
    command = ["-m", "dramatiq", "benchmarks.sides.dramatiq", "--skip-logging"]
    return [[environment.python(), *command, "--processes", str(processes), "--threads", str(THREADS)]]


def _huey(processes: int) -> Commands:
    workers = ["thread", str(THREADS)] if processes == 1 else ["process", str(processes)]
    command = ["-m", "huey.bin.huey_consumer", "benchmarks.sides.huey.instance", "-q"]
    return [[environment.python(), *command, "-k", workers[0], "-w", workers[1]]]


def _huey_single(processes: int) -> Commands:
    command = ["-m", "huey.bin.huey_consumer", "benchmarks.sides.huey.instance", "-q", "-k", "thread", "-w", "1"]
    return [[environment.python(), *command] for _ in range(processes)]


def _rq(kind: str) -> Callable[[int], Commands]:
    def commands(processes: int) -> Commands:
        command = [environment.python(), "-m", "rq.cli", "worker", "--worker-class", kind, "--quiet"]
        return [[*command, "--with-scheduler", "-u", "{url}"] for _ in range(processes)]

    return commands


def _vtasks(processes: int) -> Commands:
    command = [environment.python(), "-m", "django", "runworker", "--concurrency", str(COROUTINES)]
    return [command] * processes


def _threadmill(processes: int) -> Commands:
    command = [environment.python(), "-m", "django", "threadmill", "worker", "-t", str(THREADS)]
    return [[*command, "-w", str(processes)]]


def _bullmq(processes: int) -> Commands:
    script = environment.ROOT / "benchmarks" / "bullmq" / "worker.cjs"
    return [[shutil.which("node") or "node", str(script), str(COROUTINES)]] * processes


OURS = Row("ours", "ours", ours(), 3.0, "django-redis-components")
WITHOUT_LOG = Row("ours, without a log, as the peers", "ours", ours("--verbosity", "0"), 3.0, OURS.package)
ONE_AT_A_TIME = Row("ours, one task a round trip, 8 threads", "ours", _batch_one(THREADS), 1.0, OURS.package)
ONE_THREAD_ONE = Row("ours, one task a round trip, 1 thread", "ours", _batch_one(1), 0.5, OURS.package)
CELERY = Row("Celery", "celery", _celery, 0.25, "celery")
CELERY_SOLO = Row("Celery, solo", "celery", _celery_solo, 0.25, "celery")
DRAMATIQ = Row("Dramatiq", "dramatiq", _dramatiq, 0.4, "dramatiq")
HUEY = Row("Huey", "huey", _huey, 0.5, "huey", "result; no ack, no status")
HUEY_SINGLE = Row("Huey, 1 thread each", "huey", _huey_single, 0.5, "huey", "result; no ack, no status")
RQ_SIMPLE = Row("RQ, SimpleWorker", "rq", _rq("rq.SimpleWorker"), 0.1, "rq")
RQ = Row("RQ, forking (its default)", "rq", _rq("rq.Worker"), 0.02, "rq")
VTASKS = Row("django-vtasks", "vtasks", _vtasks, 1.0, "django-vtasks", "ack; no status, no result")
THREADMILL = Row("threadmill", "threadmill", _threadmill, 0.4, "threadmill")
BULLMQ = Row("BullMQ (Node.js)", "bullmq", _bullmq, 1.0, "bullmq")

#: One row for each peer; and all of them.
PEERS = [VTASKS, HUEY, DRAMATIQ, THREADMILL, CELERY, RQ_SIMPLE, BULLMQ]
ROWS = [
    OURS,
    WITHOUT_LOG,
    ONE_AT_A_TIME,
    ONE_THREAD_ONE,
    VTASKS,
    HUEY,
    HUEY_SINGLE,
    DRAMATIQ,
    THREADMILL,
    CELERY,
    CELERY_SOLO,
]
ROWS += [RQ_SIMPLE, RQ, BULLMQ]


def producer(row: Row) -> list[str]:
    """The command that sends, to which action and arguments are added."""
    if row.peer == "bullmq":
        return [shutil.which("node") or "node", str(environment.ROOT / "benchmarks" / "bullmq" / "produce.cjs")]
    return [environment.python(), "-m", "benchmarks.produce", row.peer]
