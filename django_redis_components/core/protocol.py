"""Operations as generators (sans-I/O), with a sync and an async driver.

A flow yields requests and receives their replies; it knows no socket. `run` drives it with a `SyncClient`, `arun` with
an `AsyncClient`. An error is thrown into the flow at its yield. httpx's auth flows and h11 work the same way.

    def _acquire(self, token):
        reply = yield ACQUIRE(lock=self._key, token=token, ttl_ms=self._ttl_ms)
        return reply == 1

    def acquire(self, token): return run(connections.client(self._using), self._acquire(token))
    async def aacquire(self, token): return await arun(connections.aclient(self._using), self._acquire(token))

A flow that is cancelled while it waits may catch the exception, yield requests that clean up, and raise it again.
`arun` shields these requests from further cancellation and returns after they have finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

from django_redis_components.core.slot_waits import slot_wait_limit

#: A command, or a part of one, as it is sent: str, bytes, int and float.
CommandArgs = tuple[Any, ...]
T = TypeVar("T")


class Script(Protocol):
    """What a `Call` needs of a script; see `scripts.LuaScript`."""

    idempotent: bool
    #: The command that runs it by its SHA-1.
    evalsha: str

    @property
    def sha(self) -> str: ...
    def eval_args(self, keys: CommandArgs, args: CommandArgs) -> CommandArgs: ...
    def cluster_keys(self, keys: CommandArgs) -> CommandArgs: ...


@dataclasses.dataclass(slots=True)
class Call:
    """A script with its keys and arguments. It is retried after a lost reply only if the script is idempotent."""

    script: Script
    keys: CommandArgs
    args: CommandArgs

    @property
    def key(self) -> Any:
        """The key that selects the node; None for any node."""
        return self.keys[0] if self.keys else None

    @property
    def retry(self) -> bool:
        """Whether the call may be sent again after a lost reply."""
        return self.script.idempotent

    def command_args(self, cluster: bool = False) -> CommandArgs:
        """Return the command that runs the script by its SHA-1."""
        script = self.script
        keys = script.cluster_keys(self.keys) if cluster else self.keys
        return (script.evalsha, script.sha, str(len(keys)), *keys, *self.args)  # text: see `encoding.pack`

    def eval_args(self, cluster: bool = False) -> CommandArgs:
        """Return the EVAL command, for a server that has not loaded the script."""
        return self.script.eval_args(self.script.cluster_keys(self.keys) if cluster else self.keys, self.args)

    def perform(self, client: SyncClientProtocol) -> Any:
        """Execute the request in this thread."""
        return client.execute(self)

    async def aperform(self, client: AsyncClientProtocol) -> Any:
        """Execute the request on the event loop."""
        return await client.execute(self)


@dataclasses.dataclass(slots=True, init=False)
class Command:
    """A plain command: ``Command("ZCARD", key)``. Set `retry` for reads and idempotent writes only."""

    args: CommandArgs
    key: Any
    retry: bool

    def __init__(self, *args: Any, key: Any = None, retry: bool = False) -> None:
        self.args = args
        self.key = args[1] if key is None and len(args) > 1 else key
        self.retry = retry

    def command_args(self, cluster: bool = False) -> CommandArgs:
        """Return the command."""
        return self.args

    def perform(self, client: SyncClientProtocol) -> Any:
        """Execute the request in this thread."""
        return client.execute(self)

    async def aperform(self, client: AsyncClientProtocol) -> Any:
        """Execute the request on the event loop."""
        return await client.execute(self)


def Read(*args: Any, key: Any = None) -> Command:  # noqa: N802 - makes a Command
    """Return a command that only reads: it is retried after a lost reply."""
    return Command(*args, key=key, retry=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Calls and commands in one round trip per node; not atomic.

    The reply is the list of replies, in order. The first error is raised after all replies were read. With
    `return_exceptions=True` errors are items of the list instead.
    """

    requests: Sequence[Call | Command]
    return_exceptions: bool = False

    def perform(self, client: SyncClientProtocol) -> list[Any]:
        """Execute the request in this thread."""
        return _raise_first_error(client.execute_many(self.requests), self.return_exceptions)

    async def aperform(self, client: AsyncClientProtocol) -> list[Any]:
        """Execute the request on the event loop."""
        return _raise_first_error(await client.execute_many(self.requests), self.return_exceptions)


