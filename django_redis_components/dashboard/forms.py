"""The forms of changes that ask for more than a confirmation: a pause, a new due time, another queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django import forms
from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.taskqueue.options import check_moment, when
from django_redis_components.taskqueue.store.control import MAX_NOTE

#: Longest pause with an end, in minutes: a year.
MAX_PAUSE_MIN = 525_600
#: Longest value of a field for date and time, in characters.
MAX_TIME = 40
_PLAIN = {"autocomplete": "off"}


class ChangeForm(forms.Form):
    """The fields of a confirmation. `problem` says what is wrong with them, or is ""."""

    use_required_attribute = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"auto_id": False, **kwargs})

    @property
    def argument(self) -> str:
        """What the change needs to know, if the form is valid."""
        return ""

    @property
    def problem(self) -> str:
        """The first error."""
        return next((str(errors[0]) for errors in self.errors.values()), "") if self.is_bound else ""


def note_field() -> forms.CharField:
    """Return the field of a reason; see `check_note`."""
    widget = forms.TextInput(attrs={**_PLAIN, "maxlength": MAX_NOTE})
    return forms.CharField(label=gettext_lazy("Reason (optional)"), required=False, widget=widget)


def check_note(reason: str) -> str:
    """Return a reason, if it is not too long.

    Raises:
        ValidationError: it is.
    """
    if len(reason) > MAX_NOTE:
        raise forms.ValidationError(_("Reason: expected at most %(most)s characters.") % {"most": number(MAX_NOTE)})
    return reason


class ReasonForm(ChangeForm):
    """The reason of a pause."""

    reason = note_field()

    def clean_reason(self) -> str:
        """Return the reason."""
        return check_note(self.cleaned_data["reason"])


class PauseForm(ReasonForm):
    """The reason and the end of a pause."""

    minutes = forms.CharField(
        label=gettext_lazy("Resume after minutes (optional)"),
        required=False,
        widget=forms.NumberInput(attrs={**_PLAIN, "min": 1, "max": MAX_PAUSE_MIN}),
    )

    def clean_minutes(self) -> int:
        """Return after how many minutes the pause ends; 0: never."""
        text: str = self.cleaned_data["minutes"]
        if not text:
            return 0
        minutes = int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0
        if not 0 < minutes <= MAX_PAUSE_MIN:
            most = {"most": number(MAX_PAUSE_MIN)}
            raise forms.ValidationError(_("Minutes: expected a whole number from 1 to %(most)s.") % most)
        return minutes


class BlockForm(ChangeForm):
    """How long a key of a rate limit is blocked."""

    seconds = forms.ChoiceField(
        label=gettext_lazy("Block for"),
        initial="3600",
        choices=[
            ("600", gettext_lazy("10 minutes")),
            ("3600", gettext_lazy("1 hour")),
            ("86400", gettext_lazy("24 hours")),
            ("unblocked", gettext_lazy("until unblocked")),
        ],
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["seconds"]
        field.error_messages["required"] = _("Block for: expected 600, 3600, 86400 or unblocked.")
        field.error_messages["invalid_choice"] = _("Block for “%(value)s”: expected 600, 3600, 86400 or unblocked.")

    def clean_seconds(self) -> int | None:
        """Return the seconds; None: until the key is unblocked."""
        found = self.cleaned_data["seconds"]
        return None if found == "unblocked" else int(found)


class RescheduleForm(ChangeForm):
    """The new due time of a task."""

    due = forms.Field(required=False, widget=forms.TextInput(attrs={**_PLAIN, "maxlength": MAX_TIME}))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["due"].label = _("Due (time zone %(zone)s)") % {"zone": formats.zone()}
        self.fields["due"].widget.input_type = "datetime-local"

    def clean_due(self) -> datetime | None:
        """Return the time in the active time zone."""
        found = moment_in((self.cleaned_data["due"] or "").strip())
        if found is None:
            text = _("Due: expected date and time, such as 2026-11-22 14:30, up to the year 9999.")
            raise forms.ValidationError(text)
        return found


class RescheduleTasksForm(RescheduleForm):
    """The new due time of many tasks: after a while, or at a time."""

    after = forms.ChoiceField(
        label=gettext_lazy("Due in"),
        required=False,
        initial="3600",
        choices=[
            ("900", gettext_lazy("15 minutes")),
            ("3600", gettext_lazy("1 hour")),
            ("14400", gettext_lazy("4 hours")),
            ("86400", gettext_lazy("1 day")),
            ("604800", gettext_lazy("1 week")),
        ],
    )
    field_order = ("after", "due")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["due"].label = _("Or at (time zone %(zone)s)") % {"zone": formats.zone()}

    def clean_due(self) -> datetime | None:
        """Return the time in the active time zone, or None."""
        return super().clean_due() if (self.cleaned_data["due"] or "").strip() else None

    @property
    def argument(self) -> str:
        """The due time as scripts take it."""
        return when(self.cleaned_data["due"] or int(self.cleaned_data["after"] or 3_600), "due")


class MoveForm(ChangeForm):
    """The queue to which tasks are moved: one of a list, or a name that is typed if not all queues are listed."""

    to = forms.ChoiceField(label=gettext_lazy("To the queue"))
    other = forms.CharField(label=gettext_lazy("Or another one"), required=False, widget=forms.TextInput(attrs=_PLAIN))

    def __init__(
        self, *args: Any, queues: list[str], is_target: Callable[[str], bool], more: int, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._is_target = is_target
        field: Any = self.fields["to"]
        if more > 0:
            counts = {"count": number(len(queues)), "total": number(len(queues) + more)}
            field.label = _("To the queue (%(count)s of %(total)s are listed)") % counts
        else:
            del self.fields["other"]
        field.choices = [(name, name) for name in queues]
        field.error_messages["required"] = _("To the queue: choose another queue.")
        field.error_messages["invalid_choice"] = _("%(value)s is not a queue of this site.")

    def clean_other(self) -> str:
        """Return the name that is typed, if it is another queue of the site."""
        name: str = self.cleaned_data["other"]
        if name and not self._is_target(name):
            raise forms.ValidationError(_("%(value)s is not a queue of this site.") % {"value": name})
        return name

    @property
    def argument(self) -> str:
        """The name of the other queue."""
        return str(self.cleaned_data.get("other") or self.cleaned_data["to"])


def moment_in(value: str) -> datetime | None:
    """Return a time in the active time zone; None if it is not valid."""
    try:
        moment = parse_datetime(value[: MAX_TIME + 1])
        if moment is None or moment.year < 1970:
            return None
        if settings.USE_TZ and timezone.is_naive(moment):
            moment = timezone.make_aware(moment)
        elif not settings.USE_TZ and timezone.is_aware(moment):
            moment = timezone.make_naive(moment, timezone.get_default_timezone())
        check_moment(moment, "due")
    except (ValueError, OverflowError):
        return None
    return moment
