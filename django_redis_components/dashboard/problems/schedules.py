"""Problems of periodic tasks."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.problems.problem import Problem, poller_command
from django_redis_components.taskqueue.schedules.status import ScheduleSnapshot


def overdue_schedules(snapshot: ScheduleSnapshot, using: str) -> Iterator[Problem]:
    """Yield schedules whose due time has passed without its task."""
    for schedule in snapshot.schedules:
        if schedule.state == "late" and schedule.next_at:
            text = _("Schedule %(schedule)s is %(age)s overdue: no poller has enqueued its task.") % {
                "schedule": schedule.name,
                "age": formats.age((snapshot.at - schedule.next_at).total_seconds()),
            }
            advice = _("Start a poller, or a worker without --no-poller, with the code that declares it:")
            yield Problem("schedule_late", text, advice, poller_command(using), "critical", subject=schedule.name)
