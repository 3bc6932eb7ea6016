"""What was enqueued, and looking for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, overload

from django_redis_components.core import serialization
from django_redis_components.taskqueue.json_codec import pack, unpack

#: Tasks that a failure text lists.
LISTED = 20
#: Characters of the arguments of one task in a failure text.
SHOWN = 200


@dataclasses.dataclass(frozen=True, slots=True)
class SentTask:
    """A task that was enqueued.

    Attributes:
        args, kwargs: as JSON carried them: tuples are lists.
        run_after: None, seconds from when it was sent, or a datetime.
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
        return f"{self.name}({shown(self.args, self.kwargs)})  {where}"


class SentTasks(Sequence[SentTask]):
    """The tasks that were enqueued, in order: a sequence that can be asked."""

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
        """Note one more."""
        self._tasks.append(sent)

    def clear(self) -> None:
        """Forget those so far; they are not taken back."""
        self._tasks.clear()

    def of(
        self,
        task: Any,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        queue_name: str | None = None,
    ) -> list[SentTask]:
        """Those of one task.

        Args:
            task: ours, one of Django's, a function, or a dotted name.
            args, kwargs, queue_name: only those that were sent with exactly these; None: with any.
        """
        name = name_of(task)
        wanted_args = None if args is None else _decoded(list(args), "args")
        wanted_kwargs = None if kwargs is None else _decoded(dict(kwargs), "kwargs")
        return [
            sent
            for sent in self._tasks
            if sent.name == name
            and (wanted_args is None or sent.args == wanted_args)
            and (wanted_kwargs is None or sent.kwargs == wanted_kwargs)
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
        """Fail unless the task was enqueued: so often, or at least once. Returns those that were found. See `of`.

        Raises:
            AssertionError: it was not; the text lists what was enqueued.
        """
        found = self.of(task, args=args, kwargs=kwargs, queue_name=queue_name)
        if len(found) == count or (count is None and found):
            return found
        what = f"{name_of(task)}({_wanted(args, kwargs)})" + (f" in queue {queue_name}" if queue_name else "")
        if count is None:
            raise AssertionError(f"{what} was not enqueued. {self._listing()}")
        raise AssertionError(f"{what} was enqueued {_times(len(found))}, not {_times(count)}. {self._listing()}")

    def assert_nothing_enqueued(self) -> None:
        """Fail if anything was enqueued.

        Raises:
            AssertionError: something was; the text lists it.
        """
        if self._tasks:
            raise AssertionError(f"Expected that nothing is enqueued. {self._listing()}")

    def _listing(self) -> str:
        if not self._tasks:
            return "Nothing was. Is it sent on commit, in a transaction that has not been committed?"
        lines = [f"  {sent}" for sent in self._tasks[:LISTED]]
        if len(self) > LISTED:
            lines.append(f"  and {len(self) - LISTED} more")
        return "\n".join([f"{'This was' if len(self) == 1 else f'These {len(self)} were'}:", *lines])


def name_of(task: Any) -> str:
    """The name under which a task is sent.

    Raises:
        TypeError: it is none.
    """
    if isinstance(task, str):
        return task
    for attribute in ("module_path", "name"):  # one of Django's has both; its `name` is the function's alone
        name = getattr(task, attribute, None)
        if isinstance(name, str):
            return name
    if callable(task) and hasattr(task, "__qualname__"):
        return f"{task.__module__}.{task.__qualname__}"
    raise TypeError(f"{task!r} is no task: expected a task, its function, or its dotted name.")


def shown(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Arguments as they stand in a call, cut short."""
    text = ", ".join([*map(repr, args), *[f"{name}={value!r}" for name, value in kwargs.items()]])
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def moment(due: str) -> float | datetime | None:
    """What `run_after` was, of a due time as the scripts take it."""
    if due == "":
        return None
    if due.startswith("+"):
        return int(due) / 1_000
    return datetime.fromtimestamp(int(due) / 1_000, UTC)


def _wanted(args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> str:
    parts = ["…" if args is None else shown(args, {}), "…" if kwargs is None else shown((), kwargs)]
    return "…" if parts == ["…", "…"] else ", ".join(part for part in parts if part)


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _decoded(value: Any, path: str) -> Any:
    """The value as a task receives it."""
    return unpack(serialization.encode(pack(value, path)))
