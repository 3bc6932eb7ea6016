"""Why a panel lists something without its figures."""

from __future__ import annotations

from django.utils.translation import gettext as _

from django_redis_components.dashboard.formats import number


def not_read(using: str, alias: str, limit: int) -> str:
    """Return the reason: another connection than that of the panel, or too many."""
    if using != alias:
        return _("on the connection “%(alias)s”") % {"alias": using}
    return _("only the first %(count)s are measured") % {"count": number(limit)}
