"""Loss of all data: what the server held when it was last watched, and that it holds it no more.

The watching process keeps a note on the server and in its own memory. If the note is gone while the process remembers
it, so is all else: the server was restarted without its data, or emptied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.held import HeldData
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.watched.check import WatchedCheck
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview

#: Seconds for which a loss is a problem: 7 days. An acknowledgment silences it before.
REPORTED_S = 7 * 86_400
#: Components whose keys are counted: their data are no tasks, and not what a lease or a limit holds for a moment.
COUNTED = ("search", "autocomplete", "messaging", "analytics", "bloom", "files", "aggregation", "geoip")


def held_data(
    overview: TaskQueueOverview,
    before: HeldData | None,
    *,
    is_lost: bool,
    memory: Mapping[str, Any] | None = None,
    command_stats: bytes = b"",
) -> HeldData:
    """Return what the server holds now.

    Args:
        before: what it held.
        is_lost: whether the server has lost the note of it.
        memory: what the check of the memory has measured.
        command_stats: INFO commandstats of the server that has lost the note.
    """
    run_id, now = overview.server.get("run_id", ""), overview.at.timestamp()
    tasks = sum(queue.ready + queue.scheduled + queue.running + queue.failed for queue in overview.queues)
    loss = before.loss if before else None
    if is_lost and before is not None and (before.tasks or before.keys):
        held = {"queues": before.queues, "tasks": before.tasks, "keys": before.keys}
        is_restart = before.run_id != run_id and not _was_emptied(overview.server, command_stats)
        loss = {"at": now, **held, "is_restart": is_restart}
    if loss and now - loss["at"] > REPORTED_S:
        loss = None
    return HeldData(run_id, sum(map(_has_tasks, overview.queues)), tasks, loss, _keys(memory))


def _was_emptied(info: Mapping[str, str], command_stats: bytes) -> bool:
    """Return whether a server that was restarted had its data then, and was emptied since.

    What it replays of its append-only file counts as no command.
    """
    has_loaded = info.get("rdb_last_load_keys_loaded", "0") != "0" or info.get("aof_enabled") == "1"
    return has_loaded and re.search(rb"^cmdstat_flush(?:all|db):calls=[1-9]", command_stats, re.MULTILINE) is not None


def _keys(memory: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the keys of each component, as the last whole pass has counted them, or this one so far."""
    measured = (memory["whole"] or memory["part"])["components"] if memory else {}
    return {name: measured[name][1] for name in COUNTED if name in measured}


def _has_tasks(queue: Any) -> bool:
    return bool(queue.ready or queue.scheduled or queue.running or queue.failed)


def read(facts: ProblemFacts) -> Flow[None]:
    """Read nothing: the watching process stores what it has seen."""
    yield from ()


def find(loss: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield a problem if the data was lost lately."""
    if loss is None:
        return
    at = formats.timestamp(datetime.fromtimestamp(loss["at"], UTC), facts.at).text
    is_off = facts.queues is not None and facts.queues.server.get("aof_enabled") == "0"
    command = "redis-cli CONFIG SET appendonly yes" if loss["is_restart"] and is_off else ""
    template = (
        _("Redis lost all data in a restart before %(time)s.")
        if loss["is_restart"]
        else _("All data in Redis was deleted before %(time)s, not by a restart.")
    )
    text = " ".join([template % {"time": at}, *_held(loss)])
    advice = " ".join(_advice(loss, is_off=bool(command)))
    yield Problem("data_lost", text, advice, command, "critical")


def _held(loss: Any) -> Iterator[str]:
    if loss["tasks"]:
        tasks = ngettext("%(count)s task", "%(count)s tasks", loss["tasks"]) % {"count": number(loss["tasks"])}
        queues = ngettext("%(count)s queue", "%(count)s queues", loss["queues"]) % {"count": number(loss["queues"])}
        yield _("It held %(tasks)s in %(queues)s.") % {"tasks": tasks, "queues": queues}
    if keys := loss.get("keys"):
        named = ", ".join(f"{name} {number(count)}" for name, count in sorted(keys.items()))
        yield _("Keys of other components: %(keys)s.") % {"keys": named}


def _advice(loss: Any, *, is_off: bool) -> Iterator[str]:
    if not loss["is_restart"]:
        yield _("FLUSHALL or FLUSHDB deleted all keys; cache.clear() runs FLUSHDB.")
    if loss["tasks"]:
        yield ngettext(
            "Restore a backup, or enqueue the task again.",
            "Restore a backup, or enqueue the tasks again.",
            loss["tasks"],
        )
    else:
        yield _("Restore a backup.")
    if {"search", "autocomplete"} & loss.get("keys", {}).keys():
        yield _("Fill indexes again with rebuild_search and rebuild_autocomplete.")
    if is_off:
        yield _("Turn the append-only file on:")


CHECK = WatchedCheck("data_loss", read, find, is_of_server=True, is_of_shard=True)
