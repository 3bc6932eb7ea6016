"""Filters beside a list, as those of the admin: links that narrow it by one value of a property of its objects."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

from django.utils.translation import pgettext

from django_redis_components.dashboard.elements import Link
from django_redis_components.dashboard.formats import number
from django_redis_components.taskqueue.stats.deploys import Deploy

#: Most values of a group, and characters of each: a link has the value twice. Only the name in a corrupt record is as
#: long.
MAX_VALUES, MAX_CHARACTERS = 20, 500


@dataclasses.dataclass(frozen=True, slots=True)
class FilterGroup:
    """The values of one filter; the first link removes it.

    Attributes:
        slug: its parameter, or prefix, for its id.
        title: what the values are, such as "Queue".
        more: how many values are not listed.
    """

    slug: str
    title: str
    links: list[Link]
    more: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class KnownCounts:
    """How many objects of a list have each value; none has another."""

    counts: Mapping[str, int]

    def note(self, value: str, current: str) -> str:
        """Return how many objects have a value."""
        return number(self.counts.get(value, 0))


@dataclasses.dataclass(frozen=True, slots=True)
class FoundCounts:
    """The values of the objects on a page, which says what it has counted and no more.

    Attributes:
        values: of each object on the page.
        is_whole: whether the page has all objects of the list, or all that match.
        matches: returns whether an object with a value passes the filter of another; by default if they are equal.
    """

    values: Sequence[str]
    is_whole: bool
    matches: Callable[[str, str], bool] = operator.eq

    def note(self, value: str, current: str) -> str:
        """Return how many objects have a value: "3", "≥ 3" if there may be more; "" if they were not counted.

        The page of a list that the same filter has narrowed has no objects with other values.
        """
        if current and value != current:
            return ""
        count = sum(self.matches(each, value) for each in self.values)
        return number(count) if self.is_whole else f"≥ {number(count)}" if count else ""


def filter_group(
    slug: str,
    title: str,
    values: Iterable[str],
    current: str,
    query_of: Callable[[str], str],
    labels: Mapping[str, str] | None = None,
    counts: KnownCounts | FoundCounts | None = None,
) -> FilterGroup | None:
    """Return a group; None without values.

    Args:
        values: those that the list may have, the most important ones first.
        current: the value that narrows the list, or "".
        query_of: returns the query string for a value; "" removes the filter.
        labels: of the values that are shown as something else.
        counts: how many objects of the list have a value; None if that is not known.
    """
    listed = [value for value in dict.fromkeys(values) if 0 < len(value) <= MAX_CHARACTERS]
    if current and current not in listed[:MAX_VALUES]:
        listed = [current, *(value for value in listed if value != current)]
    if not listed:
        return None
    links = [Link(pgettext("all values of a filter", "All"), query_of(""), not current)]
    for value in listed[:MAX_VALUES]:
        note = counts.note(value, current) if counts is not None else ""
        links.append(Link((labels or {}).get(value, value), query_of(value), value == current, note))
    return FilterGroup(slug, title, links, max(0, len(listed) - MAX_VALUES))


def version_names(deploys: Sequence[Deploy]) -> list[str]:
    """Return the versions of the code, newest first."""
    return [deploy.version for deploy in reversed(deploys)]
