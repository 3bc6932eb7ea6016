"""`with` and `async with` for what grants a lease: nothing is left held when Ctrl-C interrupts entering or leaving.

Python runs a signal handler between two instructions, so `KeyboardInterrupt` can be raised before the first line of
`__exit__`, where no `try` can catch it. Therefore `__exit__` is a descriptor. The interpreter reads it before it
calls `__enter__`, and holds what it got, a `BlockExit`, for as long as the block lasts. A `BlockExit` that is dropped
before the lease was given back has the lease released by a thread.

`contextlib.ExitStack` reads `__exit__` from the class. It gets a plain function, without this protection.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Protocol, Self

from asgiref.sync import markcoroutinefunction

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing.owner import Acquisition, current_owner
from django_redis_components.core.protocol import Flow, arun, run


class BlockFlows(Protocol):
    """What a block needs of a lock or semaphore."""

    def enter(self, block: Acquisition) -> Flow[None]: ...
    def leave(self, error: BaseException | None, block: Acquisition) -> Flow[None]: ...
    def drop(self, block: Acquisition) -> None: ...


class _Entering(threading.local):
    """The block whose `BlockExit` was read last in this thread, until `__enter__` is called."""

    block: Acquisition | None = None


_entering = _Entering()


class Blocks:
    """The context manager methods of an object that grants leases. It has `_using` and `_holder`."""

    _using: str
    _holder: BlockFlows

    def __enter__(self) -> Self:
        run(client(self._using), self._holder.enter(_begin(self)))
        return self

    @markcoroutinefunction
    def __aenter__(self) -> Coroutine[Any, Any, Self]:
        return self._enter_async(_begin(self))

    async def _enter_async(self, block: Acquisition) -> Self:
        await arun(aclient(self._using), self._holder.enter(block))
        return self

    if TYPE_CHECKING:

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: types.TracebackType | None
        ) -> None: ...

        async def __aexit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: types.TracebackType | None
        ) -> None: ...


class BlockExit(functools.partial[Any]):
    """What leaves a block: called by the interpreter with the block's error, or dropped.

    A partial, because calling it enters no Python frame that holds it: the traceback of an interruption must not keep
    it from being dropped.
    """

    __slots__ = ()

    def __del__(self) -> None:
        guard, block = self.args
        if block.lease is not None:
            guard._holder.drop(block)


class _Exit:
    """The descriptor of `__exit__`, and of `__aexit__`."""

    def __init__(self, leave: Callable[..., Any]) -> None:
        """Args: leave: called with object, block, and the three arguments of `__exit__`."""
        self._leave = leave

    def __get__(self, guard: Blocks | None, _: type | None = None) -> Callable[..., Any]:
        leave = self._leave
        if guard is None:
            return lambda guard, *error: leave(guard, Acquisition(), *error)
        block = _entering.block = Acquisition(of=id(guard))
        return BlockExit(leave, guard, block)


def _begin(guard: Blocks) -> Acquisition:
    """The block that the caller enters."""
    block, _entering.block = _entering.block, None
    if block is not None and block.of == id(guard) and block.owner is current_owner():
        return block
    return Acquisition()  # entered by hand, or by an ExitStack


def _leave(guard: Blocks, block: Acquisition, kind: object, error: BaseException | None, traceback: object) -> None:
    run(client(guard._using), guard._holder.leave(error, block))


def _leave_async(
    guard: Blocks, block: Acquisition, kind: object, error: BaseException | None, traceback: object
) -> Generator[Any, Any, None]:
    # The interpreter drops the `BlockExit` when it has the awaitable. The awaitable then answers for the lease: it is
    # a generator that stands inside a `try` already, because a coroutine can be interrupted before its first line.
    leaving = _leaving(guard, block, error)
    try:
        next(leaving)
        return leaving
    except BaseException:
        leaving.close()
        raise


@types.coroutine
def _leaving(guard: Blocks, block: Acquisition, error: BaseException | None) -> Generator[Any, Any, None]:
    mine = Acquisition(block.owner)
    try:
        mine.depth, mine.lease, block.lease = block.depth, block.lease, None
        yield
        yield from arun(aclient(guard._using), guard._holder.leave(error, mine)).__await__()
    except BaseException:
        if mine.lease is not None:
            guard._holder.drop(mine)
        raise


Blocks.__exit__ = _Exit(_leave)  # type: ignore[method-assign,assignment]
Blocks.__aexit__ = _Exit(_leave_async)  # type: ignore[method-assign,assignment]
