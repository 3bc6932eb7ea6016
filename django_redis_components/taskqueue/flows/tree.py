"""The steps that a flow was made of, as a short text in its hash: operators see them as a tree.

The text is JSON. ``["c",["g",3],2]`` is a chain of a group of three tasks, and of two tasks; ``["g",[1000,["c",3]]]``
is a group of 1,000 chains of three tasks. ``["+",7,21]`` stands for seven further steps, of 21 tasks, that the text
has no room for.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from django_redis_components.core import serialization

#: Maximum bytes of the text.
MAX_BYTES = 4_096
#: Of these, what a branch needs around its steps. 100 levels leave room for some steps of the innermost one.
_BRANCH_BYTES = 36
_KINDS = {kind[0]: kind for kind in ("chain", "group")}


@dataclasses.dataclass(frozen=True, slots=True)
class Branch:
    """A chain or a group of a flow.

    Attributes:
        kind: "chain" or "group".
        steps: how many steps it has.
        tasks: how many tasks it has, on all levels.
        first: number of the first of them; the others follow it.
        children: its first steps: the number of a task, or a branch.
    """

    kind: str
    steps: int
    tasks: int
    first: int
    children: list[int | Branch]


def encode_tree(step: Any) -> str:
    """Return the text for the steps of a flow, a `signature.Step`; its nesting must be within the limit."""
    return _encoded(step, MAX_BYTES)[0]


def parse_tree(text: bytes | None, limit: int) -> Branch | None:
    """Return the tree of a flow, with its first branches and tasks.

    Args:
        limit: how many of these it has at most.

    Returns None without a text, and for one that is no tree.
    """
    try:
        return _grow(serialization.decode(text), 0, [limit - 1]) if text else None
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def count_shown(branch: Branch) -> int:
    """Return how many tasks are nodes of a tree."""
    return sum(count_shown(child) if isinstance(child, Branch) else 1 for child in branch.children)


def _encoded(step: Any, room: int) -> tuple[str, int]:
    """Return the text of a step, of at most `room` bytes, and the number of its tasks."""
    if step.kind == "task":
        return "", 1
    room -= _BRANCH_BYTES
    runs: list[tuple[str, int]] = []
    size, tasks, cut_steps, cut_tasks = 0, 0, 0, 0
    for each in step.steps:
        text, count = _encoded(each, room)
        tasks += count
        if runs and not cut_steps and runs[-1][0] == text:
            runs[-1] = (text, runs[-1][1] + 1)
        elif not cut_steps and (not runs or size + len(text) <= room):
            runs.append((text, 1))
            size += len(text) + len("[100000,],")
        else:
            cut_steps, cut_tasks = cut_steps + 1, cut_tasks + count
    parts = [f'"{step.kind[0]}"']
    parts += [(text if times == 1 else f"[{times},{text}]") if text else str(times) for text, times in runs]
    if cut_steps:
        parts.append(f'["+",{cut_steps},{cut_tasks}]')
    return f"[{','.join(parts)}]", tasks


def _run(part: Any) -> tuple[int, list[Any] | None]:
    """Return how many equal steps a part of a text is, and the text of each; None for a task."""
    if isinstance(part, int):
        return part, None
    if part[0] == "+":
        return 0, None
    return (part[0], part[1]) if isinstance(part[0], int) else (1, part)


def _count(stored: list[Any]) -> tuple[int, int]:
    """Return the numbers of steps and tasks of a branch."""
    steps = tasks = 0
    for part in stored[1:]:
        times, inner = _run(part)
        steps += times
        tasks += times if inner is None else times * _count(inner)[1]
        if not isinstance(part, int) and part[0] == "+":
            steps, tasks = steps + part[1], tasks + part[2]
    return steps, tasks


def _grow(stored: list[Any], first: int, left: list[int]) -> Branch:
    """Return a branch; `left`: how many nodes the tree may still have below it."""
    children: list[int | Branch] = []
    number = first
    for part in stored[1:]:
        times, inner = _run(part)
        size = 1 if inner is None else _count(inner)[1]
        for _ in range(times):
            if left[0] <= 0:
                break
            left[0] -= 1
            children.append(number if inner is None else _grow(inner, number, left))
            number += size
    return Branch(_KINDS[stored[0]], *_count(stored), first, children)
