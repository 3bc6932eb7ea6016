"""Options as other task queues call them, for the error about an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Collection

#: Options of Celery, RQ and others, and what they are called here.
_OTHER_QUEUES = {
    "bind": "takes_context",
    "countdown": "run_after",
    "delay": "run_after",
    "eta": "run_after",
    "job_id": "id",
    "job_timeout": "timeout",
    "max_retries": "max_attempts",
    "queue": "queue_name",
    "rate_limit": "rate",
    "result_expires": "result_ttl",
    "retries": "max_attempts",
    "retry_backoff": "backoff",
    "soft_time_limit": "timeout",
    "task_id": "id",
    "time_limit": "timeout",
    "ttl": "expires",
}


def meant(name: str, accepted: Collection[str]) -> str:
    """Return the question for the option that was probably meant, or an empty string."""
    near = [_OTHER_QUEUES[name]] if name in _OTHER_QUEUES else difflib.get_close_matches(name, accepted, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
