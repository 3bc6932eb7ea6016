"""The tasks of the benchmark. Each run appends a line to the file ``BENCH_RUNS``: it outlives a killed worker."""

from __future__ import annotations

import functools
import os
import time

from django_redis_components.taskqueue import Concurrency, Unique, task


@functools.cache
def runs() -> int:
    """The file of the runs; lines of several processes do not mix."""
    return os.open(os.environ["BENCH_RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def write(*words: object) -> None:
    """Append a line."""
    os.write(runs(), f"{' '.join(map(str, words))}\n".encode())


@task(queue_name="load")
def noop(number: int) -> None:
    """Do nothing."""


@task(queue_name="load")
def keyless(number: int, seconds: float = 0.0) -> None:
    """Note the start."""
    write("keyless", number, time.monotonic(), os.getpid())
    time.sleep(seconds)


@task(queue_name="load", unique=Unique(key="order:{number}"))
def keyed(number: int, seconds: float = 0.0) -> None:
    """Note the start."""
    write("keyed", number, time.monotonic(), os.getpid())
    time.sleep(seconds)


@task(queue_name="high")
def high(number: int, sent_at: float) -> None:
    """Note how long ago this was sent."""
    write("high", number, time.monotonic() - sent_at, os.getpid())


@task(queue_name="low")
def low(seconds: float) -> None:
    """Take some time."""
    time.sleep(seconds)


@task(queue_name="load", concurrency=Concurrency(5, key="{customer}"), max_deliveries=100)
def limited(customer: int, number: int, seconds: float) -> None:
    """Note the start and the end."""
    write("start", customer, number, time.monotonic(), os.getpid())
    time.sleep(seconds)
    write("end", customer, number, time.monotonic(), os.getpid())
