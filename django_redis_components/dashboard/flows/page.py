"""The page of a flow, formatted in the active language, and its JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.elements import Tile, sentence
from django_redis_components.dashboard.flows.graph import FlowDrawing, build_graph
from django_redis_components.dashboard.flows.states import rank, state_label
from django_redis_components.dashboard.flows.tree import build_tree
from django_redis_components.dashboard.formats import listed, number
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.taskqueue.exceptions import FlowDoesNotExist
from django_redis_components.taskqueue.flows.overview import MAX_ADDED, FlowMember, FlowOverview, read_flow
from django_redis_components.taskqueue.flows.tree import count_shown

#: Tasks that are drawn and listed, and failed tasks that are listed.
MAX_MEMBERS = 500
#: Tasks in the table.
MAX_ROWS = 100
#: Failed tasks of one queue that a retry takes along.
MAX_RETRIED = 50
#: States in which a flow has tasks that can still be cancelled.
UNFINISHED = ("retrying", "running", "ready", "scheduled", "waiting", "unregistered")


def read(request: PageRequest) -> Snapshot[FlowOverview]:
    """Read the flow, 500 tasks in a round trip.

    Raises:
        Http404: no flow has this id, or it has expired.
    """
    return read_snapshot(_read(request.object_id))


def _read(flow_id: str) -> Flow[FlowOverview]:
    try:
        return (yield from read_flow(queue_shard(), flow_id, MAX_MEMBERS))
    except FlowDoesNotExist as exc:
        raise Http404(_("No flow has this ID, or it has expired.")) from exc


def context(request: PageRequest, snapshot: Snapshot[FlowOverview]) -> dict[str, Any]:
    """Return the context of the templates."""
    return {
        "page": build_page(snapshot.value, request.links),
        "cancel_url": request.links.flow(request.object_id, "cancel"),
    }


def build_page(flow: FlowOverview, links: Links) -> dict[str, Any]:
    """Return the page of a flow."""
    url_of = links.task
    graph = build_graph(flow.members)
    after = _parents(flow.members)
    by_attention = sorted(_listed(flow), key=lambda member: (rank(member.state), member.number))
    return {
        "id": flow.id,
        "finding": _finding(flow),
        "tiles": [
            Tile(state_label(state), number(flow.states[state]), alarming=state == "failed")
            for state in sorted(flow.states, key=rank)
        ],
        "graph": graph,
        "tree": build_tree(flow, links),
        "tree_note": _tree_note(flow),
        "rows": [_row(member, url_of, after.get(member.number, [])) for member in by_attention[:MAX_ROWS]],
        "callbacks": [
            (name, _row(member, url_of, []) | _started(flow, name, links))
            for name, member in _callbacks(flow).items()
            if member
        ],
        "outer": flow.callback_of,
        "outer_url": links.flow(flow.callback_of) if flow.callback_of else "",
        "retries": _retries(flow.failed, links),
        "note": _note(flow, graph),
        "is_unfinished": flow.unfinished > 0 or any(flow.states.get(state) for state in UNFINISHED),
    }


def flow_data(snapshot: Snapshot[FlowOverview]) -> dict[str, Any]:
    """Return a snapshot as JSON data."""
    flow = snapshot.value
    return {
        "flow": {
            "id": flow.id,
            "count": flow.tasks,
            "unfinished": flow.unfinished,
            "counted": flow.counted,
            "states": flow.states,
            "tasks": flow.members,
            "failed": flow.failed,
            "tree": flow.tree,
            "added": flow.added,
            "callback_of": flow.callback_of or None,
            "callback_flows": flow.started,
            **_callbacks(flow),
        },
    }


def _callbacks(flow: FlowOverview) -> dict[str, FlowMember | None]:
    return {"on_error": flow.on_error, "on_complete": flow.on_complete, "on_success": flow.on_success}


def _started(flow: FlowOverview, name: str, links: Links) -> dict[str, str]:
    """Return the flow that a callback has started, and the URL of its page."""
    started = flow.started.get(name, "")
    return {"flow": started, "flow_url": links.flow(started) if started else ""}


def _finding(flow: FlowOverview) -> str:
    if flow.counted < flow.tasks:
        text = ngettext(
            "%(count)s of %(tasks)s tasks has not finished",
            "%(count)s of %(tasks)s tasks have not finished",
            flow.unfinished,
        )
        first = _("of the first %(count)s: %(states)s") % {
            "count": number(flow.counted),
            "states": listed(
                [f"{number(flow.states[state])} {state_label(state)}" for state in sorted(flow.states, key=rank)]
            ),
        }
        return sentence(f"{text % {'count': number(flow.unfinished), 'tasks': number(flow.tasks)}}; {first}")
    done = flow.states.get("successful", 0)
    text = ngettext(
        "%(done)s of %(count)s task is successful", "%(done)s of %(count)s tasks are successful", flow.tasks
    )
    parts = [text % {"done": number(done), "count": number(flow.tasks)}]
    parts += [
        f"{number(flow.states[state])} {state_label(state)}"
        for state in sorted(flow.states, key=rank)
        if state != "successful"
    ]
    return sentence(listed(parts))


def _listed(flow: FlowOverview) -> list[FlowMember]:
    """Return the first tasks, and the failed ones that are not among them."""
    known = {member.number for member in flow.members}
    return [*flow.members, *(member for member in flow.failed if member.number not in known)]


def _parents(members: Sequence[FlowMember]) -> dict[int, list[int]]:
    """Return for each task the numbers of the tasks that it depends on."""
    parents: dict[int, list[int]] = {}
    for member in members:
        for follower in member.followers:
            parents.setdefault(follower, []).append(member.number)
    return parents


def _row(member: FlowMember, url_of: Callable[[str], str], after: Sequence[int]) -> dict[str, Any]:
    """Return a task, the URL of its page, its state, and the numbers of the tasks that it depends on."""
    shown = ", ".join(number(each) for each in after[:10]) + (", …" if len(after) > 10 else "")
    return {"member": member, "url": url_of(member.id), "state": state_label(member.state), "after": shown}


def _retries(failed: Sequence[FlowMember], links: Links) -> list[tuple[str, str, list[str]]]:
    """Return the label of a button for each queue, its URL, and the ids of the failed tasks that it retries."""
    by_queue: dict[str, list[str]] = {}
    for member in failed:
        by_queue.setdefault(member.queue, []).append(member.id)
    return [
        (
            ngettext(
                "Retry %(count)s failed task of the queue “%(queue)s”…",
                "Retry %(count)s failed tasks of the queue “%(queue)s”…",
                len(ids[:MAX_RETRIED]),
            )
            % {"count": number(len(ids[:MAX_RETRIED])), "queue": queue},
            url,
            ids[:MAX_RETRIED],
        )
        for queue, ids in by_queue.items()
        if queue and (url := links.queue(queue, "retry"))
    ]


def _tree_note(flow: FlowOverview) -> str:
    shown = count_shown(flow.tree) + min(flow.added, MAX_ADDED) if flow.tree else flow.tasks
    if shown == flow.tasks:
        return ""
    return _("The tree has %(shown)s of %(count)s tasks.") % {"shown": number(shown), "count": number(flow.tasks)}


def _note(flow: FlowOverview, graph: FlowDrawing) -> str:
    notes, drawn = [], len(flow.members) - graph.hidden
    if drawn < flow.tasks:
        text = _("The graph has the first %(drawn)s of %(count)s tasks.")
        notes.append(text % {"drawn": number(drawn), "count": number(flow.tasks)})
    if flow.tasks > MAX_ROWS:
        text = _("The table has %(rows)s tasks of the first %(count)s, failed ones first.")
        notes.append(text % {"rows": number(MAX_ROWS), "count": number(min(flow.tasks, MAX_MEMBERS))})
    return " ".join(notes)
