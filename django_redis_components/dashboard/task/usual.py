"""How long the runs of a task's name usually take, and whether a running one takes far longer."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.task.reasons import has_expired_lease
from django_redis_components.taskqueue import Histogram, registry
from django_redis_components.taskqueue.defaults import options_to_show
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.stats.explain import Explanation, number_of
from django_redis_components.taskqueue.stats.run_time import is_overlong


def usual_text(run_time: Histogram) -> str:
    """Return the usual run times in one sentence; "" without any."""
    if run_time.p50 is None or run_time.p99 is None:
        return ""
    text = ngettext(
        "Usually %(p50)s (p50), %(p99)s (p99): %(count)s run in the last 3 hours.",
        "Usually %(p50)s (p50), %(p99)s (p99): %(count)s runs in the last 3 hours.",
        run_time.count,
    )
    return text % {
        "p50": formats.duration(run_time.p50),
        "p99": formats.duration(run_time.p99),
        "count": number(run_time.count),
    }


def overlong_text(task: Explanation) -> str:
    """Return that a running task takes far longer than usual; "" if it does not."""
    if not is_hanging(task):
        return ""
    if task.run_time.count:
        return _("It has run for more than ten times the p95 of its name: it may hang.")
    return _("It has run for more than an hour and has no time limit: it may hang.")


def is_hanging(task: Explanation) -> bool:
    """Return whether the task runs, and has run for so long that it may hang. Without a lease it does not run."""
    if task.state != "running" or has_expired_lease(task):
        return False
    elapsed_s = task.at.timestamp() - number_of(task.text(Field.leased_at_us)) / 1e6
    return is_overlong(elapsed_s, task.run_time, has_time_limit=_has_time_limit(task))


def _has_time_limit(task: Explanation) -> bool:
    """Return whether the message has a time limit, or the decorator of a task that this process has registered."""
    options = _options(task)
    if "timeout" in options:
        return options["timeout"] is not None
    registered = registry.find(task.record.name)
    return registered is not None and options_to_show(registered).timeout is not None


def _options(task: Explanation) -> dict[str, Any]:
    """Return the options that were sent with the arguments."""
    try:
        return dict(unpack(task.fields[Field.body])[2])
    except Exception:  # noqa: BLE001 - no options or no body; the site's codec may raise anything
        return {}
