"""Several flows side by side: what they want at the same time goes in one round trip."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from django_redis_components.core.protocol import Batch, Call, Command, Flow, Request


@dataclasses.dataclass(slots=True)
class Outcome:
    """How a flow ended: with a value, or with an error that concerns it alone."""

    value: Any = None
    error: Exception | None = None


def together(flows: Sequence[Flow[Any]]) -> Flow[list[Outcome]]:
    """Drive flows to their ends; the value is their outcomes, in order. The error of one does not touch the others."""
    strands = [_Strand(flow) for flow in flows]
    while waiting := [strand for strand in strands if strand.request is not None]:
        wanted = [strand.wanted() for strand in waiting]
        try:
            replies = yield Batch([request for part in wanted for request in part], return_exceptions=True)
        except Exception as exc:  # noqa: BLE001 - each flow decides for itself
            for strand in waiting:
                strand.throw(exc)
            continue
        at = 0
        for strand, part in zip(waiting, wanted, strict=True):
            strand.answer(replies[at : at + len(part)])
            at += len(part)
    return [strand.outcome for strand in strands]


class _Strand:
    """One flow: what it wants now, or how it ended."""

    def __init__(self, flow: Flow[Any]) -> None:
        self.outcome = Outcome()
        self.request: Request | None = None
        self._flow = flow
        self._go(lambda: next(flow))

    def wanted(self) -> list[Call | Command]:
        """The requests that the flow waits for."""
        if isinstance(self.request, Batch):
            return list(self.request.requests)
        if isinstance(self.request, Call | Command):
            return [self.request]
        raise TypeError(f"{self.request!r}: flows that run together may only yield Call, Command and Batch.")

    def answer(self, replies: list[Any]) -> None:
        """Give the flow its replies, or the first error as it would meet it alone."""
        request = self.request
        allowed = isinstance(request, Batch) and request.return_exceptions
        error = None if allowed else next((reply for reply in replies if isinstance(reply, Exception)), None)
        if error is not None:
            self.throw(error)
        else:
            value = replies if isinstance(request, Batch) else replies[0]
            self._go(lambda: self._flow.send(value))

    def throw(self, error: Exception) -> None:
        """Let the flow meet an error at its yield."""
        self._go(lambda: self._flow.throw(error))

    def _go(self, step: Callable[[], Request]) -> None:
        try:
            self.request = step()
        except StopIteration as stop:
            self.outcome, self.request = Outcome(value=stop.value), None
        except Exception as exc:  # noqa: BLE001 - a panel that fails must not take the page with it
            self.outcome, self.request = Outcome(error=exc), None
