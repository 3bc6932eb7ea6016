"""The form of a schedule that is added or edited at run time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.forms import MAX_TIME, moment_in
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.options import MAX_PRIORITY
from django_redis_components.taskqueue.schedules.changes import AddedOptions, check_added
from django_redis_components.taskqueue.schedules.recurrence import parse_moment
from django_redis_components.taskqueue.schedules.schedule import MAX_COUNT
from django_redis_components.taskqueue.task import Task

#: The options of the task that have fields of their own; the others are one JSON object.
OPTION_FIELDS = ("queue_name", "priority", "expires")
#: The fields of arguments. Those of a stored schedule are shown by a request of their own, which is logged.
ARGUMENTS = frozenset({"args", "kwargs"})
#: The fields that may be empty, and are options of `Schedules.add`.
OPTIONAL = ("every", "cron", "at", "tz", "max_age", "start", "end", "count")


class SecondsField(forms.FloatField):
    """A duration in seconds; whole numbers are shown without decimal places."""

    def prepare_value(self, value: Any) -> Any:
        """Return what the form shows for a value."""
        return int(value) if isinstance(value, float) and value.is_integer() else value


class MomentField(forms.Field):
    """A date and time in the active time zone. One that is not changed is kept as it is, to the millisecond."""

    def __init__(self, **kwargs: Any) -> None:
        widget = forms.TextInput(attrs={"autocomplete": "off", "maxlength": MAX_TIME})
        widget.input_type = "datetime-local"
        super().__init__(required=False, widget=widget, **kwargs)

    def to_python(self, value: Any) -> datetime | None:
        """Return the time, or None."""
        text = (value or "").strip()
        found = moment_in(text)
        if text and found is None:
            raise forms.ValidationError(_("Expected date and time, such as 2026-11-22 14:30, up to the year 9999."))
        return found

    def prepare_value(self, value: Any) -> Any:
        """Return what the form shows for a stored time."""
        stored = _stored_moment(value)
        return value if stored is None else formats.input_time(stored)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Return whether another time was entered than the form showed."""
        return (self.prepare_value(initial) or "") != (data or "").strip()


def _stored_moment(value: Any) -> datetime | None:
    try:
        stored = parse_moment(value, "moment")
        formats.local(stored)  # another program may have written a time at the end of the calendar
    except (ValueError, OverflowError):
        return None
    return stored


