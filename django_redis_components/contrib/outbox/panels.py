"""The panel of the outbox on the overview: how many calls wait, and since when."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.contrib.outbox.storage import Backlog, read_backlog
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import Panel, formats
from django_redis_components.dashboard.elements import NO_VALUE


class OutboxPanel(Panel):
    """The backlog of the dashboard's connection. It reads the database only."""

    name = "outbox"
    title = gettext_lazy("Outbox")
    order = 10

    def context(self, value: None) -> dict[str, Any]:
        """Return the figures as texts."""
        backlog = self._read()
        oldest_s = 0.0 if backlog.oldest_at is None else (timezone.now() - backlog.oldest_at).total_seconds()
        return {
            "facts": [
                (_("Waiting"), f"{formats.number(backlog.count)}{'+' if backlog.is_cut else ''}"),
                (_("Oldest"), NO_VALUE if backlog.oldest_at is None else formats.age(max(0.0, oldest_s))),
            ]
        }

    def data(self, value: None) -> Backlog:
        """Return the figures."""
        return self._read()

    def _read(self) -> Backlog:
        return read_backlog(conf.settings().dashboard.using)
