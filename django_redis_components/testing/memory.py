"""An in-memory task queue for tests: the replies that Redis would give to enqueue, read and cancel tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django_redis_components.core.protocol import Call, Command
from django_redis_components.taskqueue.fields import Field, Key
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.states import ERROR_OUTCOMES, Outcome, State, is_final
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.store.scripts import (
    ADD_TO_FLOW,
    CANCEL,
    CONTINUE_FLOW,
    ENQUEUE,
    ENQUEUE_FLOW,
    ENQUEUE_MANY,
    ENQUEUE_ONCE,
    ENQUEUE_PLAIN,
    ENQUEUE_PLAIN_MANY,
    REGISTER_WAITER,
    RESCHEDULE,
    SAVE_METADATA,
    STAGE_ADDED,
    UPDATE_TASK,
)
from django_redis_components.taskqueue.worker import execution
from django_redis_components.testing import request_parser
from django_redis_components.testing.failures import FailureRecorder
from django_redis_components.testing.memory_flows import MemoryFlow

#: Maximum number of runs of one task, whatever its `max_attempts`. Without it, endless retries would hang the test.
MAX_RUNS = 100
#: Lease token of the in-memory worker: its id, then thread and lease number.
TOKEN = "testing/0/0"
_NEEDS_REDIS = (
    "is not supported by inline() and captured(), which keep tasks in memory."
    " Use a real Redis server and drain() to test operations on queues."
)

Record = dict[str, bytes]


class MemoryQueue:
    """The tasks of a test, with their records, errors and flows.

    Attributes:
        pending: ids of the tasks that have not run, in the order in which they were enqueued.
    """

    def __init__(self) -> None:
        self.pending: list[str] = []
        self._records: dict[str, Record] = {}
        self._errors: dict[str, list[bytes]] = {}
        self._flows: dict[str, MemoryFlow] = {}
        self._staged: dict[str, dict[str, Any]] = {}
        self._handlers: dict[Any, Callable[[dict[str, Any]], Any]] = {
            ENQUEUE: self._enqueue,
            ENQUEUE_PLAIN: lambda sent: self._enqueue(request_parser.parse_plain_task(sent)),
            ENQUEUE_PLAIN_MANY: self._enqueue_plain_many,
            ENQUEUE_MANY: self._enqueue_many,
            ENQUEUE_ONCE: self._enqueue_once,
            ENQUEUE_FLOW: self._enqueue_flow,
            CONTINUE_FLOW: lambda sent: 0,
            ADD_TO_FLOW: self._add_to_flow,
            STAGE_ADDED: self._stage_added,
            REGISTER_WAITER: self._register_waiter,
            CANCEL: self._cancel,
            RESCHEDULE: self._reschedule,
            SAVE_METADATA: self._save_metadata,
            UPDATE_TASK: self._update,
        }

    def answer(self, request: Call | Command) -> Any:
        """Return the reply to a request of the task queue.

        Raises:
            RuntimeError: the request needs a real server.
        """
        if isinstance(request, Call):
            handler = self._handlers.get(request.script)
            if handler is None:
                raise RuntimeError(f"{request.script!r} {_NEEDS_REDIS}")
            return handler(request_parser.named_arguments(request))
        verb, key, *rest = request.args
        if verb == "LRANGE":
            errors = self._errors.get(request_parser.id_from_key(key), [])
            return errors[-1:] if rest[0] == -1 else list(errors)
        fields = self._hash(str(key))
        if verb == "HGETALL":
            return [part for name, value in fields.items() for part in (name.encode(), value)]
        if verb == "HGET":
            return fields.get(str(rest[0]))
        if verb == "HSTRLEN":
            return len(fields.get(str(rest[0]), b""))
        if verb == "HMGET":
            return [fields.get(str(name)) for name in rest]
        raise RuntimeError(f"{verb} {key} {_NEEDS_REDIS}")

    def run_all(self) -> BaseException | None:
        """Run the pending tasks and those that they enqueue. Return the exception of the first that failed for good.

        A running task may enqueue others and run them at once through a nested call. Each call therefore takes
        its tasks out of `pending` first, so that a nested call does not run them out of order.
        """
        first: BaseException | None = None
        while self.pending:
            batch, self.pending = self.pending, []
            while batch:
                raised, next_ids = self._run(batch.pop(0))
                first = first or raised
                batch[:0] = next_ids
        return first

    def _run(self, task_id: str) -> tuple[BaseException | None, list[str]]:
        """Run a task. Return its final exception, and what must run next: added tasks of its flow, and callbacks."""
        record = self._records[task_id]
        flow = self._flows.get(record.get(Field.flow_ref, b"").decode().partition("/")[0])
        with FailureRecorder() as failures:
            if flow is None or flow.may_start(task_id, self._records, self._errors):
                self._run_until_finished(task_id, record)
        next_ids = [*flow.take_added(), *flow.callbacks_after(task_id, self._records)] if flow is not None else []
        may_fail = Field.on_failure in record or Field.failure_uncounted in record
        return None if may_fail else failures.of(task_id), next_ids

    def _run_until_finished(self, task_id: str, record: Record) -> None:
        for _ in range(MAX_RUNS):
            if is_final(record.get(Field.state)) or self._run_once(task_id, record) != Outcome.retried:
                break

    def _run_once(self, task_id: str, record: Record) -> str:
        now_us = time.time_ns() // 1_000
        record |= {
            Field.state: b"running",
            Field.lease: TOKEN.encode(),
            Field.leased_at_us: request_parser.to_bytes(now_us),
        }
        record.setdefault(Field.first_leased_at_us, record[Field.leased_at_us])
        job = Job(
            id=task_id,
            token=TOKEN,
            name=record[Field.task_name].decode(),
            body=record[Field.body],
            queue=record[Field.queue].decode(),
            attempts=int(record.get(Field.attempts, 0)),
            runs=int(record.get(Field.runs, 0)),
            enqueued_us=int(record[Field.enqueued_at_us]),
            started_us=int(record[Field.first_leased_at_us]),
            leased_us=now_us,
        )
        ack = execution.execute(job)
        self._settle(record, ack)
        if job.on_stored is not None:
            job.on_stored(ack)
        return ack.outcome

    def _settle(self, record: Record, ack: Ack) -> None:
        outcome = Outcome[ack.outcome]
        record[Field.state] = outcome.state.encode()
        if outcome == Outcome.succeeded:
            record[Field.return_value] = ack.payload
        elif outcome != Outcome.requeued:
            record[Field.runs] = request_parser.to_bytes(int(record.get(Field.runs, 0)) + 1)
            record[Field.history] = b"\n".join(filter(None, [record.get(Field.history), _run_line(record, outcome)]))
        if outcome in ERROR_OUTCOMES:
            self._errors.setdefault(ack.id, []).append(ack.payload)
            record[Field.attempts] = request_parser.to_bytes(int(record.get(Field.attempts, 0)) + 1)
        if outcome == Outcome.delayed:
            record[Field.due_at_ms] = request_parser.to_bytes(request_parser.due_ms(f"+{ack.delay_ms}"))
        if outcome.state.is_final:
            record[Field.finished_at_us] = request_parser.to_bytes(time.time_ns() // 1_000)
        if outcome != Outcome.unregistered:
            record[Field.worker_ids] = b",".join(
                filter(None, [record.get(Field.worker_ids), TOKEN.partition("/")[0].encode()])
            )

    def _enqueue(self, sent: dict[str, Any]) -> Any:
        if sent["id"] in self._records:
            return int(self._records[sent["id"]][Field.enqueued_at_us])
        holder = self._find_unique_holder(sent)
        if holder is not None:
            self._resolve_conflict(self._records[holder], sent)
            return [holder.encode(), self._pairs(holder)]
        self._records[sent["id"]] = request_parser.build_record(sent)
        self.pending.append(sent["id"])
        return int(self._records[sent["id"]][Field.enqueued_at_us])

    def _enqueue_plain_many(self, sent: dict[str, Any]) -> list[Any]:
        return [self._enqueue(each) for each in request_parser.parse_plain_tasks(sent)]

    def _enqueue_many(self, sent: dict[str, Any]) -> list[Any]:
        return [self._enqueue(each) for each in request_parser.parse_tasks(sent["tasks"])]

    def _enqueue_once(self, sent: dict[str, Any]) -> list[Any]:
        return [self._enqueue(each) for each in request_parser.parse_tasks_of_rows(sent["tasks"])]

    def _find_unique_holder(self, sent: dict[str, Any]) -> str | None:
        """Return the task that holds the unique key: an unfinished task, or any task if the key has a duration.

        A key that is held until the start is free while the task runs.
        """
        unique = request_parser.to_bytes(sent["unique"]).split(b" ")[0]
        for task_id, record in self._records.items():
            if (
                unique
                and record.get(Field.unique_claim) == unique
                and (unique[:1] == b"t" or not is_final(record.get(Field.state)))
                and not (unique[:1] == b"s" and record.get(Field.state) == State.running.encode())
            ):
                return task_id
        return None

    def _resolve_conflict(self, record: Record, sent: dict[str, Any]) -> None:
        """Apply the last words of a call's unique claim to the pending task that has the key."""
        words = request_parser.to_bytes(sent["unique"]).split(b" ")
        if not {b"replace", b"extend"} & {*words} or record.get(Field.state) is not None:
            return
        made = request_parser.build_record(sent) | {Field.enqueued_at_us: record[Field.enqueued_at_us]}
        if words[-1].isdigit() and Field.due_at_ms in made:
            latest_ms = -(-int(record[Field.enqueued_at_us]) // 1_000) + int(words[-1])
            made[Field.due_at_ms] = str(min(int(made[Field.due_at_ms]), latest_ms)).encode()
        if b"replace" in words:
            record.clear()
            record |= made
        elif int(made.get(Field.due_at_ms, 0)) > int(record.get(Field.due_at_ms, 0)):
            record |= {name: made[name] for name in (Field.due_at_ms, Field.expiry) if name in made}

    def _enqueue_flow(self, sent: dict[str, Any]) -> int:
        flow = self._flows.setdefault(sent["flow_id"], MemoryFlow(sent))
        for number, followers, node in request_parser.parse_flow_nodes(sent["nodes"]):
            flow.add(number, node["id"], followers)
            record = request_parser.build_record(node)
            flow.take_fields(record)
            self._records[node["id"]] = record | {Field.flow_ref: f"{sent['flow_id']}/{number}".encode()}
            if flow.is_waiting(number):
                self._records[node["id"]][Field.state] = b"waiting"
        if sent["last"]:
            flow.result_of = sent["result_of"]
            self.pending += flow.ids
        return time.time_ns() // 1_000

    def _stage_added(self, sent: dict[str, Any]) -> int:
        self._staged |= {task["id"]: task for task in request_parser.parse_tasks(sent["tasks"])}
        return 1

    def _add_to_flow(self, sent: dict[str, Any]) -> list[int]:
        flow_id = self._records[sent["id"]][Field.flow_ref].decode().partition("/")[0]
        flow = self._flows[flow_id]
        if flow.is_complete(sent["id"], self._records):
            return [-3]
        numbers, new = flow.extend(sent["id"], list(request_parser.parse_added_nodes(sent["nodes"])))
        for number, node in new.items():
            record = request_parser.build_record(self._staged.pop(node["id"], node))
            record[Field.flow_ref] = f"{flow_id}/{number}".encode()
            if flow.has_parents(node["id"]):
                record[Field.state] = b"waiting"
            self._records[node["id"]] = record
        return [time.time_ns() // 1_000, *numbers]

    def _register_waiter(self, arguments: dict[str, Any]) -> int:
        task_id = request_parser.id_from_key(arguments["record"])
        record = self._records.get(task_id)
        if record is None:
            return -1
        if is_final(record.get(Field.state)):
            return 1
        raise RuntimeError(
            f"Task {task_id} is not running, so its result would never arrive. With captured(), call run() first."
        )

    def _cancel(self, arguments: dict[str, Any]) -> int:
        record = self._records.get(arguments["id"])
        if record is None:
            return -1
        if record.get(Field.state) != b"cancelled" and is_final(record.get(Field.state)):
            return 0
        record |= {Field.state: b"cancelled", Field.finished_at_us: request_parser.to_bytes(time.time_ns() // 1_000)}
        return 1

    def _reschedule(self, arguments: dict[str, Any]) -> list[int]:
        record = self._records.get(arguments["id"])
        if record is None:
            return [-1]
        if Field.due_at_ms not in record or is_final(record.get(Field.state)):
            return [0]
        record[Field.due_at_ms] = request_parser.to_bytes(request_parser.due_ms(arguments["due"]))
        return [1]

    def _update(self, arguments: dict[str, Any]) -> list[Any]:
        task_id = arguments["id"]
        record = self._records.get(task_id)
        if record is None:
            return [-1]
        if is_final(record.get(Field.state)) or record.get(Field.state) == State.running.encode():
            return [0, self._pairs(task_id)]
        holder = self._find_unique_holder({"unique": arguments["claim"]})
        if holder not in (None, task_id):
            return [-4, self._pairs(task_id), holder.encode()]
        record |= request_parser.parse_changes(arguments, record)
        if arguments["expires"] == "never":
            record.pop(Field.expiry, None)
        return [1, self._pairs(task_id)]

    def _pairs(self, task_id: str) -> Any:
        return self.answer(Command("HGETALL", home().record(task_id)))

    def _save_metadata(self, arguments: dict[str, Any]) -> int:
        record = self._records[request_parser.id_from_key(arguments["record"])]
        record[Field.metadata] = request_parser.to_bytes(arguments["metadata"])
        if arguments["cursor"]:
            record[Field.cursor] = request_parser.to_bytes(arguments["cursor"])
        return 1

    def _hash(self, key: str) -> Record:
        if f"}}:{Key.flow}:" in key:
            flow = self._flows.get(request_parser.id_from_key(key))
            return flow.fields(self._records) if flow else {}
        return self._records.get(request_parser.id_from_key(key), {})


def _run_line(record: Record, outcome: str) -> bytes:
    """Format a run that ends now as a line of the record's timeline."""
    leased_us = int(record[Field.leased_at_us])
    return f"{outcome} {leased_us} {time.time_ns() // 1_000 - leased_us} {TOKEN.partition('/')[0]}".encode()
