"""The commands of `manage.py redis shards`: arguments."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management.arguments import seconds, whole_number
from django_redis_components.management.base import CommandResult, add_subcommands
from django_redis_components.management.redis import groups
from django_redis_components.management.redis.shards.names import MAX_NAMES, plan_names
from django_redis_components.management.redis.shards.operations import check_empty, list_shards
from django_redis_components.management.redis.shards.planning import plan_routes
from django_redis_components.taskqueue.stats.metrics import MAX_MINUTES

#: Commands and their descriptions.
VERBS = {
    "list": "show the shards: server, tasks, workers, poller, memory, and which is away",
    "plan": "state which queues would be better in which shard, from the recorded runs and the load of the servers",
    "names": "print names for shards whose slots are on different primaries of the Cluster",
    "empty": "state what is left in a shard; exit code 0 if nothing is, so that it can be removed",
}


class Group(groups.CommandGroup):
    """Shows the shards of the task queue."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        made = add_subcommands(parser, VERBS)
        made["plan"].add_argument(
            "--minutes",
            type=whole_number(2, MAX_MINUTES),
            default=60,
            metavar="N",
            help=f"minutes whose runs are counted, 2 to {MAX_MINUTES} (default: 60)",
        )
        made["plan"].add_argument(
            "--sample",
            type=seconds,
            default=2.0,
            metavar="SECONDS",
            help="seconds over which the processor time of the servers is measured (default: 2)",
        )
        made["names"].add_argument(
            "count", type=whole_number(1, MAX_NAMES), metavar="N", help=f"how many, 1 to {MAX_NAMES}"
        )
        made["empty"].add_argument("name", metavar="NAME", help="name of the shard")

    def perform_list(self, options: dict[str, Any]) -> CommandResult:
        """See `list_shards`."""
        return list_shards(options["using"])

    def perform_plan(self, options: dict[str, Any]) -> CommandResult:
        """See `plan_routes`."""
        return plan_routes(options["using"], minutes=options["minutes"], sample_s=options["sample"])

    def perform_names(self, options: dict[str, Any]) -> CommandResult:
        """See `plan_names`."""
        return plan_names(options["using"], options["count"])

    def perform_empty(self, options: dict[str, Any]) -> CommandResult:
        """See `check_empty`."""
        return check_empty(options["using"], options["name"])
