"""The form widget: a text field with suggestions; a plain text field without JavaScript."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast

from django import forms
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Field, Model, QuerySet
from django.forms import BaseForm
from django.forms.widgets import Script
from django.http import QueryDict
from django.urls import NoReverseMatch, reverse
from redis.exceptions import RedisError

from django_redis_components.autocomplete.entries import MAX_TEXT_CHARS, Suggestion, check_id
from django_redis_components.autocomplete.registry import (
    InvalidScope,
    RegisteredIndex,
    ScopeNeeded,
    get_index,
    min_length_of,
    sign_scope,
)
from django_redis_components.core.exceptions import ConfigurationError

#: Name of the JSON view's URL.
VIEW = "django_redis_components:autocomplete"
#: Suffix of the hidden field with the chosen id, after the name of the text field.
ID_SUFFIX = "-id"
#: Suffix of the text field beside the chosen entries, after the name of the field.
TEXT_SUFFIX = "-text"

_STATIC = "django_redis_components"

#: Index names of all widgets, for the system check.
used_indexes: set[str] = set()


class Typed(NamedTuple):
    """A submitted value: the text, and the id of the chosen suggestion ("" for none)."""

    text: str
    id: str


class TypedList(NamedTuple):
    """A submitted value of several.

    Attributes:
        ids: the ids that were chosen.
        text: text that was typed.
        suggestions: suggestions for the ids.
        others: further texts, each to be created.
    """

    ids: tuple[str, ...]
    text: str
    suggestions: tuple[Suggestion, ...] = ()
    others: tuple[str, ...] = ()


class AutocompleteInput(forms.Widget):
    """A text field that suggests entries of a registered index.

    Args:
        index: the registered name of the index.
        scope: the scope, for a scoped index; None if the request determines it.
        attrs: HTML attributes of the text field.
    """

    template_name = "django_redis_components/autocomplete/input.html"
    #: Django's fields for models set it; what can be chosen is in Redis.
    choices: Any = ()
    needs_multipart_form = False

    def __init__(self, index: str | None, *, scope: object = None, attrs: Mapping[str, Any] | None = None) -> None:
        super().__init__(dict(attrs or {}))
        self.index = index or ""  # a field for a model sets it when its form is made
        self.scope = scope
        self.creates = False  # a field for a model sets it: whether unknown text creates an object
        #: Values of `forward` that the form does not send, by the names of their fields.
        self.fixed: dict[str, str] = {}
        self._form: BaseForm | None = None
        if index:
            used_indexes.add(index)

    @property
    def media(self) -> forms.Media:
        """The stylesheet and the script."""
        return media()

    def value_from_datadict(self, data: Mapping[str, Any], files: object, name: str) -> Typed | None:
        """Return the submitted value, or None if the form does not contain the field."""
        self._forward(data, name)
        if name not in data:
            return None
        return Typed(str(data[name] or "").strip(), str(data.get(name + ID_SUFFIX) or "").strip())

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        """Return the template context."""
        index_source = get_index(self.index)
        typed = self._typed(index_source, value)
        context = super().get_context(name, None, {"maxlength": str(MAX_TEXT_CHARS), **(attrs or {})})
        context["widget"].update(
            value=typed.text,
            chosen=typed.id,
            hidden_name=name + ID_SUFFIX,
            url=_url(self.index),
            scope=self._signed_scope(index_source),
            min_length=min_length_of(index_source),
            recents=index_source.has_recents,
            forward=" ".join(index_source.forward),
            fixed=json.dumps(self.fixed) if self.fixed else "",
            creates=self.creates,
        )
        return context

    def _forward(self, data: Mapping[str, Any], name: str) -> None:
        """Set the scope that the submitted values of other fields determine. Each form has its own widgets."""
        index_source = get_index(self.index)
        if index_source.forward:
            before, dash, _ = name.rpartition("-")
            values = {other: _submitted(data, before + dash + other, other) for other in index_source.forward}
            chosen = {} if self._form is None else _chosen_in(self._form, index_source.forward)
            self.scope = index_source.scope_from(**(values | chosen | self.fixed))

    def _signed_scope(self, index_source: RegisteredIndex) -> str:
        if index_source.scoped and not index_source.forward and self.scope not in (None, ""):
            return sign_scope(self.index, self.scope)
        if not index_source.finds_scope:
            index_source.index(self.scope)  # raises if the scope is missing or invalid
        return ""

    def _typed(self, index_source: RegisteredIndex, value: Any) -> Typed:
        """Return the text and id to show, of a submitted value, a suggestion or an initial id."""
        if value in (None, ""):
            return Typed("", "")
        if isinstance(value, Typed):
            return value
        if isinstance(value, Suggestion):
            return Typed(value.text, value.id)
        try:
            id_ = check_id(value)
        except (TypeError, ValueError):  # not an id, for instance text from a URL
            return as_text(value)
        try:
            known = index_source.index(self.scope).get_many([id_]).get(id_)
        except (RedisError, ScopeNeeded, InvalidScope):
            known = None
        return Typed(known.text if known else id_, id_)


class HiddenKey(forms.HiddenInput):
    """The hidden field of an initial value: the id of a suggestion, without its text."""

    def format_value(self, value: Any) -> Any:
        """Return the id."""
        return super().format_value(value.id if isinstance(value, (Suggestion, Typed)) else value)


class AutocompleteSelectMultiple(AutocompleteInput):
    """Check boxes of the chosen entries, and a text field that suggests others.

    Args:
        index, scope, attrs: as for `AutocompleteInput`.
    """

    template_name = "django_redis_components/autocomplete/multiple.html"

    def value_from_datadict(self, data: Mapping[str, Any], files: object, name: str) -> Any:
        """Return the submitted ids and texts. The text field is the last of its name, after texts to create."""
        self._forward(data, name)
        *others, text = _list(data, name + TEXT_SUFFIX) or [""]
        return TypedList(tuple(filter(None, _list(data, name))), text, others=tuple(filter(None, others)))

    def value_omitted_from_data(self, data: Mapping[str, Any], files: object, name: str) -> bool:
        """Return False: without chosen entries nothing is submitted."""
        return False

    def id_for_label(self, id_: str, index: str | None = None) -> str:
        """Return the id of the text field."""
        return id_

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        """Return the template context."""
        given = value if isinstance(value, TypedList) else TypedList((), "")
        context = super().get_context(name, Typed(given.text, ""), attrs)
        context["widget"].update(
            text_name=name + TEXT_SUFFIX, chosen=given.suggestions, others=given.others, is_required=False
        )
        return context


def _list(data: Mapping[str, Any], name: str) -> list[str]:
    """Return all submitted values of a name."""
    found = data.getlist(name) if isinstance(data, QueryDict) else data.get(name) or ()
    return [str(value).strip() for value in ([found] if isinstance(found, str) else found)]


def as_text(value: object) -> Typed:
    """Return a value that is no id, as text to show."""
    return Typed(str(value).encode("utf-8", "replace").decode()[:MAX_TEXT_CHARS], "")


def _submitted(data: Mapping[str, Any], *names: str) -> str:
    """Return the submitted value of the first name that the form has, or the id of what was chosen there."""
    for name in names:
        for key in (name + ID_SUFFIX, name):
            if key in data:
                return str(data[key] or "").strip()
    return ""


def _chosen_in(form: BaseForm, names: Iterable[str]) -> dict[str, str]:
    """Return the ids that the form's autocomplete fields were cleaned to, of those names that were.

    Without JavaScript the submitted id is missing, or is that of the former text, when other text was typed.
    """
    cleaned: Mapping[str, Any] = getattr(form, "cleaned_data", {})
    return {name: _id_of(cleaned[name]) for name in names if name in cleaned and _is_for_one(form.fields.get(name))}


def _is_for_one(field: forms.Field | None) -> bool:
    widget = getattr(field, "widget", None)
    return isinstance(widget, AutocompleteInput) and not isinstance(widget, AutocompleteSelectMultiple)


def _id_of(value: object) -> str:
    if isinstance(value, Suggestion):
        return value.id
    return "" if value is None else str(getattr(value, "pk", value))


def note_fixed(widget: object, form: BaseForm) -> None:
    """Note the form, and the values of `forward` that it does not send, and which a browser must not choose.

    They are those of disabled fields, and of fields of the form's instance that the form only shows, as those in
    `readonly_fields` of the admin. A new instance has no values yet: another form of the page may send them.
    """
    if not isinstance(widget, AutocompleteInput):
        return
    widget.fixed = {}
    widget._form = form
    for name in get_index(widget.index).forward:
        field = form.fields.get(name)
        if field is None:
            with suppress(FieldDoesNotExist):
                widget.fixed[name] = _sent_of_instance(form, name)
        elif field.disabled:
            widget.fixed[name] = _sent_by(field, form.get_initial_for_field(field, name))


def _sent_by(field: forms.Field, value: object) -> str:
    """Return what a browser would submit for a field that shows this value."""
    widget = field.widget
    if isinstance(widget, AutocompleteInput):  # its field would read an object to show its text
        key = getattr(field, "to_field_name", None) or "pk"
        value = value.serializable_value(key) if isinstance(value, Model) else value
    else:
        value = field.prepare_value(value)
    if isinstance(widget, forms.CheckboxInput):
        return "on" if widget.check_test(value) else ""
    has_parts = isinstance(widget, (AutocompleteInput, forms.MultiWidget))
    return _as_submitted(value if has_parts else widget.format_value(value))


def _as_submitted(value: object) -> str:
    """Return a value of a field as a browser submits it; of several the last one, as of submitted ones."""
    if isinstance(value, (list, tuple, QuerySet)):
        value = [*value][-1] if value else None
    if isinstance(value, (Typed, Suggestion)):
        value = value.id or value.text
    return "" if value is None else str(getattr(value, "pk", value))


def _sent_of_instance(form: BaseForm, name: str) -> str:
    """Return what a browser would submit for a field of the form's instance.

    Raises:
        FieldDoesNotExist: there is none, or a new instance has it and the page sends another one.
    """
    instance = getattr(form, "instance", None)
    if (
        not isinstance(instance, Model)
        or (field := instance._meta.get_field(name)) not in instance._meta.concrete_fields
        or (instance._state.adding and {name, form.add_prefix(name)} & form.data.keys())
    ):
        raise FieldDoesNotExist
    model_field = cast("Field[Any, Any]", field)
    value, shown = model_field.value_from_object(instance), model_field.formfield()
    return _as_submitted(value) if shown is None else _sent_by(shown, value)


def media() -> forms.Media:
    """Return the stylesheet and the script of the widget."""
    script: Any = Script(f"{_STATIC}/autocomplete.js", defer=True)
    return forms.Media(css={"all": [f"{_STATIC}/autocomplete.css"]}, js=[script])


def _url(index: str) -> str:
    try:
        return reverse(VIEW, args=[index])
    except NoReverseMatch:
        raise ConfigurationError(
            'The URLconf does not include the view of the autocomplete widget: add path("redis/", '
            'include("django_redis_components.urls")).'
        ) from None
