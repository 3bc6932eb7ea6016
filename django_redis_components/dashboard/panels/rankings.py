"""The panel of rankings: the best members of those that the site uses."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.analytics.ranking import RankedMember, Ranking, RankingUnit, top_flow
from django_redis_components.core.gather import gather, raise_if_all_failed
from django_redis_components.core.observability.catalog import names_flow, objects
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.panels.analytics import AnalyticsPanel
from django_redis_components.dashboard.panels.not_read import not_read

#: Rankings that are read. Each takes 2 commands.
MAX_RANKINGS = 5
#: Members that are shown of each.
TOP = 5


@dataclasses.dataclass(frozen=True, slots=True)
class RankingTop:
    """The best members of a ranking in the period of its first unit. `note` says why there are none."""

    name: str
    unit: RankingUnit
    members: list[RankedMember]
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class RankingTable:
    """A ranking as texts: (rank, member, score)."""

    caption: str
    rows: list[tuple[str, str, str]]
    note: str


class RankingsPanel(AnalyticsPanel):
    """The rankings that the site uses."""

    name = "rankings"
    title = gettext_lazy("Rankings")
    order = 48
    template_name = "django_redis_components/dashboard/panels/rankings.html"

    def read(self) -> Flow[list[RankingTop]]:
        """Read the names and the best members in three round trips."""
        alias, rankings = self.using(), objects((yield from names_flow(Ranking.catalog_kind)), Ranking)
        chosen = [each for each in rankings if each.using == alias][:MAX_RANKINGS]
        outcomes = yield from gather([top_flow(each, TOP) for each in chosen])
        raise_if_all_failed(outcomes)
        found = [
            RankingTop(each.name, each.units[0], outcome.value or [], str(outcome.error or ""))
            for each, outcome in zip(chosen, outcomes, strict=True)
        ]
        others = [each for each in rankings if each not in chosen]
        return found + [
            RankingTop(each.name, each.units[0], [], not_read(each.using, alias, MAX_RANKINGS)) for each in others
        ]

    def context(self, value: list[RankingTop]) -> dict[str, Any]:
        """Return the tables."""
        return {"tables": [_table(top) for top in value]}


def _table(top: RankingTop) -> RankingTable:
    unit = {"all": _("all time"), "day": _("today"), "week": _("this week"), "month": _("this month")}[top.unit]
    rows = [(number(each.rank), each.member, _score(each.score)) for each in top.members]
    note = top.note or ("" if rows else _("No member has a score."))
    return RankingTable(f"{top.name} · {unit}", rows, note)


def _score(score: float) -> str:
    return number_format(int(score) if score.is_integer() else score, use_l10n=True, force_grouping=True)
