"""Read the parts of a page: one pipeline for each connection and step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.gather import GatherResult, gather
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Flow, run
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.bounded_client import BoundedClient, Cost
from django_redis_components.dashboard.panel import Panel
from django_redis_components.dashboard.panels.budget import Budget, within_budget

logger = guarded_logger("django_redis_components.dashboard")

#: Characters of a parameter that a panel gets.
MAX_PARAMETER = 200


@dataclasses.dataclass(frozen=True, slots=True)
class PagePart:
    """A part of a page: the alias of its connection, and the flow that reads it."""

    using: Callable[[], str]
    read: Callable[[], Flow[Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class PanelResult:
    """A panel with the value that its `read` returned, or the error that it raised; see `GatherResult`."""

    panel: Panel
    value: Any
    error: Exception | None
    was_read: bool


def panel_parts(panels: Iterable[Panel], budget: Budget, query: Mapping[str, str] | None = None) -> list[PagePart]:
    """Return the parts that read panels.

    Args:
        query: the parameters of the page.
    """
    return [PagePart(panel.using, _reader(panel, budget, query or {})) for panel in panels]


def panel_results(panels: Sequence[Panel], outcomes: Sequence[GatherResult]) -> list[PanelResult]:
    """Return the panels with their outcomes."""
    return [
        PanelResult(panel, outcome.value, outcome.error, outcome.was_read)
        for panel, outcome in zip(panels, outcomes, strict=True)
    ]


def read_parts(parts: Sequence[PagePart], cost: Cost) -> list[GatherResult]:
    """Read parts and return their outcomes in order. An error of one part does not affect the others."""
    outcomes = [GatherResult() for _ in parts]
    numbers: dict[str, list[int]] = {}
    for number, part in enumerate(parts):
        try:
            numbers.setdefault(part.using(), []).append(number)
        except Exception as exc:  # noqa: BLE001 - a panel of a site raised it
            outcomes[number] = GatherResult(error=exc)
    for alias, chosen in numbers.items():
        found = _read_together(alias, [parts[number].read for number in chosen], cost)
        for number, outcome in zip(chosen, found, strict=True):
            outcomes[number] = outcome
    for outcome in outcomes:
        _log(outcome.error)
    return outcomes


def _reader(panel: Panel, budget: Budget, query: Mapping[str, str]) -> Callable[[], Flow[Any]]:
    parameters = {name: query.get(name, "")[:MAX_PARAMETER] for name in panel.parameters}
    read: Callable[..., Flow[Any]] = panel.read
    return lambda: within_budget(partial(read, **parameters), budget)


def _read_together(alias: str, reads: list[Callable[[], Flow[Any]]], cost: Cost) -> list[GatherResult]:
    try:
        client = BoundedClient(clients.client(alias), cost)
    except RedisComponentsError as exc:
        return [GatherResult(error=exc) for _ in reads]
    return run(client, gather([read() for read in reads]))


def _log(error: Exception | None) -> None:
    if error is not None and not isinstance(error, RedisError | RedisComponentsError):
        logger.log_exception(error, "A part of the dashboard failed.")
