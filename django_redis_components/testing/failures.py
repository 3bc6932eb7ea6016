"""Running tasks in the thread of a test, and catching what they raise, which the executor keeps as text only."""

from __future__ import annotations

from typing import Any

from django_redis_components.taskqueue.worker import execution as executor


class Failures:
    """While it is entered, the exceptions of tasks that have finally failed, by task id."""

    def __init__(self) -> None:
        self._found: dict[str, BaseException] = {}
        self._before: Any = None

    def __enter__(self) -> Failures:
        self._before, executor.test_hook = executor.test_hook, self._note
        return self

    def __exit__(self, *_: object) -> None:
        executor.test_hook = self._before

    def of(self, task_id: str) -> BaseException | None:
        """What the task raised."""
        return self._found.get(task_id)

    def _note(self, task_id: str, exc: BaseException) -> None:
        self._found[task_id] = exc
