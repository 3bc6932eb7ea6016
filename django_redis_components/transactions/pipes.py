"""The pipe that a function gets: redis-py's own `Pipeline`, on a connection of ours.

All commands of redis-py are there, with their arguments and replies. Before `multi()` they run at once,
and only those that read are let through: a write would stand outside the transaction, and stay when it
fails. After `multi()` they are queued. What sends them is `steps`.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any, NoReturn

import redis
import redis.asyncio
from redis.asyncio.client import Pipeline as AsyncPipeline
from redis.client import EMPTY_RESPONSE, NEVER_DECODE, Pipeline
from redis.commands import READ_COMMANDS
from redis.exceptions import (
    AskError,
    ClusterCrossSlotError,
    ConnectionError,
    DataError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
    WatchError,
)

from django_redis_components.core.client.retry import AUTHENTICATION_ERRORS
from django_redis_components.core.client.transport import AsyncConnection, SyncConnection
from django_redis_components.core.protocol import CommandArgs
from django_redis_components.transactions.connection_commands import refuse_connection_command, text_of

#: Commands that read, by their first word, beside those that redis-py counts as such.
ALSO_READ = {
    "BITFIELD_RO", "ECHO", "GEORADIUS_RO", "GEORADIUSBYMEMBER_RO", "MEMORY", "OBJECT", "PFCOUNT", "PING",
    "SORT_RO", "SUBSTR", "TIME", "XINFO",
}  # fmt: skip
#: What a pipe itself needs: to watch further keys, and to load the scripts that it will run.
_ITS_OWN = {"WATCH", "SCRIPT EXISTS", "SCRIPT LOAD"}
#: Keyword arguments that belong to redis-py's own connections.
_NOT_FOR_CALLBACKS = ("keys", NEVER_DECODE, EMPTY_RESPONSE)


def _refused(method: str) -> Any:
    """A method of redis-py's pipeline that would not use the pipe's connection: the site's server is not behind it."""

    def refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
        raise RedisError(
            f"{method}() is refused: it would use another connection than the pipe's. Take a client of yours."
        )

    return refuse


class _Common:
    """What both pipes share."""

    client = _refused("client")
    keyspace_notifications = _refused("keyspace_notifications")
    lock = _refused("lock")
    monitor = _refused("monitor")
    pipeline = _refused("pipeline")
    pubsub = _refused("pubsub")

    command_stack: list[Any]
    response_callbacks: Any

    #: The slot of the watched keys, and whether the server is a Cluster.
    slot: int = 0
    #: Why the watched keys are watched no longer, or a reply may still come: the connection must not be used again.
    lost: BaseException | None = None
    #: Whether the function has ended, so that the connection is not the pipe's any more.
    is_closed: bool = False

    def wires(self) -> list[CommandArgs]:
        """What was queued."""
        return [_wire(args) for args, _ in self.command_stack]

    def __len__(self) -> int:
        return len(self.command_stack)

    def unwatch(self) -> NoReturn:
        """Refused: without the watch there is no transaction."""
        raise RedisError("unwatch() would let the transaction overwrite what others have changed; raise to give it up.")

    def discard(self) -> NoReturn:
        """Refused: it would be queued."""
        raise RedisError("discard() is not needed: raise, and nothing that was queued is sent.")

    def pipeline_execute_command(self, *args: Any, **options: Any) -> Any:
        """Queue a command."""
        self._refuse_when_closed()
        refuse_connection_command(_wire(args))
        return super().pipeline_execute_command(*args, **options)  # type: ignore[misc]

    def _checked(self, args: tuple[Any, ...]) -> CommandArgs:
        """What is sent for a command that runs at once."""
        self._refuse_when_closed()
        if self.lost is not None:
            raise self._watch_error()
        wire = _wire(args)
        name = text_of(wire[0]).upper()
        both = f"{name} {text_of(wire[1]).upper()}" if len(wire) > 1 else name
        if name in READ_COMMANDS or name in ALSO_READ or {name, both} & _ITS_OWN:
            return wire
        refuse_connection_command(wire)
        name = text_of(args[0]).upper()
        raise RedisError(f"{name} before multi() would run at once, outside the transaction: call multi() first.")

    def _refuse_when_closed(self) -> None:
        if self.is_closed:
            raise RedisError(
                "The pipe was used after its attempt had ended. Read everything within the function, also what is read "
                "lazily (scan_iter), and await all tasks that use the pipe."
            )

    def _failed(self, error: RedisError) -> Exception:
        """What to raise for the error of a command that ran at once."""
        if isinstance(error, AskError) and error.slot_id != self.slot:
            return other_slot(error)
        if isinstance(error, AskError | TryAgainError) or not isinstance(error, ResponseError | DataError):
            self.lost = error
            passing = AskError | TryAgainError | ConnectionError | TimeoutError
            if isinstance(error, passing) and not isinstance(error, AUTHENTICATION_ERRORS):
                return self._watch_error()
        return error

    def _watch_error(self) -> WatchError:
        return WatchError(f"The keys are watched no longer: {self.lost}")

    def _answer(self, name: Any, reply: Any, options: dict[str, Any]) -> Any:
        """The reply as redis-py gives it."""
        callback = self.response_callbacks.get(name)
        if callback is None:
            return reply
        return callback(reply, **{name: value for name, value in options.items() if name not in _NOT_FOR_CALLBACKS})


