"""An in-memory flow for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.taskqueue.fields import ErrorPath, Field, FlowField
from django_redis_components.taskqueue.flows.parents import parse_followers
from django_redis_components.taskqueue.states import is_final
from django_redis_components.testing import request_parser

Records = dict[str, dict[str, bytes]]

#: States of a parent that break its flow, as the error message names them.
FAILURE_TEXTS = {b"failed": "failed", b"cancelled": "was cancelled", b"expired": "expired"}


class MemoryFlow:
    """The tasks of a flow, their dependencies, and its first error.

    Attributes:
        ids: of its tasks in order, without the callbacks; those that were added come last.
        added: those that were added and have not been taken to run.
        result_of: the numbers of the tasks whose results are the flow's, as its last part has them.
    """

    def __init__(self, sent: dict[str, Any]) -> None:
        self.ids: list[str] = []
        self.added: list[str] = []
        self.result_of: bytes | str = ""
        self._sent = sent
        self._added_by: dict[str, str] = {}
        self._followers: list[str] = []
        self._parents: dict[int, list[int]] = {}
        self._error_task: str | None = None
        self._complete_task: str | None = None
        self._success_task: str | None = None
        self._first_error = ""
        self._fields: dict[str, bytes] = {}
        self._roots: dict[str, str] = {}  # a task that failed because of another, and that other task

    def add(self, number: int, task_id: str, followers: str) -> None:
        """Add a task. Its parents must have been added before it."""
        if number >= self._sent["tasks"] and task_id not in self._added_by:
            setattr(self, ("_error_task", "_complete_task", "_success_task")[number - self._sent["tasks"]], task_id)
            return
        self.ids.append(task_id)
        self._followers.append(followers)
        for follower in parse_followers(followers):
            self._parents.setdefault(self._position(follower), []).append(number)

    def take_fields(self, record: dict[str, bytes]) -> None:
        """Take the fields of the flow out of the record of its first task, with which they are sent."""
        for name in (FlowField.tree, FlowField.given, FlowField.callback_of):
            if name in record:
                self._fields[name] = record.pop(name)

    def extend(
        self, member_id: str, sent: Sequence[tuple[str, int, str, dict[str, Any]]]
    ) -> tuple[list[int], dict[int, dict[str, Any]]]:
        """Add tasks to the group of a member. Return the numbers of all, and by number those that are new."""
        members = self._followers[self.ids.index(member_id)]
        found = self._added_by.get(member_id, member_id)
        place = member_id if not found or " " in found else found
        first, new = len(self.ids), [node["id"] for *_, node in sent if node["id"] not in self.ids]
        numbers = [
            self._number(self.ids.index(node["id"]) if node["id"] in self.ids else first + new.index(node["id"]))
            for *_, node in sent
        ]
        added = {}
        for number, (followers, _, appended, node) in zip(numbers, sent, strict=True):
            if node["id"] not in self.ids:
                own = ",".join(str(numbers[each]) for each in parse_followers(followers.replace("*", "")))
                self._added_by[node["id"]] = "" if appended == "-" else f"{place} {appended}".rstrip()
                self.added.append(node["id"])
                self.add(len(self.ids), node["id"], members if followers == "*" else own)
                added[number] = node
        return numbers, added

    def has_parents(self, task_id: str) -> bool:
        """Return whether a task waits for others."""
        return self.ids.index(task_id) in self._parents

    def take_added(self) -> list[str]:
        """Return the tasks that were added since the last call."""
        added, self.added = self.added, []
        return added

    def is_complete(self, member_id: str, records: Records) -> bool:
        """Return whether a task has started that waits for this member."""
        followers = parse_followers(self._followers[self.ids.index(member_id)])
        return any(records[self.ids[self._position(each)]].get(Field.state) != b"waiting" for each in followers)

    def _number(self, position: int) -> int:
        """Return the number of the task at a position: those of the callbacks lie between."""
        return position if position < self._sent["tasks"] else position + 3

    def _position(self, number: int) -> int:
        return number if number < self._sent["tasks"] else number - 3

    def is_waiting(self, number: int) -> bool:
        """Return whether a task waits for its parents, or for what starts a callback."""
        return number in self._parents or number >= int(self._sent["tasks"])

    def may_start(self, task_id: str, records: Records, errors: dict[str, list[bytes]]) -> bool:
        """Return whether all parents of a task have succeeded, or failed and may. Fail the task if one may not."""
        record = records[task_id]
        if task_id not in self.ids or record.get(Field.state) != b"waiting":
            return record.get(Field.state) not in FAILURE_TEXTS
        parents = [self.ids[number] for number in self._parents[self.ids.index(task_id)]]
        failed_parent = next(
            (each for each in parents if _has_failed(records[each]) and Field.on_failure not in records[each]), None
        )
        if failed_parent is not None:
            record |= {
                Field.state: b"failed",
                Field.finished_at_us: records[failed_parent].get(Field.finished_at_us, b"0"),
            }
            self._roots[task_id] = root = self._roots.get(failed_parent, failed_parent)
            errors.setdefault(task_id, []).append(_parent_failed_error(root, records[root]))
            return False
        return all(is_final(records[parent].get(Field.state)) for parent in parents)

    def callbacks_after(self, task_id: str, records: Records) -> list[str]:
        """Return the callbacks that start because this task has finished."""
        if task_id not in self.ids:
            return []
        due: list[str | None] = []
        if self._first_error == "" and _has_failed(records[task_id]) and not _is_ignored(records[task_id]):
            due.append(self._error_task)
            self._first_error = f"{task_id} {self._failure(task_id, records[task_id])}"
        if all(is_final(records[each].get(Field.state)) for each in self.ids):
            due.append(self._complete_task)
            if not self._failed(records):
                due.append(self._success_task)
        started = [each for each in due if each is not None and records[each].get(Field.state) == b"waiting"]
        for each in started:
            records[each].pop(Field.state)
        return started

    def fields(self, records: Records) -> dict[str, bytes]:
        """Return the fields of the flow's hash that are read."""
        nodes = {
            str(self._number(position)): f"{task_id} {self._followers[position]}".encode()
            for position, task_id in enumerate(self.ids)
        }
        named: dict[str, Any] = {
            FlowField.tasks: self._sent["tasks"],
            FlowField.added: len(self._added_by) or "",
            **{
                f"{FlowField.added_by}{self._number(self.ids.index(each))}": member
                for each, member in self._added_by.items()
            },
            **{f"{FlowField.number}{each}": self._number(self.ids.index(each)) for each in self._added_by},
            FlowField.result_of: self.result_of,
            FlowField.first_error: self._first_error,
            FlowField.failed_at_end: len(self._failed(records)),
        }
        for task_id in self.ids:
            if _has_failed(records[task_id]) and Field.on_failure in records[task_id]:
                action = records[task_id][Field.on_failure].decode()
                named[FlowField.failure + task_id] = f"{action} {self._failure(task_id, records[task_id])}"
        return (
            nodes
            | self._fields
            | {name: request_parser.to_bytes(value) for name, value in named.items() if value != ""}
        )

    def _failure(self, task_id: str, record: dict[str, bytes]) -> str:
        """Return the name of a failed task, and how it failed."""
        reason = "was not run" if task_id in self._roots else FAILURE_TEXTS[record[Field.state]]
        return f"{record[Field.task_name].decode()} {reason}"

    def _failed(self, records: Records) -> list[str]:
        """Return the failed tasks, without those whose failure is ignored."""
        return [each for each in self.ids if _has_failed(records[each]) and not _is_ignored(records[each])]


def _has_failed(record: dict[str, bytes]) -> bool:
    return record.get(Field.state) in FAILURE_TEXTS


def _is_ignored(record: dict[str, bytes]) -> bool:
    return record.get(Field.on_failure) == b"ignore" or Field.failure_uncounted in record


def _parent_failed_error(task_id: str, record: dict[str, bytes]) -> bytes:
    return serialization.encode(
        {
            "exception_class_path": ErrorPath.parent_failed,
            "message": f"Not run: task {task_id} ({record[Field.task_name].decode()}), on which it depends,"
            f" {FAILURE_TEXTS[record[Field.state]]}.",
            "traceback": "",
        }
    )
