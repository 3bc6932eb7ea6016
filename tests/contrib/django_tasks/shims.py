"""Our backend with what the framework's own tests expect of its dummy and immediate backends."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async

from django_redis_components.contrib.django_tasks import RedisBackend
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.taskqueue.worker.fetcher import Fetcher


class RememberingBackend(RedisBackend):
    """For the tests of the dummy backend: `results` and `clear()`, both read from Redis."""

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._ids: list[str] = []
        self._shown: dict[str, Any] = {}

    @property
    def results(self) -> list[Any]:
        """What was sent, read from Redis."""
        self._shown |= {task_id: super(RememberingBackend, self).get_result(task_id) for task_id in self._ids}
        return [self._shown[task_id] for task_id in self._ids]

    def clear(self) -> None:
        """Delete what was sent."""
        for task_id in self._ids:
            connections.client(self.connection).execute(Command("DEL", home().record(task_id)))
        self._ids.clear()
        self._shown.clear()

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        self._ids.append(result.id)
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = await super().aenqueue(task, args, kwargs)
        self._ids.append(result.id)
        return result

    def get_result(self, result_id: str) -> Any:
        self._take_over_changes()
        return super().get_result(result_id)

    async def aget_result(self, result_id: str) -> Any:
        self._take_over_changes()
        return await super().aget_result(result_id)

    def _take_over_changes(self) -> None:
        """A test that sets the status of what `results` gave means the store, so it is set there."""
        for task_id, result in self._shown.items():
            if result.status == "SUCCESSFUL":
                fields = ("s", "successful", "r", "null")
                connections.client(self.connection).execute(Command("HSET", home().record(task_id), *fields))


class InlineBackend(RedisBackend):
    """For the tests of the immediate backend: each task goes through Redis and our worker's code before it returns."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        self._work(result)
        return self.get_result(result.id)

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = await super().aenqueue(task, args, kwargs)
        await sync_to_async(self._work, thread_sensitive=False)(result)
        return await self.aget_result(result.id)

    def _work(self, result: Any) -> None:
        fetcher = Fetcher(
            home(self.connection), connections.client(self.connection), f"inline:{result.id}", [result.task.queue_name]
        )
        ran: list[str] = []
        while result.id not in ran:
            (job,) = fetcher.fetch("0", 1)
            fetcher.settle_run(job, execute(job))
            ran.append(job.id)
        fetcher.fetch("acks", 0)
