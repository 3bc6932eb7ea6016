"""System checks of autocomplete."""

from __future__ import annotations

from django.core.checks import CheckMessage, Warning
from django.urls import NoReverseMatch, reverse

from django_redis_components.autocomplete.exceptions import UnknownIndex
from django_redis_components.autocomplete.registry import get_index, registered
from django_redis_components.autocomplete.widgets import VIEW, used_indexes

#: A widget or an index is used, and the URLconf has no JSON view for it.
NO_VIEW_ID = "drc.W030"
#: A widget names an index that is not registered.
UNKNOWN_INDEX_ID = "drc.W031"


def check_widgets() -> list[CheckMessage]:
    """Report widgets without a view, and widgets with an unregistered index. The URLconf is loaded."""
    names = used_indexes | {one.name for one in registered()}
    return [*_without_view(names), *_unknown(used_indexes)]


def _without_view(names: set[str]) -> list[CheckMessage]:
    if not names:
        return []
    try:
        reverse(VIEW, args=["any"])
    except NoReverseMatch:
        listed = ", ".join(sorted(names))
        return [
            Warning(
                f"Autocomplete widgets are used (index {listed}), but the URLconf does not include their view.",
                hint='Add path("redis/", include("django_redis_components.urls")).',
                id=NO_VIEW_ID,
            )
        ]
    return []


def _unknown(names: set[str]) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for name in sorted(names):
        try:
            get_index(name)
        except UnknownIndex as exc:
            found.append(Warning(f"A form has an autocomplete field. {exc}", id=UNKNOWN_INDEX_ID))
    return found
