"""Random calls that replace, extend, update, move, cancel and run tasks: each has one place, and runs once."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress

import pytest

from django_redis_components.taskqueue import (
    Concurrency,
    NotPending,
    TaskResult,
    Unique,
    UniqueKeyConflict,
    get_queue,
    get_result,
)
from django_redis_components.taskqueue.states import is_final
from django_redis_components.taskqueue.store.job import Ack, Job
from tests.support import Store
from tests.taskqueue.support import base_key, fall_due, new_fetcher, queue_key, settle_now, work_off
from tests.taskqueue.tasks import echo

QUEUES = ("default", "mail")
KEYS = ("a", "b", "c")
LISTS, ZSETS = ("ready", "requeued"), ("priority", "scheduled", "running", "limited", "unregistered", "waiting")
latest = echo.using(unique=Unique(until="started", key="{args[0]}", on_conflict="replace"))
extended = echo.using(unique=Unique(key="x{args[0]}", on_conflict="extend"))
OPTIONS = (
    {},
    {"run_after": 60},
    {"priority": 5},
    {"queue_name": "mail"},
    {"queue_name": "mail", "run_after": 600, "priority": -1},
    {"concurrency": Concurrency(1, key="{args[1]}")},
    {"rate": "1/h"},
    {"expires": 600},
)


class Model:
    """What clients have done, and what must follow."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.number = 0
        self.known: set[str] = set()
        self.last: dict[str, tuple[str, int]] = {}
        self.ran: list[tuple[str, list[int]]] = []
        self.held: list[Job] = []
        self.fetcher = new_fetcher(*QUEUES, worker="holds:1")

    def call(self) -> None:
        self.number += 1
        key, options = self.random.choice(KEYS), self.random.choice(OPTIONS)
        sender = self.random.choice([latest, latest, extended])
        result = sender.using(**options).enqueue(key, self.number)  # type: ignore[arg-type]
        self.known.add(result.id)
        if sender is latest:
            self.last[key] = result.id, self.number

    def any_result(self) -> TaskResult | None:
        return get_result(self.random.choice(sorted(self.known))) if self.known else None

    def update(self) -> None:
        result = self.any_result()
        changes = self.random.choice([{"priority": 9}, {"priority": 0}, {"queue_name": "mail"}, {"expires": None}])
        if result is not None:
            with suppress(NotPending, UniqueKeyConflict):
                result.update(**changes)  # type: ignore[arg-type]

    def move(self) -> None:
        get_queue("mail").move(sorted(self.known)[:5], to="default")

    def cancel(self) -> None:
        result = self.any_result()
        if result is not None and result.state != "running" and result.cancel():
            self.last = {key: last for key, last in self.last.items() if last[0] != result.id}

    def fall_due(self) -> None:
        result = self.any_result()
        if result is None:
            return
        if self.store.raw.zscore(queue_key(self.store, "scheduled", result.queue_name), result.id):
            fall_due(self.store, result, queue=result.queue_name)

    def hold(self) -> None:
        jobs = self.fetcher.fetch(f"slot{self.random.random()}", 1)
        self.held += jobs
        self.ran += [(job.id, job.message()[0]) for job in jobs]

    def settle(self) -> None:
        if self.held:
            job = self.held.pop()
            settle_now(self.fetcher, Ack(job.id, job.token, "succeeded", b"1", ttl_ms=600_000))

    def purge_and_restore(self) -> None:
        queue = get_queue(self.random.choice(QUEUES))
        queue.restore(queue.purge())

    def finish(self) -> None:
        while self.held:
            self.settle()
        for _ in range(200):
            for queue in QUEUES:
                scheduled = queue_key(self.store, "scheduled", queue)
                for task_id in self.store.raw.zrange(scheduled, 0, -1):
                    self.store.raw.zadd(scheduled, {task_id: 1})
            rates = [key for key in self.store.keys() if b":rate:" in key]  # noqa: SIM118 - a Store is no dict
            self.store.raw.delete(*rates or ["none"])
            jobs = work_off(*QUEUES)
            self.ran += [(job.id, job.message()[0]) for job in jobs]
            if not jobs:
                return

    def check_places(self) -> None:
        places: dict[str, list[tuple[str, str]]] = {}
        for queue in QUEUES:
            for part in (*LISTS, *ZSETS):
                key = queue_key(self.store, part, queue)
                members = self.store.raw.lrange(key, 0, -1) if part in LISTS else self.store.raw.zrange(key, 0, -1)
                for member in members:
                    places.setdefault(member.decode().rpartition("\t")[2], []).append((queue, part))
        for task_id in self.known:
            record = self.store.raw.hgetall(base_key(self.store, "t", task_id))
            if not is_final(record.get(b"s")):
                assert [queue for queue, _ in places.get(task_id, [])] == [record[b"q"].decode()], (task_id, record)


@pytest.mark.parametrize("seed", range(2))
def test_random_changes_lose_and_double_no_task(seed: int, redis_server: Store) -> None:
    model = Model(redis_server, seed)
    steps = [
        *[model.call] * 5,
        *(model.update, model.move, model.cancel, model.fall_due, model.hold, model.settle, model.purge_and_restore),
    ]

    for _ in range(100):
        model.random.choice(steps)()
        model.check_places()
    model.finish()

    model.check_places()
    assert max(Counter(task_id for task_id, _ in model.ran).values()) == 1
    for key, (task_id, number) in model.last.items():
        mine = [args[1] for ran_id, args in model.ran if ran_id == task_id]
        assert mine == [number], f"the last arguments of {key} are run"
