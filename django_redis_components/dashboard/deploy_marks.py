"""Deploys as marks in charts whose axis is time, and as the beginning of errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime

from django.utils.translation import gettext as _

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.charts import Chart, ChartMark, ChartPanel
from django_redis_components.taskqueue.stats.deploys import Deploy

#: Marks of a chart, those of the latest deploys.
MAX_MARKS = 10
#: Seconds after a deploy in which an error is said to have begun with it.
DEPLOY_WITHIN_S = 3_600.0


def marked(panels: Iterable[ChartPanel], deploys: Sequence[Deploy]) -> list[ChartPanel]:
    """Return panels of charts of time with the deploys in the time of each."""
    return [dataclasses.replace(panel, marks=marks_of(panel.chart, deploys)) for panel in panels]


def marks_of(chart: Chart | None, deploys: Sequence[Deploy]) -> list[ChartMark]:
    """Return the deploys in the time of a chart, the latest 10.

    Its intervals are of one length, but the first one may be shorter.
    """
    if chart is None or len(chart.rows) < 2:
        return []
    starts = sorted(datetime.fromisoformat(row.iso) for row in chart.rows)
    step_s = (starts[-1] - starts[-2]).total_seconds()
    marks = []
    for deploy in deploys:
        share = ((deploy.at - starts[-1]).total_seconds() / step_s + len(starts) - 1) / len(starts)
        if 0 <= share <= 1:
            marks.append(ChartMark(f"{share * 100:.2f}%", _text(deploy, starts)))
    return marks[-MAX_MARKS:]


def time_after_deploy(first_at: datetime, deploys: Sequence[Deploy]) -> str:
    """Return how long after a deploy an error was first seen; "" if none was in the hour before."""
    deploy = next((each for each in reversed(deploys) if each.at <= first_at), None)
    elapsed_s = (first_at - deploy.at).total_seconds() if deploy else DEPLOY_WITHIN_S
    if deploy is None or elapsed_s >= DEPLOY_WITHIN_S:
        return ""
    return _("First seen %(age)s after the deploy of %(version)s.") % {
        "age": formats.age(elapsed_s),
        "version": deploy.version,
    }


def _text(deploy: Deploy, starts: Sequence[datetime]) -> str:
    """Return version and time; the date, too, in a chart of more than a day."""
    is_long = (starts[-1] - starts[0]).total_seconds() > 86_400
    time = formats.day_and_clock(deploy.at) if is_long else formats.clock_short(deploy.at)
    return _("%(version)s (%(time)s)") % {"version": deploy.version, "time": time}
