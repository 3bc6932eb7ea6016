"""Form fields whose values are objects of a model, found by its index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from redis.exceptions import RedisError

from django_redis_components.autocomplete.entries import MAX_TEXT_CHARS, Suggestion, check_text
from django_redis_components.autocomplete.exceptions import AutocompleteError
from django_redis_components.autocomplete.fields import ERROR_MESSAGES
from django_redis_components.autocomplete.model_index import ModelIndex
from django_redis_components.autocomplete.registry import index_of_model, source
from django_redis_components.autocomplete.widgets import (
    AutocompleteInput,
    AutocompleteSelectMultiple,
    Typed,
    TypedList,
)
from django_redis_components.core.text import fold


class _IndexedObjects:
    """What the fields share: the index, its scope, and the objects that were chosen or typed.

    The index is looked up when it is needed: forms may be imported before it is registered.
    """

    widget: Any
    error_messages: dict[str, Any]
    _create: Callable[[str], Model] | None
    _index_name: str | None
    _queryset: QuerySet[Any] | None

    @property
    def index(self) -> ModelIndex:
        """The index.

        Raises:
            AutocompleteError: it is not registered, or is no index of a model.
        """
        if self._index_name is not None:
            found = source(self._index_name)
        else:
            found = index_of_model(self.queryset.model)
        if not isinstance(found, ModelIndex):
            raise AutocompleteError(f"Index {found.name!r} is no ModelIndex: use AutocompleteField.")
        return found

    @property
    def queryset(self) -> QuerySet[Any]:
        """The objects that may be chosen: those given, or those of the index."""
        return self.index.queryset() if self._queryset is None else self._queryset.all()

    @queryset.setter
    def queryset(self, queryset: QuerySet[Any] | None) -> None:
        self._queryset = None if queryset is None else queryset.all()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        result = forms.Field.__deepcopy__(cast(Any, self), memo)
        result.widget.index = result.index.name
        return result

    @property
    def scope(self) -> object:
        """The scope that the field and its widget query."""
        return self.widget.scope

    @scope.setter
    def scope(self, scope: object) -> None:
        self.widget.scope = scope

    def _chosen(self, typed: Iterable[Typed]) -> list[Model]:
        """Return the objects of chosen ids, in their order, by one query. Those that may not be chosen are left out."""
        keys = [key for each in typed if (key := self.index.key_of(each.id)) is not None]
        found = self.queryset.in_bulk(keys) if keys else {}
        return [found[key] for key in dict.fromkeys(keys) if key in found and self._is_in_scope(found[key])]

    def _look_up(self, text: str) -> Model:
        """Return the object with this text or term, or create it.

        Raises:
            ValidationError: none or several match, or the text is not accepted.
        """
        if len(text) > MAX_TEXT_CHARS:
            raise self._error("too_long", count=MAX_TEXT_CHARS)
        try:
            check_text(text)
        except ValueError:
            raise self._error("invalid") from None
        try:
            named = self.index.named(self.scope, text, 2)
        except RedisError:
            raise self._error("unavailable", text=text) from None
        found = self._chosen(Typed(one.text, one.id) for one in named)
        if len(found) == 1:
            return found[0]
        if not found and self._create is not None:
            return self._create(text)
        raise self._error("ambiguous" if found else "unknown", text=text)

    def _is_in_scope(self, obj: Model) -> bool:
        if self.index.forward and self.scope is None:  # nothing was submitted yet
            return True
        return not self.index.scoped or str(self.scope) in self.index.placed(obj)

    def _text_of(self, obj: Model) -> str:
        entry = self.index.entry(obj)
        return entry.text if entry else str(obj)

    def _error(self, code: str, **params: object) -> ValidationError:
        return ValidationError(self.error_messages[code], code=code, params=params)


class AutocompleteModelField(_IndexedObjects, forms.ModelChoiceField):  # type: ignore[misc, type-arg]
    """A field for a foreign key: its value is an object, or None.

    Text that was typed without a choice must match one object, by its text or one of its terms, so the field works
    without JavaScript. A chosen object is checked against the database, so the field also works while Redis is
    unavailable.

    Args:
        index: the registered name of a `ModelIndex`.
        queryset: instead, the objects that may be chosen; the index is that of their model.
        scope: the scope, for a scoped index. It may be set later, in the form's `__init__`.
        create: is called with text that matches no object, and returns a new, saved one. The other fields of the form
            may still be invalid then.
    """

    widget = AutocompleteInput
    default_error_messages = ERROR_MESSAGES

    def __init__(
        self,
        index: str | None = None,
        *,
        queryset: QuerySet[Any] | None = None,
        scope: object = None,
        create: Callable[[str], Model] | None = None,
        **options: Any,
    ) -> None:
        self._index_name, self._create = _checked(index, queryset), create
        options.setdefault("widget", AutocompleteInput(index, scope=scope))
        options.pop("blank", None)
        super().__init__(queryset, **options)
        self.scope = scope

    def prepare_value(self, value: Any) -> Any:
        """Return what the widget shows: a suggestion for an object, what was typed, or an id."""
        if isinstance(value, Model):
            return Suggestion(str(value.pk), self._text_of(value))
        return value

    def to_python(self, value: Any) -> Any:
        """Return the chosen object.

        Raises:
            ValidationError: the text matches none or several.
        """
        if isinstance(value, Model):
            value = value.pk
        typed = value if isinstance(value, Typed) else Typed("", str(value or ""))
        if not typed.text and not (typed.id and not isinstance(value, Typed)):
            return None
        return self._unchanged(typed) or self._look_up(typed.text or typed.id)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Return whether another object was chosen, or other text was typed."""
        if self.disabled:
            return False
        before = str(getattr(initial, "pk", initial) or "")
        if not isinstance(data, Typed):
            return str(data or "") != before
        if data.id != before or not (data.id and data.text):
            return bool(before or data.text)
        return self._unchanged(data) is None

    def _unchanged(self, typed: Typed) -> Model | None:
        """Return the object of the chosen id, unless its text was changed without JavaScript."""
        for obj in self._chosen([typed]):
            if not typed.text or fold(typed.text) in (fold(self._text_of(obj)), fold(typed.id)):
                return obj
        return None


