"""The pipe that a function gets: redis-py's `Pipeline` on a connection of this package.

It has all commands of redis-py, with their arguments and replies. Before `multi()` commands are executed at once, and
only reads are allowed: a write would be outside the transaction and would persist if it fails. After `multi()` they
are queued; `steps` sends them.
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

#: Read commands that are missing in redis-py's list, by their first word.
ALSO_READ = {
    "BITFIELD_RO", "ECHO", "GEORADIUS_RO", "GEORADIUSBYMEMBER_RO", "MEMORY", "OBJECT", "PFCOUNT", "PING",
    "SORT_RO", "SUBSTR", "TIME", "XINFO",
}  # fmt: skip
#: Commands of the pipe itself: to watch further keys, and to load its scripts.
_WATCH_AND_SCRIPT = {"WATCH", "SCRIPT EXISTS", "SCRIPT LOAD"}
#: Keyword arguments that redis-py does not pass to response callbacks.
_NOT_FOR_CALLBACKS = ("keys", NEVER_DECODE, EMPTY_RESPONSE)


def _refused_method(method: str) -> Any:
    """Return a replacement for a method of redis-py's pipeline that would not use the pipe's connection."""

    def refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
        raise RedisError(
            f"{method}() is not allowed: it would not use the connection of the pipe. Use a separate client."
        )

    return refuse


class _BasePipe:
    """The parts that both pipes share."""

    client = _refused_method("client")
    keyspace_notifications = _refused_method("keyspace_notifications")
    lock = _refused_method("lock")
    monitor = _refused_method("monitor")
    pipeline = _refused_method("pipeline")
    pubsub = _refused_method("pubsub")

    command_stack: list[Any]
    response_callbacks: Any

    #: The Cluster slot of the watched keys; 0 without Cluster.
    #:
    #: :meta private:
    slot: int = 0
    #: The error after which the keys are no longer watched or a reply is outstanding: the connection must be closed.
    #:
    #: :meta private:
    lost: BaseException | None = None
    #: Whether the function has returned: the pipe must not use the connection any more.
    #:
    #: :meta private:
    is_closed: bool = False

    def queued_commands(self) -> list[CommandArgs]:
        """Return the queued commands.

        :meta private:
        """
        return [_command_args(args) for args, _ in self.command_stack]

    def __len__(self) -> int:
        return len(self.command_stack)

    def unwatch(self) -> NoReturn:
        """Raise: without the watch there is no transaction."""
        raise RedisError(
            "unwatch() would let the transaction overwrite changes of other clients; raise an exception to abort it."
        )

    def discard(self) -> NoReturn:
        """Raise: it would be queued."""
        raise RedisError("discard() is not allowed: raise an exception to abort; queued commands are then not sent.")

    def pipeline_execute_command(self, *args: Any, **options: Any) -> Any:
        """Queue a command."""
        self._refuse_when_closed()
        refuse_connection_command(_command_args(args))
        return super().pipeline_execute_command(*args, **options)  # type: ignore[misc]

    def _checked(self, args: tuple[Any, ...]) -> CommandArgs:
        """Return the arguments of a command that is executed at once, if it is allowed."""
        self._refuse_when_closed()
        if self.lost is not None:
            raise self._watch_error()
        command = _command_args(args)
        name = text_of(command[0]).upper()
        both = f"{name} {text_of(command[1]).upper()}" if len(command) > 1 else name
        if name in READ_COMMANDS or name in ALSO_READ or {name, both} & _WATCH_AND_SCRIPT:
            return command
        refuse_connection_command(command)
        name = text_of(args[0]).upper()
        raise RedisError(f"{name} before multi() would be executed outside the transaction: call multi() first.")

    def _refuse_when_closed(self) -> None:
        if self.is_closed:
            raise RedisError(
                "The pipe was used after its attempt had ended. Read everything within the function, lazy iterators "
                "(scan_iter) included, and await all tasks that use the pipe."
            )

    def _failed(self, error: RedisError) -> Exception:
        """Return the exception for an error of a command that was executed at once."""
        if isinstance(error, AskError) and error.slot_id != self.slot:
            return cross_slot_error(error)
        if isinstance(error, AskError | TryAgainError) or not isinstance(error, ResponseError | DataError):
            self.lost = error
            passing = AskError | TryAgainError | ConnectionError | TimeoutError
            if isinstance(error, passing) and not isinstance(error, AUTHENTICATION_ERRORS):
                return self._watch_error()
        return error

    def _watch_error(self) -> WatchError:
        return WatchError(f"The keys are no longer watched: {self.lost}")

    def _parse_reply(self, name: Any, reply: Any, options: dict[str, Any]) -> Any:
        """Return the reply as redis-py parses it."""
        callback = self.response_callbacks.get(name)
        if callback is None:
            return reply
        return callback(reply, **{name: value for name, value in options.items() if name not in _NOT_FOR_CALLBACKS})


class Pipe(_BasePipe, Pipeline):
    """The pipe of `atomic_update`."""

    def __init__(self, link: SyncConnection, slot: int) -> None:
        of = _client_template()
        super().__init__(of.connection_pool, of.response_callbacks, True, None)
        self.watching = True
        self.slot = slot
        self._link = link

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command and return its reply."""
        command = self._checked(args)
        try:
            reply = self._link.request(command)
        except RedisError as exc:
            raise self._failed(exc) from exc
        except BaseException as exc:  # Ctrl-C, a soft time limit: the reply is outstanding
            self.lost = exc
            raise
        return self._parse_reply(args[0], reply, options)

    def execute(self, raise_on_error: bool = True) -> NoReturn:
        """Raise: the transaction is sent after the function has returned."""
        raise RedisError("execute() is not allowed: the transaction is sent after the function has returned.")

    def reset(self) -> None:  # type: ignore[override]
        """Do nothing: the pipe does not own the connection."""

    def end(self) -> None:
        """Close the pipe.

        :meta private:
        """
        self.is_closed = True


