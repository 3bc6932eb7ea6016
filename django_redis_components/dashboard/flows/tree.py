"""The tree of a flow's steps, as lines that a template draws without recursion: a branch may be 100 levels deep."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from django.utils.translation import ngettext

from django_redis_components.dashboard.flows.states import rank, state_label
from django_redis_components.dashboard.formats import listed, number
from django_redis_components.dashboard.links import Links
from django_redis_components.taskqueue.flows.overview import MAX_ADDED, FlowMember, FlowOverview
from django_redis_components.taskqueue.flows.tree import Branch

#: Levels that are indented; deeper ones are below each other.
MAX_INDENTED = 6


@dataclasses.dataclass(frozen=True, slots=True)
class TreeLine:
    """A line of the tree, or the end of a branch.

    Attributes:
        kind: "branch", whose lines follow until its "end"; "task"; or "note".
        label: what the branch is, the name of the task, or the text of the note.
        state: that of the task, or how many tasks of the branch are in each state.
        is_alarming: whether a task failed.
        is_open: whether the lines of the branch are shown at first.
        is_indented: whether they are indented.
        url, number: of the task.
    """

    kind: str
    label: str = ""
    state: str = ""
    is_alarming: bool = False
    is_open: bool = False
    is_indented: bool = False
    url: str = ""
    number: int = 0


class _States:
    """The states of the tasks that were read, by their numbers."""

    def __init__(self, members: Sequence[FlowMember]) -> None:
        self.members = {member.number: member for member in members}
        self._numbers = sorted(self.members)

    def of_range(self, first: int, tasks: int) -> Counter[str]:
        """Return how many tasks from a number on are in each state, of those that were read."""
        first, end = (bisect_left(self._numbers, number) for number in (first, first + tasks))
        return Counter(self.members[each].state for each in self._numbers[first:end])


def build_tree(flow: FlowOverview, links: Links) -> list[TreeLine]:
    """Return the lines of the tree of a flow, and of the tasks that were added; none without nested steps."""
    if not flow.tree:
        return []
    states = _States(flow.members)
    lines = list(_branch_lines(flow.tree, states, links, 0))
    return [*lines, *_added_lines(flow.tree.tasks + 3, flow.added, states, links)] if flow.added else lines


def _added_lines(first: int, added: int, states: _States, links: Links) -> Iterator[TreeLine]:
    """Yield the lines of the tasks that running members have added; `first`: number of the first of them."""
    counts = states.of_range(first, added)
    text = ngettext("%(count)s task added by running members", "%(count)s tasks added by running members", added)
    yield TreeLine(
        "branch",
        text % {"count": number(added)},
        _counts_text(counts, is_part=counts.total() < added),
        is_alarming=counts["failed"] > 0,
        is_open=len(counts) > 1,
        is_indented=True,
    )
    for index in range(first, first + min(added, MAX_ADDED)):
        yield _task_line(index, states.members.get(index), links)
    if added > MAX_ADDED:
        hidden = added - MAX_ADDED
        text = ngettext("%(count)s further task is not shown", "%(count)s further tasks are not shown", hidden)
        yield TreeLine("note", text % {"count": number(hidden)})
    yield TreeLine("end")


def _branch_lines(branch: Branch, states: _States, links: Links, depth: int) -> Iterator[TreeLine]:
    counts = states.of_range(branch.first, branch.tasks)
    yield TreeLine(
        "branch",
        _branch_label(branch),
        _counts_text(counts, is_part=counts.total() < branch.tasks),
        is_alarming=counts["failed"] > 0,
        is_open=depth == 0 or len(counts) > 1,
        is_indented=depth < MAX_INDENTED,
    )
    for child in branch.children:
        if isinstance(child, Branch):
            yield from _branch_lines(child, states, links, depth + 1)
        else:
            yield _task_line(child, states.members.get(child), links)
    if hidden := branch.steps - len(branch.children):
        text = ngettext("%(count)s further step is not shown", "%(count)s further steps are not shown", hidden)
        yield TreeLine("note", text % {"count": number(hidden)})
    yield TreeLine("end")


def _branch_label(branch: Branch) -> str:
    if branch.kind == "chain":
        text = ngettext("Chain of %(count)s step", "Chain of %(count)s steps", branch.steps)
    else:
        text = ngettext("Group of %(count)s step", "Group of %(count)s steps", branch.steps)
    return text % {"count": number(branch.steps)}


def _counts_text(counts: Counter[str], *, is_part: bool) -> str:
    parts = [f"{number(counts[state])} {state_label(state)}" for state in sorted(counts, key=rank)]
    return listed([*parts, "…"] if is_part else parts)


def _task_line(at: int, member: FlowMember | None, links: Links) -> TreeLine:
    if member is None:
        return TreeLine("task", "–", number=at)
    name = member.name.rpartition(".")[2] or "–"
    state = state_label(member.state)
    return TreeLine("task", name, state, is_alarming=member.state == "failed", url=links.task(member.id), number=at)