class AutocompleteMultipleChoiceField(_IndexedObjects, forms.ModelMultipleChoiceField):  # type: ignore[misc, type-arg]
    """A field for a many-to-many relation: its value is a queryset of objects.

    The chosen objects are check boxes, beside a text field for another one. So the field works without JavaScript: each
    submission may add one object.

    Args:
        index, queryset, scope, create: as for `AutocompleteModelField`.
    """

    widget = AutocompleteSelectMultiple
    default_error_messages = ERROR_MESSAGES

    def __init__(
        self,
        index: str | None = None,
        *,
        queryset: QuerySet[Any] | None = None,
        scope: object = None,
        create: Callable[[str], Model] | None = None,
        **options: Any,
    ) -> None:
        self._index_name, self._create = _checked(index, queryset), create
        options.setdefault("widget", AutocompleteSelectMultiple(index, scope=scope))
        super().__init__(queryset, **options)
        self.scope = scope

    def prepare_value(self, value: Any) -> Any:
        """Return what the widget shows: a suggestion for each object or primary key, by one query."""
        if isinstance(value, TypedList):
            objects = self._chosen(Typed("", id_) for id_ in value.ids)
            return TypedList(tuple(str(obj.pk) for obj in objects), value.text, tuple(self._suggest(objects)))
        if value is None or isinstance(value, str):
            return value
        objects = [each for each in value if isinstance(each, Model)]
        objects += self._chosen(Typed("", str(each)) for each in value if not isinstance(each, Model))
        return TypedList(tuple(str(obj.pk) for obj in objects), "", tuple(self._suggest(objects)))

    def clean(self, value: Any) -> Any:
        """Return the queryset of the chosen objects.

        Raises:
            ValidationError: one may not be chosen, or the text matches none or several.
        """
        if not isinstance(value, TypedList):
            value = TypedList(tuple(str(getattr(each, "pk", each)) for each in value or ()), "")
        chosen = self._chosen(Typed("", id_) for id_ in value.ids)
        if len(chosen) < len(set(value.ids)):
            known = {str(obj.pk) for obj in chosen}
            raise self._error("unknown", text=next(id_ for id_ in value.ids if id_ not in known))
        if value.text:
            chosen.append(self._look_up(value.text))
        if self.required and not chosen:
            raise ValidationError(self.error_messages["required"], code="required")
        self.run_validators(chosen)
        return self.index.model._default_manager.filter(pk__in=[obj.pk for obj in chosen])

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Return whether other objects were chosen, or text was typed."""
        if self.disabled:
            return False
        before = {str(getattr(each, "pk", each)) for each in initial or ()}
        if not isinstance(data, TypedList):
            return before != {str(each) for each in data or ()}
        return bool(data.text) or before != set(data.ids)

    def _suggest(self, objects: Sequence[Model]) -> list[Suggestion]:
        return [Suggestion(str(obj.pk), self._text_of(obj)) for obj in objects]


def _checked(index: str | None, queryset: QuerySet[Any] | None) -> str | None:
    """Return the name of the index."""
    if (index is None) == (queryset is None):
        raise TypeError("expected either index or queryset: the index of its model is then used.")
    return index