class Pipe(_Common, Pipeline):
    """The pipe of `atomic_update`."""

    def __init__(self, link: SyncConnection, slot: int) -> None:
        of = _template()
        super().__init__(of.connection_pool, of.response_callbacks, True, None)
        self.watching = True
        self.slot = slot
        self._link = link

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command and return its reply."""
        wire = self._checked(args)
        try:
            reply = self._link.request(wire)
        except RedisError as exc:
            raise self._failed(exc) from exc
        except BaseException as exc:  # Ctrl-C, a soft time limit: the reply is still to come
            self.lost = exc
            raise
        return self._answer(args[0], reply, options)

    def execute(self, raise_on_error: bool = True) -> NoReturn:
        """Refused: the transaction is sent when the function has returned."""
        raise RedisError("execute() is called for you, when the function has returned.")

    def reset(self) -> None:  # type: ignore[override]
        """Nothing: the connection is not the pipe's."""

    def end(self) -> None:
        """The function has ended."""
        self.is_closed = True


class AsyncPipe(_Common, AsyncPipeline):  # type: ignore[misc]  # so does redis-py's own
    """The pipe of `aatomic_update`: what runs at once is awaited, what is queued is not."""

    def __init__(self, link: AsyncConnection, slot: int) -> None:
        of = _async_template()
        super().__init__(of.connection_pool, of.response_callbacks, True, None)
        self.watching = True
        self.slot = slot
        self._link = link
        #: One request at a time: tasks of the function may read side by side.
        self._turn = asyncio.Lock()

    async def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command and return its reply."""
        async with self._turn:
            wire = self._checked(args)
            try:
                reply = await self._link.request(wire)
            except RedisError as exc:
                raise self._failed(exc) from exc
            except BaseException as exc:  # cancelled: the reply is still to come
                self.lost = exc
                raise
        return self._answer(args[0], reply, options)

    async def execute(self, raise_on_error: bool = True) -> NoReturn:
        """Refused: the transaction is sent when the function has returned."""
        raise RedisError("execute() is called for you, when the function has returned.")

    async def reset(self) -> None:  # type: ignore[override]
        """Nothing: the connection is not the pipe's."""

    async def end(self) -> None:
        """The function has ended. A task of it that it did not await may still read a reply."""
        async with self._turn:
            self.is_closed = True


def other_slot(error: AskError) -> ClusterCrossSlotError:
    """What to raise for a command whose key lies elsewhere than the watched ones."""
    return ClusterCrossSlotError(
        "A key of this command lies in another slot of the Cluster than the watched keys: give them one hash tag, "
        f"as in 'stock:{{42}}' and 'sold:{{42}}' ({error})."
    )


def _wire(args: tuple[Any, ...]) -> CommandArgs:
    """The command as it is sent. redis-py names some with their subcommand: ``"SCRIPT LOAD"``."""
    wire = (*text_of(args[0]).split(), *args[1:])
    if not text_of(args[0]).strip():
        raise RedisError(f"{args[0]!r} is no name of a command.")
    return wire


@functools.cache
def _template() -> redis.Redis:
    """Never connected: it has redis-py's way of reading replies."""
    return redis.Redis(protocol=2)


@functools.cache
def _async_template() -> redis.asyncio.Redis:
    return redis.asyncio.Redis(protocol=2)
