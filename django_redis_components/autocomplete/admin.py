"""Autocomplete in the admin's forms, from an index instead of SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from django.contrib.admin.options import InlineModelAdmin
from django.contrib.auth import get_permission_codename
from django.core.checks import CheckMessage
from django.db.models import Field, ForeignKey, ManyToManyField, Model
from django.http import HttpRequest

from django_redis_components.autocomplete.admin_checks import check_fields
from django_redis_components.autocomplete.model_fields import AutocompleteModelField, AutocompleteMultipleChoiceField


class RedisAutocompleteMixin:
    """A mixin of `ModelAdmin` and of inlines, before them in the bases.

    Attributes:
        redis_autocomplete_fields: names of foreign keys and many-to-many fields. The model that each refers to must
            have a registered `ModelIndex`, without scopes, or with `scope_for` or `forward`. If it has several, a
            mapping names the index of each field: ``{"author": "shop.author"}``.
        redis_autocomplete_create: functions that create an object for text that matches none, by field, as `create` of
            `AutocompleteModelField`. They are used for users who may add objects of that model.

    These fields have no links to add or change the related object. Mistakes in both attributes are system checks:
    drc.E030 to drc.E035.
    """

    redis_autocomplete_fields: Sequence[str] | Mapping[str, str] = ()
    redis_autocomplete_create: Mapping[str, Callable[[str], Model]] = MappingProxyType({})

    def check(self, **options: Any) -> list[CheckMessage]:
        """Return the mistakes in the class: those that Django finds, and those in the attributes of the mixin."""
        finds_scope = type(self).redis_autocomplete_scope is not RedisAutocompleteMixin.redis_autocomplete_scope
        return [*super().check(**options), *check_fields(self, finds_scope=finds_scope)]  # type: ignore[misc]

    def formfield_for_dbfield(self, db_field: Field[Any, Any], request: HttpRequest, **options: Any) -> Any:
        """Return the form field of a field of the model."""
        if db_field.name not in self.redis_autocomplete_fields:
            return super().formfield_for_dbfield(db_field, request, **options)  # type: ignore[misc]
        if isinstance(db_field, ManyToManyField):
            kind: type[Any] = AutocompleteMultipleChoiceField
        elif isinstance(db_field, ForeignKey):
            kind = AutocompleteModelField
        else:
            raise TypeError(
                f"{type(self).__name__}.redis_autocomplete_fields: {db_field.name!r} is neither a foreign key nor a"
                " many-to-many field."
            )
        if isinstance(self.redis_autocomplete_fields, Mapping):
            options.update(index=self.redis_autocomplete_fields[db_field.name], queryset=None)
        create = self.redis_autocomplete_create.get(db_field.name)
        if create is not None and _may_add(request, db_field.remote_field.model):
            options["create"] = create
        field: Any = db_field.formfield(form_class=kind, **options)
        field.scope = self.redis_autocomplete_scope(db_field, request, field)
        return field

    def get_queryset(self, request: HttpRequest) -> Any:
        """Return the objects; those of an inline with the objects of the foreign keys, so that one query shows all."""
        queryset: Any = super().get_queryset(request)  # type: ignore[misc]
        if not isinstance(self, InlineModelAdmin):
            return queryset
        options = self.model._meta
        keys = [name for name in self.redis_autocomplete_fields if isinstance(options.get_field(name), ForeignKey)]
        return queryset.select_related(*keys) if keys else queryset

    def redis_autocomplete_scope(self, db_field: Field[Any, Any], request: HttpRequest, field: Any) -> object:
        """Return the scope that a field queries; by default that of the request."""
        return field.index.scope_for(request) if field.index.scoped else None


def _may_add(request: HttpRequest, model: type[Model]) -> bool:
    options, user = model._meta, getattr(request, "user", None)
    return bool(user and user.has_perm(f"{options.app_label}.{get_permission_codename('add', options)}"))
