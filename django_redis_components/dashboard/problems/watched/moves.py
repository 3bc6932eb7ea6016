"""A move of tasks to another shard that was interrupted: its tasks run in neither until it is repeated."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.command_line import command_line
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.watched.check import WatchedCheck
from django_redis_components.taskqueue.shards import shards_of
from django_redis_components.taskqueue.store.moves import read_interrupted

#: Seconds after which a task that is set aside counts as left: a move that runs completes a part in less than one.
LEFT_S = 60.0


def read(facts: ProblemFacts) -> Flow[dict[str, Any] | None]:
    """Return the tasks that a move has set aside, and since when the oldest of them is known."""
    if len(shards_of(facts.using)) == 1:
        return None
    found = yield from read_interrupted(facts.shard)
    if found is None or not found.target:
        return None
    before = facts.watched.get("moves") or {}
    since = before["since"] if before.get("oldest") == found.oldest else facts.at.timestamp()
    return {**dataclasses.asdict(found), "since": since}


def find(found: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield the move if its oldest task has been set aside for a minute."""
    if not found or facts.at.timestamp() - found["since"] < LEFT_S:
        return
    source, target = facts.shard.name, found["target"]
    text = ngettext(
        "A move of tasks from shard %(source)s to %(target)s was interrupted: %(count)s task has run in neither for at"
        " least %(age)s.",
        "A move of tasks from shard %(source)s to %(target)s was interrupted: %(count)s tasks have run in neither for"
        " at least %(age)s.",
        found["count"],
    ) % {
        "source": source,
        "target": target,
        "count": number(found["count"]),
        "age": formats.age(facts.at.timestamp() - found["since"]),
    }
    of_queue = ["--queue", found["queue"]] if found["queue"] else []
    command = command_line("redis", "shards", "move", options=of_queue, arguments=[source, target], using=facts.using)
    advice = _("Complete it. A repeated move runs no task twice:")
    yield Problem("move_interrupted", text, advice, command, count=found["count"], subject=target)


CHECK = WatchedCheck("moves", read, find, is_of_shard=True)
