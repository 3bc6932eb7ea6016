"""The form that enqueues a task: a field for each parameter of its function, its queue, priority and delay."""

from __future__ import annotations

import json
from inspect import Parameter
from typing import Any, NoReturn

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.core import serialization
from django_redis_components.core.arguments import short_repr
from django_redis_components.dashboard.forms import MoveForm
from django_redis_components.taskqueue.call_signature import POSITIONAL, signature_of
from django_redis_components.taskqueue.exceptions import TaskQueueError
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.options import MAX_PRIORITY, SendingOptions
from django_redis_components.taskqueue.task import Task

#: Parameters of functions that Python cannot inspect.
_ANY = (Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD))

_JSON = gettext_lazy('Enter JSON, such as 7, "text", null or [1, 2].')

#: What the fields of further arguments take; those of one argument take any value.
_KINDS: dict[Any, type[Any]] = {Parameter.VAR_POSITIONAL: list, Parameter.VAR_KEYWORD: dict}


class ArgumentField(forms.CharField):
    """A value as JSON. Left empty it is `Parameter.empty`: the argument is not given."""

    widget = forms.Textarea(attrs={"rows": 1, "spellcheck": "false"})

    def __init__(self, parameter: Parameter) -> None:
        self.kind = _KINDS.get(parameter.kind, object)
        is_required = self.kind is object and parameter.default is Parameter.empty
        super().__init__(required=is_required, label=self._label(parameter, is_required))
        if is_required:
            self.help_text = _JSON
        elif self.kind is object:
            self.help_text = _("Default: %(value)s") % {"value": short_repr(parameter.default)}

    def clean(self, value: Any) -> Any:
        """Return the value.

        Raises:
            ValidationError: it is not JSON, or not of the kind that the parameter takes.
        """
        text = super().clean(value)
        if not text:
            return Parameter.empty
        try:
            found = json.loads(text, parse_constant=_refuse_constant)
            serialized = serialization.encode(found)
        except (ValueError, RecursionError) as exc:
            raise forms.ValidationError(_JSON) from exc
        if not isinstance(found, self.kind):
            raise forms.ValidationError(_("Enter a JSON list.") if self.kind is list else _("Enter a JSON object."))
        return unpack(serialized)

    def _label(self, parameter: Parameter, is_required: bool) -> str:
        names = {"name": parameter.name}
        if self.kind is list:
            return _("*%(name)s: further positional arguments, a JSON list") % names
        if self.kind is dict:
            return _("**%(name)s: further named arguments, a JSON object") % names
        return (_("%(name)s (required)") % names) if is_required else parameter.name


class EnqueueForm(MoveForm):
    """The fields of a call of a task. The call is `args`, `kwargs` and `options`, if the form is valid.

    The hidden id makes a form that is sent twice enqueue one task.
    """

    priority = forms.IntegerField(
        label=gettext_lazy("Priority"),
        min_value=-MAX_PRIORITY,
        max_value=MAX_PRIORITY,
        help_text=gettext_lazy("-100 to 100, within the queue; higher first."),
    )
    delay = forms.FloatField(
        label=gettext_lazy("Start in seconds"),
        required=False,
        min_value=0,
        help_text=gettext_lazy("Empty: at once."),
    )
    id = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, task: Task[..., Any, Any], **kwargs: Any) -> None:
        super().__init__(*args, **{"auto_id": "id_%s", **kwargs})
        self._task = task
        self._signature = signature_of(task.func, int(task.takes_context))
        self._parameters = self._signature.parameters if self._signature else _ANY
        if self.fields["to"].label == MoveForm.base_fields["to"].label:
            self.fields["to"].label = _("Queue")
        own = {_field_of(each): ArgumentField(each) for each in self._parameters}
        self.fields = {**own, **self.fields}

    def clean(self) -> dict[str, Any]:
        """Check the call as `enqueue` does."""
        for each in self._by_position:
            if not self.errors and self._value(each) is Parameter.empty:
                self.add_error(_field_of(each), _("Enter a value: one of the next arguments is given by position."))
        for name in sorted(self._named.keys() & self._further.keys()):
            self.add_error(None, _("%(name)s is given twice.") % {"name": name})
        data: dict[str, Any] = self.cleaned_data
        if self.errors:
            return data
        try:
            if self._signature is not None:
                self._signature.check(self._task.name, self.args, self.kwargs)
            self._task.using(**self.options)
        except (TypeError, ValueError, TaskQueueError) as exc:
            raise forms.ValidationError(str(exc)) from exc
        return data

    @property
    def args(self) -> list[Any]:
        """The positional arguments: those that have no name, and the ones before them."""
        rest = [value for each in self._of_kind(Parameter.VAR_POSITIONAL) for value in self._value(each)]
        return [*map(self._value, self._by_position), *rest]

    @property
    def kwargs(self) -> dict[str, Any]:
        """The named arguments."""
        return {**self._named, **self._further}

    @property
    def options(self) -> SendingOptions:
        """The options of `using`: those that differ from the task's."""
        data, options = self.cleaned_data, self._task.options
        chosen: SendingOptions = {"id": data["id"] or None}
        if self.argument != options.queue_name:
            chosen["queue_name"] = self.argument
        if data["priority"] != options.priority:
            chosen["priority"] = data["priority"]
        if data["delay"] is not None:
            chosen["run_after"] = data["delay"]
        return chosen

    @property
    def _named(self) -> dict[str, Any]:
        """The arguments of parameters that are given by name."""
        named = self._of_kind(Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        return {each.name: self._value(each) for each in named if each not in self._by_position}

    @property
    def _further(self) -> dict[str, Any]:
        """The named arguments for which the function has no parameter."""
        return {
            name: value for each in self._of_kind(Parameter.VAR_KEYWORD) for name, value in self._value(each).items()
        }

    @property
    def _by_position(self) -> list[Parameter]:
        """The parameters up to the last one that only a position can give, or all if further ones are given."""
        positional = [each for each in self._parameters if each.kind in POSITIONAL]
        if self._of_kind(Parameter.VAR_POSITIONAL):
            return positional
        only = self._of_kind(Parameter.POSITIONAL_ONLY)
        return positional[: positional.index(only[-1]) + 1] if only else []

    def _of_kind(self, *kinds: Any) -> list[Parameter]:
        """Return the parameters of these kinds that have a value; an empty list or object is none."""
        found = [each for each in self._parameters if each.kind in kinds and self._value(each) is not Parameter.empty]
        return [each for each in found if self._value(each) or each.kind is not Parameter.VAR_POSITIONAL]

    def _value(self, parameter: Parameter) -> Any:
        return self.cleaned_data.get(_field_of(parameter), Parameter.empty)


def _field_of(parameter: Parameter) -> str:
    """Return the name of its field: a parameter may be called "priority"."""
    return f"argument-{parameter.name}"


def _refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError(name)
