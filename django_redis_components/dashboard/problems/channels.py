"""Problems of the notifications themselves: channels that do not deliver."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.incidents import NOTIFICATIONS_FAILING
from django_redis_components.dashboard.problems.notifications import channel_names
from django_redis_components.dashboard.problems.problem import Problem

#: Seconds for which a channel must have failed.
FAILED_S = 300.0
#: Seconds after the last failure from which it is no problem any more: nothing was to be delivered since.
REPORTED_S = 86_400.0


def failing_channels(facts: ProblemFacts) -> Iterator[Problem]:
    """Yield the channels that have delivered nothing for five minutes although they tried."""
    state, now, configured = facts.incidents, facts.at.timestamp(), channel_names()
    for channel, failure in state.failures.items():
        if channel not in configured or now - failure.since < FAILED_S or now - failure.at > REPORTED_S:
            continue
        text = _("Notifications by %(channel)s have failed since %(time)s: %(error)s") % {
            "channel": channel,
            "time": formats.timestamp(datetime.fromtimestamp(failure.since, UTC), facts.at).text,
            "error": failure.error,
        }
        waiting = sum(channel in each.channels for each in state.pending)
        count = ngettext("%(count)s notification waits.", "%(count)s notifications wait.", waiting)
        advice = _("Correct the setting NOTIFICATIONS, or the service. A delivery is repeated for an hour.")
        waits = [count % {"count": number(waiting)}] if waiting else []
        yield Problem(NOTIFICATIONS_FAILING, text, " ".join([*waits, advice]), subject=channel)
