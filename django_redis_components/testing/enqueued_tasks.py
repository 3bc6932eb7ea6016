"""The tasks that a test enqueued, and assertions about them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, overload

from django_redis_components.core import serialization
from django_redis_components.core.names import dotted_path
from django_redis_components.core.units import moment_of_ms
from django_redis_components.taskqueue.json_codec import pack, unpack

#: Maximum number of tasks that a failure message lists.
MAX_LISTED_TASKS = 20
#: Maximum length of the arguments of one task in a failure message.
MAX_ARGUMENT_CHARS = 200


@dataclasses.dataclass(frozen=True, slots=True)
class SentTask:
    """A task that was enqueued.

    Attributes:
        args, kwargs: as the task receives them: JSON turns tuples into lists.
        run_after: None, a delay in seconds, or a datetime.
        using: alias of the connection.
    """

    id: str
    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    queue_name: str
    priority: int
    run_after: float | datetime | None
    using: str

    def __str__(self) -> str:
        where = f"queue {self.queue_name}"
        if self.priority:
            where += f", priority {self.priority}"
        if isinstance(self.run_after, datetime):
            where += f", at {self.run_after.isoformat()}"
        elif self.run_after is not None:
            where += f", in {self.run_after:g} s"
        return f"{self.name}({format_arguments(self.args, self.kwargs)})  {where}"


class SentTasks(Sequence[SentTask]):
    """The enqueued tasks, in order: a sequence with assertions."""

    def __init__(self) -> None:
        self._tasks: list[SentTask] = []

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[SentTask]:
        return iter(list(self._tasks))

    @overload
    def __getitem__(self, index: int) -> SentTask: ...
    @overload
    def __getitem__(self, index: slice) -> list[SentTask]: ...
    def __getitem__(self, index: int | slice) -> SentTask | list[SentTask]:
        return self._tasks[index]

    def __repr__(self) -> str:
        return f"<{len(self)} tasks sent>"

    def add(self, sent: SentTask) -> None:
        """Append a task."""
        self._tasks.append(sent)

    def clear(self) -> None:
        """Clear the list. The tasks themselves stay enqueued."""
        self._tasks.clear()

    def of(
        self,
        task: Any,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        queue_name: str | None = None,
    ) -> list[SentTask]:
        """Return the entries of one task.

        Args:
            task: a task of this package or of Django, its function, or its dotted name.
            args, kwargs, queue_name: exact values to match; None matches any.
        """
        name = task_name(task)
        expected_args = None if args is None else _json_roundtrip(list(args), "args")
        expected_kwargs = None if kwargs is None else _json_roundtrip(dict(kwargs), "kwargs")
        return [
            sent
            for sent in self._tasks
            if sent.name == name
            and (expected_args is None or sent.args == expected_args)
            and (expected_kwargs is None or sent.kwargs == expected_kwargs)
            and queue_name in (None, sent.queue_name)
        ]

    def assert_enqueued(
        self,
        task: Any,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        queue_name: str | None = None,
        count: int | None = None,
    ) -> list[SentTask]:
        """Assert that the task was enqueued exactly `count` times, or at least once. Return the matches; see `of`.

        Raises:
            AssertionError: it was not; the message lists what was enqueued.
        """
        matching = self.of(task, args=args, kwargs=kwargs, queue_name=queue_name)
        if len(matching) == count or (count is None and matching):
            return matching
        what = f"{task_name(task)}({_format_expected(args, kwargs)})" + (
            f" in queue {queue_name}" if queue_name else ""
        )
        if count is None:
            raise AssertionError(f"{what} was not enqueued. {self._format_enqueued()}")
        raise AssertionError(
            f"{what} was enqueued {_format_count(len(matching))}, not {_format_count(count)}. {self._format_enqueued()}"
        )

    def assert_nothing_enqueued(self) -> None:
        """Assert that no task was enqueued.

        Raises:
            AssertionError: a task was; the message lists all of them.
        """
        if self._tasks:
            raise AssertionError(f"Expected no task to be enqueued. {self._format_enqueued()}")

    def _format_enqueued(self) -> str:
        if not self._tasks:
            return "No task was. If it is enqueued on commit, the transaction may not be committed yet."
        lines = [f"  {sent}" for sent in self._tasks[:MAX_LISTED_TASKS]]
        if len(self) > MAX_LISTED_TASKS:
            lines.append(f"  and {len(self) - MAX_LISTED_TASKS} more")
        return "\n".join([f"{'One task was' if len(self) == 1 else f'{len(self)} tasks were'}:", *lines])


def task_name(task: Any) -> str:
    """Return the name under which a task is enqueued.

    Raises:
        TypeError: the value is neither a task nor a function nor a name.
    """
    if isinstance(task, str):
        return task
    for attribute in ("module_path", "name"):  # Django's Task has both; its `name` has no module
        name = getattr(task, attribute, None)
        if isinstance(name, str):
            return name
    if callable(task) and hasattr(task, "__qualname__"):
        return dotted_path(task)
    raise TypeError(f"{task!r} is not a task: expected a task, its function, or its dotted name.")


def format_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Format arguments as in a call, truncated to `MAX_ARGUMENT_CHARS`."""
    text = ", ".join([*map(repr, args), *[f"{name}={value!r}" for name, value in kwargs.items()]])
    return text if len(text) <= MAX_ARGUMENT_CHARS else f"{text[:MAX_ARGUMENT_CHARS]}…"


def parse_run_after(due: str) -> float | datetime | None:
    """Return the `run_after` of a due time in the scripts' format."""
    if due == "":
        return None
    if due.startswith("+"):
        return int(due) / 1_000
    return moment_of_ms(due)


def _format_expected(args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> str:
    parts = [
        "…" if args is None else format_arguments(args, {}),
        "…" if kwargs is None else format_arguments((), kwargs),
    ]
    return "…" if parts == ["…", "…"] else ", ".join(part for part in parts if part)


def _format_count(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _json_roundtrip(value: Any, path: str) -> Any:
    """Convert a value to JSON and back, as a task receives it."""
    return unpack(serialization.encode(pack(value, path)))
