"""Dramatiq: results kept, acknowledged."""

from __future__ import annotations

import time
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from benchmarks import bodies

broker = RedisBroker(url=bodies.URL)
broker.add_middleware(Results(backend=RedisBackend(url=bodies.URL)))
dramatiq.set_broker(broker)
actors = {name: dramatiq.actor(getattr(bodies, name), store_results=True) for name in ("noop", "mark", "late")}

send_many = None


def send(name: str, *args: Any) -> None:
    actors[name].send(*args)


def send_at(name: str, due: float, *args: Any) -> None:
    actors[name].send_with_options(args=args, delay=round((due - time.time()) * 1_000))
