"""Following the changes of a model's objects, for what is kept in step with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models.signals import class_prepared, m2m_changed, post_delete, post_save, pre_delete, pre_save
from django.db.transaction import TransactionManagementError
from redis.exceptions import RedisError

from django_redis_components.core import keys
from django_redis_components.core.arguments import id_text
from django_redis_components.core.chunks import chunks
from django_redis_components.core.exceptions import RedisComponentsError, must_raise
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Batch, Command, Flow, Read

#: Objects that are read from the database at a time.
CHUNK = 500
#: How often objects are read again that change while they are written.
MAX_ATTEMPTS = 10
#: Milliseconds for which the result of a comparison is kept.
CHECK_TTL_MS = 90 * 86_400 * 1_000

logger = guarded_logger("django_redis_components")

T = TypeVar("T")


class ModelChanges:
    """Calls a function with primary keys after the commit of each `save`, `delete` and change of a relation.

    It follows the model, its proxies, parents and children; rows of a relation that has its own model; and the
    deletion of objects of a relation. Signals name one class each, so that other models keep fast deletions.

    Args:
        uid: identifies the receivers, and names what is kept in step in the log: "Index shop.item".
        model: the model.
        fields: a `save` with `update_fields` that has none of them is ignored; () for all. Django names a foreign key
            there by its field or by its column, which a save of an object with deferred fields does.
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
        self._relations = tuple(relations)
        self._update = update
        self._repair = repair
        for name in relations:
            relation = model._meta.get_field(name)
            if not relation.many_to_many or relation.auto_created:  # the relation of another model's field
                raise ValueError(f"relations: {name!r} is no many-to-many field of {model._meta.label}.")
        watched = [model._meta.get_field(name) for name in fields]
        self._fields = frozenset(name for each in watched for name in (each.name, getattr(each, "attname", each.name)))

    def connect(self) -> None:
        """Start to follow the changes."""
        for signal, sender, receiver, uid in self._receivers():
            signal.connect(receiver, sender=sender, dispatch_uid=uid)
        class_prepared.connect(self._on_class, dispatch_uid=self._uid)

    def disconnect(self) -> None:
        """Stop to follow the changes."""
        for signal, sender, _receiver, uid in self._receivers():
            signal.disconnect(sender=sender, dispatch_uid=uid)
        class_prepared.disconnect(dispatch_uid=self._uid)

    def _on_class(self, sender: type[models.Model], **_: Any) -> None:
        """Follow a class that was defined later than the index was registered."""
        if _has_rows_of(sender, self._model):
            for signal in (post_save, post_delete):
                signal.connect(self._on_change, sender=sender, dispatch_uid=self._uid)

    def _receivers(self) -> Iterator[tuple[Any, Any, Any, str]]:
        for sender in _classes_of(self._model):
            yield post_save, sender, self._on_change, self._uid
            yield post_delete, sender, self._on_change, self._uid
        for name in self._relations:
            through = self._through(name)
            yield m2m_changed, through, self._on_relation, f"{self._uid}.{name}"
            for sender in _classes_of(self._related(name)):
                yield pre_delete, sender, self._on_related, self._uid
            if not through._meta.auto_created:
                yield pre_save, through, self._before_row, self._uid
                yield post_save, through, self._on_row, self._uid
                yield post_delete, through, self._on_row, self._uid

    def _through(self, name: str) -> Any:
        return getattr(self._model, name).through

    def _related(self, name: str) -> Any:
        return self._model._meta.get_field(name).related_model

    def _is_symmetrical(self, name: str) -> bool:
        """Return whether a change of an object's relation changes that of the others too: of friends."""
        field: Any = self._model._meta.get_field(name)
        return field.related_model is field.model and field.remote_field.symmetrical

    def _on_change(
        self, instance: models.Model, using: str, update_fields: frozenset[str] | None = None, **_: Any
    ) -> None:
        if not self._fields or update_fields is None or update_fields & self._fields:
            self._on_commit([self._key_of(instance)], using)

    def _on_relation(
        self, instance: models.Model, action: str, reverse: bool, pk_set: set[Any] | None, using: str, **signal: Any
    ) -> None:
        if not reverse:
            self._on_commit([self._key_of(instance)], using)
        for name in self._relations:
            if self._through(name) is not signal["sender"] or not (reverse or self._is_symmetrical(name)):
                continue
            if pk_set is not None:
                self._on_row_values(name, pk_set, using)
            elif action == "pre_clear":  # afterwards nothing tells whose relation was cleared
                self._on_commit(self._keys_related_to(name, instance, using), using)

    def _before_row(self, sender: type[models.Model], instance: models.Model, using: str, **_: Any) -> None:
        """Note whose a row of a relation is before it is saved: then it may be that of another object."""
        if not instance._state.adding:
            rows = sender._base_manager.using(using).filter(pk=instance.pk)
            names = [name for name in self._relations if self._through(name) is sender]
            former = {name: list(rows.values_list(self._row_key(name).attname, flat=True)) for name in names}
            vars(instance._state)[self._uid] = former

    def _on_row(self, sender: type[models.Model], instance: models.Model, using: str, **_: Any) -> None:
        """Follow a row of a relation that has its own model."""
        former = vars(instance._state).pop(self._uid, {})
        for name in self._relations:
            if self._through(name) is sender:
                values = {getattr(instance, self._row_key(name).attname), *former.get(name, ())}
                self._on_row_values(name, values, using)

    def _on_related(self, instance: models.Model, using: str, **_: Any) -> None:
        """Follow the deletion of an object of a relation: rows without a model of their own send no signal."""
        for name in self._relations:
            if _has_rows_of(type(instance), self._related(name)):
                self._on_commit(self._keys_related_to(name, instance, using), using)

    def _key_of(self, instance: models.Model) -> Any:
        """Return the primary key of the model's object: a child has that of its parent as a field."""
        return getattr(instance, self._model._meta.pk.attname, instance.pk)

    def _row_key(self, name: str) -> Any:
        """Return the foreign key from the rows of a relation to the model."""
        field: Any = self._model._meta.get_field(name)
        return self._through(name)._meta.get_field(field.m2m_field_name())

    def _on_row_values(self, name: str, values: Iterable[Any], using: str) -> None:
        """Follow objects by the values that rows of a relation have: the primary keys, or those of another field."""
        target = self._row_key(name).target_field
        if not target.primary_key:
            objects = self._model._base_manager.using(using).filter(**{f"{target.name}__in": list(values)})
            values = list(objects.values_list("pk", flat=True))
        self._on_commit(values, using)

    def _keys_related_to(self, name: str, instance: models.Model, using: str) -> list[Any]:
        """Return the primary keys of the objects that are related to one."""
        objects = self._model._base_manager.using(using).filter(**{f"{name}__pk": instance.pk})
        return list(objects.values_list("pk", flat=True))

    def _on_commit(self, primary_keys: Iterable[Any], using: str) -> None:
        changed = list(primary_keys)
        try:
            transaction.on_commit(partial(self._write, changed, using), using=using, robust=True)
        except TransactionManagementError as exc:  # autocommit is off: nothing tells when the site commits
            self._log_missed(changed, exc)

    def _write(self, primary_keys: list[Any], using: str) -> None:
        try:
            for some in chunks(primary_keys, CHUNK):
                self._update(some, using)
        except (RedisError, RedisComponentsError) as exc:
            self._log_missed(primary_keys, exc)
        except BaseException as exc:
            if must_raise(exc):
                raise
            message = "%s misses changes of %s: a function of the site failed. %s repairs it."
            logger.exception(message, self._uid, self._model._meta.label, self._repair)

    def _log_missed(self, primary_keys: list[Any], exc: Exception) -> None:
        shown = ", ".join(map(str, primary_keys[:5])) + (", …" if len(primary_keys) > 5 else "")
        logger.warning(
            "%s misses a change of %s %s: %s. %s repairs it.",
            self._uid, self._model._meta.label, shown, str(exc).rstrip("."), self._repair,
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


def _classes_of(model: type[models.Model]) -> set[type[models.Model]]:
    """Return a model and the other classes whose objects are rows of it."""
    known = (other for app in model._meta.apps.all_models.values() for other in app.values())
    return {model, *(other for other in known if _has_rows_of(other, model))}


def _has_rows_of(other: type[models.Model], model: type[models.Model]) -> bool:
    """Return whether saving an object of one class changes one of the model: a proxy, child or parent of it.

    A parent counts if its primary key is that of the model.
    """
    one, own = other._meta.concrete_model, model._meta.concrete_model
    if one is None or own is None:
        return False
    if issubclass(one, own):
        return True
    key: Any = own._meta.pk
    while key.remote_field is not None and key.remote_field.parent_link:
        key = key.remote_field.model._meta.pk
        if key.model is one:
            return True
    return False


def indexed_keys(model: type[models.Model], keys: Iterable[Any], label: str) -> list[Any]:
    """Return primary keys as objects have them, which a site may give as text, without those that no index can have.

    A queryset finds the object of "7" by the key 7: under "7" it would seem to be deleted.
    """
    kept = []
    for key in keys:
        if has_id(key, label):
            known = stored_value(model._meta.pk, key)
            kept.append(key if known is None else known)
    return list(dict.fromkeys(kept))


def has_id(key: Any, label: str) -> bool:
    """Return whether an index can have an object with this primary key; log why not.

    Args:
        label: what leaves the object out: "Index shop.item".
    """
    try:
        keys.validate_name(id_text(key, "primary key"), "primary key")
    except ValueError as exc:
        logger.warning("%s leaves out an object: %s", label, exc)
        return False
    return True


def key_of(model: type[models.Model], id_: str) -> Any:
    """Return the primary key of an id; None if no object can have it."""
    return stored_value(model._meta.pk, id_) if id_ else None


def stored_value(field: Any, value: Any) -> Any:
    """Return the value of a field that a given one stands for; None if the database cannot store it.

    Validators of the site do not count: objects are saved without them. A foreign key, such as the primary key of a
    child, has the type of its target.
    """
    while field.remote_field is not None:
        field = field.target_field
    try:
        found = field.to_python(value)
        if isinstance(field, models.IntegerField):
            field.run_validators(found)  # whether it is in the range of the database
        hash(found)
        is_text = isinstance(found, str) and bool(found.encode())  # no lone surrogates
    except (ValidationError, TypeError, ValueError, OverflowError):
        return None
    return None if is_text and "\0" in found else found


def primary_keys_of(objects: Iterable[Any]) -> Iterator[Any]:
    """Yield the primary keys of objects, of the objects of querysets, and given ones."""
    for each in objects:
        if isinstance(each, models.QuerySet):
            yield from each.values_list("pk", flat=True).iterator()
        else:
            yield each.pk if isinstance(each, models.Model) else each


@dataclasses.dataclass(frozen=True, slots=True)
class Drift(Generic[T]):
    """The differences between an index and its model, as ids: strings, or `ScopedId` of an index of autocomplete.

    Attributes:
        objects: objects that were compared.
        missing: objects that are not in the index and should be.
        stale: what differs from its object, or what a structure of the index has lost: it may not be found.
        extra: what has no object, or is in a scope that its object is not in.
    """

    objects: int = 0
    missing: tuple[T, ...] = ()
    stale: tuple[T, ...] = ()
    extra: tuple[T, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ids)

    @property
    def ids(self) -> tuple[T, ...]:
        """All that differ."""
        return (*self.missing, *self.stale, *self.extra)


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
