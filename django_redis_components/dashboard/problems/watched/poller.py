"""A poller whose rounds fail by an error of code: Redis answers, so it seems to be there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.error_text import error_line
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.watched.check import WatchedCheck
from django_redis_components.taskqueue.store.poller_failure import read_failure


def read(facts: ProblemFacts) -> Flow[dict[str, Any] | None]:
    """Return the latest report of a poller whose rounds fail."""
    failure = yield from read_failure(facts.shard)
    return dataclasses.asdict(failure) if failure else None


def find(failure: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield the failing poller."""
    if failure is None:
        return
    text = ngettext(
        "Poller %(poller)s fails: %(error)s (%(count)s round since %(time)s).",
        "Poller %(poller)s fails: %(error)s (%(count)s rounds since %(time)s).",
        failure["count"],
    ) % {
        "poller": failure["poller"],
        "error": error_line(failure["error"]),
        "count": number(failure["count"]),
        "time": formats.timestamp(datetime.fromtimestamp(failure["since"], UTC), facts.at).text,
    }
    active = facts.queues.poller if facts.queues else None
    if active in (None, failure["poller"]):
        advice = _(
            "Until it works, tasks of crashed workers are not recovered, or periodic tasks are not sent. The log of its"
            " process has the traceback."
        )
        yield Problem("poller_failing", text, advice, severity="critical")
    else:
        advice = _("Another poller is active. The log of the process has the traceback.")
        yield Problem("poller_failing", text, advice)


CHECK = WatchedCheck("poller", read, find, is_of_shard=True)
