"""Search indexes in which many searches find nothing: documents are missing, or people search for what is not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from django_redis_components.core.gather import gather
from django_redis_components.core.observability.catalog import names_flow, objects
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.watched.check import WatchedCheck

#: Most indexes that are read.
MAX_INDEXES = 20
#: Seconds in which searches without a result are counted, and how many of them are a problem.
WINDOW_S, MANY = 600.0, 200


def read(facts: ProblemFacts) -> Flow[dict[str, Any]]:
    """Return for each index its searches without a result at some times of the last ten minutes, the latest last."""
    before = facts.watched.get("searches") or {}
    entries = yield from names_flow("SearchIndex")
    if not entries:
        return {}
    from django_redis_components.search.index import SearchIndex, stats_flow  # a site without indexes needs none of it

    indexes = [each for each in objects(entries, SearchIndex) if each.using == facts.using][:MAX_INDEXES]
    outcomes = yield from gather([stats_flow(each) for each in indexes])
    now = facts.at.timestamp()
    return {
        index.name: [
            *[each for each in before.get(index.name, []) if now - each[0] < WINDOW_S],
            [now, sum(count for _query, count in outcome.value.without_result)],
        ]
        for index, outcome in zip(indexes, outcomes, strict=True)
        if outcome.value is not None
    }


def find(found: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield the indexes in which many searches have found nothing."""
    for name, counts in found.items():
        new = counts[-1][1] - counts[0][1]
        if new >= MANY:
            text = _("Search index %(name)s: %(count)s searches of the last 10 min have found nothing.") % {
                "name": name,
                "count": number(new),
            }
            advice = _("Compare it with the database, or add synonyms for what people search for.")
            yield Problem("searches_empty", text, advice, subject=name)


CHECK = WatchedCheck("searches", read, find, is_of_connection=True)
