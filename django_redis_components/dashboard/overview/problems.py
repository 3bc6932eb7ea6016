"""The problems that the overview lists: those of the site, and the parts of the page that could not be read."""

from __future__ import annotations

from django.utils.translation import gettext as _

from django_redis_components.dashboard.overview.snapshot import OverviewSnapshot
from django_redis_components.dashboard.problems.finding import find_problems, unread_part
from django_redis_components.dashboard.problems.problem import Problem


def page_problems(snapshot: OverviewSnapshot) -> list[Problem]:
    """Return the problems, critical ones first, in the active language."""
    parts = {"history": _("history"), "visitors": _("visitors"), "sign_ins": _("sign-ins")}
    unread = [
        unread_part(parts[name], error, snapshot.address, subject=name) for name, error in snapshot.errors.items()
    ]
    return [*unread, *find_problems(snapshot.facts)]
