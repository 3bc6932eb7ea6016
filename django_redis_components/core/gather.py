"""Run several flows concurrently, in the way of `asyncio.gather`: their pending requests share one round trip."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from django_redis_components.core.protocol import Batch, Call, Command, Flow, Request


@dataclasses.dataclass(slots=True)
class GatherResult:
    """The value of a flow, or the error that it raised.

    Attributes:
        was_read: whether the flow received a reply.
    """

    value: Any = None
    error: Exception | None = None
    was_read: bool = False

    def unwrap(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


def gather(flows: Sequence[Flow[Any]]) -> Flow[list[GatherResult]]:
    """Run flows to completion and return their outcomes in order. An error of one flow does not affect the others."""
    runs = [_FlowRun(flow) for flow in flows]
    while pending := [each for each in runs if each.request is not None]:
        requests = [each.pending_requests() for each in pending]
        try:
            replies = yield Batch([request for part in requests for request in part], return_exceptions=True)
        except Exception as exc:  # noqa: BLE001 - each flow handles the error itself
            for each in pending:
                each.throw(exc)
            continue
        at = 0
        for each, part in zip(pending, requests, strict=True):
            each.send(replies[at : at + len(part)])
            at += len(part)
    return [each.outcome for each in runs]


def raise_if_all_failed(outcomes: Sequence[GatherResult]) -> None:
    """Raise the first error if no flow has a value: the parts of a panel have one outage, not each its own."""
    if outcomes and all(outcome.error is not None for outcome in outcomes):
        outcomes[0].unwrap()


def gather_values(flows: Sequence[Flow[Any]]) -> Flow[list[Any]]:
    """Run flows to completion and return their values in order. The first error is raised."""
    outcomes = yield from gather(flows)
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [outcome.value for outcome in outcomes]


class _FlowRun:
    """A running flow: its pending request, or its outcome."""

    def __init__(self, flow: Flow[Any]) -> None:
        self.outcome = GatherResult()
        self.request: Request | None = None
        self._flow = flow
        self._was_read = False
        self._advance(lambda: next(flow))

    def pending_requests(self) -> list[Call | Command]:
        """Return the commands of the pending request."""
        if isinstance(self.request, Batch):
            return list(self.request.requests)
        if isinstance(self.request, Call | Command):
            return [self.request]
        raise TypeError(f"{self.request!r}: a gathered flow may only yield Call, Command and Batch.")

    def send(self, replies: list[Any]) -> None:
        """Resume the flow with its replies, or with the first error unless its batch accepts errors."""
        request = self.request
        accepts_errors = isinstance(request, Batch) and request.return_exceptions
        error = None if accepts_errors else next((reply for reply in replies if isinstance(reply, Exception)), None)
        if error is not None:
            self.throw(error)
        else:
            value = replies if isinstance(request, Batch) else replies[0]
            self._was_read = True
            self._advance(lambda: self._flow.send(value))

    def throw(self, error: Exception) -> None:
        """Raise an error in the flow."""
        self._advance(lambda: self._flow.throw(error))

    def _advance(self, step: Callable[[], Request]) -> None:
        try:
            self.request = step()
        except StopIteration as stop:
            self.outcome, self.request = GatherResult(value=stop.value, was_read=self._was_read), None
        except Exception as exc:  # noqa: BLE001 - a failing part must not take down the page
            self.outcome, self.request = GatherResult(error=exc), None
