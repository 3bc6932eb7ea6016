"""An in-memory flow for tests."""

from __future__ import annotations

from typing import Any

from django_redis_components.core import serialization
from django_redis_components.taskqueue.exceptions import ParentFailed
from django_redis_components.taskqueue.fields import Field, FlowField
from django_redis_components.testing import request_parser

Records = dict[str, dict[str, bytes]]

#: States of a parent that break its flow, as the error message names them.
FAILURE_TEXTS = {b"failed": "failed", b"cancelled": "was cancelled", b"expired": "expired"}


class MemoryFlow:
    """The tasks of a flow, their dependencies, and its first error.

    Attributes:
        ids: of its tasks in order, without the error task.
    """

    def __init__(self, sent: dict[str, Any]) -> None:
        self.ids: list[str] = []
        self._sent = sent
        self._followers: list[str] = []
        self._parents: dict[int, list[int]] = {}
        self._error_task: str | None = None
        self._first_error = ""
        self._roots: dict[str, str] = {}  # a task that failed because of another, and that other task

    def add(self, number: int, task_id: str, followers: str) -> None:
        """Add a task. Its parents must have been added before it."""
        if number == self._sent["on_error"]:
            self._error_task = task_id
            return
        self.ids.append(task_id)
        self._followers.append(followers)
        for follower in request_parser.parse_numbers(followers):
            self._parents.setdefault(follower, []).append(number)

    def is_waiting(self, number: int) -> bool:
        """Return whether a task waits for its parents, or for an error of the flow."""
        return number in self._parents or number == self._sent["on_error"]

    def may_start(self, task_id: str, records: Records, errors: dict[str, list[bytes]]) -> bool:
        """Return whether all parents of a task have succeeded. Fail the task if one of them has not and cannot."""
        record = records[task_id]
        if task_id not in self.ids or record.get(Field.state) != b"waiting":
            return record.get(Field.state) not in FAILURE_TEXTS
        parents = [self.ids[number] for number in self._parents[self.ids.index(task_id)]]
        failed_parent = next((parent for parent in parents if records[parent].get(Field.state) in FAILURE_TEXTS), None)
        if failed_parent is not None:
            record |= {
                Field.state: b"failed",
                Field.finished_at_us: records[failed_parent].get(Field.finished_at_us, b"0"),
            }
            self._roots[task_id] = root = self._roots.get(failed_parent, failed_parent)
            errors.setdefault(task_id, []).append(_parent_failed_error(root, records[root]))
            return False
        return all(records[parent].get(Field.state) == b"successful" for parent in parents)

    def error_tasks_after(self, task_id: str, records: Records) -> list[str]:
        """Return the error task if this task is the first of the flow to fail, as a list of at most one id."""
        if (
            self._error_task is None
            or task_id == self._error_task
            or records[task_id].get(Field.state) not in FAILURE_TEXTS
        ):
            return []
        error_task, self._error_task = self._error_task, None
        if records[error_task].get(Field.state) != b"waiting":
            return []
        self._first_error = (
            f"{task_id} {records[task_id][Field.task_name].decode()} {FAILURE_TEXTS[records[task_id][Field.state]]}"
        )
        records[error_task].pop(Field.state, None)
        return [error_task]

    def fields(self) -> dict[str, bytes]:
        """Return the fields of the flow's hash that are read."""
        nodes = {
            str(number): f"{task_id} {self._followers[number]}".encode() for number, task_id in enumerate(self.ids)
        }
        named = {
            FlowField.tasks: len(self.ids),
            FlowField.result_of: self._sent["result_of"],
            FlowField.first_error: self._first_error,
        }
        return nodes | {name: request_parser.to_bytes(value) for name, value in named.items() if value != ""}


def _parent_failed_error(task_id: str, record: dict[str, bytes]) -> bytes:
    return serialization.encode(
        {
            "exception_class_path": f"{ParentFailed.__module__}.{ParentFailed.__qualname__}",
            "message": f"Not run: task {task_id} ({record[Field.task_name].decode()}), on which it depends,"
            f" {FAILURE_TEXTS[record[Field.state]]}.",
            "traceback": "",
        }
    )
