"""What each feature of the task queue costs beside a plain task, in one run.

    python -m benchmarks.features [--parts 200] [--tasks 1000]

A part of a row enqueues 20 tasks one by one, fetches and runs them in one call, and sends their outcomes in the next,
all in this process. The parts of the rows alternate. *us* are microseconds of the server for each task, by
``INFO commandstats``: the time of the scripts. *client, us* is the processor time of this process for both. Each figure
is the first quartile of the parts, because other processes only add to them. *bytes* are those of all keys, by
``MEMORY USAGE``, for each of so many tasks: while they wait, and after they have run, with their results. ``REDIS_URL``
names another server, which is emptied.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import redis

from benchmarks.environment import server_url

#: Tasks of a part, which are a batch where tasks run in batches, and groups of fair share.
PART, GROUPS = 20, 10
#: The counters of the scripts in ``INFO commandstats``. They contain the time of the commands in the scripts.
SCRIPTS = ("evalsha", "evalsha_ro", "eval", "eval_ro")
COLUMNS = ("enqueue, us", "run, us", "client, us", "bytes, waiting", "bytes, finished")


@dataclasses.dataclass(frozen=True)
class Row:
    """A feature.

    Attributes:
        enqueue: sends the task with this number.
        settings: of `TASKQUEUE` that differ from those of the plain task.
        after: called when all are sent.
    """

    name: str
    enqueue: Callable[[int], object]
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    after: Callable[[], object] = lambda: None


def main() -> None:
    """Start a server and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, default=200, help="parts of each row (default: 200)")
    parser.add_argument("--tasks", type=int, default=1_000, help="tasks for the bytes (default: 1,000)")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options.parts, options.tasks)


def measure(url: str, parts: int, tasks: int) -> None:
    """Print the table."""
    _set_up(url)
    raw = redis.Redis.from_url(url)
    rows = _rows()
    sizes = {row.name: _measure_bytes(raw, row, tasks) for row in rows}
    times: dict[str, list[tuple[float, ...]]] = {row.name: [] for row in rows}
    raw.flushall()
    for number in range(parts):
        for row in random.sample(rows, len(rows)):
            times[row.name].append(_measure_part(raw, row, number * PART))
    print("| | " + " | ".join(COLUMNS) + " |\n|---|" + "---:|" * len(COLUMNS))
    for name, found in times.items():
        quartiles = [statistics.quantiles(column, n=4)[0] for column in zip(*found, strict=True)]
        print(f"| {name} | " + " | ".join(f"{figure:,.1f}" for figure in [*quartiles, *sizes[name]]) + " |")


