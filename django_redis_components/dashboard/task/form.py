"""The form that changes a pending task."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.core import serialization
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.forms import MAX_TIME, MoveForm, moment_in
from django_redis_components.taskqueue.exceptions import TaskQueueError
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.options import MAX_PRIORITY
from django_redis_components.taskqueue.task_update import TaskChanges

#: The fields of arguments.
ARGUMENTS = ("args", "kwargs")


class EditForm(MoveForm):
    """The fields of a pending task. Those that the operator has changed are `changes`, if the form is valid.

    Args:
        check: raises what `TaskResult.update` does for wrong changes.
        shows_arguments: whether the form has the arguments.

    Each field is sent with its first value, too: what another operator changes meanwhile is not changed back.
    """

    args = forms.JSONField(
        label=gettext_lazy("Positional arguments, a JSON list"),
        required=False,
        show_hidden_initial=True,
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    kwargs = forms.JSONField(
        label=gettext_lazy("Named arguments, a JSON object"),
        required=False,
        show_hidden_initial=True,
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    priority = forms.IntegerField(
        label=gettext_lazy("Priority"),
        min_value=-MAX_PRIORITY,
        max_value=MAX_PRIORITY,
        show_hidden_initial=True,
        help_text=gettext_lazy("-100 to 100, within the queue; higher first."),
    )
    expires = forms.CharField(
        required=False,
        show_hidden_initial=True,
        max_length=MAX_TIME,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy("If it has not started by then, it is not run. Empty: it does not expire."),
    )
    field_order = ("args", "kwargs", "priority", "to", "other", "expires")

    def __init__(self, *args: Any, check: Callable[[TaskChanges], None], shows_arguments: bool, **kwargs: Any) -> None:
        super().__init__(*args, **{"auto_id": "id_%s", **kwargs})
        self._check = check
        if self.fields["to"].label == MoveForm.base_fields["to"].label:
            self.fields["to"].label = _("Queue")
        self.fields["to"].show_hidden_initial = True
        self.fields["expires"].label = _("Expires (time zone %(zone)s)") % {"zone": formats.zone()}
        self.fields["expires"].widget.input_type = "datetime-local"
        if not shows_arguments:
            for name in ARGUMENTS:
                del self.fields[name]

    def clean_expires(self) -> datetime | None:
        """Return the time in the active time zone; None: the task does not expire."""
        text = self.cleaned_data["expires"].strip()
        found = moment_in(text) if text else None
        if text and found is None:
            text = _("Expires: expected date and time, such as 2026-11-22 14:30, up to the year 9999.")
            raise forms.ValidationError(text)
        return found

    def clean(self) -> dict[str, Any]:
        """Check the changes."""
        data: dict[str, Any] = self.cleaned_data
        if self.errors:
            return data
        if not self.changes:
            raise forms.ValidationError(_("Nothing is different."))
        try:
            self._check(self.changes)
        except (TypeError, ValueError, TaskQueueError) as exc:
            raise forms.ValidationError(str(exc)) from exc
        return data

    @property
    def changes(self) -> TaskChanges:
        """The arguments of `TaskResult.update`."""
        data, changed = self.cleaned_data, set(self.changed_data)
        made: dict[str, Any] = {name: data[name] for name in ("priority", "expires") if name in changed}
        empty: dict[str, Any] = {"args": [], "kwargs": {}}
        for name in changed.intersection(ARGUMENTS):
            made[name] = empty[name] if data[name] is None else unpack(serialization.encode(data[name]))
        if changed & {"to", "other"}:
            made["queue_name"] = self.argument
        return made  # type: ignore[return-value]