class ScheduleForm(forms.Form):
    """The fields of a schedule. Its options are valid for `Schedules.add` when the form is.

    Attributes:
        using: connection of the schedules and their tasks.
        stored: the definition that is edited; empty for a new one.

    Arguments that are not shown are kept, and so is the task: those of another task with other parameter names would be
    masked less.
    """

    name = forms.CharField(label=gettext_lazy("Name"), max_length=200)
    task = forms.ChoiceField(label=gettext_lazy("Task"))
    every = SecondsField(label=gettext_lazy("Interval in seconds"), required=False, min_value=1)
    cron = forms.CharField(
        label=gettext_lazy("Or a cron expression"),
        required=False,
        max_length=200,
        help_text=gettext_lazy("Minute, hour, day of month, month, day of week; for example: 30 3 * * mon-fri"),
    )
    at = MomentField(label=gettext_lazy("Or one time"))
    tz = forms.CharField(
        label=gettext_lazy("Time zone of the cron expression"),
        required=False,
        max_length=60,
        help_text=gettext_lazy("For example Europe/Berlin. Empty: the time zone of the site."),
    )
    args = forms.JSONField(
        label=gettext_lazy("Positional arguments, a JSON list"),
        required=False,
        initial=list,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    kwargs = forms.JSONField(
        label=gettext_lazy("Named arguments, a JSON object"),
        required=False,
        initial=dict,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    misfire = forms.ChoiceField(
        label=gettext_lazy("Times that pass without an active poller"),
        choices=[
            ("once", pgettext_lazy("missed runs", "run the last one")),
            ("skip", pgettext_lazy("missed runs", "skip them")),
            ("all", pgettext_lazy("missed runs", "run all")),
        ],
    )
    max_age = SecondsField(
        label=gettext_lazy("Longest delay of a run in seconds"),
        required=False,
        min_value=0.001,
        help_text=gettext_lazy("Empty: no limit, 60 for skipped and 86,400 for all runs."),
    )
    jitter = SecondsField(label=gettext_lazy("Random delay of up to, in seconds"), required=False, min_value=0)
    start = MomentField(label=gettext_lazy("First possible time"))
    end = MomentField(label=gettext_lazy("Last possible time"))
    count = forms.IntegerField(
        label=gettext_lazy("Most runs"),
        required=False,
        min_value=1,
        max_value=MAX_COUNT,
        help_text=gettext_lazy("All that it has sent since it was added count."),
    )
    queue_name = forms.CharField(
        label=gettext_lazy("Queue"), required=False, max_length=200, help_text=gettext_lazy("Empty: that of the task.")
    )
    priority = forms.IntegerField(
        label=gettext_lazy("Priority"),
        required=False,
        min_value=-MAX_PRIORITY,
        max_value=MAX_PRIORITY,
        help_text=gettext_lazy("-100 to 100, higher first. Empty: that of the task."),
    )
    expires = SecondsField(
        label=gettext_lazy("Expires after, in seconds"),
        required=False,
        min_value=0.001,
        help_text=gettext_lazy("From when a run is enqueued. Empty: as the task says."),
    )
    options = forms.JSONField(
        label=gettext_lazy("Other options of the task, a JSON object"),
        required=False,
        initial=dict,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy('For example: {"max_attempts": 3, "timeout": 60}'),
    )

    def __init__(self, data: Any, /, *, using: str, name: str, stored: dict[str, Any], shows_arguments: bool) -> None:
        super().__init__(data, initial=_initial(stored))
        self.using = using
        self.stored = stored
        names = [each.name for each in registry.all_tasks() if isinstance(each, Task) and each.connection == using]
        self.fields["task"].choices = [(name, name) for name in sorted(names)]  # type: ignore[attr-defined]
        for moment in ("at", "start", "end"):
            self.fields[moment].help_text = _("In the time zone %(zone)s.") % {"zone": formats.zone()}
        if stored:
            self.fields["name"].disabled = True
            self.initial["name"] = name
        if stored and not shows_arguments:
            self.fields["task"].disabled = True
            for name in ARGUMENTS:
                del self.fields[name]

    def clean(self) -> dict[str, Any]:
        """Check the whole schedule as `Schedules.add` does."""
        data = self.cleaned_data
        if self.errors:
            return data
        if sum(bool(data[name]) for name in ("every", "cron", "at")) != 1:
            raise forms.ValidationError(_("Enter one of interval, cron expression and time."))
        if data["options"] and not isinstance(data["options"], dict):
            raise forms.ValidationError(_("Other options of the task: expected a JSON object."))
        try:
            check_added(self.using, data["name"], self.chosen_task, self.schedule_options)
        except InvalidTask as exc:
            raise forms.ValidationError(str(exc)) from exc
        return data

    @property
    def chosen_task(self) -> Task[..., Any, Any]:
        """The chosen task."""
        found: Task[..., Any, Any] = registry.find(self.cleaned_data["task"])
        return found

    @property
    def schedule_options(self) -> AddedOptions:
        """The options of `Schedules.add`."""
        data = self.cleaned_data
        kept = {name: data[name] if name in self.fields else self.stored.get(name) for name in ARGUMENTS}
        options: dict[str, Any] = {
            "args": [] if kept["args"] is None else kept["args"],
            "kwargs": {} if kept["kwargs"] is None else kept["kwargs"],
            "misfire": data["misfire"],
            "jitter": data["jitter"] or 0,
        }
        options["options"] = {**(data["options"] or {}), **_filled(data, OPTION_FIELDS)}
        times = {name: self._moment(name) for name in ("at", "start", "end")}
        return options | _filled(data | times, OPTIONAL)  # type: ignore[return-value]

    def _moment(self, name: str) -> datetime | None:
        """Return a time as it is stored if it was not changed: the field shows no milliseconds."""
        found: datetime | None = self.cleaned_data[name]
        return found if name in self.changed_data else _stored_moment(self.stored.get(name)) or found


def _initial(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the fields for a stored definition."""
    options = stored.get("options")
    given = dict(options) if isinstance(options, dict) else {}
    own = {name: given.pop(name) for name in OPTION_FIELDS if name in given}
    return {**stored, **own, "options": given}


def _filled(data: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return those of these values that were entered."""
    return {name: data[name] for name in names if data[name] not in (None, "")}
