"""The template context of the page of workers, formatted in the active language."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.elements import NO_VALUE, Tile
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues.task_list import TaskUrl
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.dashboard.workers import labels
from django_redis_components.dashboard.workers.data import MAX_ELAPSED_S
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo, WorkerRun
from django_redis_components.taskqueue.stats.workers import MAX_LISTED, WorkerPage, read_workers
from django_redis_components.taskqueue.store.workers import MAX_ID

#: Running tasks that the page shows of one process.
SHOWN_RUNS = 10


def parse(request: PageRequest) -> str:
    """Return the id of the worker after which the page starts, or ""."""
    after = request.http.GET.get("after", "")
    if len(after) > MAX_ID:
        raise ValueError(f"after: expected at most {MAX_ID} characters.")
    return after


def read(request: PageRequest) -> Snapshot[WorkerPage]:
    """Read the workers in one round trip; in two if any worker is lost."""
    return read_snapshot(read_workers(queue_shard(), request.query))


def context(request: PageRequest, snapshot: Snapshot[WorkerPage]) -> dict[str, Any]:
    """Return the context of the templates: the workers, lost ones first."""
    listed, after = snapshot.value, request.query
    groups: dict[str, list[WorkerInfo]] = {}
    for worker in listed.workers:
        groups.setdefault(worker.supervisor, []).append(worker)
    builder = _Builder(listed, request.links.verbs(), request.links.task)
    cards = [builder.card(name, workers) for name, workers in groups.items()]
    cut_off = _("The %(count)s workers with the latest heartbeats are listed.") % {"count": number(MAX_LISTED)}
    page = {
        "tiles": [*_tiles(listed, is_part=bool(listed.next or after))],
        "cards": sorted(cards, key=lambda card: card["state"].kind != "lost"),
        "next": urlencode({"after": listed.next}) if listed.next else "",
        "is_first": not after,
        "cut_off": cut_off if listed.total >= MAX_LISTED else "",
    }
    return {"page": page}


def _tiles(listed: WorkerPage, *, is_part: bool) -> Iterable[Tile]:
    live = [worker for worker in listed.workers if worker.is_alive]
    lost = listed.total - listed.live
    note = ngettext("%(count)s lost", "%(count)s lost", lost) % {"count": number(lost)} if lost else ""
    yield Tile(_("Live workers"), number(listed.live), note, alarming=lost > 0)
    busy, threads = sum(worker.busy for worker in live), sum(worker.threads for worker in live)
    partial = _("of this page") if is_part else ""
    yield Tile(_("Busy"), _("%(busy)s of %(threads)s") % {"busy": number(busy), "threads": number(threads)}, partial)
    rates = [worker.per_minute for worker in live if worker.per_minute is not None]
    yield Tile(_("Throughput"), formats.rate(sum(rates)) if rates else NO_VALUE, _("per minute"))
    standby = len({worker.supervisor for worker in live if worker.poller == "standby"})
    standby_note = _("%(count)s standby") % {"count": number(standby)} if standby else ""
    missing = listed.poller is None
    yield Tile(_("Poller"), _("none active") if missing else _("active"), standby_note, alarming=missing)
    versions = sorted({worker.version for worker in live if worker.version})
    if len(versions) == 1:
        yield Tile(_("Version"), versions[0])
    elif versions:
        yield Tile(_("Versions"), number(len(versions)), ", ".join(versions[:3]))


@dataclasses.dataclass(frozen=True, slots=True)
class _Builder:
    """Builds the cards of workers."""

    listed: WorkerPage
    commands: Mapping[str, str]
    url_of: TaskUrl

    def card(self, supervisor: str, workers: list[WorkerInfo]) -> dict[str, Any]:
        """Return the card of a supervisor."""
        first, states = workers[0], {labels.state_of(worker) for worker in workers}
        is_lost = all(state == "lost" for state in states)
        name = f"{first.host} · {first.supervisor_pid}" if first.supervisor_pid else supervisor
        facts = [
            (_("Queues, in order"), ", ".join(first.queues)),
            (_("Version"), first.version),
            (_("Poller"), labels.poller(first.poller)),
            (_("Round trip"), "" if first.round_trip is None else labels.milliseconds(first.round_trip)),
            (_("Heartbeat"), _("%(age)s ago") % {"age": formats.age(min(each.heartbeat_age for each in workers))}),
        ]
        return {
            "id": supervisor,
            "name": name,
            "state": labels.group_state(states),
            "fate": self._fate_of_all(workers) if is_lost else "",
            "note": self._command_note(supervisor, workers),
            "facts": [(label, value) for label, value in facts if value],
            "actions": [] if is_lost else [*self._actions(supervisor, states)],
            "processes": [self._process(worker, is_alone=len(workers) == 1, states=states) for worker in workers],
        }

    def _process(self, worker: WorkerInfo, *, is_alone: bool, states: set[str]) -> dict[str, Any]:
        state = labels.state_of(worker)
        name = _("process %(pid)s") % {"pid": worker.pid} if worker.pid else worker.id
        facts = [
            (
                _("Busy"),
                _("%(busy)s of %(threads)s") % {"busy": number(worker.busy), "threads": number(worker.threads)},
            ),
            (_("Out/min"), "" if worker.per_minute is None else formats.rate(worker.per_minute)),
            (_("Finished"), number(worker.finished)),
            (_("Memory"), "" if worker.memory is None else labels.mebibytes(worker.memory)),
        ]
        hidden = worker.busy - min(len(worker.runs), SHOWN_RUNS)
        more = ngettext("%(count)s more running task", "%(count)s more running tasks", hidden)
        is_same = is_alone or state == "lost" or (state == "quiet" and states == {"quiet"})
        return {
            "id": worker.id,
            "name": name,
            "state": labels.STATES[state](),
            "note": self._command_note(worker.id, [worker]),
            "facts": [(label, value) for label, value in facts if value],
            "started_at": worker.started_at,
            "actions": [] if is_same else [*self._actions(worker.id, {state})],
            "runs": [self._run(run, worker) for run in worker.runs[:SHOWN_RUNS]],
            "more": more % {"count": number(hidden)} if hidden > 0 and worker.runs else "",
            "idle": "" if worker.runs else _("No running task."),
        }

    def _run(self, run: WorkerRun, worker: WorkerInfo) -> dict[str, Any]:
        """Return a running task, or one that a lost worker ran, and what becomes of it."""
        held = None if worker.is_alive else self.listed.held.get(run.id)
        elapsed_s = min(run.elapsed + worker.heartbeat_age, MAX_ELAPSED_S)
        fate = labels.fate_of_task(held) if held else ""
        task = {"id": run.id, "name": run.name, "url": self.url_of(run.id)}
        return {**task, "queue": run.queue, "elapsed_s": elapsed_s, "fate": fate}

    def _fate_of_all(self, workers: list[WorkerInfo]) -> str:
        """Return what becomes of the tasks of a lost supervisor."""
        leases = sum(worker.leases for worker in workers)
        if not leases:
            return _("It held no tasks.")
        held = [self.listed.held.get(run.id) for worker in workers for run in worker.runs]
        leases_end_in = [each.lease_ends_in for each in held if each and each.is_held]
        if not leases_end_in:
            return _("Its tasks have returned to their queues.")
        if self.listed.poller is None:
            return _("No poller is active to return its tasks to their queues. Start one: manage.py runpoller")
        ends = self.listed.at + timedelta(seconds=max(leases_end_in))
        text = ngettext(
            "Its %(count)s task returns to its queue by %(time)s.",
            "Its %(count)s tasks return to their queues by %(time)s.",
            leases,
        )
        return text % {"count": number(leases), "time": formats.timestamp(ends, self.listed.at).text}

    def _command_note(self, target: str, workers: list[WorkerInfo]) -> str:
        """Return a sentence about the command that waits for a target, or was executed last."""
        reported = [each.command for each in workers if each.command and each.command.target == target]
        command = self.listed.pending_commands.get(target) or next(iter(reported), None)
        return labels.command_note(command, self.listed.at) if command else ""

    def _actions(self, target: str, states: set[str]) -> Iterable[tuple[str, str, str]]:
        """Return the commands that make sense in these states: name, label and URL."""
        wanted = {
            "quiet": bool(states & {"working"}),
            "resume": "quiet" in states,
            "restart": bool(states & {"working"}),
            "stop": states != {"stopping"},
        }
        for command, label in labels.actions().items():
            if wanted[command] and command in self.commands:
                url = f"{self.commands[command]}?{urlencode({'id': target})}"
                yield command, label, url
