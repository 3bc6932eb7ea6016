"""What the search field of each page suggests: prefixes, and values behind them that the process knows by itself."""

from __future__ import annotations

from collections.abc import Iterable

from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.queues.task_query import WEEKDAYS
from django_redis_components.dashboard.task_search.query import PREFIXES, STATE_WORDS
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.defaults import options_to_show

#: Most suggestions of each prefix: about 3 KB on each page.
MAX_SUGGESTED = 20
#: Values of times.
TIMES = ("15m", "1h", "today", "yesterday", *WEEKDAYS, "1w")


def suggestions() -> list[str]:
    """Return the suggestions. They cost no command: queues are those of the settings, or of tasks."""
    queues = _declared() or {options_to_show(task).queue_name for task in registry.all_tasks()}
    values = {"queue": sorted(queues), "state": [*STATE_WORDS], "since": TIMES, "name": registry.names()}
    prefixes = [f"{prefix}:" for prefix in PREFIXES]
    return [*prefixes, *(f"{prefix}:{each}" for prefix, found in values.items() for each in found[:MAX_SUGGESTED])]


def _declared() -> Iterable[str] | None:
    """Return the queues of the settings; None if they are invalid, which the page itself reports."""
    try:
        return conf.settings().taskqueue.queues
    except ConfigurationError:
        return None
