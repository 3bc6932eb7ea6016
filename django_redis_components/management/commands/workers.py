"""`manage.py workers`: lists the worker processes."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.management import worker_listing
from django_redis_components.management.base import EXIT_CODES, CommandResult, OperatorCommand, add_common
from django_redis_components.taskqueue.stats.overview import MAX_WORKERS, read_overview


class Command(OperatorCommand):
    """List worker processes."""

    help = f"List the worker processes of all hosts, lost ones included, at most {MAX_WORKERS}. {EXIT_CODES}"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        add_common(parser)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """List the workers, those with the latest heartbeat first."""
        overview = run(connections.client(options["using"]), read_overview())
        workers = overview.workers
        data = {
            "at": overview.at,
            "poller": overview.poller,
            "workers": [{**dataclasses.asdict(worker), "is_lost": not worker.is_alive} for worker in workers],
        }
        if not workers:
            return CommandResult(data, "No workers. Start one: python manage.py runworker")
        alive = sum(worker.is_alive for worker in workers)
        busy = sum(worker.busy for worker in workers if worker.is_alive)
        text = f"{alive:,} live, {len(workers) - alive:,} lost. Busy threads: {busy:,}."
        return CommandResult(data, text, worker_listing.of_workers(workers))
