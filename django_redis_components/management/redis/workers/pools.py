"""`manage.py redis workers set` and `reset`: change the threads, coroutines and queues of live worker processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.protocol import Flow, run
from django_redis_components.core.text import counted
from django_redis_components.management.base import CommandResult
from django_redis_components.management.listings.task_listing import clock
from django_redis_components.management.tables import TextTable
from django_redis_components.taskqueue.exceptions import WorkerDoesNotExist
from django_redis_components.taskqueue.shard_clients import prompt_client, read_each
from django_redis_components.taskqueue.shards import Shard, home, shards_of
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo
from django_redis_components.taskqueue.stats.workers import MAX_LISTED, WorkerPage, read_workers
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.pools import ALL_HOSTS, KeptValue, forget_kept, keep_pool, list_kept
from django_redis_components.taskqueue.store.workers import POOL, RESET, change_pool, reset_pool

#: Seconds that a command waits for the outcomes, and between two looks.
WAIT_S, LOOK_S = 5.0, 0.2
#: Workers that one request reads.
PAGE_SIZE = 200
#: Why a pool could not be changed, by the outcome.
PROBLEMS = {
    "gone": "the process had exited",
    "stopping": "it was stopping",
    "restarting": "it was restarting; the new process has the pool of its start",
    "quiet": "it is quiet; resume it first",
    "threads": "its system has too few threads; it has as many as could start",
    "queue": "one of the queues is not declared; its log names it",
    "unknown": "its release does not support this command",
    "unavailable": "Redis did not answer; send it again",
}
#: What changes the pool of a target.
ChangeFlow = Callable[[Shard, str], Flow[None]]
#: Of a worker that is too old.
TOO_OLD = "runs a release that cannot change its pool; restart it with the new code"


class PoolTargets:
    """The live worker processes that a command concerns.

    Attributes:
        workers: those that can change their pools.
        old: names of those that cannot.
        ids: of the supervisors of which all processes are concerned, and of the other processes.
    """

    def __init__(self, text: str, using: str) -> None:
        """
        Args:
            text: a host, HOST:PID of a process or a supervisor, or an id; "" for all.

        Raises:
            WorkerDoesNotExist: there is none.
        """
        self.text, self.using = text, using
        live = [worker for worker in read_all(using) if worker.is_alive]
        found = [worker for worker in live if not text or text in names_of(worker)]
        if not found:
            what = f'No live worker is "{text}": expected a host, HOST:PID, or an id' if text else "No worker is alive"
            raise WorkerDoesNotExist(f"{what}. List them: manage.py redis workers list")
        self.workers = [worker for worker in found if worker.command_line]
        self.old = [worker_name(worker) for worker in found if not worker.command_line]
        chosen = {worker.id for worker in found}
        whole = {each.supervisor for each in live} - {each.supervisor for each in live if each.id not in chosen}
        self.ids = list(
            dict.fromkeys(each.supervisor if each.supervisor in whole else each.id for each in self.workers)
        )

    def describe(self) -> str:
        """Return what is concerned, in one sentence."""
        hosts = sorted({worker.host for worker in self.workers})
        busy = sum(worker.busy for worker in self.workers)
        count = counted(len(self.workers), "process", "processes")
        return f"{count} on {', '.join(hosts) or 'no host'}, {counted(busy, 'running task')}."

    def scopes(self) -> list[tuple[str, str]]:
        """Return the hosts and command lines for which a change is kept."""
        pairs = [(worker.host if self.text else ALL_HOSTS, worker.command_line) for worker in self.workers]
        return list(dict.fromkeys(pairs))

    def covers(self, kept: KeptValue) -> bool:
        """Return whether a kept value is that of these processes, or of their host."""
        if not self.text or kept.host == self.text:
            return True
        return (kept.host, kept.command_line) in self.scopes()


def set_pools(targets: PoolTargets, change: Mapping[str, str], author: str, *, keep: bool) -> CommandResult:
    """Change pools, and wait a few seconds for the outcomes."""
    if keep and targets.workers:
        shard = home(targets.using)
        if not run(prompt_client(shard), keep_pool(shard, targets.scopes(), change, author)):
            problem = "Too many changed pools are kept. Nothing was sent. Reset some: manage.py redis workers reset"
            return CommandResult({"change": dict(change), "kept": False, "workers": {}}, problem=problem)

    def flow(shard: Shard, target: str) -> Flow[None]:
        return change_pool(shard, target, change, author, new_op(), keep=keep)

    outcomes = _send(targets, POOL, flow)
    text = "Kept for processes that start later. Shown and ended by: manage.py redis workers reset" if keep else ""
    return _result({"change": dict(change), "kept": keep}, outcomes, targets, text)


def reset_pools(targets: PoolTargets, author: str) -> CommandResult:
    """End the kept changes of these processes, and give them the pools of their command lines."""
    shard = home(targets.using)
    kept = [each for each in run(prompt_client(shard), list_kept(shard)) if targets.covers(each)]
    forgotten = run(prompt_client(shard), forget_kept(shard, kept))
    outcomes = _send(targets, RESET, lambda shard, target: reset_pool(shard, target, author, new_op()))
    text = f"Ended {counted(forgotten, 'kept change')}." if forgotten else ""
    return _result({"forgotten": forgotten}, outcomes, targets, text)


def forget_all(using: str) -> int:
    """End all kept changes; return how many there were."""
    shard = home(using)
    return run(prompt_client(shard), forget_kept(shard, run(prompt_client(shard), list_kept(shard))))


def list_pools(using: str) -> CommandResult:
    """Return what is kept, and the pools that differ from their command lines."""
    shard = home(using)
    kept = run(prompt_client(shard), list_kept(shard))
    changed = [worker for worker in read_all(using) if worker.is_alive and worker.changes]
    rows = [
        (each.host, each.command_line, each.name, each.change.value, each.change.author, clock(each.change.at))
        for each in kept
    ]
    data = {
        "kept": [
            {"host": host, "command_line": line, "name": name, "value": value, "author": author, "at": each.change.at}
            for each, (host, line, name, value, author, _) in zip(kept, rows, strict=True)
        ],
        "changed": [{"id": worker.id, "changes": [each._asdict() for each in worker.changes]} for worker in changed],
    }
    notes = pool_notes(changed)
    if not rows and not notes:
        return CommandResult(data, "No pool is changed.")
    table = TextTable(("HOST", "COMMAND LINE", "NAME", "VALUE", "AUTHOR", "SINCE"), rows) if rows else None
    last = "End it: manage.py redis workers reset HOST, HOST:PID or --all"
    return CommandResult(data, "\n".join([*notes, last]), table)


def pool_notes(workers: Sequence[WorkerInfo]) -> list[str]:
    """Return a line for each changed value of a pool."""
    return [
        f"{worker_name(worker)}: {each.name} {worker.pool.value(each.name)}, configured {each.configured}, changed by"
        f" {each.author or 'an operator'} at {clock(each.at)} {'and kept' if each.is_kept else 'until its restart'}"
        for worker in workers
        for each in worker.changes
    ]


def read_all(using: str) -> list[WorkerInfo]:
    """Read the workers of all shards that answer, at most `MAX_LISTED` of each."""
    return list(_read(using)[0].values())


def worker_name(worker: WorkerInfo) -> str:
    """Return host and process id of a worker, or the id of one that states none."""
    return f"{worker.host}:{worker.pid}" if worker.pid else worker.id


def names_of(worker: WorkerInfo) -> set[str]:
    """Return what an operator may call a worker."""
    names = {worker.host, worker.id, worker.supervisor, f"{worker.host}:{worker.pid}"}
    return names | {f"{worker.host}:{worker.supervisor_pid}"}


def _read(using: str) -> tuple[dict[str, WorkerInfo], set[str]]:
    """Return the workers by id, and the targets of commands that wait."""
    found: dict[str, WorkerInfo] = {}
    waiting: set[str] = set()
    pages, _ = read_each(using, _read_pages)
    for page in [page for shard_pages in pages.values() for page in shard_pages]:
        found.update((worker.id, worker) for worker in page.workers)
        waiting.update(page.pending_commands)
    return found, waiting


def _read_pages(shard: Shard) -> Flow[list[WorkerPage]]:
    pages = [(yield from read_workers(shard, limit=PAGE_SIZE))]
    while pages[-1].next and len(pages) * PAGE_SIZE < MAX_LISTED:
        pages.append((yield from read_workers(shard, pages[-1].next, limit=PAGE_SIZE)))
    return pages


def _send(targets: PoolTargets, verb: str, flow: ChangeFlow) -> dict[str, str]:
    """Send a command to each target; return the outcomes by target, "" of those that have not stated one."""
    outcomes: dict[str, str] = {}
    for target in targets.ids:
        try:
            _send_to_one(targets.using, target, flow)
        except WorkerDoesNotExist:
            outcomes[target] = "gone"
    deadline = time.monotonic() + WAIT_S
    left = [target for target in targets.ids if target not in outcomes]
    while left and time.monotonic() < deadline:
        time.sleep(LOOK_S)
        workers, waiting = _read(targets.using)
        commands = [each.command for each in workers.values() if each.command and each.command.verb == verb]
        stated = {command.target: command.outcome for command in commands}
        outcomes.update((target, stated.get(target, "gone")) for target in left if target not in waiting)
        left = [target for target in left if target not in outcomes]
    return {target: outcomes.get(target, "") for target in targets.ids}


def _send_to_one(using: str, target: str, flow: ChangeFlow) -> None:
    """Send a command by the first shard that answers: each process reads its commands from all."""
    *others, last = shards_of(using)
    for shard in others:
        try:
            run(prompt_client(shard), flow(shard, target))
        except RedisError:
            continue
        return
    run(prompt_client(last), flow(last, target))


def _result(data: dict[str, Any], outcomes: dict[str, str], targets: PoolTargets, text: str) -> CommandResult:
    data |= {"workers": outcomes, "old": targets.old}
    done = sum(outcome == "done" for outcome in outcomes.values())
    lines = [f"Executed: {done} of {counted(len(outcomes), 'worker')}."] if outcomes else []
    waiting = [target for target, outcome in outcomes.items() if not outcome]
    if waiting:
        lines.append(f"Not executed yet; it expires after a minute: {', '.join(waiting)}.")
    problems = [
        f"{target}: {PROBLEMS.get(outcome, outcome)}."
        for target, outcome in outcomes.items()
        if outcome not in ("", "done")
    ]
    problems += [f"{name} {TOO_OLD}." for name in targets.old]
    shown = "\n".join(filter(None, [*lines, text]))
    return CommandResult(data, shown, problem=f"Not executed: {' '.join(problems)}" if problems else "")
