"""The rows of the page of workers: processes by host and version, with their running tasks and commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import NO_VALUE, MeteredValue, anchor_of
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.overview.worker_table import shards_text
from django_redis_components.dashboard.queues.task_list import TaskUrl
from django_redis_components.dashboard.workers import labels
from django_redis_components.dashboard.workers.data import MAX_ELAPSED_S
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo, WorkerRun
from django_redis_components.taskqueue.stats.workers import WorkerPage

#: Running tasks that the page shows of one process.
SHOWN_RUNS = 10
#: Most supervisors of a host to which one command can be sent.
MAX_TARGETS = 50
#: Share of its time limit from which on a run is highlighted.
LATE_SHARE = 0.8


@dataclasses.dataclass(frozen=True, slots=True)
class Action:
    """A link to the confirmation of a command."""

    command: str
    label: str
    url: str


def newest_version(workers: Iterable[WorkerInfo]) -> str:
    """Return the version of the process that was started last; "" if none is known."""
    started = [
        (worker.started_at, worker.version)
        for worker in workers
        if worker.is_alive and worker.version and worker.started_at
    ]
    return max(started)[1] if started else ""


class RowBuilder:
    """Builds the groups of workers.

    Args:
        commands: the URLs of the commands that the user may send, by name.
    """

    def __init__(self, listed: WorkerPage, commands: Mapping[str, str], url_of: TaskUrl) -> None:
        self.listed, self.commands, self.url_of = listed, commands, url_of
        self._labels = labels.actions()
        self._states = {name: state() for name, state in labels.STATES.items()}
        self._largest = max((worker.memory or 0 for worker in listed.workers), default=0)
        self._of_supervisor: dict[str, list[WorkerInfo]] = {}
        for worker in listed.workers:
            self._of_supervisor.setdefault(worker.supervisor, []).append(worker)

    def groups(self) -> list[dict[str, Any]]:
        """Return the processes by host and version, groups with lost ones first."""
        found: dict[tuple[str, str], list[WorkerInfo]] = {}
        for worker in self.listed.workers:
            found.setdefault((worker.host, worker.version), []).append(worker)
        newest = newest_version(self.listed.workers)
        groups = [self._group(*key, workers, newest) for key, workers in sorted(found.items())]
        return sorted(groups, key=lambda group: not group["lost"])

    def _group(self, host: str, version: str, workers: list[WorkerInfo], newest: str) -> dict[str, Any]:
        live = [worker for worker in workers if worker.is_alive]
        lost, supervisors = len(workers) - len(live), list(dict.fromkeys(worker.supervisor for worker in live))
        processes = ngettext("%(count)s process", "%(count)s processes", len(workers)) % {"count": number(len(workers))}
        return {
            "id": f"{host} {version}",
            "host": host,
            "version": version,
            "is_old": bool(newest and version and version != newest),
            "note": processes,
            "lost": ngettext("%(count)s lost", "%(count)s lost", lost) % {"count": number(lost)} if lost else "",
            "actions": [*self._actions(supervisors, live)] if 0 < len(supervisors) <= MAX_TARGETS else [],
            "rows": [self._row(worker) for worker in sorted(workers, key=lambda worker: worker.is_alive)],
        }

    def _row(self, worker: WorkerInfo) -> dict[str, Any]:
        runs = [self._run(run, worker) for run in worker.runs[:SHOWN_RUNS]]
        hidden = worker.busy - len(runs)
        more = ngettext("%(count)s more running task", "%(count)s more running tasks", hidden)
        busy = {"busy": number(worker.busy_threads), "threads": number(worker.threads)}
        siblings = self._of_supervisor[worker.supervisor]
        return {
            "id": worker.id,
            "anchor": anchor_of("worker", worker.id),
            "name": str(worker.pid) if worker.pid else worker.id,
            "state": self._states[labels.state_of(worker)],
            "note": self._command_note(worker.id, [worker]) or self._command_note(worker.supervisor, siblings),
            "changes": [labels.pool_note(each, worker, self.listed.at) for each in worker.changes],
            "fate": self._fate(siblings) if not worker.is_alive else "",
            "shards": shards_text(self.listed.alive_in[worker.id]) if worker.id in self.listed.alive_in else "",
            "queues": worker.pool.value("queues").replace(",", ", "),
            "busy": MeteredValue(_("%(busy)s of %(threads)s") % busy, _share(worker.busy_threads, worker.threads)),
            "rate": NO_VALUE if worker.per_minute is None else formats.rate(worker.per_minute),
            "memory": self._memory(worker),
            "heartbeat": _("%(age)s ago") % {"age": formats.age(worker.heartbeat_age)},
            "first_run": runs[0] if runs else None,
            "runs": runs,
            "more": more % {"count": number(hidden)} if hidden > 0 and runs else "",
            "others": number(max(worker.busy, len(runs)) - 1) if max(worker.busy, len(runs)) > 1 and runs else "",
            "facts": [(label, value) for label, value in self._facts(worker) if value],
            "started_at": worker.started_at,
            "actions": [*self._targets(worker, siblings)],
        }

    def _facts(self, worker: WorkerInfo) -> Iterable[tuple[str, str]]:
        supervisor = worker.supervisor
        if worker.supervisor_pid:
            supervisor = f"{worker.host} · {worker.supervisor_pid}"
        yield _("Supervisor"), supervisor
        yield _("Coroutines"), _coroutines(worker)
        yield _("Poller"), labels.poller(worker.poller)
        yield _("Round trip"), "" if worker.round_trip is None else labels.milliseconds(worker.round_trip)
        yield _("Finished"), number(worker.finished)

    def _memory(self, worker: WorkerInfo) -> MeteredValue | None:
        """Return the memory of a process, beside that of the largest one."""
        if worker.memory is None:
            return None
        return MeteredValue(labels.mebibytes(worker.memory), _share(worker.memory, self._largest))

    def _run(self, run: WorkerRun, worker: WorkerInfo) -> dict[str, Any]:
        """Return a running task, or one that a lost worker ran, and what becomes of it."""
        held = None if worker.is_alive else self.listed.held.get(run.id)
        elapsed_s = min(run.elapsed + worker.heartbeat_age, MAX_ELAPSED_S)
        text = formats.duration(elapsed_s)
        meter = MeteredValue(text)
        if run.limit:
            text = _("%(elapsed)s of %(limit)s") % {"elapsed": text, "limit": formats.duration(run.limit)}
            meter = MeteredValue(
                text, _share(elapsed_s, run.limit), "late" if elapsed_s >= run.limit * LATE_SHARE else ""
            )
        task = {"id": run.id, "name": run.name, "url": self.url_of(run.id)}
        return {**task, "queue": run.queue, "elapsed": meter, "fate": labels.fate_of_task(held) if held else ""}

    def _fate(self, workers: Sequence[WorkerInfo]) -> str:
        """Return what becomes of the tasks of a lost process, with the others of its supervisor."""
        lost = [worker for worker in workers if not worker.is_alive]
        leases = sum(worker.leases for worker in lost)
        if not leases:
            return _("It held no tasks.")
        held = [self.listed.held.get(run.id) for worker in lost for run in worker.runs]
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

    def _command_note(self, target: str, workers: Sequence[WorkerInfo]) -> str:
        """Return a sentence about the command that waits for a target, or was executed last."""
        reported = [each.command for each in workers if each.command and each.command.target == target]
        command = self.listed.pending_commands.get(target) or next(iter(reported), None)
        return labels.command_note(command, self.listed.at) if command else ""

    def _targets(self, worker: WorkerInfo, siblings: Sequence[WorkerInfo]) -> Iterable[tuple[str, list[Action]]]:
        """Yield the commands to a process, unless it is the only one of its supervisor, and those to the supervisor."""
        states = {labels.state_of(each) for each in siblings}
        state = labels.state_of(worker)
        if state == "lost":
            return
        if len(siblings) > 1 and not (state == "quiet" and states == {"quiet"}):
            yield _("Process %(pid)s") % {"pid": worker.pid or worker.id}, [*self._actions([worker.id], [worker])]
        name = worker.supervisor_pid or worker.supervisor
        text = ngettext(
            "Supervisor %(pid)s, %(count)s process", "Supervisor %(pid)s, %(count)s processes", len(siblings)
        )
        label = text % {"pid": name, "count": number(len(siblings))}
        yield label, [*self._actions([worker.supervisor], siblings)]

    def of_all(self) -> list[Action]:
        """Return the change of the pools of all workers, if they are on several hosts and on this page."""
        live = [worker for worker in self.listed.workers if worker.is_alive]
        supervisors = list(dict.fromkeys(worker.supervisor for worker in live))
        is_whole = len(self.listed.workers) >= self.listed.total and len(supervisors) <= MAX_TARGETS
        if not is_whole or len({worker.host for worker in live}) < 2:
            return []
        found = [action for action in self._actions(supervisors, live) if action.command == "pool"]
        label = pgettext("worker", "Change the pool of all workers…")
        return [dataclasses.replace(action, label=label, url=f"{action.url}&all=1") for action in found]

    def _actions(self, targets: Sequence[str], workers: Sequence[WorkerInfo]) -> Iterable[Action]:
        """Yield the commands that make sense in the states of these workers."""
        states = {labels.state_of(worker) for worker in workers}
        wanted = {
            "pool": "working" in states and any(worker.command_line for worker in workers),
            "reset": any(worker.changes for worker in workers),
            "quiet": bool(states & {"working"}),
            "resume": "quiet" in states,
            "restart": bool(states & {"working"}),
            "stop": states != {"stopping"},
        }
        query = urlencode([("id", target) for target in targets])
        for command, label in self._labels.items():
            if wanted[command] and command in self.commands:
                yield Action(command, label, f"{self.commands[command]}?{query}")


def _coroutines(worker: WorkerInfo) -> str:
    """Return how many run of how many may; "" if none may."""
    most = number(worker.async_concurrency) if worker.async_concurrency else ""
    if not worker.busy_coroutines:
        return most
    return _("%(busy)s of %(threads)s") % {"busy": number(worker.busy_coroutines), "threads": most}


def _share(part: float, whole: float) -> str:
    """Return a share as the width of a bar."""
    return f"{min(part / whole, 1):.1%}" if whole > 0 else "0%"
