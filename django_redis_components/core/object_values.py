"""Values of a model's objects, by the names of attributes, methods and relations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from django.core.files import File
from django.db import models
from django.utils.functional import Promise


def value_of(obj: Any, name: str) -> Any:
    """Return the value of an attribute, or what a method returns; of a relation to several objects these objects."""
    found = getattr(obj, name)
    if isinstance(found, models.Manager):
        return list(found.all())
    return found() if callable(found) else found


def relations_in(model: type[models.Model], relations: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the declared relations, and the many-to-many fields of the model that are among the names."""
    many_to_many = {field.name for field in model._meta.many_to_many}
    return list(dict.fromkeys([*relations, *(name for name in names if name in many_to_many)]))


def unknown_attributes(objects: models.QuerySet[Any], names: Iterable[str]) -> list[str]:
    """Return the names that are neither an attribute of the model nor an annotation of the objects."""
    return [name for name in names if not hasattr(objects.model, name) and name not in objects.query.annotations]


def number_of(value: Any, largest: float) -> float:
    """Return a number of an object; 0 for None and NaN, and the nearest within bounds for others.

    So one odd value, such as infinity, does not end the writing of all objects.
    """
    try:
        number = float(value or 0)
    except OverflowError:  # an int beyond 1.8e308
        number = math.inf if value > 0 else -math.inf
    return 0.0 if math.isnan(number) else min(max(number, -largest), largest)


def values_of(obj: Any, name: str) -> Iterable[Any]:
    """Return the values of an attribute or method with one or several; none for None and ""."""
    found = value_of(obj, name)
    if isinstance(found, Promise):
        found = str(found)
    if found in (None, ""):
        return ()
    return found if has_parts(found) else (found,)


def has_parts(value: Any) -> TypeGuard[Iterable[Any]]:
    """Return whether a value is several: a list or a queryset, say.

    Not several are a text, also one that is translated later, which would be iterated letter by letter; bytes; and a
    file, which would be read line by line.
    """
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Promise | File)
