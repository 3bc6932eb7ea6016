"""Tasks in the memory of a test: as much of the queue as sending, running and reading them asks for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django_redis_components.core.protocol import Call, Command
from django_redis_components.taskqueue.store.fields import base_key, record_key
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.store.scripts import (
    CANCEL,
    ENQUEUE,
    ENQUEUE_FLOW,
    ENQUEUE_MANY,
    ENQUEUE_PLAIN,
    REGISTER_WAITER,
    RESCHEDULE,
    SAVE_METADATA,
)
from django_redis_components.taskqueue.worker import execution as executor
from django_redis_components.testing import calls
from django_redis_components.testing.failures import Failures
from django_redis_components.testing.memory_flows import MemoryFlow

#: Runs of one task after which it is not tried again, whatever its `max_attempts`.
MOST_RUNS = 100
#: The worker that runs tasks here, with its lease.
TOKEN = "testing/0/0"
#: States in which a task stays.
ENDS = (b"successful", b"failed", b"cancelled", b"expired")
#: What the timeline calls the outcomes of runs that did not succeed.
OUTCOMES = {"fail": "failed", "retry": "retried", "later": "put_off", "park": "unregistered", "cancel": "cancelled"}
_NEEDS_REDIS = (
    "is nothing that inline() and captured() can do: they hold tasks in memory."
    " Use a real server and drain() for what operates on queues."
)

Record = dict[str, bytes]


class MemoryQueue:
    """Tasks that were sent in a test, and what became of them.

    Attributes:
        waiting: ids of tasks that have not been run, in the order in which they were sent.
    """

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self._records: dict[str, Record] = {}
        self._errors: dict[str, list[bytes]] = {}
        self._flows: dict[str, MemoryFlow] = {}
        self._answers: dict[Any, Callable[[dict[str, Any]], Any]] = {
            ENQUEUE: self._enqueue,
            ENQUEUE_PLAIN: self._enqueue_plain,
            ENQUEUE_MANY: self._enqueue_many,
            ENQUEUE_FLOW: self._enqueue_flow,
            REGISTER_WAITER: self._register_waiter,
            CANCEL: self._cancel,
            RESCHEDULE: self._reschedule,
            SAVE_METADATA: self._save_metadata,
        }

    def answer(self, request: Call | Command) -> Any:
        """The reply to a request of the task queue.

        Raises:
            RuntimeError: it asks for what only a server can do.
        """
        if isinstance(request, Call):
            answer = self._answers.get(request.script)
            if answer is None:
                raise RuntimeError(f"{request.script!r} {_NEEDS_REDIS}")
            return answer(calls.arguments_of(request))
        verb, key, *rest = request.args
        if verb == "LRANGE":
            errors = self._errors.get(calls.id_in(key), [])
            return errors[-1:] if rest[0] == -1 else list(errors)
        fields = self._hash(str(key))
        if verb == "HGETALL":
            return [part for name, value in fields.items() for part in (name.encode(), value)]
        if verb == "HGET":
            return fields.get(str(rest[0]))
        if verb == "HMGET":
            return [fields.get(str(name)) for name in rest]
        raise RuntimeError(f"{verb} {key} {_NEEDS_REDIS}")

    def run_all(self) -> BaseException | None:
        """Run what waits, and what it sends; the value is what the first of those that failed has raised.

        A task that runs may send others, and may have these run at once: so it must not meet those
        here that were sent before it and come after it.
        """
        first: BaseException | None = None
        while self.waiting:
            mine, self.waiting = self.waiting, []
            while mine:
                raised, rescue = self._run(mine.pop(0))
                first = first or raised
                mine[:0] = rescue
        return first

    def _run(self, task_id: str) -> tuple[BaseException | None, list[str]]:
        """What a task has raised in the end, and what is to run because of it."""
        record = self._records[task_id]
        flow = self._flows.get(record.get("c", b"").decode().partition("/")[0])
        with Failures() as failures:
            if flow is None or flow.may_begin(task_id, self._records, self._errors):
                self._run_to_its_end(task_id, record)
        rescue = flow.rescue_after(task_id, self._records) if flow is not None else []
        return failures.of(task_id), rescue

    def _run_to_its_end(self, task_id: str, record: Record) -> None:
        for _ in range(MOST_RUNS):
            if record.get("s") in ENDS or self._run_once(task_id, record) != "retry":
                break

    def _run_once(self, task_id: str, record: Record) -> str:
        now_us = time.time_ns() // 1_000
        record |= {"s": b"running", "L": TOKEN.encode(), "l": calls.text(now_us)}
        record.setdefault("f", record["l"])
        ack = executor.execute(
            Job(
                id=task_id,
                token=TOKEN,
                name=record["n"].decode(),
                body=record["b"],
                queue=record["q"].decode(),
                attempts=int(record.get("a", 0)),
                deliveries=0,
                enqueued_us=int(record["e"]),
                started_us=int(record["f"]),
                leased_us=now_us,
            )
        )
        self._settle(record, ack)
        return ack.outcome

    def _settle(self, record: Record, ack: Ack) -> None:
        record["s"] = {"ok": b"successful", "fail": b"failed", "retry": b"retrying", "later": b"scheduled"}.get(
            ack.outcome, b"unregistered" if ack.outcome == "park" else b"cancelled"
        )
        if ack.outcome == "ok":
            record["r"] = ack.payload
        if ack.outcome in OUTCOMES:
            record["h"] = b"\n".join(filter(None, [record.get("h"), _run_line(record, OUTCOMES[ack.outcome])]))
        if ack.outcome in ("fail", "retry"):
            self._errors.setdefault(ack.id, []).append(ack.payload)
            record["a"] = calls.text(int(record.get("a", 0)) + (ack.outcome == "retry"))
        if ack.outcome == "later":
            record["d"] = calls.text(calls.due_ms(f"+{ack.delay_ms}"))
        if record["s"] in ENDS:
            record["F"] = calls.text(time.time_ns() // 1_000)
        if ack.outcome != "park":
            record["w"] = b",".join(filter(None, [record.get("w"), TOKEN.partition("/")[0].encode()]))

    def _enqueue(self, sent: dict[str, Any]) -> Any:
        if sent["id"] in self._records:
            return int(self._records[sent["id"]]["e"])
        twin = self._twin_of(sent)
        if twin is not None:
            return [twin.encode(), self.answer(Command("HGETALL", record_key(twin)))]
        self._records[sent["id"]] = calls.record_of(sent)
        self.waiting.append(sent["id"])
        return int(self._records[sent["id"]]["e"])

    def _enqueue_plain(self, sent: dict[str, Any]) -> list[Any]:
        return [self._enqueue(each) for each in calls.plain_of(sent)]

    def _enqueue_many(self, sent: dict[str, Any]) -> list[Any]:
        return [self._enqueue(each) for each in calls.tasks_of(sent["tasks"])]

    def _twin_of(self, sent: dict[str, Any]) -> str | None:
        """The task that has the unique key: one that has not finished, or for a time any."""
        unique = calls.text(sent["unique"]).split(b" ")[0]
        for task_id, record in self._records.items():
            if unique and record.get("u") == unique and (unique[:1] == b"t" or record.get("s") not in ENDS):
                return task_id
        return None

    def _enqueue_flow(self, sent: dict[str, Any]) -> int:
        flow = self._flows.setdefault(sent["flow_id"], MemoryFlow(sent))
        for number, followers, node in calls.nodes_of(sent["nodes"]):
            flow.add(number, node["id"], followers)
            self._records[node["id"]] = calls.record_of(node) | {"c": f"{sent['flow_id']}/{number}".encode()}
            if flow.waits(number):
                self._records[node["id"]]["s"] = b"waiting"
        if sent["last"]:
            self.waiting += flow.ids
        return time.time_ns() // 1_000

    def _register_waiter(self, asked: dict[str, Any]) -> int:
        task_id = calls.id_in(asked["record"])
        record = self._records.get(task_id)
        if record is None:
            return -1
        if record.get("s") in ENDS:
            return 1
        raise RuntimeError(
            f"Task {task_id} does not run, so that its result never arrives. With captured(), call run() first."
        )

    def _cancel(self, asked: dict[str, Any]) -> int:
        record = self._records.get(asked["id"])
        if record is None:
            return -1
        if record.get("s") in (b"successful", b"failed", b"expired"):
            return 0
        record |= {"s": b"cancelled", "F": calls.text(time.time_ns() // 1_000)}
        return 1

    def _reschedule(self, asked: dict[str, Any]) -> list[int]:
        record = self._records.get(asked["id"])
        if record is None:
            return [-1]
        if "d" not in record or record.get("s") in ENDS:
            return [0]
        record["d"] = calls.text(calls.due_ms(asked["due"]))
        return [1]

    def _save_metadata(self, said: dict[str, Any]) -> int:
        self._records[calls.id_in(said["record"])]["m"] = calls.text(said["metadata"])
        return 1

    def _hash(self, key: str) -> Record:
        if key.startswith(f"{base_key()}:flow:"):
            flow = self._flows.get(calls.id_in(key))
            return flow.fields() if flow else {}
        return self._records.get(calls.id_in(key), {})


def _run_line(record: Record, event: str) -> bytes:
    """A run that ends now, as a line of the record's history."""
    leased_us = int(record["l"])
    return f"{event} {leased_us} {time.time_ns() // 1_000 - leased_us} {TOKEN.partition('/')[0]}".encode()
