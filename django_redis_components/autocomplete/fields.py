"""The form field: from typed text or a chosen id to an entry of the index."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from redis.exceptions import RedisError

from django_redis_components.autocomplete.entries import MAX_TEXT_CHARS, Suggestion, check_id, check_text
from django_redis_components.autocomplete.registry import ScopeNeeded, find_by_text, get_index
from django_redis_components.autocomplete.widgets import AutocompleteInput, Typed, note_fixed
from django_redis_components.core.text import fold

ERROR_MESSAGES: dict[str, Any] = {
    "unknown": _("“%(text)s” was not found. Choose one of the suggestions."),
    "ambiguous": _("“%(text)s” matches several entries. Choose one of the suggestions."),
    "not_created": _("“%(text)s” could not be created."),
    "invalid": _("The text has invalid characters."),
    "too_long": _("Enter at most %(count)d characters."),
    "unavailable": _("“%(text)s” cannot be checked at the moment. Try again in a minute."),
}


class AutocompleteField(forms.Field):
    """A field whose value is a `Suggestion`, or None when it is empty and not required.

    A chosen id is used if the index has it and the text was not changed. Otherwise the text is looked up: it must
    match one entry by its text or by one of its terms, so the field works without JavaScript. The field does not
    check the permission of the index; the view of the form must.

    Args:
        index: the registered name of the index.
        scope: the scope, for a scoped index. It may be set later, in the form's `__init__`.
        free_text: accept text that matches no entry, as `Suggestion("", text)`, also while Redis is unavailable.
            Otherwise such text is an error, and so is all text while Redis is unavailable.
    """

    widget: AutocompleteInput
    default_error_messages = ERROR_MESSAGES

    def __init__(self, index: str, *, scope: object = None, free_text: bool = False, **options: Any) -> None:
        options.setdefault("widget", AutocompleteInput(index, scope=scope))
        super().__init__(**options)
        self.index = index
        self.scope = scope
        self.free_text = free_text

    @property
    def scope(self) -> object:
        """The scope that the field and its widget query."""
        return self.widget.scope

    @scope.setter
    def scope(self, scope: object) -> None:
        self.widget.scope = scope

    def get_bound_field(self, form: Any, field_name: str) -> Any:
        """Return the bound field, and note what its form does not send."""
        note_fixed(self.widget, form)
        return super().get_bound_field(form, field_name)

    def to_python(self, value: Any) -> Suggestion | None:
        """Return the entry of the typed text or chosen id.

        Raises:
            ValidationError: it matches none or several, is too long, or Redis is unavailable.
        """
        typed = _as_typed(value)
        if not typed.text:
            return None
        if len(typed.text) > MAX_TEXT_CHARS:
            raise self._error("too_long", count=MAX_TEXT_CHARS)
        try:
            check_text(typed.text)
        except ValueError:
            raise self._error("invalid") from None
        try:
            suggestions = self._look_up(typed)
        except RedisError:
            if not self.free_text:
                raise self._error("unavailable", text=typed.text) from None
            suggestions = []
        if len(suggestions) == 1:
            return suggestions[0]
        if self.free_text:
            return Suggestion("", typed.text)
        raise self._error("ambiguous" if suggestions else "unknown", text=typed.text)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Return whether the data differ from the initial id (with its text in the index) or suggestion."""
        before, after = _as_initial(initial), _as_typed(data)
        if len(after.text) > MAX_TEXT_CHARS:
            return True
        if not after.text or not before.id:
            return fold(after.text) != fold(before.text or before.id)
        if after.id not in ("", before.id):
            return True
        shown = (before.text or self._text_of(before.id), before.id)
        return fold(after.text) not in map(fold, shown)

    def _text_of(self, id_: str) -> str:
        """Return the text of an id, or the id if it is unknown or Redis is unavailable."""
        index_source = get_index(self.index)
        try:
            known = index_source.index(self.scope).get_many([check_id(id_)])
        except ScopeNeeded:
            if not index_source.forward:
                raise
            return id_
        except (RedisError, ValueError):  # ValueError: an invalid id or scope
            return id_
        return known[id_].text if id_ in known else id_

    def _look_up(self, typed: Typed) -> list[Suggestion]:
        index_source = get_index(self.index)
        try:
            id_ = check_id(typed.id) if typed.id else ""
            chosen = index_source.index(self.scope).get_many([id_]).get(id_) if id_ else None
        except ValueError:  # an invalid id or scope, or a missing one: look up the text
            chosen = None
        if chosen and (fold(chosen.text) == fold(typed.text) or typed.text == id_):
            return [chosen]
        return find_by_text(index_source, self.scope, typed.text, 2)

    def _error(self, code: str, **params: object) -> ValidationError:
        return ValidationError(self.error_messages[code], code=code, params=params)


def _as_typed(value: Any) -> Typed:
    """Convert a submitted value: `Typed`, or a string passed to `clean`."""
    if isinstance(value, Typed):
        return value
    if isinstance(value, Suggestion):
        return Typed(value.text, value.id)
    return Typed(str(value or "").strip(), "")


def _as_initial(value: Any) -> Typed:
    """Convert an initial value: a suggestion, or an id without its text."""
    if isinstance(value, Suggestion):
        return Typed(value.text, value.id)
    return Typed("", "" if value is None else str(value)[:MAX_TEXT_CHARS])


class AutocompleteChoiceField(AutocompleteField):
    """A field whose value is the id of an entry, as a string; "" when it is empty and not required."""

    def to_python(self, value: Any) -> Any:
        """Return the id. See `AutocompleteField.to_python`."""
        found = super().to_python(value)
        return found.id if found else ""

    def validate(self, value: Any) -> None:
        """Raise ValidationError if it is required and empty."""
        super().validate(value or None)
