"""Commands to worker processes and their supervisors. A flow; it may be repeated."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime

from django_redis_components.core.arguments import check_choice
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable
from django_redis_components.core.units import moment_of_ms, to_ms
from django_redis_components.taskqueue.exceptions import WorkerDoesNotExist
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.pool import check_change, encode_change
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.scripts import COMMAND_WORKER

#: What a command may request.
VERBS = ("quiet", "resume", "restart", "stop")
#: The request for the stack of a task that runs, which changes nothing.
STACK = "stack"
#: The changes of pools: to other values, and to those that a process takes at its start.
POOL, RESET = "pool", "reset"
#: Longest id of a worker, and longest name of an author.
MAX_ID, MAX_AUTHOR = 300, 150
#: Longest version of the code that is shown, in characters: another client may have written it.
MAX_VERSION = 100
#: Running tasks that a worker reports, those that have run longest: about 140 bytes each. Longest name of a task there.
MAX_RUNS, MAX_NAME = 25, 200
#: Default number of threads of a worker process.
THREADS = 8


@dataclasses.dataclass(frozen=True, slots=True)
class RemoteCommand:
    """A command.

    Attributes:
        op: its id.
        target: id of a worker process, or of the supervisor for all of its processes.
        author: who requested it.
        at: when, by the server's clock.
        argument: of a request for a stack the id of the task; of a change of the pool see `decode_change`.
    """

    op: str
    verb: str
    target: str
    author: str
    at: datetime
    argument: str = ""

    @classmethod
    def parse(cls, entry: bytes) -> RemoteCommand:
        """Parse an entry of the list of commands.

        Raises:
            ValueError: another client has written it.
        """
        _until_ms, at_ms, op, verb, target, author = entry.decode(errors="replace").split(" ", 5)
        verb, _, argument = verb.partition("/")
        try:
            return cls(op, verb, target, author, moment_of_ms(at_ms), argument)
        except (OverflowError, OSError) as exc:
            raise ValueError(f"at_ms={at_ms}: expected milliseconds since the epoch.") from exc


def command_worker(shard: Shard, target: str, verb: str, author: str, op: str) -> Flow[None]:
    """Send a command to a worker process, or to all processes of a supervisor. It is executed within a second or so.

    Args:
        target: id of the worker or of the supervisor.
        verb: quiet (fetch nothing more), resume, restart (each process exits after its running tasks; its successor
            starts at once) or stop (with the grace period).
        author: who requests it.
        op: id of the operation, new for each.

    Raises:
        WorkerDoesNotExist: it does not exist, is lost, or does not read its commands.
    """
    check_choice(verb, "verb", VERBS)
    yield from _send(shard, _check_target(target), verb, author, op)


def change_pool(
    shard: Shard, target: str, change: Mapping[str, str], author: str, op: str, *, keep: bool = False
) -> Flow[None]:
    """Change the pool of a worker process, or of all processes of a supervisor.

    A supervisor of a release that does not know this command would take it for another one: send it only to those that
    report a `command_line`.

    Args:
        change: see `check_change`.
        keep: whether processes that start later take it, too; `keep_pool` stores it for them.

    Raises:
        WorkerDoesNotExist: as of `command_worker`.
        ValueError, UnknownQueue: see `check_change`.
    """
    word = encode_change(check_change(change), keep=keep)
    yield from _send(shard, _check_target(target), f"{POOL}/{word}", author, op)


def reset_pool(shard: Shard, target: str, author: str, op: str) -> Flow[None]:
    """Have a process, or all of a supervisor, take the pool of a process that starts now; see `change_pool`."""
    yield from _send(shard, _check_target(target), RESET, author, op)


def request_stack(shard: Shard, worker: str, task_id: str, author: str, op: str) -> Flow[None]:
    """Ask a worker process for the stack of a task that it runs. It answers in `stack_key`, if it can.

    Raises:
        WorkerDoesNotExist: it does not exist, is lost, or does not read its commands.
    """
    yield from _send(shard, worker, f"{STACK}/{task_id}", author, op)


def stack_key(shard: Shard, op: str) -> str:
    """Return the key of the answer to `request_stack`: empty if the task does not run there."""
    return shard.key(Key.stack, op)


def author_text(author: str) -> str:
    """Return the name of an author as it is stored."""
    return encodable(" ".join(author.split())[:MAX_AUTHOR])


def _check_target(target: str) -> str:
    if not 0 < len(target) <= MAX_ID:
        raise ValueError(f"{target[:40]!r}: expected the id of a worker, at most {MAX_ID} characters.")
    return target


def _send(shard: Shard, target: str, verb: str, author: str, op: str) -> Flow[None]:
    (stored,) = yield COMMAND_WORKER(
        base=shard.base,
        target=encodable(target),
        verb=verb,
        op=op,
        author=author_text(author),
        lease_ms=to_ms(conf.settings().taskqueue.lease_s, "lease"),
    )
    if stored != 1:
        raise WorkerDoesNotExist(_PROBLEMS[stored].format(target=target))


#: Why a command was not stored, by the code of the script.
_PROBLEMS = {
    0: 'No worker or supervisor has the id "{target}". List them: manage.py redis workers list',
    -1: 'Worker "{target}" is lost: it has sent no heartbeat for the duration of a lease.',
    -2: 'Worker "{target}" has 20 commands that it has not executed. Nothing was sent.',
}
