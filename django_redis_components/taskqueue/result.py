"""What became of a task: the result, as it stands in Redis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import arun, run
from django_redis_components.core.units import Seconds
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.record import TaskFacts
from django_redis_components.taskqueue.store import queues as control
from django_redis_components.taskqueue.store import tasks as store


class TaskResult(TaskFacts):
    """A task that was accepted, and what is known of it. `refresh` reads again.

    Attributes:
        task: the task, or None if its name is not registered in this process.
        name: the task's name.
        id: the task's id.
        using: alias of the connection.
        is_duplicate: it is the result of another task: one that was there already, with the same unique key.
    """

    __slots__ = ("is_duplicate", "task", "using")

    def __init__(
        self,
        task: Any,
        name: str,
        task_id: str,
        using: str,
        fields: Mapping[str, bytes],
        failures: Sequence[bytes] = (),
    ) -> None:
        super().__init__(name, task_id, fields, failures)
        self.task = task
        self.using = using
        self.is_duplicate = False

    def __repr__(self) -> str:
        return f"<TaskResult {self.id} of {self.name}: {self.state}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskResult) and (self.id, self.using) == (other.id, other.using)

    def __hash__(self) -> int:
        return hash((self.id, self.using))

    def refresh(self) -> None:
        """Read again what became of it.

        Raises:
            TaskResultDoesNotExist: the result has expired.
        """
        self.fill(*run(connections.client(self.using), store.read(self.id)))

    async def arefresh(self) -> None:
        """See `refresh`."""
        self.fill(*await arun(connections.aclient(self.using), store.read(self.id)))

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until it has finished, and return its return value. No polling: the worker rings.

        Args:
            timeout: seconds, or None for as long as it takes.

        Raises:
            WaitTimeout: it had not finished in time.
            TaskFailed: it failed, was cancelled or expired.
            TaskResultDoesNotExist: the result has expired.
        """
        self.fill(*run(connections.client(self.using), store.wait(self.id, timeout)))
        return self.return_value

    async def await_(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - the twin of wait()
        """See `wait`. The twin of `wait` would be `await`, which is a keyword, so it is called `await_`."""
        self.fill(*await arun(connections.aclient(self.using), store.wait(self.id, timeout)))
        return self.return_value

    def cancel(self, *, force_after: Seconds | None = None) -> bool:
        """Cancel it. Returns False if it has finished.

        One that runs is asked to end, by an exception in its thread or the cancellation of its coroutine, and the
        value is True at once; `wait` tells when it has ended. A run that finishes first keeps its outcome.

        Args:
            force_after: seconds that a run has to end by itself before its process is ended, with a new start of the
                other tasks in it; None for TASKQUEUE["CANCEL_GRACE"].

        Raises:
            TaskResultDoesNotExist: the result has expired.
        """
        return run(connections.client(self.using), control.cancel(self.id, force_after))

    async def acancel(self, *, force_after: Seconds | None = None) -> bool:
        """See `cancel`."""
        return await arun(connections.aclient(self.using), control.cancel(self.id, force_after))

    def reschedule(self, run_after: datetime | Seconds) -> None:
        """Give a scheduled task (or one that waits for its next attempt) another time.

        Args:
            run_after: a datetime, or seconds or a timedelta from now.

        Raises:
            NotScheduled: it waits for no time.
            InvalidTask: `run_after` is no moment.
        """
        run(connections.client(self.using), control.move(self.id, _due(run_after)))

    async def areschedule(self, run_after: datetime | Seconds) -> None:
        """See `reschedule`."""
        await arun(connections.aclient(self.using), control.move(self.id, _due(run_after)))

    def run_now(self) -> None:
        """Let a scheduled task begin at once. See `reschedule`."""
        run(connections.client(self.using), control.move(self.id, ""))

    async def arun_now(self) -> None:
        """See `run_now`."""
        await arun(connections.aclient(self.using), control.move(self.id, ""))

    def accepted(self, reply: store.Reply, options: TaskOptions) -> None:
        """Note when Redis accepted it, or which task it found in its place.

        Args:
            options: those it was sent with.
        """
        if isinstance(reply, int):
            self._fields["e"] = str(reply).encode()
            due_ms = options.due_ms(reply)
            if due_ms is not None:
                self._fields["d"] = str(due_ms).encode()
            expiry_ms = options.expiry_ms(reply)
            if expiry_ms is not None:
                self._fields["X"] = str(expiry_ms).encode()
            return
        other, pairs = reply
        self.id = other.decode()
        self.is_duplicate = True
        self.fill(store.fields_of(pairs), ())

    def became(self, fields: Mapping[str, bytes], failures: Sequence[bytes]) -> None:
        """Note how a run of it ended, in the process that runs it."""
        earlier, ids = self._workers()
        workers = ",".join([*([f"+{earlier}"] if earlier else []), *ids]).encode()
        self._fields |= {"w": workers, **fields}
        self._failures += failures

    def joined(self, flow_id: str, number: int, *, waits: bool) -> None:
        """Note that it is part of a flow, before it is sent."""
        self._fields["c"] = f"{flow_id}/{number}".encode()
        if waits:
            self._fields["s"] = b"waiting"


def _due(run_after: datetime | Seconds) -> str:
    if run_after is None:
        raise InvalidTask("run_after=None: expected a moment. run_now() lets the task begin at once.")
    return TaskOptions(run_after=run_after).due()
