"""The filters of a list of tasks as a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _

from django_redis_components.dashboard.queues.task_list import state_labels
from django_redis_components.dashboard.queues.task_query import TaskQuery


def filters_text(query: TaskQuery, error_class: str = "") -> str:
    """Return which tasks all that match are.

    Args:
        error_class: of the error group that the query names.
    """
    parts = [*_parts(query, error_class)]
    if not parts:
        return _("All tasks in the state “%(state)s”: no filter is set.") % {"state": state_labels()[query.state]}
    return _("Only tasks that match: %(filters)s.") % {"filters": "; ".join(parts)}


def _parts(query: TaskQuery, error_class: str) -> Iterator[str]:
    if query.name:
        yield _("the name contains “%(text)s”") % {"text": query.name}
    if query.is_group:
        yield _("the error is %(error)s (%(fingerprint)s)") % {"error": error_class or "?", "fingerprint": query.error}
    elif query.error:
        yield _("the error contains “%(text)s”") % {"text": query.error}
    if query.text:
        yield _("the arguments contain “%(text)s”") % {"text": query.text}
    if query.begin:
        yield _("from %(time)s") % {"time": query.begin.replace("T", " ")}
    if query.end:
        yield _("until %(time)s") % {"time": query.end.replace("T", " ")}
    if query.version:
        yield _("the version is “%(text)s”") % {"text": query.version}
    if query.host:
        yield _("the host is “%(text)s”") % {"text": query.host}
