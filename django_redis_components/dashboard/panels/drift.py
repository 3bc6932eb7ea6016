"""The last comparison of an index with its model, as text."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.model_changes import CheckRecord
from django_redis_components.dashboard.elements import Cell
from django_redis_components.dashboard.formats import age, number


def drift_cell(check: CheckRecord | None) -> Cell:
    """Return when the index was compared, and how many differences were found."""
    if check is None:
        return Cell(_("not compared yet"))
    since = age(check.age)
    if not check.differences:
        return Cell(_("none, %(age)s ago") % {"age": since})
    text = ngettext("%(count)s difference, %(age)s ago", "%(count)s differences, %(age)s ago", check.differences)
    return Cell(text % {"count": number(check.differences), "age": since}, "alarming")
