"""The tasks of the benchmark."""

from __future__ import annotations

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue import task

#: Hash of orders by how often their tasks have run.
RUNS = "bench:runs"


@task(outbox=True, result_ttl=1)
def run_order(number: int) -> None:
    """Count a run."""
    connections.client().execute(Command("HINCRBY", RUNS, number, 1))


@task
def noop(number: int) -> None:
    """Do nothing."""
