"""Middleware of a site, for the tests of this package and their child processes."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import Middleware, NewTask, RunContext, RunOutcome, TaskResult, WorkerDescription
from tests.taskqueue.tenants import tenant

#: What was called, in order.
called: list[Any] = []


class Tenant(Middleware):
    """Runs a task for the tenant that enqueued it."""

    def before_enqueue(self, task: NewTask) -> None:
        if tenant.get() == "nobody":
            raise PermissionError(f"{task.name} needs a tenant.")
        if tenant.get():
            task.headers["tenant"] = tenant.get()
            task.metadata["tenant"] = tenant.get()

    def around_run(self, run: RunContext, call_next: Callable[[], Any]) -> Any:
        before = tenant.set(run.headers.get("tenant", ""))
        try:
            return call_next()
        finally:
            tenant.reset(before)

    async def aaround_run(self, run: RunContext, call_next: Callable[[], Awaitable[Any]]) -> Any:
        before = tenant.set(run.headers.get("tenant", ""))
        try:
            return await call_next()
        finally:
            tenant.reset(before)


class Recorder(Middleware):
    """Records its calls."""

    name = "outer"

    def after_enqueue(self, result: TaskResult) -> None:
        called.append((self.name, "enqueued", result.id))

    def around_run(self, run: RunContext, call_next: Callable[[], Any]) -> Any:
        called.append((self.name, "before", run.id, run.attempt, list(run.args), dict(run.kwargs)))
        try:
            return call_next()
        finally:
            called.append((self.name, "after"))

    async def aaround_run(self, run: RunContext, call_next: Callable[[], Awaitable[Any]]) -> Any:
        called.append((self.name, "before", run.id, run.attempt, list(run.args), dict(run.kwargs)))
        try:
            return await call_next()
        finally:
            called.append((self.name, "after"))

    def on_outcome(self, run: RunContext, outcome: RunOutcome) -> None:
        called.append((self.name, outcome.name, outcome.return_value, outcome.exception and str(outcome.exception)))


class Inner(Recorder):
    """The same, inside."""

    name = "inner"


class Doubling(Middleware):
    """Changes arguments and return values."""

    def around_run(self, run: RunContext, call_next: Callable[[], Any]) -> Any:
        run.args = [2 * value for value in run.args]
        return [call_next()]

    async def aaround_run(self, run: RunContext, call_next: Callable[[], Awaitable[Any]]) -> Any:
        run.args = [2 * value for value in run.args]
        return [await call_next()]


class Broken(Middleware):
    """Raises wherever it may change nothing."""

    def after_enqueue(self, result: TaskResult) -> None:
        raise LookupError("after")

    def on_outcome(self, run: RunContext, outcome: RunOutcome) -> None:
        raise SystemExit("outcome")

    def on_process_start(self, process: WorkerDescription) -> None:
        raise SystemExit("start")


class Refusing(Middleware):
    """Raises instead of running the task."""

    def around_run(self, run: RunContext, call_next: Callable[[], Any]) -> Any:
        raise LookupError("no such tenant")

    async def aaround_run(self, run: RunContext, call_next: Callable[[], Awaitable[Any]]) -> Any:
        raise LookupError("no such tenant")


class Half(Middleware):
    """Forgets the coroutines."""

    def around_run(self, run: RunContext, call_next: Callable[[], Any]) -> Any:
        return call_next()


class LifeCycle(Middleware):
    """Records the life of workers and processes in Redis, where the test finds it."""

    def on_worker_start(self, worker: WorkerDescription) -> None:
        _push("worker start", worker)

    def on_worker_stop(self, worker: WorkerDescription) -> None:
        _push("worker stop", worker)

    def on_process_start(self, process: WorkerDescription) -> None:
        _push("process start", process)

    def on_process_stop(self, process: WorkerDescription) -> None:
        _push("process stop", process)


def _push(event: str, subject: WorkerDescription) -> None:
    text = f"{event} {subject.id} {','.join(subject.queues)} {subject.using} {os.getpid()}"
    connections.client().execute(Command("RPUSH", f"{conf.settings().prefix}:life", text))
