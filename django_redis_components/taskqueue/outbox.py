"""The outbox as the queue sees it: rows that a database keeps until their tasks are sent.

`contrib.outbox` installs the storage: a table, and the relay that sends what was not sent after the commit. Without it
no task can use the outbox. A row has the arguments of the scripts, so the relay needs no code of the site.

A task is sent twice when the relay and the process that committed do so at the same time, or when one of them dies
before its row is deleted. The scripts accept it once: they add the token of the row to a zset, in the same call, and
accept no row whose token is there. The token stays until the row is deleted, and `KEEP_S` longer.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from redis.exceptions import RedisError

from django_redis_components.core import serialization
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Call, Flow, run
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import failpoints, registry
from django_redis_components.taskqueue.exceptions import InvalidTask, TaskIdConflict
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.outage_log import OutageLog, describe_error
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.shards import Shard, home, named
from django_redis_components.taskqueue.store.messages import TaskMessage, record_of
from django_redis_components.taskqueue.store.scripts import ENQUEUE_FLOW, ENQUEUE_ONCE

#: The app that installs the storage.
APP = "django_redis_components.contrib.outbox"
#: Format of `OutboxRow.message`. Each version of the package reads this format and all earlier ones.
FORMAT = 1
#: Seconds after which a process leaves a row that it has written to the relay, also if it has not tried to send it.
DIRECT_S = 60.0
#: Seconds for which the token of a row is kept at least: longer than `DIRECT_S`, or a slow process could send a row
#: that the relay has sent and deleted.
KEEP_S = 300.0
#: The number of a process that sends what it has committed, see `sender_of`.
COMMITTER = 0
#: Place of the argument `row` among those of enqueue_flow.lua.
_ROW = ENQUEUE_FLOW.args.index("row")

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class OutboxRow:
    """A row to store.

    Attributes:
        token: unique; the scripts recognize the row by it.
        message: JSON of the arguments of the scripts, see `calls_of`.
    """

    token: str
    message: bytes


class OutboxStorage(Protocol):
    """Where the rows are stored."""

    def add(self, rows: Sequence[OutboxRow], using: str, database: str) -> None:
        """Store rows in the current transaction of a database, in order.

        Args:
            using: alias of the connection over which the tasks are sent.
            database: alias of the database.
        """


_storage: OutboxStorage | None = None
_outages: dict[str, OutageLog] = {}


def install(storage: OutboxStorage | None) -> None:
    """Set where rows are stored; None: nowhere, and no task can use the outbox."""
    global _storage
    _storage = storage


def is_installed() -> bool:
    """Return whether rows can be stored."""
    return _storage is not None


def storage() -> OutboxStorage:
    """Return where rows are stored.

    Raises:
        InvalidTask: the app is not installed.
    """
    if _storage is None:
        raise InvalidTask(f'The outbox is not installed: add "{APP}" to INSTALLED_APPS and run "manage.py migrate".')
    return _storage


def is_used(options: TaskOptions) -> bool:
    """Return whether tasks with these options are stored in the outbox when they are enqueued on commit."""
    return conf.settings().taskqueue.outbox if options.outbox is None else options.outbox


def token_of(message: TaskMessage) -> str:
    """Return the token of a task's row. Calls with an id of the site share the id, and have a nonce each."""
    return message.nonce or message.id


def row_of(shard: Shard, message: TaskMessage) -> OutboxRow:
    """Return the row of a task."""
    return _row(shard, token_of(message), {"task": plain_arguments(message.arguments)})


def row_of_flow(shard: Shard, flow_id: str, calls: Sequence[Call]) -> OutboxRow:
    """Return the row of a flow: the calls that write it."""
    return _row(shard, flow_id, {"flow": [plain_arguments(call.args) for call in calls]})


def _row(shard: Shard, token: str, content: dict[str, Any]) -> OutboxRow:
    """Return a row. It names its shard: only that one recognizes the token, and the route may change meanwhile."""
    named = {} if shard == home(shard.using) else {"shard": shard.name}
    return OutboxRow(token, serialization.encode({**content, **named}))


def send_once(shard: Shard, messages: Sequence[tuple[str, Sequence[Any]]], sender: int = COMMITTER) -> Call:
    """Return the call that accepts tasks, each once for its row.

    Args:
        messages: of each task, the token of its row and the arguments of enqueue.lua; at most `messages.CHUNK`.
        sender: who sends them, see `sender_of`.
    """
    tasks = [part for token, arguments in messages for part in (token, len(arguments), *arguments)]
    return ENQUEUE_ONCE(base=shard.base, sender=sender, tasks=tasks)


def sender_of(fence: int) -> int:
    """Return the number by which Redis knows a relay among those that are active at the same time.

    Args:
        fence: of its lease. Up to three leases in a row have different numbers.
    """
    return 1 + fence % 3


