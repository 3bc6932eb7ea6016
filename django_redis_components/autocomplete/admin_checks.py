"""System checks of admin classes whose fields are chosen from an index, as Django checks `autocomplete_fields`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.core.checks import CheckMessage, Error
from django.core.exceptions import FieldDoesNotExist
from django.db.models import ForeignKey, ManyToManyField

from django_redis_components.autocomplete.exceptions import AutocompleteError
from django_redis_components.autocomplete.model_index import ModelIndex
from django_redis_components.autocomplete.registry import RegisteredIndex, get_index, index_of_model

#: `redis_autocomplete_fields` is no list of names, and no mapping of names to indexes.
NO_LIST_ID = "drc.E030"
#: It names a field that the model does not have.
UNKNOWN_FIELD_ID = "drc.E031"
#: It names a field that is neither a foreign key nor a many-to-many field.
NO_RELATION_ID = "drc.E032"
#: The related model has no index, or several, or the named index is not registered, or is that of another model.
NO_INDEX_ID = "drc.E033"
#: The index has scopes, and nothing says which one the field queries.
NO_SCOPE_ID = "drc.E034"
#: `redis_autocomplete_create` names another field, or its value is no function.
CREATE_ID = "drc.E035"


def check_fields(admin: Any, *, finds_scope: bool) -> list[CheckMessage]:
    """Check `redis_autocomplete_fields` and `redis_autocomplete_create` of an admin class or inline.

    Args:
        finds_scope: whether the class itself determines the scope of a field.
    """
    names, what = admin.redis_autocomplete_fields, f"{type(admin).__name__}.redis_autocomplete_fields"
    if not isinstance(names, list | tuple | Mapping) or not all(isinstance(name, str) for name in names):
        text = f"{what}={names!r}: expected a list of names of fields, or a mapping of names to indexes."
        return [Error(text, obj=type(admin), id=NO_LIST_ID)]
    indexes: Mapping[str, str] = names if isinstance(names, Mapping) else {}
    found = [
        Error(f"{what}: {text}", hint=hint, obj=type(admin), id=id_)
        for name in names
        for text, hint, id_ in _field_errors(admin.model, name, indexes.get(name), finds_scope)
    ]
    return [*found, *_create_errors(admin, names)]


def _field_errors(model: Any, name: str, index: str | None, finds_scope: bool) -> Iterator[tuple[str, str | None, str]]:
    """Yield text, hint and id of the errors of a field."""
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        known = [one.name for one in model._meta.get_fields()]
        near = difflib.get_close_matches(name, known, n=1)
        yield (
            f"{model._meta.label} has no field {name!r}.",
            f"Did you mean {near[0]!r}?" if near else None,
            UNKNOWN_FIELD_ID,
        )
        return
    if not isinstance(field, ForeignKey | ManyToManyField):
        yield f"{name!r} is neither a foreign key nor a many-to-many field.", None, NO_RELATION_ID
        return
    related = field.remote_field.model
    try:
        chosen = index_of_model(related) if index is None else get_index(index)
    except AutocompleteError as exc:
        hint = f"Register a ModelIndex of {related._meta.label} in the module indexes.py of an app."
        yield f"{name!r} has no index. {exc}", hint, NO_INDEX_ID
        return
    yield from _index_errors(name, related, chosen, finds_scope)


def _index_errors(
    name: str, related: Any, index: RegisteredIndex, finds_scope: bool
) -> Iterator[tuple[str, str | None, str]]:
    if not isinstance(index, ModelIndex):
        yield f"{name!r} has no index of a model: {index.name!r} is no ModelIndex.", None, NO_INDEX_ID
    elif not _have_common_objects(related, index.model):
        labels = related._meta.label, index.model._meta.label
        yield f"{name!r} refers to {labels[0]}, and the index {index.name!r} is one of {labels[1]}.", None, NO_INDEX_ID
    elif index.scoped and not (finds_scope or index.finds_scope or _overrides_scope_for(index)):
        problem = f"{name!r} has the index {index.name!r}, which has one part per scope, and nothing says which one."
        hint = "Define scope_for() or forward of the index, or redis_autocomplete_scope() of the admin class."
        yield problem, hint, NO_SCOPE_ID


def _create_errors(admin: Any, names: Iterable[str]) -> Iterator[CheckMessage]:
    what, functions = f"{type(admin).__name__}.redis_autocomplete_create", admin.redis_autocomplete_create
    if not isinstance(functions, Mapping):
        yield Error(f"{what}={functions!r}: expected a mapping of names to functions.", obj=type(admin), id=CREATE_ID)
        return
    for name, function in functions.items():
        if name not in names:
            text = f"{what}: {name!r} is not in redis_autocomplete_fields."
            yield Error(text, obj=type(admin), id=CREATE_ID)
        elif not callable(function):
            text = f"{what}: {name!r} is {function!r}: expected a function."
            yield Error(text, obj=type(admin), id=CREATE_ID)


def _have_common_objects(one: Any, other: Any) -> bool:
    models = one._meta.concrete_model, other._meta.concrete_model
    return issubclass(*models) or issubclass(*models[::-1])


def _overrides_scope_for(index: ModelIndex) -> bool:
    return type(index).scope_for is not RegisteredIndex.scope_for
