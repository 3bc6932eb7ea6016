"""`manage.py redis flows`: shows the tasks of a flow."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.core.text import counted
from django_redis_components.management.base import CommandResult, add_subcommands
from django_redis_components.management.listings.task_listing import data_of
from django_redis_components.management.redis import groups
from django_redis_components.management.tables import TextTable
from django_redis_components.taskqueue import get_flow
from django_redis_components.taskqueue.flows.overview import MAX_ADDED, started_by, tree_of
from django_redis_components.taskqueue.flows.result import FlowResult
from django_redis_components.taskqueue.flows.tree import Branch, count_shown
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
#: In front of a name, for each level of the tree of steps.
INDENT = "  "
_HEADERS = ("#", "ID", "TASK", "QUEUE", "STATE", "ATTEMPTS", "AFTER", "LAST ERROR")


def show_flow(flow_id: str, using: str) -> CommandResult:
    """Return the tasks of a flow, each with the numbers of the tasks that it depends on, and below its chain or group.

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
    tree, started = tree_of(flow), started_by(flow)
    data = {
        "id": flow_id,
        "is_finished": flow.is_finished,
        "states": dict(_count_states(flow.results)),
        "tree": dataclasses.asdict(tree) if tree else None,
        "tasks": [{**data_of(each), "after": parents[number]} for number, each in enumerate(flow.results)],
        "callback_of": flow._callback_of or None,
        "callback_flows": started,
        **{name: data_of(result) if result else None for name, result in callbacks.items()},
    }
    rows = list(_tree_rows(tree, flow, parents, 0) if tree else _task_rows(flow, parents))
    rows += _added_rows(flow, parents, tree.tasks) if tree else []
    rows += [_row(name, result, []) for name, result in callbacks.items() if result]
    text = f"Flow {flow_id} has {counted(len(flow.results), 'task')}: {_states_text(flow.results)}."
    if flow._callback_of:
        text += f" It is a callback of flow {flow._callback_of}."
    text += "".join(f" Its {name} callback is flow {inner}." for name, inner in started.items())
    note = f"Only the first {MAX_ROWS} tasks are listed; --json lists all." if len(flow.results) > MAX_ROWS else ""
    if tree:
        shown = count_shown(tree) + min(len(flow.results) - tree.tasks, MAX_ADDED)
        note = f"The tree has {shown:,} of {counted(len(flow.results), 'task')}; --json lists all."
        note = note if shown < len(flow.results) else ""
    return CommandResult(data, text, TextTable(_HEADERS, rows, frozenset(["ATTEMPTS"])), note)


def _task_rows(flow: FlowResult, parents: list[list[int]]) -> Iterator[tuple[str, ...]]:
    for number, each in enumerate(flow.results[:MAX_ROWS]):
        yield _row(str(number), each, parents[number])


def _tree_rows(branch: Branch, flow: FlowResult, parents: list[list[int]], depth: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a branch: one for itself, and those of its steps, which are indented."""
    label = f"{INDENT * depth}{branch.kind} of {counted(branch.steps, 'step')}"
    states = _states_text(flow.results[branch.first : branch.first + branch.tasks])
    yield "", "", label, "", states, "", "", ""
    for child in branch.children:
        if isinstance(child, Branch):
            yield from _tree_rows(child, flow, parents, depth + 1)
        elif child < len(flow.results):
            yield _row(str(child), flow.results[child], parents[child], INDENT * (depth + 1))
    if hidden := branch.steps - len(branch.children):
        yield "", "", f"{INDENT * (depth + 1)}… {counted(hidden, 'further step')}", "", "", "", "", ""


def _added_rows(flow: FlowResult, parents: list[list[int]], first: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the tasks that running members have added, and one above them; `first`: place of the first."""
    added = flow.results[first:]
    if added:
        yield "", "", f"added by running members: {counted(len(added), 'task')}", "", _states_text(added), "", "", ""
    for place, each in enumerate(added[:MAX_ADDED], first):
        yield _row(str(place), each, parents[place], INDENT)


def _count_states(results: list[TaskResult]) -> Counter[str]:
    return Counter(result.state for result in results)


def _states_text(results: list[TaskResult]) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in _count_states(results).most_common())


def _parents(flow: FlowResult) -> list[list[int]]:
    """Return for each task the numbers of the tasks that it depends on."""
    parents: list[list[int]] = [[] for _ in flow.results]
    for number, followers in enumerate(flow.links):
        for follower in followers:
            parents[follower].append(number)
    return parents


def _row(number: str, result: TaskResult, parents: list[int], indent: str = "") -> tuple[str, ...]:
    last = result.errors[-1:]
    error = f"{last[0].exception_class_path.removeprefix('builtins.')}: {last[0].message}" if last else ""
    after = ", ".join(map(str, parents[:10])) + (", …" if len(parents) > 10 else "")
    return (
        number,
        result.id,
        f"{indent}{result.name}",
        result.queue_name,
        result.state,
        f"{result.attempts:,}",
        after,
        error,
    )
