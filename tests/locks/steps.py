"""Run a flow one request at a time, so that a test can act between two requests."""

from __future__ import annotations

from typing import Any

from django_redis_components.core.client.connections import client
from django_redis_components.core.leasing.leased import Leased
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.protocol import BoundedSlotWait, Call, Flow, Request
from django_redis_components.locks import LockNotOwned
from django_redis_components.semaphores import PermitNotOwned
from tests.support import Store


class Steps:
    """``steps.request`` is the flow's next request; None when it has ended with ``value`` or ``error``."""

    def __init__(self, flow: Flow[Any]) -> None:
        self._flow = flow
        self.value: Any = None
        self.error: BaseException | None = None
        self.request: Request | None = None
        self._advance(lambda: next(flow))

    def perform(self) -> Any:
        """Perform the request, and continue the flow with its reply. Returns the reply."""
        assert self.request is not None
        reply = self.request.perform(client())
        self.send(reply)
        return reply

    def send(self, reply: Any) -> None:
        """Continue the flow with this reply, without a request to the server."""
        self._advance(lambda: self._flow.send(reply))

    def throw(self, error: BaseException) -> None:
        """Raise this error from the request."""
        self._advance(lambda: self._flow.throw(error))

    def wants(self, script: str) -> bool:
        """Return whether the next request is a call of this script."""
        request = self.request.request if isinstance(self.request, BoundedSlotWait) else self.request
        return isinstance(request, Call) and request.script.name == script

    def _advance(self, step: Any) -> None:
        try:
            self.request = step()
        except StopIteration as stop:
            self.request, self.value = None, stop.value
        except BaseException as exc:  # noqa: BLE001 - looked at by the test
            self.request, self.error = None, exc


def flushed(store: Store, flow: Flow[object]) -> object:
    """Run a flow to its end, with SCRIPT FLUSH before each request."""
    steps = Steps(flow)
    while steps.request is not None:
        store.raw.script_flush()
        steps.perform()
    if steps.error is not None:
        raise steps.error
    return steps.value


def acquisition(leased: Leased, permits: int = 1) -> Steps:
    """Return the steps of one `acquire`."""
    return Steps(leased.flows.acquire(acquisition=Acquisition(permits=permits)))


def is_released(leased: Leased) -> bool:
    """Return whether `release` released something."""
    try:
        leased.release()
    except (LockNotOwned, PermitNotOwned):
        return False
    return True
