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
from typing import Any, Protocol

from redis.exceptions import RedisError

from django_redis_components.core import serialization
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Call, Flow, run
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import failpoints
from django_redis_components.taskqueue.exceptions import InvalidTask, TaskIdConflict
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.outage_log import OutageLog, describe_error
from django_redis_components.taskqueue.shards import Shard, home, named
from django_redis_components.taskqueue.store.messages import TaskMessage
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


def send_once(shard: Shard, messages: Sequence[tuple[str, Sequence[Any]]]) -> Call:
    """Return the call that accepts tasks, each once for its row.

    Args:
        messages: of each task, the token of its row and the arguments of enqueue.lua; at most `messages.CHUNK`.
    """
    tasks = [part for token, arguments in messages for part in (token, len(arguments), *arguments)]
    return ENQUEUE_ONCE(base=shard.base, tasks=tasks)


def calls_of(using: str, rows: Sequence[OutboxRow]) -> Iterator[tuple[Shard, list[OutboxRow], list[Call]]]:
    """Yield rows, and the calls that send them, in order: the tasks between two flows share one, a flow has its own.

    The rows of each shard come together.

    Args:
        rows: at most `messages.CHUNK`, of about `messages.CHUNK_BYTES`.

    Raises:
        ValueError: a row is not one of this format, or its shard does not exist.
    """
    decoded = sorted(((row, *_decoded(row)) for row in rows), key=lambda each: each[3])
    for (kind, name), some in itertools.groupby(decoded, key=lambda each: (each[1], each[3])):
        shard = named(name, using) if name else home(using)
        if kind == "task":
            tasks = list(some)
            call = send_once(shard, [(row.token, content) for row, _, content, _ in tasks])
            yield shard, [row for row, *_ in tasks], [call]
        else:
            for row, _, content, _ in some:
                yield shard, [row], [Call(ENQUEUE_FLOW, (shard.base,), tuple(arguments)) for arguments in content]


def try_to_send(flow: Flow[None], shard: Shard, stored_at: float) -> None:
    """Send tasks whose rows are committed. What fails is left to the relay.

    It waits for at most ``PAGE_TIMEOUT``, and not at all while Redis is known to be away.

    Args:
        flow: sends them.
        shard: of the tasks.
        stored_at: when their rows were written, on the monotonic clock.

    Raises:
        TaskIdConflict: the id of a task belongs to another call.
    """
    failpoints.reach("after_commit")
    if time.monotonic() - stored_at > DIRECT_S:
        return
    using = shard.alias
    outage = _outages.get(using) or _outages.setdefault(using, OutageLog(logger.warning, logger.info, "Outbox: "))
    try:
        run(connections.page_client(using), flow)
    except TaskIdConflict:
        raise
    except (RedisError, RedisComponentsError) as exc:
        outage.failed(f"Outbox: {describe_error(exc)}; the relay sends the tasks later.")
    else:
        outage.succeeded()
    failpoints.reach("after_send")


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
