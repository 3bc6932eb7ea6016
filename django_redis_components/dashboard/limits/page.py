"""The template context and the JSON of the page of rate limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.core import conf
from django_redis_components.core.circuit_breaker import breaker_for
from django_redis_components.core.rates import ParsedRate
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.charts import ChartPanel, Point, bar_chart
from django_redis_components.dashboard.elements import NO_VALUE, Tile, cost_note
from django_redis_components.dashboard.formats import Timestamp, number
from django_redis_components.dashboard.json_data import cost_data, time_data
from django_redis_components.dashboard.limits.snapshot import LimitSnapshot
from django_redis_components.ratelimits import Decision, RateLimitPolicy
from django_redis_components.ratelimits.hit_counts import KINDS, LimitCounts

#: Minutes between two labels of the chart.
LABEL_EVERY = 15


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
    allowed: str
    denied: str
    unchecked: str


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
        chart: the hits of the selected limit by minute; None without one, or without hits.
        denied_keys: those of the selected limit that were denied most in this hour, with the number of denials.
        is_uncounted: whether some counts cannot be read.
        outages: a sentence for each connection that this process does not use at the moment.
    """

    policies: list[PolicyRow]
    name: str
    key: str
    is_unknown: bool
    verdict: str
    state: list[Tile]
    rates: list[RateRow]
    reset: str
    chart: ChartPanel | None
    denied_keys: list[tuple[str, str]]
    is_uncounted: bool
    outages: list[str]
    read_at: Timestamp
    zone: str
    cost: str


def build_page(snapshot: LimitSnapshot) -> LimitPage:
    """Return the page of a snapshot."""
    selected, decision = snapshot.selected, snapshot.decision
    query = {"limit": selected.id, "key": snapshot.key} if selected else {}
    counts = snapshot.counts.get(selected.id) if selected else None
    return LimitPage(
        policies=[_policy_row(each, selected, snapshot.counts.get(each.id)) for each in snapshot.policies],
        name=selected.name if selected else "",
        key=snapshot.key,
        is_unknown=snapshot.is_unknown,
        verdict=verdict(decision) if decision is not None else "",
        state=[*_tiles(decision)] if decision is not None else [],
        rates=[*_rates(decision)] if decision is not None else [],
        reset=urlencode(query) if decision is not None else "",
        chart=_chart(counts) if counts else None,
        denied_keys=[(key, number(times)) for key, times in counts.denied_keys] if counts else [],
        is_uncounted=not snapshot.has_all_counts,
        outages=[*_outages(snapshot.policies)],
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
        "limits": [
            {"id": each.id, **dataclasses.asdict(each), "last_hour": _counts_data(snapshot.counts.get(each.id))}
            for each in snapshot.policies
        ],
        "state": _state(snapshot, decision) if decision is not None else None,
        "cost": cost_data(snapshot.cost),
    }


def verdict(decision: Decision) -> str:
    """Return whether the next hit is allowed, in one sentence."""
    if decision.is_allowed:
        return _("The next hit is allowed.")
    wait = formats.duration(decision.retry_after)
    if decision.is_blocked:
        return _("Blocked by the penalty. The block ends in %(time)s.") % {"time": wait}
    return _("The next hit is denied. Retry in %(time)s.") % {"time": wait}


def _outages(policies: Iterable[RateLimitPolicy]) -> Iterator[str]:
    for using in dict.fromkeys(each.using for each in policies if each.on_error == "open"):
        breaker = breaker_for(using)
        if breaker.is_open:
            values = {"using": using, "reason": breaker.reason}
            yield _("Connection %(using)s: this process counts hits for itself. %(reason)s") % values


def _policy_row(policy: RateLimitPolicy, selected: RateLimitPolicy | None, counts: LimitCounts | None) -> PolicyRow:
    on_error = {
        "open": pgettext("hits during a Redis failure", "count in each process"),
        "closed": pgettext("hits during a Redis failure", "deny"),
    }
    allowed, denied, unchecked = [number(each) for each in counts.totals] if counts else [NO_VALUE] * 3
    return PolicyRow(
        id=policy.id,
        name=policy.name,
        algorithm=policy.algorithm,
        rates=", ".join(policy.rates),
        penalty=_penalty(policy),
        on_error=on_error[policy.on_error],
        using=policy.using,
        is_selected=selected is not None and policy.id == selected.id,
        allowed=allowed,
        denied=denied,
        unchecked=unchecked,
    )


def _chart(counts: LimitCounts) -> ChartPanel | None:
    """Return the chart of hits by minute, denied ones highlighted; None without hits."""
    allowed, denied, unchecked = counts.totals
    if not allowed + denied + unchecked:
        return None
    points = []
    for minute, numbers in counts.minutes.items():
        at = datetime.fromtimestamp(minute * 60, UTC)
        clock = formats.clock_short(at)
        points.append(Point(at.isoformat(timespec="minutes"), clock, clock, sum(numbers), numbers[1]))
    finding = _("%(hits)s hits in the last hour: %(denied)s denied, %(unchecked)s decided without Redis.") % {
        "hits": number(allowed + denied + unchecked),
        "denied": number(denied),
        "unchecked": number(unchecked),
    }
    return ChartPanel(
        id="hits",
        title=_("Hits per minute, last hour"),
        header=_("Minute"),
        value_label=_("Hits"),
        bad_label=pgettext("hits", "Denied"),
        note=_("Denied hits are marked at the foot of each bar."),
        chart=bar_chart(points, finding, LABEL_EVERY),
    )


def _counts_data(counts: LimitCounts | None) -> dict[str, Any] | None:
    if counts is None:
        return None
    totals = dict(zip(KINDS, counts.totals, strict=True))
    return {**totals, "denied_keys": [{"key": key, "count": times} for key, times in counts.denied_keys]}


def _penalty(policy: RateLimitPolicy) -> str:
    if policy.penalty is None:
        return ""
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
        rate: ParsedRate = state.rate
        yield RateRow(str(rate), number(state.remaining), _time(state.retry_after), _time(state.reset_after))


def _time(seconds: float) -> str:
    return formats.duration(seconds) if seconds > 0 else pgettext("a time", "now")


def _state(snapshot: LimitSnapshot, decision: Decision) -> dict[str, Any]:
    limit = snapshot.selected.id if snapshot.selected else None
    return {"limit": limit, "key": snapshot.key, **decision_data(decision)}


def decision_data(decision: Decision) -> dict[str, Any]:
    """Return a decision as JSON data; times in seconds."""
    return {
        "allowed": decision.is_allowed,
        "blocked": decision.is_blocked,
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
