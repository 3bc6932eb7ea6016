"""The form of a change of pools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.forms import ChangeForm
from django_redis_components.taskqueue.exceptions import UnknownQueue
from django_redis_components.taskqueue.pool import MAX_COROUTINES, MAX_THREADS, POOL_VALUES, check_change

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class PoolForm(ChangeForm):
    """The threads, coroutines and queues of processes. A field that is empty or as shown changes nothing."""

    threads = forms.CharField(
        label=gettext_lazy("Threads"),
        required=False,
        widget=forms.NumberInput(attrs={**_PLAIN, "min": 1, "max": MAX_THREADS}),
    )
    coroutines = forms.CharField(
        label=gettext_lazy("Coroutines"),
        required=False,
        widget=forms.NumberInput(attrs={**_PLAIN, "min": 1, "max": MAX_COROUTINES}),
    )
    queues = forms.CharField(
        label=gettext_lazy("Queues, in order, or each with =weight"),
        required=False,
        widget=forms.TextInput(attrs=_PLAIN),
    )
    keep = forms.BooleanField(label=gettext_lazy("Keep it for processes that start later"), required=False)

    def __init__(self, *args: Any, shown: Mapping[str, str], **kwargs: Any) -> None:
        """
        Args:
            shown: the values that the operator has seen, by name; of several processes those that they share.
        """
        super().__init__(*args, initial=dict(shown), **kwargs)
        self._shown = shown

    def clean(self) -> dict[str, Any]:
        """Check that something is changed."""
        if not self.errors and not self.change():
            raise forms.ValidationError(_("Nothing is changed. Enter threads, coroutines or queues."))
        return self.cleaned_data

    def clean_threads(self) -> str:
        """Return the number of threads; "" if it is not changed."""
        return self._number("threads", _("Threads: expected a whole number from 1 to %(most)s."), MAX_THREADS)

    def clean_coroutines(self) -> str:
        """Return the number of coroutines; "" if it is not changed."""
        text = _("Coroutines: expected a whole number from 1 to %(most)s.")
        return self._number("coroutines", text, MAX_COROUTINES)

    def clean_queues(self) -> str:
        """Return the queues; "" if they are not changed."""
        text: str = self.cleaned_data["queues"].strip()
        if not text or text == self._shown.get("queues"):
            return ""
        try:
            return check_change({"queues": text})["queues"]
        except UnknownQueue as exc:
            raise forms.ValidationError(
                _("Queues: the site does not declare “%(name)s”.") % {"name": exc.name}
            ) from exc
        except ValueError as exc:
            message = _("Queues: expected names such as “mail,default”, or with weights such as “mail=5,default=1”.")
            raise forms.ValidationError(message) from exc

    def change(self) -> dict[str, str]:
        """Return what is changed, as `change_pool` takes it."""
        return {name: self.cleaned_data[name] for name in POOL_VALUES if self.cleaned_data.get(name)}

    def _number(self, name: str, message: str, most: int) -> str:
        text: str = self.cleaned_data[name].strip()
        if not text or text == self._shown.get(name):
            return ""
        try:
            return check_change({name: text})[name]
        except ValueError as exc:
            raise forms.ValidationError(message % {"most": number(most)}) from exc
