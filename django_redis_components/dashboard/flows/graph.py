"""Geometry of a flow's graph: boxes of tasks in layers, and lines between those that depend on each other.

A task is one layer below the lowest of those that it depends on. A layer with more than `MAX_ACROSS` tasks shows one
box for all tasks of a name, and one for all names beyond that.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from django.utils.translation import gettext as _

from django_redis_components.dashboard.flows.states import rank, state_label
from django_redis_components.dashboard.formats import listed, number
from django_redis_components.taskqueue.flows.overview import FlowMember

#: Boxes beside each other, and layers below each other.
MAX_ACROSS, MAX_LAYERS = 4, 40
#: Size of a box and of the space between two, in SVG units; the page scales them.
WIDTH, HEIGHT, GAP_X, GAP_Y = 200, 48, 20, 36
#: Characters of a name in a box, and of its states.
MAX_NAME, MAX_STATES = 26, 32


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """A box. Coordinates are strings, because a localized number could contain a comma.

    Attributes:
        name: last part of the task's name, cut; or how many tasks the box has.
        states: "successful", or "480 successful, 2 failed".
        kind: the state that decides the look.
        title: the whole name.
    """

    x: str
    y: str
    name_y: str
    states_y: str
    text_x: str
    name: str
    states: str
    kind: str
    title: str


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A line from a box to one that depends on it."""

    x1: str
    y1: str
    x2: str
    y2: str


@dataclasses.dataclass(frozen=True, slots=True)
class FlowDrawing:
    """The graph as the template draws it.

    Attributes:
        hidden: how many of the tasks are in no box, because their layer is too deep.
    """

    view_box: str
    width: str
    box_width: str
    box_height: str
    boxes: list[Box]
    lines: list[Line]
    hidden: int


def build_graph(members: Sequence[FlowMember]) -> FlowDrawing:
    """Return the graph of the first tasks of a flow, in its order."""
    layers = _layers(members)
    groups = [group for layer in layers[:MAX_LAYERS] for group in _groups(layer)]
    places = _places([_groups(layer) for layer in layers[:MAX_LAYERS]])
    box_of = {member.number: index for index, group in enumerate(groups) for member in group}
    links = {
        (box_of[member.number], box_of[follower])
        for member in members
        for follower in member.followers
        if member.number in box_of and follower in box_of
    }
    across = max((len(_groups(layer)) for layer in layers), default=1)
    width = across * (WIDTH + GAP_X) - GAP_X + 4
    height = len(layers[:MAX_LAYERS]) * (HEIGHT + GAP_Y) - GAP_Y + 4
    return FlowDrawing(
        view_box=f"-2 -2 {width} {height}",
        width=str(width),
        box_width=str(WIDTH),
        box_height=str(HEIGHT),
        boxes=[_box(group, *place) for group, place in zip(groups, places, strict=True)],
        lines=[_line(places[above], places[below]) for above, below in sorted(links)],
        hidden=sum(len(layer) for layer in layers[MAX_LAYERS:]),
    )


def _layers(members: Sequence[FlowMember]) -> list[list[FlowMember]]:
    """Return the members by layer. Their order is topological: a task comes after those that it depends on."""
    depth: dict[int, int] = {}
    layers: list[list[FlowMember]] = []
    for member in members:
        layer = depth.get(member.number, 0)
        for follower in member.followers:
            depth[follower] = max(depth.get(follower, 0), layer + 1)
        while len(layers) <= layer:
            layers.append([])
        layers[layer].append(member)
    return layers


def _groups(layer: Sequence[FlowMember]) -> list[list[FlowMember]]:
    """Return the members that share a box."""
    if len(layer) <= MAX_ACROSS:
        return [[member] for member in layer]
    by_name: dict[str, list[FlowMember]] = {}
    for member in layer:
        by_name.setdefault(member.name, []).append(member)
    groups = sorted(by_name.values(), key=len, reverse=True)
    if len(groups) <= MAX_ACROSS:
        return groups
    return [*groups[: MAX_ACROSS - 1], [member for group in groups[MAX_ACROSS - 1 :] for member in group]]


def _places(layers: Iterable[Sequence[object]]) -> list[tuple[int, int]]:
    return [
        (across * (WIDTH + GAP_X), down * (HEIGHT + GAP_Y))
        for down, layer in enumerate(layers)
        for across in range(len(layer))
    ]


def _box(group: Sequence[FlowMember], x: int, y: int) -> Box:
    states = Counter(member.state for member in group)
    names = list(dict.fromkeys(member.name for member in group))
    kind = min(states, key=rank)
    return Box(
        x=str(x),
        y=str(y),
        text_x=str(x + 10),
        name_y=str(y + 20),
        states_y=str(y + 37),
        name=_name(names, len(group)),
        states=_states_text(states) if len(group) > 1 else state_label(kind),
        kind=kind,
        title=", ".join(names[:10]),
    )


def _name(names: Sequence[str], count: int) -> str:
    if len(names) > 1:
        return _("%(count)s tasks of %(names)s names") % {"count": number(count), "names": number(len(names))}
    name = names[0].rpartition(".")[2] or "?"
    times = f" × {number(count)}" if count > 1 else ""
    room = MAX_NAME - len(times)
    return (name if len(name) <= room else f"{name[: room - 1]}…") + times


def _states_text(states: Counter[str]) -> str:
    """Return the most urgent states; "…" for those that have no room."""
    parts = [f"{number(states[state])} {state_label(state)}" for state in sorted(states, key=rank)]
    while len(listed(parts)) > MAX_STATES:
        parts[-2:] = ["…"]
    return listed(parts)


def _line(above: tuple[int, int], below: tuple[int, int]) -> Line:
    return Line(
        x1=str(above[0] + WIDTH // 2),
        y1=str(above[1] + HEIGHT),
        x2=str(below[0] + WIDTH // 2),
        y2=str(below[1]),
    )
