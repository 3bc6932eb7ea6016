"""`manage.py redis flows`: shows the tasks of a flow."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.core.text import counted
from django_redis_components.management.base import CommandResult, add_subcommands
from django_redis_components.management.listings.task_listing import data_of
from django_redis_components.management.redis import groups
from django_redis_components.management.tables import TextTable
from django_redis_components.taskqueue import get_flow
from django_redis_components.taskqueue.flows.result import FlowResult
from django_redis_components.taskqueue.result import TaskResult


class Group(groups.CommandGroup):
    """Shows flows: chains and groups of tasks."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        made = add_subcommands(parser, {"show": "show the tasks of a flow, their states and what each depends on"})
        made["show"].add_argument("id", metavar="ID", help="id of the flow, as `tasks show` and `tasks list` print it")

    def perform_show(self, options: dict[str, Any]) -> CommandResult:
        """See `show_flow`."""
        return show_flow(options["id"], options["using"])


#: Most tasks in the table; JSON has all.
MAX_ROWS = 200
_HEADERS = ("#", "ID", "TASK", "QUEUE", "STATE", "ATTEMPTS", "AFTER", "LAST ERROR")


def show_flow(flow_id: str, using: str) -> CommandResult:
    """Return the tasks of a flow, each with the numbers of the tasks that it depends on.

    Raises:
        FlowDoesNotExist: no flow has this id, or it has expired.
    """
    flow = get_flow(flow_id, using=using)
    parents = _parents(flow)
    callbacks = {
        "on_error": flow.on_error_result,
        "on_complete": flow.on_complete_result,
        "on_success": flow.on_success_result,
    }
    counts = Counter(result.state for result in flow.results)
    data = {
        "id": flow_id,
        "is_finished": flow.is_finished,
        "states": dict(counts),
        "tasks": [{**data_of(each), "after": parents[number]} for number, each in enumerate(flow.results)],
        **{name: data_of(result) if result else None for name, result in callbacks.items()},
    }
    rows = [_row(str(number), each, parents[number]) for number, each in enumerate(flow.results[:MAX_ROWS])]
    rows += [_row(name, result, []) for name, result in callbacks.items() if result]
    summary = ", ".join(f"{count:,} {state}" for state, count in counts.most_common())
    text = f"Flow {flow_id} has {counted(len(flow.results), 'task')}: {summary}."
    note = f"Only the first {MAX_ROWS} tasks are listed; --json lists all." if len(flow.results) > MAX_ROWS else ""
    return CommandResult(data, text, TextTable(_HEADERS, rows, frozenset(["ATTEMPTS"])), note)


def _parents(flow: FlowResult) -> list[list[int]]:
    """Return for each task the numbers of the tasks that it depends on."""
    parents: list[list[int]] = [[] for _ in flow.results]
    for number, followers in enumerate(flow.links):
        for follower in followers:
            parents[follower].append(number)
    return parents


def _row(number: str, result: TaskResult, parents: list[int]) -> tuple[str, ...]:
    last = result.errors[-1:]
    error = f"{last[0].exception_class_path.removeprefix('builtins.')}: {last[0].message}" if last else ""
    after = ", ".join(map(str, parents[:10])) + (", …" if len(parents) > 10 else "")
    return number, result.id, result.name, result.queue_name, result.state, f"{result.attempts:,}", after, error
