"""The page of rate limits as the template shows it, and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.core import conf
from django_redis_components.core.rates import Rate
from django_redis_components.dashboard import wording
from django_redis_components.dashboard.figures import cost_figures, time_figure
from django_redis_components.dashboard.limit_reading import LimitSnapshot
from django_redis_components.dashboard.panels import Tile, cost_words
from django_redis_components.dashboard.rows import NOTHING
from django_redis_components.dashboard.wording import Moment, number
from django_redis_components.ratelimits import Decision, RateLimitPolicy


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyRow:
    """One limit; `query` asks for the form with it."""

    id: str
    name: str
    algorithm: str
    rates: str
    penalty: str
    away: str
    using: str
    query: str
    chosen: bool


@dataclasses.dataclass(frozen=True, slots=True)
class RateRow:
    """One of the rates of a limit, for a key."""

    rate: str
    remaining: str
    retry: str
    reset: str


@dataclasses.dataclass(frozen=True, slots=True)
class LimitPage:
    """Everything on the page.

    Attributes:
        state: of the key that was asked for; empty without one.
        reset: what the link to a reset asks for; "" without a key.
    """

    policies: list[PolicyRow]
    name: str
    key: str
    is_unknown: bool
    verdict: str
    state: list[Tile]
    rates: list[RateRow]
    reset: str
    read_at: Moment
    zone: str
    cost: str


def page(snapshot: LimitSnapshot) -> LimitPage:
    """The page of a snapshot."""
    chosen, decision = snapshot.chosen, snapshot.decision
    asked = {"limit": chosen.id, "key": snapshot.key} if chosen else {}
    return LimitPage(
        policies=[_policy(each, chosen) for each in snapshot.policies],
        name=chosen.name if chosen else "",
        key=snapshot.key,
        is_unknown=snapshot.is_unknown,
        verdict=verdict(decision) if decision is not None else "",
        state=[*_tiles(decision)] if decision is not None else [],
        rates=[*_rates(decision)] if decision is not None else [],
        reset=urlencode(asked) if decision is not None else "",
        read_at=wording.moment(snapshot.at, snapshot.at),
        zone=wording.zone(),
        cost=cost_words(snapshot.cost, nodes=snapshot.nodes),
    )


def figures(snapshot: LimitSnapshot) -> dict[str, Any]:
    """All figures of a snapshot, for programs."""
    decision = snapshot.decision
    return {
        "at": time_figure(snapshot.at),
        "environment": conf.settings().dashboard.environment,
        "limits": [{"id": each.id, **dataclasses.asdict(each)} for each in snapshot.policies],
        "state": _state(snapshot, decision) if decision is not None else None,
        "cost": cost_figures(snapshot.cost),
    }


def verdict(decision: Decision) -> str:
    """What the next hit would be told, in a sentence."""
    if decision.allowed:
        return _("The next hit is allowed.")
    again = wording.duration(decision.retry_after)
    if decision.blocked:
        return _("Blocked by the penalty for %(time)s more.") % {"time": again}
    return _("The next hit is denied; one is allowed in %(time)s.") % {"time": again}


def _policy(policy: RateLimitPolicy, chosen: RateLimitPolicy | None) -> PolicyRow:
    away = {
        "open": pgettext("hits while Redis is away", "allowed"),
        "closed": pgettext("hits while Redis is away", "denied"),
    }
    return PolicyRow(
        id=policy.id,
        name=policy.name,
        algorithm=policy.algorithm,
        rates=", ".join(policy.rates),
        penalty=_penalty(policy),
        away=away[policy.on_error],
        using=policy.using,
        query=urlencode({"limit": policy.id}),
        chosen=chosen is not None and policy.id == chosen.id,
    )


def _penalty(policy: RateLimitPolicy) -> str:
    if policy.penalty is None:
        return NOTHING
    denials, seconds = policy.penalty
    words = ngettext(
        "%(count)s denial within %(time)s blocks for as long",
        "%(count)s denials within %(time)s block for as long",
        denials,
    )
    return words % {"count": number(denials), "time": wording.duration(seconds)}


def _tiles(decision: Decision) -> Iterable[Tile]:
    yield Tile(
        pgettext("hits", "Left"), number(decision.remaining), _("of %(limit)s") % {"limit": number(decision.limit)}
    )
    yield Tile(_("Allowed again in"), _time(decision.retry_after))
    yield Tile(_("All of it there again in"), _time(decision.reset_after))


def _rates(decision: Decision) -> Iterable[RateRow]:
    for state in decision.states if len(decision.states) > 1 else ():
        rate: Rate = state.rate
        yield RateRow(str(rate), number(state.remaining), _time(state.retry_after), _time(state.reset_after))


def _time(seconds: float) -> str:
    return wording.duration(seconds) if seconds > 0 else pgettext("in no time", "now")


def _state(snapshot: LimitSnapshot, decision: Decision) -> dict[str, Any]:
    return {
        "limit": snapshot.chosen.id if snapshot.chosen else None,
        "key": snapshot.key,
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
