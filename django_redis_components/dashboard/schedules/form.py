"""The form of a schedule that is added or edited at run time."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.schedules.changes import AddedOptions, check_added
from django_redis_components.taskqueue.task import Task

#: The fields of arguments. Those of a stored schedule are shown by a request of their own, which is logged.
ARGUMENTS = frozenset({"args", "kwargs"})


class SecondsField(forms.FloatField):
    """A duration in seconds; whole numbers are shown without decimal places."""

    def prepare_value(self, value: Any) -> Any:
        """Return what the form shows for a value."""
        return int(value) if isinstance(value, float) and value.is_integer() else value


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

    def __init__(self, *args: Any, using: str, stored: dict[str, Any], shows_arguments: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.using = using
        self.stored = stored
        names = [each.name for each in registry.all_tasks() if isinstance(each, Task) and each.connection == using]
        self.fields["task"].choices = [(name, name) for name in sorted(names)]  # type: ignore[attr-defined]
        if stored:
            self.fields["name"].disabled = True
        if stored and not shows_arguments:
            self.fields["task"].disabled = True
            for name in ARGUMENTS:
                del self.fields[name]

    def clean(self) -> dict[str, Any]:
        """Check the whole schedule as `Schedules.add` does."""
        data = self.cleaned_data
        if self.errors:
            return data
        if (data["every"] is None) == (not data["cron"]):
            raise forms.ValidationError(_("Enter either an interval or a cron expression."))
        try:
            check_added(self.using, data["name"], self.chosen_task, self.options)
        except InvalidTask as exc:
            raise forms.ValidationError(str(exc)) from exc
        return data

    @property
    def chosen_task(self) -> Task[..., Any, Any]:
        """The chosen task."""
        found: Task[..., Any, Any] = registry.find(self.cleaned_data["task"])
        return found

    @property
    def options(self) -> AddedOptions:
        """The options of `Schedules.add`."""
        data = self.cleaned_data
        kept = {name: data[name] if name in self.fields else self.stored.get(name) for name in ARGUMENTS}
        options: dict[str, Any] = {
            "args": [] if kept["args"] is None else kept["args"],
            "kwargs": {} if kept["kwargs"] is None else kept["kwargs"],
            "misfire": data["misfire"],
            "jitter": data["jitter"] or 0,
        }
        given = {name: data[name] for name in ("every", "cron", "tz", "max_age") if data[name] not in (None, "")}
        return options | given  # type: ignore[return-value]
