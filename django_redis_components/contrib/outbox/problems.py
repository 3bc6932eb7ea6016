"""The check of the outbox: calls that wait for longer than the relay needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.contrib.outbox.storage import databases, read_backlog
from django_redis_components.core.command_line import command_line
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.problems.problem import Problem, poller_command

if TYPE_CHECKING:
    from django_redis_components.dashboard.problems.facts import ProblemFacts

#: Seconds for which the oldest row must have waited. The relay sends and deletes rows within seconds.
WAITED_S = 60.0


def waiting_rows(facts: ProblemFacts) -> Iterator[Problem]:
    """Yield a problem if calls wait in the outbox, or if it has no table."""
    backlog = read_backlog(facts.using)
    if len(backlog.missing) == len(databases()):
        text = _("The outbox has no table: calls that are enqueued on commit fail.")
        yield Problem("outbox_table", text, _("Create it:"), command_line("migrate"), "critical")
    if backlog.oldest_at is None:
        return
    now = timezone.now()
    if (now - backlog.oldest_at).total_seconds() >= WAITED_S:
        text = ngettext(
            "%(count)s call waits in the outbox, the oldest since %(time)s.",
            "%(count)s calls wait in the outbox, the oldest since %(time)s.",
            backlog.count,
        ) % {
            "count": f"{formats.number(backlog.count)}{'+' if backlog.is_cut else ''}",
            "time": formats.timestamp(backlog.oldest_at, now).text,
        }
        advice = _(
            "No relay sends them, or Redis rejects them: then the log of the workers says why. Workers and pollers of"
            " this connection relay. Start a poller:"
        )
        yield Problem("outbox", text, advice, poller_command(facts.using), "critical")
