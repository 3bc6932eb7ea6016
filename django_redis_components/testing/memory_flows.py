"""A flow in the memory of a test."""

from __future__ import annotations

from typing import Any

from django_redis_components.core import serialization as arguments
from django_redis_components.taskqueue.exceptions import ParentFailed
from django_redis_components.taskqueue.store.fields import FlowField
from django_redis_components.testing import calls

Records = dict[str, dict[str, bytes]]

#: How an error says what a parent came to.
HOW = {b"failed": "failed", b"cancelled": "was cancelled", b"expired": "expired"}


class MemoryFlow:
    """Which of its tasks waits for which, and what goes wrong.

    Attributes:
        ids: of its tasks in order, without the one for errors.
    """

    def __init__(self, sent: dict[str, Any]) -> None:
        self.ids: list[str] = []
        self._sent = sent
        self._followers: list[str] = []
        self._parents: dict[int, list[int]] = {}
        self._rescue: str | None = None
        self._first_error = ""
        self._roots: dict[str, str] = {}  # what failed because of another, and that other

    def add(self, number: int, task_id: str, followers: str) -> None:
        """Take in one more task; each comes after those it waits for."""
        if number == self._sent["on_error"]:
            self._rescue = task_id
            return
        self.ids.append(task_id)
        self._followers.append(followers)
        for follower in calls.numbers(followers):
            self._parents.setdefault(follower, []).append(number)

    def waits(self, number: int) -> bool:
        """Whether a task waits for others, or for an error."""
        return number in self._parents or number == self._sent["on_error"]

    def may_begin(self, task_id: str, records: Records, errors: dict[str, list[bytes]]) -> bool:
        """Whether all that a task waits for has succeeded; if something never will, the task fails here."""
        record = records[task_id]
        if task_id not in self.ids or record.get("s") != b"waiting":
            return record.get("s") not in HOW
        parents = [self.ids[number] for number in self._parents[self.ids.index(task_id)]]
        broken = next((parent for parent in parents if records[parent].get("s") in HOW), None)
        if broken is not None:
            record |= {"s": b"failed", "F": records[broken].get("F", b"0")}
            self._roots[task_id] = root = self._roots.get(broken, broken)
            errors.setdefault(task_id, []).append(_told(root, records[root]))
            return False
        return all(records[parent].get("s") == b"successful" for parent in parents)

    def rescue_after(self, task_id: str, records: Records) -> list[str]:
        """The task for errors, if this was the first that went wrong."""
        if self._rescue is None or task_id == self._rescue or records[task_id].get("s") not in HOW:
            return []
        rescue, self._rescue = self._rescue, None
        if records[rescue].get("s") != b"waiting":
            return []
        self._first_error = f"{task_id} {records[task_id]['n'].decode()} {HOW[records[task_id]['s']]}"
        records[rescue].pop("s", None)
        return [rescue]

    def fields(self) -> dict[str, bytes]:
        """Its hash, as far as it is read."""
        nodes = {
            str(number): f"{task_id} {self._followers[number]}".encode() for number, task_id in enumerate(self.ids)
        }
        named = {"tasks": len(self.ids), "ends": self._sent["result_of"], FlowField.first_error: self._first_error}
        return nodes | {name: calls.text(value) for name, value in named.items() if value != ""}


def _told(task_id: str, record: dict[str, bytes]) -> bytes:
    return arguments.encode(
        {
            "exception_class_path": f"{ParentFailed.__module__}.{ParentFailed.__qualname__}",
            "message": f"Not run: task {task_id} ({record['n'].decode()}), which comes before it in its flow,"
            f" {HOW[record['s']]}.",
            "traceback": "",
        }
    )
