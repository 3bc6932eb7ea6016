"""Log records that say which task they are of.

The queue's own records about a run carry `task_id`, `task_name`, `queue`, `attempt`, `outcome` and `duration`
(seconds). `TaskFilter` on a handler gives the first four to whatever is logged while a task runs:

    LOGGING = {
        "version": 1,
        "filters": {"task": {"()": "django_redis_components.taskqueue.logs.TaskFilter"}},
        "formatters": {"json": {"()": "django_redis_components.taskqueue.logs.JsonFormatter"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "filters": ["task"], "formatter": "json"}},
        "root": {"handlers": ["console"], "level": "INFO"},
    }
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from django_redis_components.taskqueue.run_observer import current_run
from django_redis_components.taskqueue.store.job import Job

#: What the filter gives to a record.
FIELDS = ("task_id", "task_name", "queue", "attempt")
#: What each record has by itself; the rest was given to it.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

#: The job whose run is about to begin, or has just ended, in this thread.
_about: ContextVar[Job | None] = ContextVar("django_redis_components.taskqueue.logs", default=None)


def facts(job: Job, outcome: str = "") -> dict[str, Any]:
    """The `extra` of a record about a run."""
    said = {"task_id": job.id, "task_name": job.name, "queue": job.queue, "attempt": job.attempts + job.deliveries + 1}
    if outcome:
        said["outcome"] = outcome
        said["duration"] = round(time.perf_counter() - job.began, 6) if job.began else 0.0
    return said


@contextmanager
def about(job: Job) -> Iterator[None]:
    """What is logged within belongs to this job, though its function does not run."""
    before = _about.set(job)
    try:
        yield
    finally:
        _about.reset(before)


class TaskFilter(logging.Filter):
    """Lets every record through, and tells it which task it is of; outside of tasks the fields are empty."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Fill in what the record does not say itself."""
        run = current_run.get(None)
        job = _about.get() or (run.job if run else None)
        said = facts(job) if job else dict.fromkeys(FIELDS, "")
        for name in FIELDS:
            if not hasattr(record, name):
                setattr(record, name, said[name])
        return True


class TextFormatter(logging.Formatter):
    """One line for people. A record that does not name its task in words gets its id and name at the end."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(process)d %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own
        """See `logging.Formatter`."""
        text = super().formatMessage(record)
        task_id = getattr(record, "task_id", "")
        if not task_id or task_id in record.message:
            return text
        return f"{text} [task {task_id} of {getattr(record, 'task_name', '?')}]"


class JsonFormatter(logging.Formatter):
    """One line of JSON for programs, with all that the record was given."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        said: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        said |= {name: value for name, value in vars(record).items() if name not in _OWN and value != ""}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            said["stack"] = self.formatStack(record.stack_info)
        return json.dumps(said, ensure_ascii=False, default=str)
