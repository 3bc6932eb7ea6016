"""Log filters and formatters that add the current task to log records.

The queue's own records about a run have `task_id`, `task_name`, `queue`, `attempt`, `run`, `outcome` and `duration`
(seconds). `TaskFilter` on a handler adds the first four to every record that is logged while a task runs:

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
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Protocol

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.text import encodable
from django_redis_components.taskqueue.store.job import Job

#: Attributes that the filter adds to a record.
FIELDS = ("task_id", "task_name", "queue", "attempt", "run")
_LOGGER_NAME = "django_redis_components.taskqueue"
#: Message of a task that has succeeded: name, id and duration. `format_success` of the formatters writes the same.
SUCCESS = "Task %s[%s] succeeded in %.3f s."
#: Attributes that every record has.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class CurrentRun(Protocol):
    """The run in which the current code executes.

    Attributes:
        job: the leased task.
        cancel_asked: whether cancellation was requested.
        stop_asked: whether the worker stops.
    """

    job: Job
    cancel_asked: bool
    stop_asked: bool


#: Set while a task's function runs, also in threads that `sync_to_async` uses for a coroutine.
current_run: ContextVar[CurrentRun] = ContextVar("django_redis_components.taskqueue.run")
#: The job whose run is about to start, or has just finished, in this thread.
_about: ContextVar[Job | None] = ContextVar("django_redis_components.taskqueue.logs", default=None)


def facts(job: Job, outcome: str = "", seconds: float | None = None) -> dict[str, Any]:
    """Return the `extra` of a log record about a run.

    Args:
        seconds: how long it ran; until now if None.
    """
    attempt, run = job.attempts + 1, job.runs + 1
    extra = {"task_id": job.id, "task_name": job.name, "queue": job.queue, "attempt": attempt, "run": run}
    if outcome:
        extra["outcome"] = outcome
        if seconds is None:
            seconds = time.perf_counter() - job.began if job.began else 0.0
        extra["duration"] = round(seconds, 6)
    return extra


@contextmanager
def about(job: Job) -> Iterator[None]:
    """Attribute log records to this job outside of its function."""
    before = _about.set(job)
    try:
        yield
    finally:
        _about.reset(before)


class TaskFilter(logging.Filter):
    """Adds the task to every record; outside of tasks the attributes are empty. Drops nothing."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Set the attributes that the record does not have."""
        run = current_run.get(None)
        job = _about.get() or (run.job if run else None)
        values = facts(job) if job else dict.fromkeys(FIELDS, "")
        for name in FIELDS:
            if not hasattr(record, name):
                setattr(record, name, values[name])
        return True


class TextFormatter(logging.Formatter):
    """One line of text. The task's id and name are appended unless the message has the id."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(process)d %(message)s")
        self._second = (-1, "")
        self._success_start = (-1, "")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's own
        """See `logging.Formatter`."""
        return super().formatTime(record, datefmt) if datefmt else self._time(int(record.created * 1_000))

    def format_success(self, job: Job, seconds: float, created_ms: int) -> str:
        """Return the line of a task that has succeeded as `format` returns it, with a newline.

        It is much faster: a worker runs tens of thousands of short tasks a second.

        Args:
            created_ms: when it was logged, in milliseconds since the epoch.

        :meta private:
        """
        known_ms, start = self._success_start
        if known_ms != created_ms:
            start = f"{self._time(created_ms)} INFO {os.getpid()} Task "
            self._success_start = (created_ms, start)
        return f"{start}{job.name}[{job.id}] succeeded in {seconds:.3f} s.\n"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own
        """See `logging.Formatter`."""
        text = super().formatMessage(record)
        task_id = str(getattr(record, "task_id", ""))  # the site's own attribute may be a number
        if not task_id or task_id in record.message:
            return text
        return f"{text} [task {task_id} of {getattr(record, 'task_name', '?')}]"

    def _time(self, created_ms: int) -> str:
        """Return a time as `logging.Formatter` does by default; the text of a second is made once."""
        second = created_ms // 1_000
        known, text = self._second
        if known != second:
            text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
            self._second = (second, text)
        return f"{text},{created_ms % 1_000:03d}"


class JsonFormatter(logging.Formatter):
    """One line of JSON with all extra attributes of the record; of those that are not JSON the text or the `repr`."""

    def __init__(self) -> None:
        super().__init__()
        self._success_start = (-1, "")

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        data: dict[str, Any] = {
            "time": _iso_time(record.created),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        data |= {name: value for name, value in vars(record).items() if name not in _OWN and not _is_empty(value)}
        if record.exc_info:
            data["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            data["stack"] = self.formatStack(record.stack_info)
        try:
            return _dump(data)
        except Exception:  # noqa: BLE001 - whatever attributes the site has set, the message must not be lost
            return _dump({name: _as_json(value) for name, value in data.items()})

    def format_success(self, job: Job, seconds: float, created_ms: int) -> str:
        """See `TextFormatter.format_success`.

        :meta private:
        """
        known_ms, start = self._success_start
        if known_ms != created_ms:
            start = (
                f'{{"time": "{_iso_time(created_ms / 1_000)}", "level": "INFO", "logger": "{_LOGGER_NAME}",'
                f' "process": {os.getpid()}, "message": "Task '
            )
            self._success_start = (created_ms, start)
        task_id, name, queue = _in_json(job.id), _in_json(job.name), _in_json(job.queue)
        return (
            f'{start}{name}[{task_id}] succeeded in {seconds:.3f} s.", "task_id": "{task_id}", "task_name": "{name}",'
            f' "queue": "{queue}", "attempt": {job.attempts + 1}, "run": {job.runs + 1}, "outcome": "succeeded",'
            f' "duration": {round(seconds, 6)!r}}}\n'
        )


def _is_empty(value: object) -> bool:
    """Return whether a value is the empty string, without a comparison, which may be the site's code."""
    return type(value) is str and not value


def _dump(value: Any) -> str:
    return encodable(json.dumps(value, ensure_ascii=False, allow_nan=False, default=str))


def _as_json(value: Any) -> Any:
    try:
        _dump(value)
    except Exception:  # noqa: BLE001 - other keys than text, a cycle, NaN, an integer of too many digits, its own __str__
        return short_repr(value)
    return value


def _in_json(text: str) -> str:
    """Return a text as it is written between the quotation marks of a JSON string."""
    return json.encoder.encode_basestring(text)[1:-1]


def _iso_time(created: float) -> str:
    return datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")
