"""Tasks of the last hour. They are run by the queue's own code, now, and then their times are moved back.

During the first part the mail provider is away: letters fail. Retried on the page of failures, they are delivered.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from unittest import mock

from django.core.mail.backends.filebased import EmailBackend

from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue.fields import Field, Part
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.states import State
from django_redis_components.testing import drain
from example_project.market.content.sample.counters import FAILED
from example_project.market.content.simulation import LINES
from example_project.market.models import Member
from example_project.market.tasks import deliver_letter, notify_seller

#: Ids of the workers that have run these tasks, in turn.
WORKERS = ("market-1:2214.5e0c17", "market-2:1987.b3a964")

#: Arguments of the tasks with one that is wrong.
WRONG_IDS = ("A-1017", "A-1018", "B-2203")

#: Minutes ago: the first and the last of the tasks that succeeded.
FIRST_AGO, LAST_AGO = 59, 1

#: Bytes of a minute in milliseconds.
MINUTE_MS = 60_000

#: Fields of a record with a time in microseconds.
TIMES = (Field.enqueued_at_us, Field.placed_at_us, Field.leased_at_us, Field.first_leased_at_us, Field.finished_at_us)


def run_tasks(rng: random.Random) -> None:
    """Run what is enqueued, and some tasks that fail."""
    with quiet():
        drain()
        members = list(Member.objects.filter(is_superuser=False).values_list("pk", flat=True)[:40])
        with mock.patch.object(EmailBackend, "send_messages", side_effect=_refused):
            for _ in failed_ago("default"):
                deliver_letter.using(max_attempts=1).enqueue(*rng.sample(members, 2), rng.choice(LINES))
            drain(raise_errors=False)
        notify_seller.using(max_attempts=1).enqueue_many([((number,), {}) for number in WRONG_IDS])
        drain(raise_errors=False)


def move_tasks(shard: Shard, now: datetime) -> None:
    """Move the times of the tasks back over the last hour."""
    for queue in ("high", "default", "low"):
        moves = [*_move_succeeded(shard, queue), *_move_failed(shard, queue, int(now.timestamp() * 1_000))]
        shard.client().execute_many(moves)


def _refused(*args: object) -> None:
    raise ConnectionRefusedError(111, "Connection refused by smtp.example.test, port 25")


@contextmanager
def quiet() -> Iterator[None]:
    """Log no errors: those of these tasks are meant to be."""
    logger = logging.getLogger("django_redis_components.taskqueue")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _move_succeeded(shard: Shard, queue: str) -> Iterator[Command]:
    """Yield commands that spread the tasks of a queue's list over the hour. The newest is the last."""
    key = shard.queue(queue, State.successful)
    rows = shard.client().execute(Command("LRANGE", key, 0, -1))
    moved = []
    for position, row in enumerate(rows):
        task_id, finished_us, _worker, enqueued_us, leased_us, ran_us, first_us, *rest = row.decode().split("\t")
        ago_minutes = FIRST_AGO - (FIRST_AGO - LAST_AGO) * position / max(1, len(rows) - 1)
        offset_us = int(ago_minutes * MINUTE_MS * 1_000)
        # Those of the simulation have waited for it to end.
        enqueued_us = str(max(int(enqueued_us), int(leased_us) - 8_000))
        times = [str(int(time) - offset_us) if time else "" for time in (finished_us, enqueued_us, leased_us, first_us)]
        worker = WORKERS[position % len(WORKERS)]
        moved.append("\t".join([task_id, times[0], worker, times[1], times[2], ran_us, times[3], *rest]))
        yield from _move_record(shard, task_id, worker, offset_us, {Field.enqueued_at_us: enqueued_us})
    if moved:
        yield Command("DEL", key)
        yield Command("RPUSH", key, *moved)


def _move_failed(shard: Shard, queue: str, now_ms: int) -> Iterator[Command]:
    """Yield commands that move the failed tasks of a queue, and its group of errors, to when the counters have them."""
    key, client = shard.queue(queue, Part.failed), shard.client()
    ids = [task_id.decode() for task_id in client.execute(Command("ZRANGE", key, 0, -1))]
    minutes = failed_ago(queue)[: len(ids)]
    moments = []
    for position, (task_id, ago) in enumerate(zip(ids, minutes, strict=False)):
        part_ms = (position - minutes.index(ago) + 1) * MINUTE_MS // (minutes.count(ago) + 1)
        moments.append((now_ms // MINUTE_MS - ago) * MINUTE_MS + part_ms)
        failed_ms = float(client.execute(Command("ZSCORE", key, task_id)))
        yield Command("ZADD", key, moments[-1], task_id)
        offset_us = int((failed_ms - moments[-1]) * 1_000)
        yield from _move_record(shard, task_id, WORKERS[position % len(WORKERS)], offset_us, {})
    groups = shard.queue(queue, Part.errors)
    for fingerprint in client.execute(Command("ZRANGE", groups, 0, -1)):
        group = shard.queue(queue, f"{Part.error}:{fingerprint.decode()}")
        counts = " ".join(f"{now_ms // MINUTE_MS - ago}:{minutes.count(ago)}" for ago in dict.fromkeys(minutes[::-1]))
        yield Command("HSET", group, "first", moments[0], "last", moments[-1], "minutes", counts)
        yield Command("ZADD", groups, moments[-1], fingerprint)


def failed_ago(queue: str) -> list[int]:
    """Return how many minutes ago each failed task of a queue has failed, the first one first."""
    return [ago for (of_queue, _name), agos in FAILED.items() if of_queue == queue for ago in agos]


def _move_record(shard: Shard, task_id: str, worker: str, offset_us: int, fields: dict[str, str]) -> Iterator[Command]:
    record, client = shard.record(task_id), shard.client()
    found = dict(zip(TIMES, client.execute(Command("HMGET", record, *TIMES)), strict=True))
    moved = {name: str(int(fields.get(name) or time) - offset_us) for name, time in found.items() if time}
    history = client.execute(Command("HGET", record, Field.history))
    if history:
        outcome, leased_us, ran_us, _worker = history.decode().split(" ")
        moved[Field.history] = f"{outcome} {int(leased_us) - offset_us} {ran_us} {worker}"
    moved[Field.worker_ids] = worker
    yield Command("HSET", record, *(part for pair in moved.items() for part in pair))
