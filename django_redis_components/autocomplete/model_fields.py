"""Form fields whose values are objects of a model, found by its index."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Model

from django_redis_components.autocomplete.entries import MAX_TEXT_CHARS, Suggestion
from django_redis_components.autocomplete.fields import ERROR_MESSAGES
from django_redis_components.autocomplete.model_choices import IndexedObjects
from django_redis_components.autocomplete.widgets import (
    AutocompleteInput,
    AutocompleteSelectMultiple,
    HiddenKey,
    Typed,
    TypedList,
    as_text,
)
from django_redis_components.core.text import fold


class AutocompleteModelField(IndexedObjects, forms.ModelChoiceField):  # type: ignore[misc, type-arg]
    """A field for a foreign key: its value is an object, or None.

    Text that was typed without a choice must match one object, by its text or one of its terms, so the field works
    without JavaScript. A chosen object is checked against the database, so the field also works while Redis is
    unavailable.

    Args:
        index: the registered name of a `ModelIndex`.
        queryset: instead, the objects that may be chosen; the index is that of their model.
        scope: the scope, for a scoped index. It may be set later, in the form's `__init__`.
        create: is called with text that matches no object, and returns a saved one: use `get_or_create` on a unique
            field. It may raise ValidationError. It is called when the field is cleaned, so the form may still be
            invalid. If the index's `text` is a field of the model, objects with this text are looked up there before.
    """

    widget = _input = AutocompleteInput
    hidden_widget = HiddenKey
    default_error_messages = ERROR_MESSAGES

    def prepare_value(self, value: Any) -> Any:
        """Return what the widget shows: a suggestion for an object or its key, or what was typed."""
        if not self._shows_text():
            return super().prepare_value(value)
        if value is None or isinstance(value, (Typed, Suggestion)):
            return value
        obj = self._initial(value)
        return self._suggestion(obj) if obj else as_text(value)

    def to_python(self, value: Any) -> Any:
        """Return the chosen object.

        Raises:
            ValidationError: the text matches none or several.
        """
        if isinstance(value, Typed):
            return self._unchanged(value) or self._look_up(value.text) if value.text else None
        if value is None or value == "":
            return None
        if isinstance(value, Model):
            value = Typed("", str(value.pk))
            found = self._chosen([value])
        else:
            found = self._objects_of([value])
        return found[0] if found else self._look_up(getattr(value, "id", str(value)))

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Return whether another object was chosen, or other text was typed."""
        if self.disabled:
            return False
        if not isinstance(data, Typed):
            if isinstance(initial, Model):
                initial = initial.serializable_value(self.to_field_name or "pk")
            return str("" if data is None else data) != str("" if initial is None else initial)
        before = "" if initial is None or initial == "" else self._ids_of([initial])[0]
        if data.id != before or not (data.id and data.text):
            return bool(before or data.text)
        return self._unchanged(data) is None

    def _unchanged(self, typed: Typed) -> Model | None:
        """Return the object of the chosen id, unless its text was changed without JavaScript."""
        for obj in self._chosen([typed]):
            text = self._text_of(obj)
            if len(typed.text) > max(MAX_TEXT_CHARS, len(text)):  # folding what was sent may take seconds
                continue
            if not typed.text or fold(typed.text) in (fold(text), fold(typed.id)):
                return obj
        return None


class AutocompleteMultipleChoiceField(IndexedObjects, forms.ModelMultipleChoiceField):  # type: ignore[misc, type-arg]
    """A field for a many-to-many relation: its value is a queryset of objects.

    The chosen objects are check boxes, beside a text field for another one. So the field works without JavaScript: each
    submission may add one object.

    Args:
        index, queryset, scope, create: as for `AutocompleteModelField`.
    """

    widget = _input = AutocompleteSelectMultiple
    default_error_messages = ERROR_MESSAGES

    def prepare_value(self, value: Any) -> Any:
        """Return what the widget shows: a suggestion for each object or primary key, by one query."""
        if not self._shows_text():
            return super().prepare_value(value)
        if value is None or isinstance(value, str):
            return value
        is_typed = isinstance(value, TypedList)
        objects = self._chosen(Typed("", id_) for id_ in value.ids) if is_typed else self._objects_of(value)
        shown = tuple(map(self._suggestion, objects))
        given = value if is_typed else TypedList((), "")
        return given._replace(ids=tuple(one.id for one in shown), suggestions=shown)

    def clean(self, value: Any) -> Any:
        """Return the queryset of the chosen objects.

        Raises:
            ValidationError: one may not be chosen, or the text matches none or several.
        """
        if not isinstance(value, TypedList):
            value = TypedList(self._ids_of(value or ()), "")
        objects = self._chosen(Typed("", id_) for id_ in value.ids)
        if len(objects) < len(set(value.ids)):
            known_ids = {str(obj.pk) for obj in objects}
            raise self._error("unknown", text=next(id_ for id_ in value.ids if id_ not in known_ids))
        objects += [self._look_up(text) for text in (*value.others, value.text) if text]
        if self.required and not objects:
            raise ValidationError(self.error_messages["required"], code="required")
        self.run_validators(objects)
        return self.index.model._default_manager.filter(pk__in=[obj.pk for obj in objects])

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Return whether other objects were chosen, or text was typed."""
        if self.disabled:
            return False
        before = set(self._ids_of(initial or ()))
        if not isinstance(data, TypedList):
            return before != {str(each) for each in data or ()}
        return bool(data.text or data.others) or before != set(data.ids)
