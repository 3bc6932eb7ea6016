"""The snapshot as the template shows it: every word and number ready, in the active language."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import date

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.core import conf
from django_redis_components.dashboard import charts, wording
from django_redis_components.dashboard.counting import Cost
from django_redis_components.dashboard.health import Problem, is_alive, problems
from django_redis_components.dashboard.pace import PaceRow, pace_rows
from django_redis_components.dashboard.reading import SignInDays, Snapshot, Visitors
from django_redis_components.dashboard.rows import (
    QueueRow,
    ScheduleRow,
    WorkerRow,
    queue_row,
    schedule_row,
    total_row,
    worker_row,
)
from django_redis_components.dashboard.wording import Moment, number
from django_redis_components.taskqueue.stats.overview import Overview


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the top: its name, its value, and a few words below."""

    label: str
    value: str
    note: str = ""
    alarming: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Days:
    """A chart with its figures; `chart` is None when there is nothing to draw."""

    id: str
    name: str
    chart: charts.Chart | None
    today: str
    range_label: str
    range: str
    note: str


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """Everything on the page. A part that could not be read is None."""

    headline: str
    problems: list[Problem]
    tiles: list[Tile]
    queues: list[QueueRow] | None
    total: QueueRow | None
    pace: list[PaceRow]
    schedules: list[ScheduleRow] | None
    workers: list[WorkerRow] | None
    poller: str | None
    poller_missing: bool
    visitors: Days | None
    sign_ins: Days | None
    read_at: Moment
    zone: str
    cost: str


def page(snapshot: Snapshot) -> Page:
    """The page of a snapshot."""
    found = problems(snapshot)
    overview = snapshot.queues
    return Page(
        headline=_headline(found, overview),
        problems=found,
        tiles=[*_tiles(snapshot)],
        queues=[queue_row(queue, overview) for queue in overview.queues] if overview else None,
        total=total_row(overview) if overview and len(overview.queues) > 1 else None,
        pace=pace_rows(overview) if overview else [],
        schedules=_schedules(snapshot),
        workers=[worker_row(worker, snapshot.at) for worker in overview.workers] if overview else None,
        poller=overview.poller if overview else None,
        poller_missing=any(problem.code == "poller_missing" for problem in found),
        visitors=_visitors(snapshot.visitors) if snapshot.visitors else None,
        sign_ins=_sign_ins(snapshot.sign_ins) if snapshot.sign_ins else None,
        read_at=wording.moment(snapshot.at, snapshot.at),
        zone=wording.zone(),
        cost=cost_words(snapshot.cost, nodes=snapshot.nodes),
    )


def _schedules(snapshot: Snapshot) -> list[ScheduleRow] | None:
    if snapshot.schedules is None:
        return None
    return [schedule_row(each, snapshot.at) for each in snapshot.schedules.schedules]


def _headline(found: list[Problem], overview: Overview | None) -> str:
    if found:
        return ngettext("%(count)d problem", "%(count)d problems", len(found)) % {"count": len(found)}
    if overview and not overview.queues and not overview.workers:
        return _("No problems. No task has been sent yet.")
    return _("No problems.")


def _tiles(snapshot: Snapshot) -> Iterable[Tile]:
    overview = snapshot.queues
    if overview is not None:
        queues = overview.queues
        oldest = max((queue.oldest_age_s or 0.0 for queue in queues if queue.ready), default=None)
        waits = "" if oldest is None else _("oldest: %(age)s") % {"age": wording.age(oldest)}
        yield Tile(pgettext("tasks", "Ready"), number(sum(queue.ready for queue in queues)), waits)
        yield Tile(pgettext("tasks", "Scheduled"), number(sum(queue.scheduled for queue in queues)))
        yield Tile(pgettext("tasks", "Running"), number(sum(queue.running for queue in queues)))
        yield Tile(pgettext("tasks", "Failed"), number(sum(queue.failed for queue in queues)))
        yield _workers_tile(overview)
    if snapshot.visitors is not None:
        yield Tile(_("Visitors today"), number(list(snapshot.visitors.days.values())[-1]), _("estimated"))
    if snapshot.sign_ins is not None:
        yield Tile(_("Sign-ins today"), number(list(snapshot.sign_ins.days.values())[-1]))


def _workers_tile(overview: Overview) -> Tile:
    lost = sum(1 for worker in overview.workers if not is_alive(worker))
    note = ngettext("%(count)d lost", "%(count)d lost", lost) % {"count": lost} if lost else ""
    return Tile(_("Workers alive"), number(len(overview.workers) - lost), note, alarming=lost > 0)


def _visitors(visitors: Visitors) -> Days:
    span = {"days": len(visitors.days)}
    error = _("Estimates with a standard error of ± %(error)s (HyperLogLog).") % {
        "error": wording.percent(visitors.range.error)
    }
    if visitors.range.exact_range:
        label = _("Different visitors in %(days)d days") % span
    else:
        label = _("Sum of the daily visitors of %(days)d days") % span
        policy = _(
            "Who comes on two days counts twice: visitors get a new id each day (VISITOR_IDENTITY “%(policy)s”)."
        )
        error = f"{error} {policy % {'policy': conf.settings().analytics.visitor_identity}}"
    return _days("visitors", visitors.name, visitors.days, label, int(visitors.range), error)


def _sign_ins(sign_ins: SignInDays) -> Days:
    label = _("Sign-ins in %(days)d days") % {"days": len(sign_ins.days)}
    note = _("Each user counts once a day.")
    return _days("sign-ins", sign_ins.name, sign_ins.days, label, sum(sign_ins.days.values()), note)


def _days(panel: str, name: str, values: Mapping[date, int], label: str, total: int, note: str) -> Days:
    zone = _("Days are dates in %(zone)s.") % {"zone": wording.days_zone()}
    return Days(
        id=panel,
        name=name,
        chart=charts.bar_chart(values) if any(values.values()) else None,
        today=number(list(values.values())[-1]),
        range_label=label,
        range=number(total),
        note=f"{note} {zone}",
    )


def cost_words(cost: Cost, *, nodes: bool) -> str:
    """What reading took, in words; on Cluster (`nodes`) a round trip is one to each node."""
    parts = [
        ngettext("%(count)d command", "%(count)d commands", cost.commands) % {"count": cost.commands},
        ngettext("%(count)d round trip", "%(count)d round trips", cost.round_trips) % {"count": cost.round_trips},
        _("%(ms)s ms") % {"ms": wording.decimal(cost.seconds * 1_000)},
    ]
    if nodes:
        parts[1] = _("%(trips)s to each node") % {"trips": parts[1]}
    return " · ".join(parts)
