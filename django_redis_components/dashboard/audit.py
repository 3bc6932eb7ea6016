"""Who changed what from the dashboard: written into the admin's log before it is done, and its outcome after."""

from __future__ import annotations

import logging
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.http import HttpRequest

from django_redis_components.core.text import one_line

logger = logging.getLogger("django_redis_components.dashboard")


class Record:
    """An entry in the log. It is made before the deed, so that no deed is without one."""

    def __init__(self, request: HttpRequest, anchor: type[Model], name: str, deed: str) -> None:
        """Args: deed: what was asked for, in English: the log may be read in any language."""
        self._deed = deed
        user: Any = request.user
        self._user = str(user)
        self._entry = LogEntry.objects.create(
            user_id=user.pk,
            content_type_id=ContentType.objects.get_for_model(anchor).pk,
            object_id=name,
            object_repr=name[:200],
            action_flag=CHANGE,
            change_message=f"{deed}: asked.",
        )

    def ended(self, outcome: str) -> None:
        """Note how it ended."""
        self._entry.change_message = f"{self._deed}: {outcome}."
        self._entry.save(update_fields=["change_message"])
        # The site's users choose what `__str__` of them returns; the server, what its errors say.
        logger.warning("%s by %s: %s", *map(one_line, (self._deed, self._user, outcome)))
