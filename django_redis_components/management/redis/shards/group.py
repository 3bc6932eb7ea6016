"""The commands of `manage.py redis shards`: arguments."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management.arguments import queue, seconds, whole_number
from django_redis_components.management.base import CommandResult, add_subcommands, add_yes
from django_redis_components.management.redis import groups
from django_redis_components.management.redis.queues.operations import count_of_tasks
from django_redis_components.management.redis.shards import moving
from django_redis_components.management.redis.shards.names import MAX_NAMES, plan_names
from django_redis_components.management.redis.shards.operations import check_empty, list_shards
from django_redis_components.management.redis.shards.planning import plan_routes
from django_redis_components.taskqueue.stats.metrics import MAX_MINUTES

#: Commands and their descriptions.
VERBS = {
    "list": "show the shards: server, tasks, workers, poller, memory, and which is away",
    "plan": "state which queues would be better in which shard, from the recorded runs and the load of the servers",
    "names": "print names for shards whose slots are on different primaries of the Cluster",
    "move": "move tasks to another shard, as far as they may be moved; repeat it after an interruption",
    "empty": "state what is left in a shard; exit code 0 if nothing is, so that it can be removed",
}


class Group(groups.CommandGroup):
    """Shows the shards of the task queue, and moves tasks between them."""

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
        move = made["move"]
        move.add_argument("source", metavar="FROM", help="name of the shard that has the tasks")
        move.add_argument("target", metavar="TO", help="name of the shard that gets them")
        move.add_argument("--queue", type=queue, metavar="QUEUE", help="only this queue (default: all)")
        move.add_argument("--dry-run", action="store_true", help="state what would be moved, and move nothing")
        add_yes(move)
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

    def perform_move(self, options: dict[str, Any]) -> CommandResult:
        """See `moving`."""
        move = moving.ShardMove(options["using"], options["source"], options["target"], options["queue"] or "")
        if options["dry_run"]:
            return moving.preview(move)
        if move.listed and not options["yes"]:
            self.command.ask(f"Move {count_of_tasks(move.listed)} {move.direction}?", "Nothing was moved.")
        return moving.perform(move)

    def perform_empty(self, options: dict[str, Any]) -> CommandResult:
        """See `check_empty`."""
        return check_empty(options["using"], options["name"])
