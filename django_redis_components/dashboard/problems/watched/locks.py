"""Locks and semaphores that one holder keeps from waiters: it may hang.

Nothing lists the locks, so each round scans a part of the keys, as the page of locks does, and looks again at what
earlier rounds have found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.command_line import command_line
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.locks.resources import Resource
from django_redis_components.dashboard.locks.scan import cursors_from_text, cursors_to_text
from django_redis_components.dashboard.locks.snapshot import LockQuery, ResourceState, read_locks, read_states
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.watched.check import WatchedCheck

#: Seconds for which one holder must keep others waiting. Shorter ones are what locks are for.
WAITED_S = 60.0
#: Most resources that are watched.
MAX_WATCHED = 50


def read(facts: ProblemFacts) -> Flow[dict[str, Any]]:
    """Return where the scan continues, and the resources with waiters: since when the same holder has it."""
    before = facts.watched.get("locks") or {"at": "", "held": []}
    known = {tuple(each["resource"]): each for each in before["held"]}
    query = LockQuery(facts.using, cursors=cursors_from_text(before["at"]))
    snapshot = yield from read_locks(query)
    states = {_key(state.resource): state for state in snapshot.states}
    others = [Resource(*key) for key in known if key not in states]
    again = yield from read_states(others)
    states |= {_key(state.resource): state for state in again}
    now = facts.at.timestamp()
    held = [_held(state, known.get(key), now) for key, state in states.items() if state.waiters and state.holders]
    held.sort(key=lambda each: each["since"])
    return {"at": cursors_to_text(snapshot.scan.cursors) if snapshot.scan else "", "held": held[:MAX_WATCHED]}


def find(found: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield resources whose holder has kept others waiting for a minute."""
    for each in found["held"]:
        name, kind, group = each["resource"]
        waited_s = facts.at.timestamp() - each["since"]
        if waited_s >= WAITED_S:
            text = ngettext(
                "%(count)s caller waits for %(name)s, which %(holder)s has held for at least %(age)s.",
                "%(count)s callers wait for %(name)s, which %(holder)s has held for at least %(age)s.",
                each["waiters"],
            ) % {
                "count": number(each["waiters"]),
                "name": name,
                "holder": each["holder"] or _("an unknown process"),
                "age": formats.age(waited_s),
            }
            advice = _("The holder may hang. Check it; a release does not stop it:")
            options = ["--kind", kind] if not group else ["--group", group]
            command = command_line("redis", "locks", "release", options=options, arguments=[name], using=facts.using)
            yield Problem("lock_waiters", text, advice, command, subject=subject_of(each))


def subject_of(held: Mapping[str, Any]) -> str:
    """Return what the problem of a resource is about, from what `read` has returned for it."""
    name, kind, group = held["resource"]
    return f"{kind}:{group}:{name}"


def _held(state: ResourceState, before: Any, now: float) -> dict[str, Any]:
    """Return a resource with the time since which the same holder is known to have it, with waiters."""
    token = state.holders[0].token
    since = before["since"] if before and before["token"] == token else now
    by = state.holders[0].held_by
    holder = f"{by.host}:{by.pid}" + (f" ({by.task or by.request})" if by.task or by.request else "") if by else ""
    return {
        "resource": list(_key(state.resource)),
        "token": token,
        "since": since,
        "waiters": state.waiters,
        "holder": holder[:200],
    }


def _key(resource: Resource) -> tuple[str, str, str]:
    return resource.name, resource.kind, resource.group


CHECK = WatchedCheck("locks", read, find, is_of_connection=True)
