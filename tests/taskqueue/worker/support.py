"""Helpers of the tests of the worker."""

from __future__ import annotations

from django_redis_components.core.protocol import Call
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.finished import finished_bounds
from django_redis_components.taskqueue.store.job import Ack, ack_args
from django_redis_components.taskqueue.store.scripts import FETCH


def fetch_call(*acks: Ack, worker: str = "w") -> Call:
    rest = ["default", *ack_args(acks)]
    return FETCH(
        base=home().base,
        worker=worker,
        thread="acks",
        request=0,
        lease_ms=1_000,
        want=0,
        failed_limit=10,
        queues=1,
        rest=rest,
        **finished_bounds(),
    )
