"""Following the changes of a model's objects, for what is kept in step with them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models.signals import m2m_changed, post_delete, post_save
from redis.exceptions import RedisError

from django_redis_components.core import keys
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Batch, Command, Flow, Read

#: Objects that are read from the database at a time.
CHUNK = 500
#: How often objects are read again that change while they are written.
MAX_ATTEMPTS = 10
#: Milliseconds for which the result of a comparison is kept.
CHECK_TTL_MS = 90 * 86_400 * 1_000

logger = logging.getLogger("django_redis_components")


class ModelChanges:
    """Calls a function with primary keys after the commit of each `save`, `delete` and change of a relation.

    Args:
        uid: identifies the receivers, and names what is kept in step in the log: "Index shop.item".
        model: the model.
        fields: a `save` with `update_fields` that has none of them is ignored; () for all.
        relations: names of many-to-many fields.
        update: is called with primary keys, some at a time, and the alias of the database. While Redis is unavailable
            the change is logged.
        repair: the command that repairs what was missed, for the log.

    Raises:
        FieldDoesNotExist, ValueError: the model has no such field or relation.
    """

    def __init__(
        self,
        uid: str,
        model: type[models.Model],
        fields: Sequence[str],
        relations: Sequence[str],
        update: Callable[[list[Any], str], None],
        repair: str,
    ) -> None:
        self._uid = uid
        self._model = model
        self._fields = frozenset(fields)
        self._relations = tuple(relations)
        self._update = update
        self._repair = repair
        for name in (*fields, *relations):
            field = model._meta.get_field(name)
            if name in relations and not field.many_to_many:
                raise ValueError(f"relations: {name!r} is no many-to-many field of {model._meta.label}.")

    def connect(self) -> None:
        """Start to follow the changes."""
        for signal, sender, receiver, uid in self._receivers():
            signal.connect(receiver, sender=sender, dispatch_uid=uid)

    def disconnect(self) -> None:
        """Stop to follow the changes."""
        for signal, sender, _receiver, uid in self._receivers():
            signal.disconnect(sender=sender, dispatch_uid=uid)

    def _receivers(self) -> Iterator[tuple[Any, Any, Any, str]]:
        yield post_save, self._model, self._on_change, self._uid
        yield post_delete, self._model, self._on_change, self._uid
        for name in self._relations:
            yield m2m_changed, self._through(name), self._on_relation, f"{self._uid}.{name}"

    def _through(self, name: str) -> Any:
        return getattr(self._model, name).through

    def _on_change(
        self, instance: models.Model, using: str, update_fields: frozenset[str] | None = None, **_: Any
    ) -> None:
        if not self._fields or update_fields is None or update_fields & self._fields:
            self._on_commit([instance.pk], using)

    def _on_relation(
        self, instance: models.Model, action: str, reverse: bool, pk_set: set[Any] | None, using: str, **signal: Any
    ) -> None:
        if not reverse:
            self._on_commit([instance.pk], using)
        elif pk_set is not None:
            self._on_commit(pk_set, using)
        elif action == "pre_clear":  # afterwards nothing tells whose relation was cleared
            [name] = [name for name in self._relations if self._through(name) is signal["sender"]]
            related = self._model._default_manager.using(using).filter(**{name: instance.pk})
            self._on_commit(list(related.values_list("pk", flat=True)), using)

    def _on_commit(self, primary_keys: Iterable[Any], using: str) -> None:
        transaction.on_commit(partial(self._write, list(primary_keys), using), using=using, robust=True)

    def _write(self, primary_keys: list[Any], using: str) -> None:
        try:
            for some in chunks(iter(primary_keys)):
                self._update(some, using)
        except (RedisError, RedisComponentsError) as exc:
            shown = ", ".join(map(str, primary_keys[:5])) + (", …" if len(primary_keys) > 5 else "")
            logger.warning(
                "%s misses a change of %s %s: %s. %s repairs it.",
                self._uid, self._model._meta.label, shown, exc, self._repair,
            )  # fmt: skip


def write_newest(
    primary_keys: Sequence[Any],
    read: Callable[[Sequence[Any]], Mapping[Any, Any]],
    encode: Callable[[Any], Any],
    write: Callable[[dict[Any, Any]], None],
) -> bool:
    """Write objects until the database has what was written: of concurrent calls the last one writes the newest.

    Args:
        read: returns the objects of primary keys, without those that do not exist.
        encode: returns what is written of an object, or of None for one that does not exist.
        write: writes it, by primary key.

    Returns:
        Whether it succeeded; False if objects changed too often meanwhile.
    """
    found = read(primary_keys)
    for _ in range(MAX_ATTEMPTS):
        encoded = {key: encode(found.get(key)) for key in primary_keys}
        write(encoded)
        found = read(primary_keys)
        primary_keys = [key for key in primary_keys if encode(found.get(key)) != encoded[key]]
        if not primary_keys:
            return True
    return False


def key_of(model: type[models.Model], id_: str) -> Any:
    """Return the primary key of an id; None if no object can have it."""
    primary_key = model._meta.pk
    try:
        key = primary_key.to_python(id_) if id_ else None
        primary_key.run_validators(key)  # of an integer: whether the database can store it
    except ValidationError:
        return None
    return key


def value_of(obj: Any, name: str) -> Any:
    """Return the value of an attribute, or what a method returns."""
    found = getattr(obj, name)
    return found() if callable(found) else found


def values_of(obj: Any, name: str) -> Iterable[Any]:
    """Return the values of an attribute or method with one or several; none for None and ""."""
    found = value_of(obj, name)
    if found in (None, ""):
        return ()
    return found if isinstance(found, Iterable) and not isinstance(found, str) else (found,)


def primary_keys_of(objects: Iterable[Any]) -> Iterator[Any]:
    """Yield the primary keys of objects, of the objects of querysets, and given ones."""
    for each in objects:
        if isinstance(each, models.QuerySet):
            yield from each.values_list("pk", flat=True).iterator()
        else:
            yield each.pk if isinstance(each, models.Model) else each


def chunks(source: Iterator[Any], size: int = CHUNK) -> Iterator[list[Any]]:
    """Yield lists of up to `size` items."""
    while chunk := list(islice(source, size)):
        yield chunk


@dataclasses.dataclass(frozen=True, slots=True)
class CheckRecord:
    """The result of the last comparison of an index with its model.

    Attributes:
        age: seconds since then.
        objects: objects that were compared.
        differences: entries that were missing, stale or extra, and were not repaired.
    """

    age: float
    objects: int
    differences: int


def store_check(component: str, name: str, objects: int, differences: int) -> Flow[None]:
    """Store the result of a comparison of an index, for the dashboard."""
    key = keys.key(component, name, "check")
    yield Batch(
        [
            Command("HSET", key, "objects", objects, "differences", differences, retry=True),
            Command("PEXPIRE", key, CHECK_TTL_MS, retry=True),
        ]
    )


def read_check(component: str, name: str) -> Flow[CheckRecord | None]:
    """Return the result of the last comparison, or None if it was longer ago than 90 days."""
    key = keys.key(component, name, "check")
    fields, left_ms = yield Batch([Read("HMGET", key, "objects", "differences"), Read("PTTL", key)])
    if None in fields or left_ms < 0:
        return None
    return CheckRecord((CHECK_TTL_MS - left_ms) / 1_000, *map(int, fields))
