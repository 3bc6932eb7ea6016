"""The budget of registered panels: a panel above it, or with a forbidden command, stops without failing the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from django_redis_components.core.client.encoding import pack
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Batch, Call, Command, Flow
from django_redis_components.dashboard.bounded_client import MAX_COMMANDS, ensure_bounded

#: Requests that the `read` of a panel may yield: as many as a page has round trips.
MAX_REQUESTS = 3
#: Commands that the registered panels of the overview share. Its own sections need the others.
OVERVIEW_COMMANDS = 50


class PanelBudgetExceeded(RedisComponentsError):
    """A panel wanted more commands or round trips than its page has left. Nothing of that request was sent."""


@dataclasses.dataclass(slots=True)
class Budget:
    """The commands that the panels of a page may still send."""

    commands: int

    def spend(self, requests: list[Call | Command]) -> None:
        """Count commands.

        Raises:
            PanelBudgetExceeded: too few are left.
        """
        if len(requests) > self.commands:
            raise PanelBudgetExceeded(
                f"It would send {len(requests)} commands; the panels of this page have {self.commands} left."
            )
        self.commands -= len(requests)


def budget_of(page: str) -> Budget:
    """Return the budget of a page's panels."""
    return Budget(OVERVIEW_COMMANDS if page == "overview" else MAX_COMMANDS)


def within_budget(read: Callable[[], Flow[Any]], budget: Budget) -> Flow[Any]:
    """Run the flow of a panel, and check each request before it joins those of other panels.

    A request that cannot be sent would otherwise fail the round trip of all panels.
    """
    flow = read()
    step: Callable[[], Any] = partial(next, flow)
    for requests_left in range(MAX_REQUESTS, -1, -1):
        try:
            request = step()
        except StopIteration as stop:
            return stop.value
        if not requests_left:
            raise PanelBudgetExceeded(f"It wants more than {MAX_REQUESTS} round trips.")
        _check(request, budget)
        try:
            step = partial(flow.send, (yield request))
        except Exception as exc:  # noqa: BLE001 - the panel may handle it
            step = partial(flow.throw, exc)


def _check(request: Any, budget: Budget) -> None:
    requests = list(request.requests) if isinstance(request, Batch) else [request]
    for each in requests:
        if not isinstance(each, Call | Command):
            raise TypeError(f"{each!r}: the read method of a panel may only yield Call, Command and Batch.")
        ensure_bounded(each)
        pack(each.command_args())
    budget.spend(requests)
