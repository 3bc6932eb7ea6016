"""Writes the sample data at the first start."""

from __future__ import annotations

import random
from collections.abc import Callable

from django.utils import timezone

from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue.shards import home
from example_project.market.content.sample import finished, scene
from example_project.market.content.sample.counters import Counters
from example_project.market.content.simulation import Plan, Simulation
from example_project.market.models import Member

#: The visitors, members, sales and letters of the days before.
PLAN = Plan(days=14, users=200, seed=24, sales_per_day=2)

#: Commands of one transfer.
CHUNK = 500


def is_empty() -> bool:
    """Return whether neither the database nor Redis has any data."""
    return not Member.objects.exists() and home("default").client().execute(Command("DBSIZE")) == 0


def write(progress: Callable[[str], None]) -> None:
    """Write the sample data. `progress` gets a line before each part.

    The counters are last: they replace those of the tasks that were run meanwhile.
    """
    shard, rng = home("default"), random.Random(PLAN.seed)
    progress("Sample data 1 of 3: visitors and sales of two weeks")
    Simulation(PLAN).run()
    progress("Sample data 2 of 3: tasks, failures, chats and searches of the last hour")
    finished.run_tasks(rng)
    now = timezone.now()
    finished.move_tasks(shard, now)
    scene.write(shard, rng, now)
    progress("Sample data 3 of 3: throughput and durations of a month")
    commands = [*Counters(int(now.timestamp()) // 60, rng).commands(shard)]
    for start in range(0, len(commands), CHUNK):
        shard.client().execute_many(commands[start : start + CHUNK])
