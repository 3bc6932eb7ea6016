"""Problems in the tasks of the last hour: failures, retries, lost leases, and queues that grow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.error_text import error_line
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.problem import Problem, queue_command, worker_command
from django_redis_components.dashboard.queues.throughput import is_growing, recent_rate
from django_redis_components.taskqueue import ErrorGroup, Metrics
from django_redis_components.taskqueue.stats.queue_stats import OVERVIEW_MINUTES, QueueInfo, TaskQueueOverview

#: Fewest tasks from which a rate is computed: one failure of two tasks is not a failure rate of 50 %.
MIN_TASKS = 20
#: Times `FAILURE_RATE` from which failures are critical, and from which the latest tasks alone are a problem.
CRITICAL_FACTOR, SUDDEN_FACTOR = 2, 5
#: Fewest minutes and tasks of what counts as the latest: fewer would end a problem, and begin it again, by chance.
RECENT_MINUTES, RECENT_TASKS = 5, 50
#: Minutes without a failure after which failures are over if no failed task is left.
OVER_MINUTES = 2


@dataclasses.dataclass(frozen=True, slots=True)
class _Share:
    """How many of the tasks that finished in the latest minutes have failed."""

    finished: int
    failed: int
    minutes: int

    def without(self, failures: int) -> _Share:
        return _Share(self.finished - failures, self.failed - failures, self.minutes)

    def is_above(self, limit: float) -> bool:
        return self.finished >= MIN_TASKS and self.failed > self.finished * limit

    def __str__(self) -> str:
        return formats.percent(self.failed / max(self.finished, 1))


@dataclasses.dataclass(frozen=True, slots=True)
class QueueFailures:
    """What has failed of a queue in the last hour. Steps of a flow that never ran after a failure do not count.

    Attributes:
        hour, recent: of the hour, and of the latest minutes, or of the hour if few tasks have finished.
        not_run: how many such steps the latest minutes have. Counters of a minute do not tell it, but those of the
            hour: they are no more than these, nor than failures of which no failed task is left.
        quiet_minutes: since the last one with a failure, the current one included.
    """

    queue: QueueInfo
    hour: _Share
    recent: _Share
    quiet_minutes: int
    not_run: int

    @classmethod
    def of(cls, queue: QueueInfo, metrics: Metrics) -> QueueFailures:
        latest = [interval.counts for interval in reversed(metrics.intervals)]
        finished = failed = minutes = 0
        for counts in latest:
            if minutes >= RECENT_MINUTES and finished >= RECENT_TASKS:
                break
            finished, failed, minutes = finished + counts.finished, failed + counts.failed, minutes + 1
        hour, recent = (
            _Share(metrics.totals.finished, metrics.totals.failed, len(latest)),
            _Share(finished, failed, minutes),
        )
        of_hour = min(metrics.not_run, max(0, hour.failed - queue.failed))
        not_run = min(of_hour, max(0, recent.failed - queue.failed))
        quiet_minutes = next((ago for ago, counts in enumerate(latest) if counts.failed), len(latest))
        return cls(queue, hour.without(of_hour), recent.without(not_run), quiet_minutes, not_run)

    @property
    def once(self) -> _Share:
        """The recent share in which each task that has run counts once: one that was retried has run twice.

        The failed tasks that are left tell it. They do not if none is left, or as many as a queue keeps.
        """
        if not 0 < self.queue.failed < conf.settings().taskqueue.failed_limit:
            return self.recent
        return self.recent.without(max(0, self.recent.failed - self.queue.failed))

    @property
    def is_high(self) -> bool:
        """Whether the share is above `FAILURE_RATE`, and tasks have failed in the latest minutes."""
        limit, recent = conf.settings().dashboard.failure_rate, self.recent
        is_high = recent.is_above(limit) and (self.hour.is_above(limit) or recent.is_above(limit * SUDDEN_FACTOR))
        return is_high and self.quiet_minutes < (RECENT_MINUTES if self.queue.failed else OVER_MINUTES)

    @property
    def is_failing(self) -> bool:
        """Whether it is so, also without the tasks that were retried since."""
        return self.is_high and self.once.is_above(conf.settings().dashboard.failure_rate)

    def problem(self, template: str, minutes: int, remedy: str, verb: str, overview: TaskQueueOverview) -> Problem:
        """Return the warning of a template with so many minutes, and what to do, with the verb of the command."""
        once, queue, groups = self.once, self.queue, overview.main_errors.get(self.queue.name, [])
        text = template % {
            "queue": queue.name,
            "share": str(once),
            "failed": number(once.failed),
            "finished": number(once.finished),
            "minutes": minutes,
        }
        counted_again = _counted_again(self.not_run + self.recent.failed - once.failed)
        advice = " ".join([*_left(queue), *counted_again, *_error_notes(groups, overview.at), remedy])
        command = queue_command(verb, queue.name, using=overview.using)
        return Problem("failures", text, advice, command, "warning", queue.name, "failed", _fingerprint(groups))


def failing_queues(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield queues whose share of failed tasks is above `FAILURE_RATE`, until it is below and no failed task is left.

    A problem must end when its cause is removed, so the latest tasks decide: the share of the hour would stay high.
    """
    limit = conf.settings().dashboard.failure_rate
    for queue, metrics in _measured(overview):
        failures = QueueFailures.of(queue, metrics)
        if failures.is_failing:
            yield _failing(failures, overview)
        elif queue.failed and (failures.hour.is_above(limit) or failures.is_high):
            yield _recovering(failures, overview)


