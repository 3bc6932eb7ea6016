"""Entries in the admin's log for changes made in the dashboard."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.http import HttpRequest

from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.text import encodable, one_line

#: The end of an entry whose action has no outcome yet.
REQUESTED = ": requested."

logger = guarded_logger("django_redis_components.dashboard")


def logged_time(until_ms: str) -> str:
    """Return a time in milliseconds since the epoch as an entry names it, in UTC and to the millisecond."""
    at = datetime.fromtimestamp(float(until_ms) / 1_000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1_000:03} UTC"


class AuditEntry:
    """An entry in the admin's log, saved before the action, so that no action is unlogged."""

    def __init__(self, request: HttpRequest, model: type[Model], name: str, action: str) -> None:
        """Save the entry.

        Args:
            action: what was requested, in English: readers of the log may use any language.
        """
        self._action = encodable(action)  # it may name what Redis has: no database stores lone surrogates
        user: Any = request.user
        self._user = user.get_username()  # the site's own __str__ may raise, or query the database
        self._entry = LogEntry.objects.create(
            user_id=user.pk,
            content_type_id=ContentType.objects.get_for_model(model).pk,
            object_id=name,
            object_repr=name[:200],
            action_flag=CHANGE,
            change_message=f"{self._action}{REQUESTED}",
        )

    def finish(self, outcome: str) -> None:
        """Record the outcome."""
        self._entry.change_message = encodable(f"{self._action}: {outcome}.")
        self._entry.save(update_fields=["change_message"])
        # User names and server errors are untrusted: a line break would forge a log line.
        logger.warning("%s by %s: %s", *map(one_line, (self._action, self._user, outcome)))
