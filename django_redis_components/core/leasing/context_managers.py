"""`with` and `async with` for objects that grant leases. No lease is left held when Ctrl-C interrupts entry or exit.

Python runs a signal handler between two instructions, so `KeyboardInterrupt` can be raised before the first line of
`__exit__`, where no `try` can catch it. Therefore `__exit__` is a descriptor. The interpreter reads it before it
calls `__enter__`, and references the result, a `BlockExit`, while the block runs. If a `BlockExit` is garbage collected
before the lease was released, a thread releases it.

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
    """The flows that a `with` block needs; see `LeaseFlows`."""

    def enter(self, block: Acquisition) -> Flow[None]: ...
    def leave(self, error: BaseException | None, block: Acquisition) -> Flow[None]: ...
    def drop(self, block: Acquisition) -> None: ...


class _Entering(threading.local):
    """The block whose `BlockExit` was read last in this thread, until `__enter__` is called."""

    block: Acquisition | None = None


_entering = _Entering()


class LeaseContextManager:
    """The context manager methods of an object that grants leases."""

    using: str
    flows: BlockFlows

    def __enter__(self) -> Self:
        run(client(self.using), self.flows.enter(_begin(self)))
        return self

    @markcoroutinefunction
    def __aenter__(self) -> Coroutine[Any, Any, Self]:
        return self._enter_async(_begin(self))

    async def _enter_async(self, block: Acquisition) -> Self:
        await arun(aclient(self.using), self.flows.enter(block))
        return self

    if TYPE_CHECKING:

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: types.TracebackType | None
        ) -> None: ...

        async def __aexit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: types.TracebackType | None
        ) -> None: ...


class BlockExit(functools.partial[Any]):
    """Leaves a block: the interpreter calls it with the block's error, or garbage collects it uncalled.

    A partial, because calling it enters no Python frame that references it: the traceback of an interruption must not
    keep it alive.
    """

    __slots__ = ()

    def __del__(self) -> None:
        leased, block = self.args
        if block.lease is not None:
            leased.flows.drop(block)


class _Exit:
    """The descriptor of `__exit__`, and of `__aexit__`."""

    def __init__(self, leave: Callable[..., Any]) -> None:
        """Args: leave: called with the object, block, and the three arguments of `__exit__`."""
        self._leave = leave

    def __get__(self, leased: LeaseContextManager | None, _: type | None = None) -> Callable[..., Any]:
        leave = self._leave
        if leased is None:
            return lambda leased, *error: leave(leased, Acquisition(), *error)
        block = _entering.block = Acquisition(object_id=id(leased))
        return BlockExit(leave, leased, block)


def _begin(leased: LeaseContextManager) -> Acquisition:
    """Return the block that the caller enters."""
    block, _entering.block = _entering.block, None
    if block is not None and block.object_id == id(leased) and block.owner is current_owner():
        return block
    return Acquisition()  # entered by hand, or by an ExitStack


def _leave(
    leased: LeaseContextManager, block: Acquisition, kind: object, error: BaseException | None, traceback: object
) -> None:
    run(client(leased.using), leased.flows.leave(error, block))


def _leave_async(
    leased: LeaseContextManager, block: Acquisition, kind: object, error: BaseException | None, traceback: object
) -> Generator[Any, Any, None]:
    # The interpreter drops the `BlockExit` when it has the awaitable, which is then responsible for the lease. It is a
    # generator that was started up to a point inside its `try`: a coroutine can be interrupted before its first line.
    leaving = _leaving(leased, block, error)
    try:
        next(leaving)
        return leaving
    except BaseException:
        leaving.close()
        raise


@types.coroutine
def _leaving(leased: LeaseContextManager, block: Acquisition, error: BaseException | None) -> Generator[Any, Any, None]:
    mine = Acquisition(block.owner)
    try:
        mine.depth, mine.lease, block.lease = block.depth, block.lease, None
        yield
        yield from arun(aclient(leased.using), leased.flows.leave(error, mine)).__await__()
    except BaseException:
        if mine.lease is not None:
            leased.flows.drop(mine)
        raise


LeaseContextManager.__exit__ = _Exit(_leave)  # type: ignore[method-assign,assignment]
LeaseContextManager.__aexit__ = _Exit(_leave_async)  # type: ignore[method-assign,assignment]
