"""What fields for models share: their index, and the objects that were chosen, typed or given as initial values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, cast
from weakref import WeakValueDictionary

from django import forms
from django.core.exceptions import FieldDoesNotExist, ObjectDoesNotExist, ValidationError
from django.db import DataError, IntegrityError, router, transaction
from django.db.models import CharField, Field, ForeignKey, Model, QuerySet, TextField
from redis.exceptions import RedisError

from django_redis_components.autocomplete.entries import MAX_TEXT_CHARS, Suggestion, check_text
from django_redis_components.autocomplete.exceptions import AutocompleteError
from django_redis_components.autocomplete.model_index import ModelIndex, scopes_of
from django_redis_components.autocomplete.registry import find_by_text, get_index, index_of_model
from django_redis_components.autocomplete.widgets import AutocompleteInput, Typed, note_fixed
from django_redis_components.core.model_changes import key_of, stored_value
from django_redis_components.core.text import fold


class IndexedObjects:
    """The index of a field, its scope, and its objects.

    The index is looked up when it is needed: forms may be imported before it is registered.
    """

    widget: Any
    #: The class of the widget, unless another one is given.
    _input: ClassVar[type[AutocompleteInput]]
    to_field_name: str | None
    error_messages: dict[str, Any]
    #: Objects that were created, by folded text, while forms hold them. The copies of a field share it: the transaction
    #: of a formset is not yet committed, and so its objects are not yet in the index.
    _created: WeakValueDictionary[str, Model]
    _queryset: QuerySet[Any] | None
    _instance: Model | None = None
    _name = ""

    def __init__(
        self,
        index: str | None = None,
        *,
        queryset: QuerySet[Any] | None = None,
        scope: object = None,
        create: Callable[[str], Model] | None = None,
        **options: Any,
    ) -> None:
        if (index is None) == (queryset is None):
            raise TypeError("expected either index or queryset: the index of its model is then used.")
        self._index_name, self._create = index, create
        self._created = WeakValueDictionary()
        options.setdefault("widget", self._input(index, scope=scope))
        options.pop("blank", None)
        super().__init__(queryset, **options)  # type: ignore[call-arg]
        self.scope = scope

    @property
    def index(self) -> ModelIndex:
        """The index.

        Raises:
            AutocompleteError: it is not registered, or is no index of a model.
        """
        if self._index_name is not None:
            found = get_index(self._index_name)
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
        result.widget.creates = result._create is not None
        return result

    @property
    def scope(self) -> object:
        """The scope that the field and its widget query; None with a widget of another kind."""
        return getattr(self.widget, "scope", None)

    @scope.setter
    def scope(self, scope: object) -> None:
        self.widget.scope = scope

    def get_bound_field(self, form: Any, field_name: str) -> Any:
        """Return the bound field, and note the form's instance: it may have the object of the initial value."""
        self._instance, self._name = getattr(form, "instance", None), field_name
        note_fixed(self.widget, form)
        return forms.Field.get_bound_field(cast(Any, self), form, field_name)

    def _shows_text(self) -> bool:
        """Return whether the widget shows texts of objects, instead of their keys as a hidden field does."""
        return isinstance(self.widget, AutocompleteInput)

    def _objects_of(self, values: Iterable[Any]) -> list[Model]:
        """Return objects that are given, or with given values of `to_field_name`, by one query.

        Those of an unknown value, and those that may not be chosen, are left out.
        """
        values = list(values)
        objects_by_value = {id(value): value for value in values if isinstance(value, Model)}
        others = [value for value in values if not isinstance(value, Model)]
        name, field = self._key_field()
        keys = {id(value): key for value in others if (key := stored_value(field, value)) is not None}
        objects = self.queryset.in_bulk(set(keys.values()), field_name=name) if keys else {}
        objects_by_value |= {
            one: objects[key] for one, key in keys.items() if key in objects and self._may_show(objects[key])
        }
        return [objects_by_value[id(value)] for value in values if id(value) in objects_by_value]

    def _key_field(self) -> tuple[str, Field[Any, Any]]:
        """Return the name and field of the model that initial values refer to: mostly the primary key."""
        options, name = self.index.model._meta, self.to_field_name
        if name is None or name in ("pk", options.pk.name):
            return "pk", options.pk
        return name, cast("Field[Any, Any]", options.get_field(name))

    def _initial(self, value: Any) -> Model | None:
        """Return the object of an initial value: that of the form's instance, or one that may be chosen."""
        if isinstance(value, Model):
            return value
        return self._of_instance(value) or next(iter(self._objects_of([value])), None)

    def _of_instance(self, value: Any) -> Model | None:
        """Return the object that the form's instance refers to, if the value is its key.

        It is read at most once, and not at all if the queryset of the instances has `select_related`.
        """
        try:
            field = self._instance and self._instance._meta.get_field(self._name)
            if not isinstance(field, ForeignKey) or getattr(self._instance, field.attname) != value:
                return None
            related = getattr(self._instance, self._name)
        except (FieldDoesNotExist, ObjectDoesNotExist):
            return None
        return related if isinstance(related, self.index.model) else None

    def _ids_of(self, values: Iterable[Any]) -> tuple[str, ...]:
        """Return the primary keys of objects, or of given values of `to_field_name`."""
        if self._key_field()[0] != "pk":
            values = [self._initial(value) or value for value in values]
        return tuple(str(getattr(value, "pk", value)) for value in values)

    def _chosen(self, typed: Iterable[Typed]) -> list[Model]:
        """Return the objects of chosen ids, in their order, by one query. Those that may not be chosen are left out."""
        keys = [key for each in typed if (key := key_of(self.index.model, each.id)) is not None]
        objects = self.queryset.in_bulk(keys) if keys else {}
        return [objects[key] for key in dict.fromkeys(keys) if key in objects and self._is_in_scope(objects[key])]

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
            named = find_by_text(self.index, self.scope, text, 2)
        except RedisError:
            raise self._error("unavailable", text=text) from None
        objects = self._chosen(Typed(one.text, one.id) for one in named)
        if len(objects) == 1:
            return objects[0]
        if not objects and self._create is not None:
            return self._created_object(text, self._create)
        raise self._error("ambiguous" if objects else "unknown", text=text)

    def _created_object(self, text: str, create: Callable[[str], Model]) -> Model:
        """Return the object with this text that the index does not have yet, or create it.

        Raises:
            ValidationError: there are several, or the database rejects a new one.
        """
        if existing := self._not_indexed(text):
            return existing
        try:
            with transaction.atomic(using=self._primary.db):
                created = create(text)
        except (IntegrityError, DataError):  # it exists, or the text is too long for the field
            if existing := self._not_indexed(text):  # another request created it meanwhile
                return existing
            raise self._error("not_created", text=text) from None
        self._created[fold(text)] = created
        return created

    def _not_indexed(self, text: str) -> Model | None:
        """Return the object with this text from the database: a created one, or one whose `text` is a field."""
        last = self._created.get(fold(text))
        objects = list(self._primary.filter(pk=last.pk)) if last else []
        name, fields = self.index.text, {field.name: field for field in self.index.model._meta.concrete_fields}
        if not objects and isinstance(fields.get(name), (CharField, TextField)):
            objects = list(self._primary.filter(**{f"{name}__iexact": text})[:2])
        objects = [obj for obj in objects if self._is_in_scope(obj)]
        if len(objects) > 1:
            raise self._error("ambiguous", text=text)
        return objects[0] if objects else None

    @property
    def _primary(self) -> QuerySet[Any]:
        """The objects that may be chosen, in the database that is written: a replica may lack new ones."""
        return self.queryset.using(router.db_for_write(self.index.model))

    def _is_in_scope(self, obj: Model) -> bool:
        if self.index.forward and self.scope is None:  # nothing was submitted yet
            return True
        return not self.index.scoped or str(self.scope) in scopes_of(self.index, obj)

    def _may_show(self, obj: Model) -> bool:
        """Return whether an object may be an initial value: not one of another scope than the field has."""
        return self.scope is None or bool(self.index.forward) or self._is_in_scope(obj)

    def _suggestion(self, obj: Model) -> Suggestion:
        return Suggestion(str(obj.pk), self._text_of(obj))

    def _text_of(self, obj: Model) -> str:
        entry = self.index.entry(obj)
        return entry.text if entry else str(obj)

    def _error(self, code: str, **params: object) -> ValidationError:
        return ValidationError(self.error_messages[code], code=code, params=params)
