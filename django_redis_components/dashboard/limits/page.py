"""The template context and the JSON of the page of rate limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.core import conf
from django_redis_components.core.rates import Rate
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import NO_VALUE, Tile, cost_note
from django_redis_components.dashboard.formats import Timestamp, number
from django_redis_components.dashboard.json_data import cost_data, time_data
from django_redis_components.dashboard.limits.snapshot import LimitSnapshot
from django_redis_components.ratelimits import Decision, RateLimitPolicy


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyRow:
    """A registered limit. `on_error` is what happens to hits while Redis is unavailable."""

    id: str
    name: str
    algorithm: str
    rates: str
    penalty: str
    on_error: str
    using: str
    is_selected: bool


@dataclasses.dataclass(frozen=True, slots=True)
class RateRow:
    """The state of one rate of a limit, for a key."""

    rate: str
    remaining: str
    retry: str
    reset: str


@dataclasses.dataclass(frozen=True, slots=True)
class LimitPage:
    """The content of the page.

    Attributes:
        state: of the key in the query; empty without one.
        reset: query string of the link to a reset; "" without a key.
    """

    policies: list[PolicyRow]
    name: str
    key: str
    is_unknown: bool
    verdict: str
    state: list[Tile]
    rates: list[RateRow]
    reset: str
    read_at: Timestamp
    zone: str
    cost: str


def build_page(snapshot: LimitSnapshot) -> LimitPage:
    """Return the page of a snapshot."""
    selected, decision = snapshot.selected, snapshot.decision
    query = {"limit": selected.id, "key": snapshot.key} if selected else {}
    return LimitPage(
        policies=[_policy_row(each, selected) for each in snapshot.policies],
        name=selected.name if selected else "",
        key=snapshot.key,
        is_unknown=snapshot.is_unknown,
        verdict=verdict(decision) if decision is not None else "",
        state=[*_tiles(decision)] if decision is not None else [],
        rates=[*_rates(decision)] if decision is not None else [],
        reset=urlencode(query) if decision is not None else "",
        read_at=formats.timestamp(snapshot.at, snapshot.at),
        zone=formats.zone(),
        cost=cost_note(snapshot.cost, per_node=snapshot.is_cluster),
    )


def limit_data(snapshot: LimitSnapshot) -> dict[str, Any]:
    """Return a snapshot as JSON."""
    decision = snapshot.decision
    return {
        "at": time_data(snapshot.at),
        "environment": conf.settings().dashboard.environment,
        "limits": [{"id": each.id, **dataclasses.asdict(each)} for each in snapshot.policies],
        "state": _state(snapshot, decision) if decision is not None else None,
        "cost": cost_data(snapshot.cost),
    }


def verdict(decision: Decision) -> str:
    """Return whether the next hit is allowed, in one sentence."""
    if decision.allowed:
        return _("The next hit is allowed.")
    wait = formats.duration(decision.retry_after)
    if decision.blocked:
        return _("Blocked by the penalty. The block ends in %(time)s.") % {"time": wait}
    return _("The next hit is denied. Retry in %(time)s.") % {"time": wait}


def _policy_row(policy: RateLimitPolicy, selected: RateLimitPolicy | None) -> PolicyRow:
    on_error = {
        "open": pgettext("hits during a Redis failure", "allow"),
        "closed": pgettext("hits during a Redis failure", "deny"),
    }
    return PolicyRow(
        id=policy.id,
        name=policy.name,
        algorithm=policy.algorithm,
        rates=", ".join(policy.rates),
        penalty=_penalty(policy),
        on_error=on_error[policy.on_error],
        using=policy.using,
        is_selected=selected is not None and policy.id == selected.id,
    )


def _penalty(policy: RateLimitPolicy) -> str:
    if policy.penalty is None:
        return NO_VALUE
    denials, seconds = policy.penalty
    text = ngettext(
        "%(time)s block after %(count)s denial in %(time)s",
        "%(time)s block after %(count)s denials in %(time)s",
        denials,
    )
    return text % {"count": number(denials), "time": formats.duration(seconds)}


def _tiles(decision: Decision) -> Iterable[Tile]:
    yield Tile(
        pgettext("hits", "Remaining"), number(decision.remaining), _("of %(limit)s") % {"limit": number(decision.limit)}
    )
    yield Tile(_("Retry in"), _time(decision.retry_after))
    yield Tile(_("Resets in"), _time(decision.reset_after))


def _rates(decision: Decision) -> Iterable[RateRow]:
    for state in decision.states if len(decision.states) > 1 else ():
        rate: Rate = state.rate
        yield RateRow(str(rate), number(state.remaining), _time(state.retry_after), _time(state.reset_after))


def _time(seconds: float) -> str:
    return formats.duration(seconds) if seconds > 0 else pgettext("a time", "now")


def _state(snapshot: LimitSnapshot, decision: Decision) -> dict[str, Any]:
    limit = snapshot.selected.id if snapshot.selected else None
    return {"limit": limit, "key": snapshot.key, **decision_data(decision)}


def decision_data(decision: Decision) -> dict[str, Any]:
    """Return a decision as JSON data; times in seconds."""
    return {
        "allowed": decision.allowed,
        "blocked": decision.blocked,
        "remaining": decision.remaining,
        "retry_after": decision.retry_after,
        "reset_after": decision.reset_after,
        "rates": [
            {
                "rate": str(state.rate),
                "remaining": state.remaining,
                "retry_after": state.retry_after,
                "reset_after": state.reset_after,
            }
            for state in decision.states
        ],
    }
