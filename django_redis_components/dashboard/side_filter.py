"""Filters beside a list, as those of the admin: links that narrow it by one value of a property of its objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from django.utils.translation import pgettext

from django_redis_components.dashboard.elements import Link
from django_redis_components.dashboard.formats import number
from django_redis_components.taskqueue.stats.deploys import Deploy

#: Most values of a group.
MAX_VALUES = 20


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


def filter_group(
    slug: str,
    title: str,
    values: Iterable[str],
    current: str,
    query_of: Callable[[str], str],
    labels: Mapping[str, str] | None = None,
    counts: Mapping[str, int] | None = None,
) -> FilterGroup | None:
    """Return a group; None without values.

    Args:
        values: those that the list may have, the most important ones first.
        current: the value that narrows the list, or "".
        query_of: returns the query string for a value; "" removes the filter.
        labels: of the values that are shown as something else.
        counts: how many objects of the list have a value, if that is known.
    """
    listed = [value for value in dict.fromkeys(values) if value]
    if current and current not in listed[:MAX_VALUES]:
        listed = [current, *(value for value in listed if value != current)]
    if not listed:
        return None
    links = [Link(pgettext("all values of a filter", "All"), query_of(""), not current)]
    for value in listed[:MAX_VALUES]:
        note = number(counts.get(value, 0)) if counts is not None else ""
        links.append(Link((labels or {}).get(value, value), query_of(value), value == current, note))
    return FilterGroup(slug, title, links, max(0, len(listed) - MAX_VALUES))


def version_names(deploys: Sequence[Deploy]) -> list[str]:
    """Return the versions of the code, newest first."""
    return [deploy.version for deploy in reversed(deploys)]