@dataclasses.dataclass(frozen=True, slots=True)
class Sleep:
    """A pause in seconds; none if negative."""

    seconds: float

    def perform(self, _: SyncClientProtocol) -> None:
        """Sleep in this thread."""
        time.sleep(max(0.0, self.seconds))

    async def aperform(self, _: AsyncClientProtocol) -> None:
        """Sleep in this task."""
        await asyncio.sleep(self.seconds)


class BlockingPop:
    """A BLPOP on lists of one slot that outlasts a single `Wait`. For one flow at a time.

    An idle server ends a blocking command 5 to 99 ms after its timeout, so a wait ends by a timer of this process. The
    command stays outstanding on its connection, and the next wait continues it. Requests in between use other
    connections. A connection never returns to its pool while a reply is outstanding on it.

    Attributes:
        keys: the lists.
        connection: the connection of the outstanding command; None without one.
        overdue_at: when the server must have answered, by the monotonic clock.
    """

    __slots__ = ("_pool", "connection", "keys", "overdue_at")

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        self.connection: Any = None
        self.overdue_at = 0.0
        self._pool: Any = None

    def start(self, pool: Any, connection: Any, overdue_at: float) -> None:
        """Record the connection before the command is sent on it."""
        self._pool, self.connection, self.overdue_at = pool, connection, overdue_at

    def finish(self) -> None:
        """Return the connection to its pool; call this after the reply was read."""
        connection, self.connection = self.connection, None
        self._pool.release(connection)

    def close(self) -> None:
        """Close the connection if a reply is outstanding on it."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """Wait for a wakeup (an element in a list) for at most `seconds`.

    The reply is the element, or None. A wakeup is a hint and may be lost: the waiter reads the state again after each
    wait. A timer of this process ends the wait on time; it may end earlier, to stay below the socket timeout. With a
    `BlockingPop` several waits share one blocking command.
    """

    wakeup: str | BlockingPop
    seconds: float

    def perform(self, client: SyncClientProtocol) -> bytes | None:
        """Wait in this thread."""
        return client.wait(self.wakeup, self.seconds)

    async def aperform(self, client: AsyncClientProtocol) -> bytes | None:
        """Wait in this task."""
        return await client.wait(self.wakeup, self.seconds)


@dataclasses.dataclass(slots=True)  # not frozen: each hit of a rate limit makes one
class BoundedSlotWait:
    """A request that waits at most `seconds` for a Cluster slot that is being moved.

    The reply is that of the request.
    """

    seconds: float
    request: Call | Command | Batch

    def perform(self, client: SyncClientProtocol) -> Any:
        """Execute the request in this thread."""
        if not getattr(client, "is_cluster", True):
            request = self.request
            return client.execute(request) if isinstance(request, _SINGLE) else request.perform(client)
        with slot_wait_limit(self.seconds):
            return self.request.perform(client)

    async def aperform(self, client: AsyncClientProtocol) -> Any:
        """Execute the request on the event loop."""
        if not getattr(client, "is_cluster", True):
            return await self.request.aperform(client)
        with slot_wait_limit(self.seconds):
            return await self.request.aperform(client)


@dataclasses.dataclass(frozen=True, slots=True)
class LocalIO:
    """An operation on local files, such as reading a block. The reply is what it returns.

    The sync driver performs it in this thread, the async one in a thread of the loop's executor: files have no
    non-blocking interface. An operation must not use Redis.
    """

    operation: Callable[[], Any]

    def perform(self, _: SyncClientProtocol) -> Any:
        """Perform the operation in this thread."""
        return self.operation()

    async def aperform(self, _: AsyncClientProtocol) -> Any:
        """Perform the operation in another thread."""
        return await asyncio.to_thread(self.operation)


#: Requests that clients execute as they are.
_SINGLE = (Call, Command)
Request = Call | Command | Batch | Sleep | Wait | BoundedSlotWait | LocalIO
Flow = Generator[Request, Any, T]


class SyncClientProtocol(Protocol):
    """What `run` needs of a client; see `client.connections`."""

    def execute(self, request: Call | Command) -> Any: ...
    def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]: ...
    def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None: ...


class AsyncClientProtocol(Protocol):
    """What `arun` needs of a client; see `client.connections`."""

    async def execute(self, request: Call | Command) -> Any: ...
    async def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]: ...
    async def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None: ...


def _raise_first_error(replies: list[Any], return_exceptions: bool) -> list[Any]:
    """Return the replies of a batch. Raise the first error, unless exceptions are returned."""
    if not return_exceptions:
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
    return replies


class _WrappedStopIteration(Exception):
    """Carries a StopIteration that the site's function raised through a flow.

    A generator cannot raise StopIteration: Python turns it into a RuntimeError (PEP 479). `arun` does not need this
    class, because a coroutine cannot raise StopIteration either.
    """

    def __init__(self, error: StopIteration) -> None:
        super().__init__(repr(error))
        self.error = error


def run(client: SyncClientProtocol, flow: Flow[T]) -> T:
    """Run a flow in this thread and return its value.

    An interruption (Ctrl-C, a soft time limit) between two requests is thrown into the flow too.
    """
    try:
        request = next(flow)
        while True:
            request = _advance(client, flow, request)
    except StopIteration as stop:
        value: T = stop.value
        return value
    except _WrappedStopIteration as wrapped:
        raise wrapped.error from wrapped.error.__cause__
    except BaseException as exc:
        if inspect.getgeneratorstate(flow) == inspect.GEN_CLOSED:  # it raised this error
            raise
        return run(client, _resumed(flow, exc))


def _advance(client: SyncClientProtocol, flow: Flow[T], request: Request) -> Request:
    """Perform a request and return the flow's next one.

    This is a function because CPython does not protect the first instruction of a `try` inside a `try`: a Ctrl-C there
    would not reach the flow.
    """
    try:  # calls and commands, which are most requests, without a call in between
        reply = client.execute(request) if isinstance(request, _SINGLE) else request.perform(client)
    except StopIteration as exc:
        return flow.throw(_WrappedStopIteration(exc))
    except BaseException as exc:  # noqa: BLE001 - the flow decides
        return flow.throw(exc)
    return flow.send(reply)


async def arun(client: AsyncClientProtocol, flow: Flow[T]) -> T:
    """Run a flow on the running event loop and return its value."""
    try:
        request = next(flow)
        while True:
            try:
                reply = await request.aperform(client)
            except asyncio.CancelledError as exc:
                return await _clean_up(client, flow, exc)
            except GeneratorExit:  # the loop has ended: nothing that cleans up can be awaited
                with contextlib.suppress(RuntimeError):  # "generator ignored GeneratorExit"
                    flow.close()
                raise
            except BaseException as exc:  # noqa: BLE001 - the flow decides
                request = flow.throw(exc)
            else:
                request = flow.send(reply)
    except StopIteration as stop:
        value: T = stop.value
        return value
    except GeneratorExit:
        raise
    except BaseException as exc:  # as in `run`: an interruption between two requests
        if inspect.getgeneratorstate(flow) == inspect.GEN_CLOSED:
            raise
        return await arun(client, _resumed(flow, exc))


async def _clean_up(client: AsyncClientProtocol, flow: Flow[T], error: BaseException) -> T:
    """Finish a cancelled flow in a separate task, which further cancellations of this task do not reach."""
    task = asyncio.ensure_future(arun(client, _resumed(flow, error)))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as exc:
            cancelled = exc
    value = task.result()
    if cancelled is not None:  # the flow caught the first cancellation and returned; raise the second
        raise cancelled
    return value


def _resumed(flow: Flow[T], error: BaseException) -> Flow[T]:
    """Return a new flow that throws an error into the given one and continues it."""
    try:
        request = flow.throw(error)
        while True:
            try:
                reply = yield request
            except BaseException as exc:  # noqa: BLE001 - the flow decides
                request = flow.throw(exc)
            else:
                request = flow.send(reply)
    except StopIteration as stop:
        value: T = stop.value
        return value