def _failing(failures: QueueFailures, overview: TaskQueueOverview) -> Problem:
    template = (
        _("Queue %(queue)s: %(share)s of tasks failed in the last hour (%(failed)s of %(finished)s).")
        if failures.recent.minutes >= OVERVIEW_MINUTES
        else _("Queue %(queue)s: %(share)s of tasks failed in the last %(minutes)d min (%(failed)s of %(finished)s).")
    )
    remedy = _("Correct the cause, then retry the tasks. List the errors:")
    problem = failures.problem(template, failures.recent.minutes, remedy, "errors", overview)
    is_critical = failures.once.is_above(conf.settings().dashboard.failure_rate * CRITICAL_FACTOR)
    return dataclasses.replace(problem, severity="critical") if is_critical else problem


def _recovering(failures: QueueFailures, overview: TaskQueueOverview) -> Problem:
    template = (
        _("Queue %(queue)s: no task has failed for %(minutes)d min.")
        if failures.recent.failed and failures.quiet_minutes >= RECENT_MINUTES
        else _("Queue %(queue)s recovers: %(failed)s of the last %(finished)s tasks failed.")
    )
    remedy = _("Retry or delete the failed tasks:")
    return failures.problem(template, failures.quiet_minutes, remedy, "retry", overview)


def _left(queue: QueueInfo) -> Iterator[str]:
    if queue.failed:
        yield ngettext("%(count)s failed task is left.", "%(count)s failed tasks are left.", queue.failed) % {
            "count": number(queue.failed)
        }


def _counted_again(again: int) -> Iterator[str]:
    """Yield how many failures do not count, see `QueueFailures.once`."""
    if again:
        yield ngettext(
            "%(count)s failure is not counted: the task was retried or deleted since, or never ran.",
            "%(count)s failures are not counted: the tasks were retried or deleted since, or never ran.",
            again,
        ) % {"count": number(again)}


def _fingerprint(groups: list[ErrorGroup]) -> str:
    return groups[0].fingerprint if len(groups) == 1 else ""


def named_errors(groups: list[ErrorGroup]) -> list[ErrorGroup]:
    """Return the errors of the hour, of those of a queue: a problem names them."""
    return [group for group in groups if _failures(group)]


