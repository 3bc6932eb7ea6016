"""The template context and the JSON of the page of rate limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.core import keys
from django_redis_components.core.circuit_breaker import breaker_for
from django_redis_components.core.observability.catalog import MAX_NAMES
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.charts import ChartPanel, Point, bar_chart
from django_redis_components.dashboard.deploy_marks import marked
from django_redis_components.dashboard.elements import Cell, Tile
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.json_data import fields_of
from django_redis_components.dashboard.limits import snapshot
from django_redis_components.dashboard.limits.key_access import may_view_keys
from django_redis_components.dashboard.limits.snapshot import MAX_COUNTED, LimitSnapshot
from django_redis_components.dashboard.list_counts import ListCount
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import too_long
from django_redis_components.dashboard.table import Column, Table
from django_redis_components.ratelimits import Decision, RateLimitPolicy
from django_redis_components.ratelimits.hit_counts import KINDS, LimitCounts
from django_redis_components.ratelimits.limiter import HASH_PREFIX, MAX_BLOCK_S, HashedKey, key_of_text
from django_redis_components.taskqueue.stats.deploys import Deploy

#: Longest key that a form accepts, in characters.
MAX_KEY = 1_000
#: Digits of the hash of a key.
HASH_DIGITS = 32
#: Minutes between two labels of the chart.
LABEL_EVERY = 15


def parse(request: PageRequest) -> tuple[str, str]:
    """Return the id of a limit, and a key."""
    limit_id, key = request.http.GET.get("limit", ""), request.http.GET.get("key", "")
    if len(key) > MAX_KEY:
        raise too_long("key", MAX_KEY)
    return limit_id, key


def read(request: PageRequest) -> LimitSnapshot:
    """Read the limits, and the state of the key."""
    return snapshot.read(*request.query, shows_keys=may_view_keys(request.http))


def context(request: PageRequest, snapshot: LimitSnapshot) -> dict[str, Any]:
    """Return the context of the templates."""
    selected, decision = snapshot.selected, snapshot.decision
    query = {"limit": selected.id, "key": snapshot.key} if selected else {}
    counts = snapshot.counts.get(selected.id) if selected else None
    page = {
        "policies": snapshot.policies,
        "selected": selected,
        "table": _table(snapshot.counts).context(snapshot.policies)["table"],
        "key": snapshot.key,
        "is_unknown": snapshot.is_unknown,
        "verdict": verdict(decision) if decision is not None else "",
        "state": [*_tiles(decision)] if decision is not None else [],
        "rates": decision.states if decision is not None and len(decision.states) > 1 else [],
        "changes": _change_links(request, query, decision) if decision is not None else [],
        "chart": _chart(counts, snapshot.deploys) if counts else None,
        "denied_keys": _denied_table(request, snapshot).context(counts.denied_keys if counts else [])["table"],
        "has_hidden_keys": not snapshot.shows_keys and _stores_text(),
        "is_uncounted": not snapshot.has_all_counts,
        "count": _count(snapshot),
        "not_counted": _not_counted(snapshot),
        "outages": [*_outages(snapshot.policies)],
    }
    return {"page": page}


def limit_data(snapshot: LimitSnapshot) -> dict[str, Any]:
    """Return a snapshot as JSON."""
    decision = snapshot.decision
    return {
        "limits": [
            {"id": each.id, **fields_of(each), "last_hour": _counts_data(snapshot.counts.get(each.id))}
            for each in snapshot.policies
        ],
        "state": _state(snapshot, decision) if decision is not None else None,
        "count": _count(snapshot).data(),
    }


def _count(snapshot: LimitSnapshot) -> ListCount:
    """Return how many limits are listed. The catalog keeps `MAX_NAMES`, and forgets others."""
    count = len(snapshot.policies)
    return ListCount(count, count, is_least=count >= MAX_NAMES)


def _not_counted(snapshot: LimitSnapshot) -> str:
    """Return of how many limits the hits are read, unless they are of all."""
    if len(snapshot.policies) <= MAX_COUNTED:
        return ""
    return _("Only the hits of the first %(count)s limits are read.") % {"count": number(MAX_COUNTED)}


def verdict(decision: Decision) -> str:
    """Return whether the next hit is allowed, in one sentence."""
    if decision.is_allowed:
        return _("The next hit is allowed.")
    if decision.blocked_by is not None:
        return _block_text(decision.blocked_by, decision.retry_after)
    wait = formats.duration(decision.retry_after)
    if decision.is_blocked:
        return _("Blocked by the penalty. The block ends in %(time)s.") % {"time": wait}
    return _("The next hit is denied. Retry in %(time)s.") % {"time": wait}


def _block_text(author: str, left_s: float) -> str:
    if left_s > MAX_BLOCK_S:
        text = _("Blocked until unblocked, by %(author)s.") if author else _("Blocked until unblocked.")
        return text % {"author": author}
    now = timezone.now()
    ends_at = now + timedelta(seconds=left_s)
    is_today = formats.local(ends_at).date() == formats.local(now).date()
    clock = formats.clock_short(ends_at) if is_today else formats.day_and_clock(ends_at)
    text = _("Blocked until %(time)s, by %(author)s.") if author else _("Blocked until %(time)s.")
    return text % {"time": clock, "author": author}


def _change_links(
    request: PageRequest, query: dict[str, str], decision: Decision | None = None
) -> list[tuple[str, str]]:
    """Return labels and URLs of the changes of a key that the user may make; "Unblock" only of a blocked one."""
    labels = {"reset": _("Reset…"), "block": _("Block…")}
    if decision is not None and decision.blocked_by is not None:
        labels["unblock"] = _("Unblock…")
    urls = [(label, request.links.verb(name, **query)) for name, label in labels.items()]
    return [(label, url) for label, url in urls if url]


def _outages(policies: Iterable[RateLimitPolicy]) -> Iterator[str]:
    for using in dict.fromkeys(each.using for each in policies if each.on_error == "open"):
        breaker = breaker_for(using)
        if breaker.is_open:
            values = {"using": using, "reason": breaker.reason}
            yield _("Connection %(using)s: this process counts hits for itself. %(reason)s") % values


def _table(counts: Mapping[str, LimitCounts]) -> Table[RateLimitPolicy]:
    """Return the table of limits, with their hits by the id of the limit."""
    on_error = {
        "open": pgettext("hits during a Redis failure", "count in each process"),
        "closed": pgettext("hits during a Redis failure", "deny"),
    }

    def hits(index: int) -> Callable[[RateLimitPolicy], int | None]:
        return lambda policy: counts[policy.id].totals[index] if policy.id in counts else None

    def name(policy: RateLimitPolicy) -> Cell:
        note = f"{policy.algorithm}, {policy.using}"
        return Cell(policy.name, url=f"?limit={policy.id}", title=policy.name, note=note)

    return Table(
        [
            Column("name", _("Name"), name, "name"),
            Column(
                "rates",
                _("Rates"),
                lambda policy: Cell(", ".join(policy.rates), note=_penalty(policy)),
                "whole",
                has_label=False,
            ),
            Column("on_error", _("On Redis failure"), lambda policy: on_error[policy.on_error], ""),
            Column("allowed", pgettext("hits", "Allowed"), hits(0)),
            Column("denied", pgettext("hits", "Denied"), hits(1)),
            Column("unchecked", pgettext("hits", "Without Redis"), hits(2)),
        ]
    )


def _denied_table(request: PageRequest, snapshot: LimitSnapshot) -> Table[tuple[str, int]]:
    """Return the table of the keys that were denied most: pairs of a key, or its hash, and the number of its denials.

    The key that is looked up is marked, also where only its hash is stored.
    """
    limit_id = snapshot.selected.id if snapshot.selected else ""
    looked_up = key_of_text(snapshot.key)
    digest = looked_up.digest if isinstance(looked_up, HashedKey) else keys.digest(looked_up)

    def key(row: tuple[str, int]) -> Cell:
        is_looked_up = bool(snapshot.key) and row[0] in (snapshot.key, digest)
        is_hash = len(row[0]) == HASH_DIGITS and not (snapshot.shows_keys and _stores_text())
        query = {"limit": limit_id, "key": f"{HASH_PREFIX}{row[0]}" if is_hash else row[0]}
        note = _("the key that you looked up") if is_looked_up else ""
        links = _change_links(request, query)
        return Cell(row[0], url=f"?{urlencode(query)}", title=row[0], note=note, links=links)

    return Table(
        [
            Column("key", _("Key"), key, "name"),
            Column("denied", pgettext("hits", "Denied"), lambda row: row[1]),
        ]
    )


def _stores_text() -> bool:
    return conf.settings().ratelimits.denied_keys == "text"


def _chart(counts: LimitCounts, deploys: Sequence[Deploy]) -> ChartPanel | None:
    """Return the chart of hits by minute, denied ones highlighted; None without hits."""
    allowed, denied, unchecked = counts.totals
    if not allowed + denied + unchecked:
        return None
    points = []
    for minute, numbers in counts.minutes.items():
        at = datetime.fromtimestamp(minute * 60, UTC)
        clock = formats.clock_short(at)
        points.append(Point(at.isoformat(timespec="minutes"), clock, clock, sum(numbers), numbers[1]))
    hits = allowed + denied + unchecked
    finding = ngettext(
        "%(hits)s hit in the last hour: %(denied)s denied, %(unchecked)s decided without Redis.",
        "%(hits)s hits in the last hour: %(denied)s denied, %(unchecked)s decided without Redis.",
        hits,
    ) % {
        "hits": number(hits),
        "denied": number(denied),
        "unchecked": number(unchecked),
    }
    panel = ChartPanel(
        id="hits",
        title=_("Hits per minute, last hour"),
        header=_("Minute"),
        value_label=_("Hits"),
        bad_label=pgettext("hits", "Denied"),
        note=_("Denied hits are marked at the foot of each bar."),
        chart=bar_chart(points, finding, LABEL_EVERY),
    )
    return marked([panel], deploys)[0]


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
    if decision.blocked_by is not None:  # no rate decides
        return
    yield Tile(
        pgettext("hits", "Remaining"), number(decision.remaining), _("of %(limit)s") % {"limit": number(decision.limit)}
    )
    yield Tile(_("Retry in"), _time(decision.retry_after))
    yield Tile(_("Resets in"), _time(decision.reset_after))


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
        "blocked_by": decision.blocked_by,
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