class AsyncPipe(_BasePipe, AsyncPipeline):  # type: ignore[misc]  # so does redis-py's own
    """The pipe of `aatomic_update`: reads are awaited, queued commands are not."""

    def __init__(self, link: AsyncConnection, slot: int) -> None:
        of = _async_client_template()
        super().__init__(of.connection_pool, of.response_callbacks, True, None)
        self.watching = True
        self.slot = slot
        self._link = link
        #: One request at a time: tasks of the function may read concurrently.
        self._mutex = asyncio.Lock()

    async def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command and return its reply."""
        async with self._mutex:
            command = self._checked(args)
            try:
                reply = await self._link.request(command)
            except RedisError as exc:
                raise self._failed(exc) from exc
            except BaseException as exc:  # cancelled: the reply is outstanding
                self.lost = exc
                raise
        return self._parse_reply(args[0], reply, options)

    async def execute(self, raise_on_error: bool = True) -> NoReturn:
        """Raise: the transaction is sent after the function has returned."""
        raise RedisError("execute() is not allowed: the transaction is sent after the function has returned.")

    async def reset(self) -> None:  # type: ignore[override]
        """Do nothing: the pipe does not own the connection."""

    async def end(self) -> None:
        """Close the pipe. A task that the function did not await may still be reading a reply.

        :meta private:
        """
        async with self._mutex:
            self.is_closed = True


def cross_slot_error(error: AskError) -> ClusterCrossSlotError:
    """Return the exception for a command whose key is in another slot than the watched keys."""
    return ClusterCrossSlotError(
        "A key of this command is in another Cluster slot than the watched keys: give them the same hash tag, "
        f"such as 'stock:{{42}}' and 'sold:{{42}}' ({error})."
    )


def _command_args(args: tuple[Any, ...]) -> CommandArgs:
    """Return the command's arguments. redis-py joins some names with their subcommand: ``"SCRIPT LOAD"``."""
    command = (*text_of(args[0]).split(), *args[1:])
    if not text_of(args[0]).strip():
        raise RedisError(f"{args[0]!r} is not a command name.")
    return command


@functools.cache
def _client_template() -> redis.Redis:
    """Return a client that never connects: it provides redis-py's response callbacks."""
    return redis.Redis(protocol=2)


@functools.cache
def _async_client_template() -> redis.asyncio.Redis:
    return redis.asyncio.Redis(protocol=2)
