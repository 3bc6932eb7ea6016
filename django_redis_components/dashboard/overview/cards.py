"""The key figures of the overview, of all queues together."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.dashboard import charts, formats
from django_redis_components.dashboard.elements import NO_VALUE, Tile
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.overview.snapshot import OverviewSnapshot
from django_redis_components.dashboard.panels.comparison import Comparison, change
from django_redis_components.dashboard.problems.server import memory_share
from django_redis_components.dashboard.problems.shard_states import ShardState
from django_redis_components.dashboard.problems.traffic import QueueFailures
from django_redis_components.dashboard.queues.throughput import (
    SPARK_HEIGHT,
    SPARK_WIDTH,
    quantile_text,
    spark_path,
    sparkline,
)
from django_redis_components.taskqueue import Counts, Interval, Metrics
from django_redis_components.taskqueue.stats.history import History
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview


def cards(snapshot: OverviewSnapshot, links: Links) -> Iterable[Tile]:
    """Return the key figures of the parts that could be read."""
    if snapshot.queues is not None:
        yield from _queue_cards(snapshot.queues, snapshot, links)
    if snapshot.visitors:  # where nothing counts visitors, the logins of operators are no figure of the site either
        url = links.page("analytics")
        month = (_("This month against last"), links.reverse("analytics", period="month")) if url else None
        yield Tile(_("Visitors today"), number(snapshot.visitors), _("estimated"), url=url, more=month)
        if snapshot.sign_ins is not None:
            yield Tile(_("Sign-ins today"), number(snapshot.sign_ins), url=links.page("analytics"))


def _queue_cards(overview: TaskQueueOverview, snapshot: OverviewSnapshot, links: Links) -> Iterable[Tile]:
    metrics = [*overview.metrics.values()]
    intervals = _sum_intervals(metrics)
    of_queues = _measured_note(overview)
    finished, failures = _comparisons(snapshot.last_hours)
    throughput = dataclasses.replace(_throughput_card(metrics, intervals), comparison=finished)
    of_hour = links.page("failure") and links.reverse("failure", since="1h")
    failure_rate = dataclasses.replace(_failures_card(overview, intervals, of_hour), comparison=failures)
    yield _with_note(throughput, of_queues)
    yield _with_note(failure_rate, of_queues)
    yield _with_note(_wait_card(metrics, snapshot.history), of_queues)
    yield _ready_card(overview)
    yield _threads_card(overview)
    yield _memory_card(overview, snapshot.states)


def _comparisons(hours: tuple[Counts, Counts] | None) -> tuple[Comparison | None, Comparison | None]:
    """Return how the finished tasks of the last hour, and their failure rate, differ from the hour before."""
    if hours is None or not (hours[0].finished and hours[1].finished):
        return None, None
    last, before = hours
    finished = _comparison(last.finished - before.finished, change(last.finished, before.finished), is_good=True)
    points = 100 * (last.failed / last.finished - before.failed / before.finished)
    if not last.failed and not before.failed:
        return finished, None
    sign = "+" if points > 0 else "−" if points < 0 else "±"
    text = _("%(points)s points") % {"points": f"{sign}{formats.decimal(abs(points))}"}
    return finished, _comparison(points, text, is_good=False)


def _comparison(difference: float, text: str, *, is_good: bool) -> Comparison:
    """Return a comparison; `is_good` states whether more is better."""
    kind = "same" if not difference else "up" if (difference > 0) is is_good else "down"
    return Comparison(text, _("against the hour before"), kind)


def _with_note(card: Tile, note: str) -> Tile:
    return dataclasses.replace(card, note=" · ".join(filter(None, [card.note, note])))


def _measured_note(overview: TaskQueueOverview) -> str:
    """Return of how many queues the figures of the last hour are, unless they are of all."""
    measured, known = len(overview.metrics), len(overview.queues)
    if measured == known:
        return ""
    return _("%(count)s of %(total)s queues") % {"count": number(measured), "total": number(known)}


def _sum_intervals(metrics: Sequence[Metrics]) -> list[Interval]:
    """Return the finished tasks of several queues together, oldest first; other events are not added up."""
    succeeded: Counter[datetime] = Counter()
    failed: Counter[datetime] = Counter()
    for interval in (interval for each in metrics for interval in each.intervals):
        succeeded[interval.at] += interval.counts.succeeded
        failed[interval.at] += interval.counts.failed
    return [Interval(at, Counts(succeeded[at], failed[at])) for at in sorted(succeeded)]


def _throughput_card(metrics: Sequence[Metrics], intervals: Sequence[Interval]) -> Tile:
    peak = max(intervals, key=lambda interval: interval.counts.finished, default=None)
    note = ""
    if peak and peak.counts.finished:
        note = _("%(peak)s peak at %(time)s") % {
            "peak": number(peak.counts.finished),
            "time": formats.clock_short(peak.at),
        }
    rate = formats.rate(sum(each.per_minute() for each in metrics))
    spark = sparkline(intervals) if intervals else None
    note = " · ".join(filter(None, [_("last hour"), note]))
    return Tile(_("Throughput"), rate, note, unit=_("/min"), spark=spark)


def _failures_card(overview: TaskQueueOverview, intervals: Sequence[Interval], failures_url: str) -> Tile:
    metrics = [*overview.metrics.values()]
    finished = sum(each.totals.finished for each in metrics)
    failed = sum(each.totals.failed for each in metrics)
    worst = max(metrics, key=_failure_rate, default=None)
    note = _("last hour")
    if worst and worst.totals.failed:
        note = f"{worst.queue} {formats.short_percent(_failure_rate(worst))}"
    value = formats.short_percent(failed / finished) if finished else NO_VALUE
    alarming = any(  # as the problems: those of the hour that are over do not
        QueueFailures.of(queue, overview.metrics[queue.name]).is_failing
        for queue in overview.queues
        if queue.name in overview.metrics
    )
    spark = sparkline([Interval(each.at, Counts(failed=each.counts.failed)) for each in intervals]) if failed else None
    return Tile(_("Failure rate"), value, note, alarming=alarming, url=failures_url, spark=spark)


def _failure_rate(metrics: Metrics) -> float:
    return metrics.totals.failed / max(metrics.totals.finished, 1)


def _ready_card(overview: TaskQueueOverview) -> Tile:
    queues = overview.queues
    oldest = max((queue.oldest_age or 0.0 for queue in queues if queue.ready), default=None)
    note = "" if oldest is None else _("oldest %(age)s") % {"age": formats.age(oldest)}
    return Tile(pgettext("tasks", "Ready"), number(sum(queue.ready for queue in queues)), note)


def _wait_card(metrics: Sequence[Metrics], history: History | None) -> Tile:
    worst = max(metrics, key=lambda each: each.wait_time.p95 or 0.0, default=None)
    p95 = worst.wait_time.p95 if worst else None
    note = worst.queue if worst and p95 is not None else _("last hour")
    return Tile(_("Wait p95"), quantile_text(p95), note, spark=_wait_trend(history))


def _wait_trend(history: History | None) -> charts.Sparkline | None:
    """Return the p95 of the waits of all queues, if the history that was read is that of the last hour."""
    if history is None or history.range != "1h":
        return None
    waits = [round((interval.wait_time.p95 or 0.0) * 1_000) for interval in history.intervals]
    if not any(waits):
        return None
    peak = max(range(len(waits)), key=lambda index: waits[index])
    finding = _("Peak: %(peak)s (%(time)s)") % {
        "peak": quantile_text(waits[peak] / 1_000),
        "time": formats.clock_short(history.intervals[peak].at),
    }
    return charts.Sparkline(f"0 0 {SPARK_WIDTH} {SPARK_HEIGHT}", spark_path(waits, max(waits)), "", finding)


def _threads_card(overview: TaskQueueOverview) -> Tile:
    live = [worker for worker in overview.workers if worker.is_alive]
    lost = overview.worker_count - overview.live_count
    note = ngettext("%(count)d lost worker", "%(count)d lost workers", lost) % {"count": lost} if lost else ""
    busy, threads = sum(worker.busy_threads for worker in live), sum(worker.threads for worker in live)
    unit = _("of %(threads)s") % {"threads": number(threads)}
    meter = f"{min(busy / threads, 1):.1%}" if threads else ""
    return Tile(_("Busy threads"), number(busy), note, alarming=lost > 0, unit=unit, meter=meter)


def _memory_order(state: ShardState) -> tuple[float, int]:
    used, most = state.memory
    return (used / most if most else 0.0, used)


def _memory_card(overview: TaskQueueOverview, states: Sequence[ShardState]) -> Tile:
    """Return the memory of the server; of several shards that of the one with the least left."""
    fullest = max((each for each in states if each.overview), key=_memory_order, default=None)
    if fullest is not None and fullest.overview is not None:
        tile = _memory_card(fullest.overview, ())
        return _with_note(tile, _("shard %(name)s") % {"name": fullest.shard.name})
    info = overview.server
    if not info:
        return Tile(_("Redis memory"), NO_VALUE)
    used, most = memory_share(info)
    if not most:
        return Tile(_("Redis memory"), filesizeformat(used), _("no maximum"))
    share = formats.short_percent(used / most)
    unit = _("of %(most)s") % {"most": filesizeformat(most)}
    return Tile(_("Redis memory"), filesizeformat(used), share, unit=unit, meter=f"{min(used / most, 1):.1%}")