def _error_notes(groups: list[ErrorGroup], at: datetime) -> Iterator[str]:
    """Yield notes about the hour's errors, those with most failures first. Their texts have no variable parts."""
    groups = named_errors(groups)
    for group in groups[:1]:
        count = _failures(group)
        yield ngettext(
            "%(count)s failure in the last hour with the same error, first seen %(time)s: %(error)s.",
            "%(count)s failures in the last hour with the same error, first seen %(time)s: %(error)s.",
            count,
        ) % {"count": number(count), "time": formats.timestamp(group.first_at, at).text, "error": error_text(group)}
    others = [f"{error_text(group)} ({number(_failures(group))})" for group in groups[1:]]
    if others:
        yield _("Others: %(errors)s.") % {"errors": "; ".join(others)}


def _failures(group: ErrorGroup) -> int:
    return sum(count for _at, count in group.minutes)


def error_text(group: ErrorGroup) -> str:
    """Return the name and the message of an error, in one line."""
    kind = group.exception_class_path.rpartition(".")[2]
    return ": ".join(filter(None, [kind, error_line(group.message).rstrip(".")]))


def retry_storms(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield queues with more than `RETRY_RATE` retries per finished task."""
    limit = conf.settings().dashboard.retry_rate
    for queue, metrics in _measured(overview):
        finished, retried = metrics.totals.finished, metrics.totals.retried
        if retried >= MIN_TASKS and retried > finished * limit:
            text = ngettext(
                "Queue %(queue)s: %(retried)s retries in the last hour, %(finished)s finished task.",
                "Queue %(queue)s: %(retried)s retries in the last hour, %(finished)s finished tasks.",
                finished,
            ) % {"queue": queue.name, "retried": number(retried), "finished": number(finished)}
            advice = _("Most runs fail. Pause the queue until the cause is corrected:")
            command = queue_command("pause", queue.name, using=overview.using)
            yield Problem("retry_storm", text, advice, command, "warning", queue.name, "retrying")


def lost_leases(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield queues that lost at least `LOST_LEASES` leases."""
    for queue, metrics in _measured(overview):
        lost = metrics.totals.recovered
        if lost >= conf.settings().dashboard.lost_leases:
            text = ngettext(
                "Queue %(queue)s: %(count)s lease lost in the last hour.",
                "Queue %(queue)s: %(count)s leases lost in the last hour.",
                lost,
            ) % {"queue": queue.name, "count": number(lost)}
            advice = _("Workers were killed or stalled. Check their logs for out-of-memory kills and blocked threads.")
            yield Problem("leases_lost", text, advice, queue=queue.name)


def growing_queues(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield queues to which more tasks arrive than finish."""
    for queue, metrics in _measured(overview):
        if grows(queue, overview):
            text = _("Queue %(queue)s is growing: %(arrived)s/min in, %(finished)s/min out, oldest %(age)s.") % {
                "queue": queue.name,
                "arrived": formats.rate(queue.arrival_rate or 0.0),
                "finished": formats.rate(recent_rate(metrics)),
                "age": formats.age(queue.oldest_age or 0.0),
            }
            advice = _("It has too few workers, or its tasks take longer than before. Add a worker:")
            yield Problem(
                "growing", text, advice, worker_command(queue.name, using=overview.using), "warning", queue.name
            )


def grows(queue: QueueInfo, overview: TaskQueueOverview) -> bool:
    """Return whether more tasks arrive than finish, and its oldest task has waited for `GROWING_AFTER`."""
    metrics = overview.metrics.get(queue.name)
    if metrics is None or not is_growing(queue, metrics):
        return False
    return (queue.oldest_age or 0.0) >= conf.settings().dashboard.growing_after_s


def _measured(overview: TaskQueueOverview) -> Iterator[tuple[QueueInfo, Metrics]]:
    for queue in overview.queues:
        if queue.name in overview.metrics:
            yield queue, overview.metrics[queue.name]


#: The checks of this module.
CHECKS = (failing_queues, retry_storms, growing_queues, lost_leases)