def sender_in(score: float) -> int:
    """Return the number of the sender that has sent a row, from the score of its token; see outbox_token.lua."""
    return int(score % 1 * 4)


def calls_of(
    using: str, rows: Sequence[OutboxRow], sender: int = COMMITTER
) -> Iterator[tuple[Shard, list[OutboxRow], list[Call]]]:
    """Yield rows, and the calls that send them, in order: the tasks between two flows share one, a flow has its own.

    The rows of each shard come together.

    Args:
        rows: at most `messages.CHUNK`, of about `messages.CHUNK_BYTES`.
        sender: see `sender_of`.

    Raises:
        ValueError: a row is not one of this format, or its shard does not exist.
    """
    decoded = sorted(((row, *_decoded(row)) for row in rows), key=lambda each: each[3])
    for (kind, name), some in itertools.groupby(decoded, key=lambda each: (each[1], each[3])):
        shard = named(name, using) if name else home(using)
        if kind == "task":
            tasks = list(some)
            call = send_once(shard, [(row.token, content) for row, _, content, _ in tasks], sender)
            yield shard, [row for row, *_ in tasks], [call]
        else:
            for row, _, content, _ in some:
                for arguments in content:
                    arguments[_ROW] = f"{arguments[_ROW]} {sender}"
                yield shard, [row], [Call(ENQUEUE_FLOW, (shard.base,), tuple(arguments)) for arguments in content]


def results_of(shard: Shard, row: OutboxRow, accepted_us: int) -> Iterator[TaskResult]:
    """Yield the results of a row's tasks, which were accepted at this time; `task` of one may be None."""
    kind, content, _ = _decoded(row)
    if kind == "task":
        yield _result_of(shard, content, accepted_us)
        return
    for arguments in content:
        yield from results_of_flow(shard, arguments, accepted_us)


def results_of_flow(shard: Shard, arguments: Sequence[Any], accepted_us: int) -> Iterator[TaskResult]:
    """Yield the results of the tasks in a call of enqueue_flow.lua, from its arguments."""
    flow_id, count, index = arguments[0], arguments[1], len(ENQUEUE_FLOW.args) - 1
    while index < len(arguments):
        number, _, open_parents, size = arguments[index : index + 4]
        index += 4 + size
        is_waiting = open_parents > 0 or number >= count
        sent = list(arguments[index - size : index])
        if is_waiting:  # its times count from when it starts
            sent[2] = sent[5] = ""
        result = _result_of(shard, sent, accepted_us)
        result._set_flow(flow_id, number, is_waiting=is_waiting)
        yield result


def _result_of(shard: Shard, arguments: Sequence[Any], accepted_us: int) -> TaskResult:
    """Return the result of a task from the arguments of enqueue.lua."""
    fields = record_of(arguments, accepted_us)
    name = fields.pop(Field.task_name).decode()
    return TaskResult(registry.find(name), name, arguments[0], shard, fields)


def try_to_send(flow: Flow[T], shard: Shard, stored_at: float) -> T | None:
    """Send tasks whose rows are committed, and return what the flow does. What fails is left to the relay.

    It waits for at most ``PAGE_TIMEOUT``, and not at all while Redis is known to be away.

    Args:
        flow: sends them.
        shard: of the tasks.
        stored_at: when their rows were written, on the monotonic clock.

    Returns:
        What the flow returns; None if it has failed, or was not tried.

    Raises:
        TaskIdConflict: the id of a task belongs to another call.
    """
    failpoints.reach("after_commit")
    if time.monotonic() - stored_at > DIRECT_S:
        return None
    using = shard.alias
    outage = _outages.get(using) or _outages.setdefault(using, OutageLog(logger.warning, logger.info, "Outbox: "))
    try:
        value = run(connections.page_client(using), flow)
    except TaskIdConflict:
        raise
    except (RedisError, RedisComponentsError) as exc:
        outage.failed(f"Outbox: {describe_error(exc)}; the relay sends the tasks later.")
        value = None
    else:
        outage.succeeded()
    failpoints.reach("after_send")
    return value


def _decoded(row: OutboxRow) -> tuple[str, list[Any], str]:
    """Return "task" and the arguments of enqueue.lua, or "flow" and those of each call of enqueue_flow.lua.

    The third value is the name of the shard; "" for the home shard.
    """
    content = serialization.decode(row.message)
    shard = content.pop("shard", "") if isinstance(content, dict) else ""
    if not isinstance(content, dict) or len(content) != 1 or not {"task", "flow"} & content.keys():
        raise ValueError(f"Row {row.token!r} is neither a task nor a flow.")
    [(kind, arguments)] = content.items()
    return kind, arguments, shard


def plain_arguments(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments as JSON. Those that are bytes are JSON themselves, so they are text."""
    return [part.decode() if isinstance(part, bytes) else part for part in arguments]