def _set_up(url: str) -> None:
    import django
    from cryptography.fernet import Fernet
    from django.conf import settings

    settings.configure(
        INSTALLED_APPS=["django_redis_components", "django_redis_components.contrib.outbox"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        REDIS_COMPONENTS={"PREFIX": "bench", "CONNECTIONS": {"default": {"URL": url}}},
        USE_TZ=True,
    )
    django.setup()
    _configure(SEAL_KEYS=[Fernet.generate_key().decode()])
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


#: Options of `TASKQUEUE` in all rows.
_options: dict[str, Any] = {"KEEP_FINISHED": 0}


def _configure(**options: Any) -> None:
    """Set options of `TASKQUEUE`, as a site's settings do."""
    from django.conf import settings
    from django.test.signals import setting_changed

    _options.update(options)
    value = {**settings.REDIS_COMPONENTS, "TASKQUEUE": dict(_options)}
    settings.REDIS_COMPONENTS = value
    setting_changed.send(sender=None, setting="REDIS_COMPONENTS", value=value, enter=True)


def noop_batch(calls: list[Any]) -> None:
    """Each call succeeds."""


def iterate(context: Any, number: int) -> None:
    """Store one cursor."""
    for _ in context.iterate(range(1), save_every=1):
        pass


def _rows() -> list[Row]:
    from benchmarks import bodies
    from django_redis_components.taskqueue import Batch, Unique, task

    plain = task(bodies.noop, name="bench.noop")
    batch = task(batch=Batch(PART), name="bench.batch")(noop_batch)
    iterating = task(takes_context=True, name="bench.iterate")(iterate)
    fair = plain.using(fair=lambda number: str(number % GROUPS))
    unique = task(bodies.noop, name="bench.unique", unique=True)  # keys contain the name
    throttled = task(bodies.noop, name="bench.throttled", unique=Unique(until=3_600))
    replaced = task(bodies.noop, name="bench.replaced", unique=Unique(until="started", on_conflict="replace"))
    return [
        Row("a plain task", plain.enqueue),
        Row("in the list of finished tasks", plain.enqueue, {"KEEP_FINISHED": 1_000}),
        Row("unique until it has finished", unique.enqueue),
        Row("unique for an hour (throttle)", throttled.enqueue),
        Row("unique with `replace`", replaced.enqueue),
        Row(f"fair share, {GROUPS} groups", fair.enqueue),
        Row(f"batches of {PART}", batch.enqueue),
        Row("`iterate` over one item, and a cursor", iterating.enqueue),
        Row("sent by a schedule", _schedule(plain)),
        Row("by the outbox, and deleted by the relay", plain.using(outbox=True).enqueue_on_commit, after=_relay),
        Row("sealed arguments", plain.using(sealed=True).enqueue),
    ]


def _schedule(made: Any) -> Callable[[int], object]:
    """Return what sends the task of one due time, as the active poller does."""
    from django_redis_components.core.client import connections
    from django_redis_components.core.protocol import Command
    from django_redis_components.taskqueue.fields import Key
    from django_redis_components.taskqueue.schedules.recurrence import FixedInterval
    from django_redis_components.taskqueue.schedules.schedule import Schedule
    from django_redis_components.taskqueue.shards import home
    from django_redis_components.taskqueue.store.scripts import ENQUEUE_DUE

    schedule = Schedule(name="bench", task=made, recurrence=FixedInterval(1_000), args=(1,))

    def send(number: int) -> None:
        client, due_ms = connections.client(), 1_000 * (number + 1)
        if number == 0:
            client.execute(Command("SET", home().key(Key.poller), "bench"))
        rest = schedule.message(due_ms).arguments
        call = ENQUEUE_DUE(
            base=home().base, poller="bench", name="bench", due_ms=due_ms, next_ms=due_ms + 1_000, count=0, rest=rest
        )
        assert client.execute(call)[0] == 1

    return send


def _relay() -> None:
    """Make a pass as the active relay."""
    from django_redis_components.contrib.outbox.relay import Relay

    relay = Relay("default")
    relay.step()
    relay.release()


@contextmanager
def _settings_of(row: Row) -> Iterator[None]:
    before = dict(_options)
    _configure(**row.settings)
    yield
    _configure(**before)


def _measure_bytes(raw: Any, row: Row, tasks: int) -> tuple[float, float]:
    """Return the bytes for each task: while they wait, and when they have run."""
    raw.flushall()
    with _settings_of(row):
        _send(row, range(tasks))
        waiting = _bytes(raw)
        _run_all(tasks)
    return waiting / tasks, _bytes(raw) / tasks


def _measure_part(raw: Any, row: Row, first: int) -> tuple[float, float, float]:
    """Return the microseconds for each task: of the server to enqueue and to run it, and of this process."""
    with _settings_of(row):
        before_us, started_s = _script_us(raw), time.process_time()
        _send(row, range(first, first + PART))
        cpu_s, sent_us = time.process_time() - started_s, _script_us(raw)
        started_s = time.process_time()
        _run_all(PART)
        cpu_s += time.process_time() - started_s
        return (sent_us - before_us) / PART, (_script_us(raw) - sent_us) / PART, cpu_s * 1e6 / PART


def _send(row: Row, numbers: range) -> None:
    for number in numbers:
        row.enqueue(number)
    row.after()


def _run_all(tasks: int) -> None:
    from django_redis_components.core.client import connections
    from django_redis_components.taskqueue.shards import home
    from django_redis_components.taskqueue.worker.batch_execution import execute_leased
    from django_redis_components.taskqueue.worker.fetcher import Fetcher

    fetcher, ran = Fetcher(home(), connections.client(), f"bench:{time.monotonic_ns()}", ("default",)), 0
    while jobs := fetcher.fetch("0", PART):
        for leased in jobs:
            for job, ack in execute_leased(leased):
                assert ack.outcome == "succeeded", ack
                fetcher.settle_run(job, ack)
                ran += 1
    assert ran == tasks, f"{ran} of {tasks}"


def _script_us(raw: Any) -> float:
    stats = raw.info("commandstats")
    return float(sum(stats.get(f"cmdstat_{name}", {}).get("usec", 0) for name in SCRIPTS))


def _bytes(raw: Any) -> int:
    """Return the bytes of all keys, without what the server uses for itself."""
    pipeline = raw.pipeline(transaction=False)
    for key in raw.scan_iter(count=1_000):
        pipeline.memory_usage(key, samples=0)
    return sum(filter(None, pipeline.execute()))


if __name__ == "__main__":
    from benchmarks import features  # a script's own module cannot define tasks

    features.main()
