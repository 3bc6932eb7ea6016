"""An index of a model's objects, kept in step with the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from django.db import models, router
from django.http import HttpRequest

from django_redis_components.autocomplete import model_sync
from django_redis_components.autocomplete.entries import (
    MAX_TERMS,
    MAX_TEXT_CHARS,
    MAX_TEXT_TERMS,
    MAX_WEIGHT,
    Entry,
    check_id,
    printable,
    record_of,
)
from django_redis_components.autocomplete.exceptions import AutocompleteError
from django_redis_components.autocomplete.model_drift import DriftFinder, ScopedId
from django_redis_components.autocomplete.registry import RegisteredIndex
from django_redis_components.core.arguments import check_progress, check_sequence
from django_redis_components.core.chunks import chunks
from django_redis_components.core.client import connections
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.keys import validate_name
from django_redis_components.core.model_changes import (
    CHUNK,
    Drift,
    ModelChanges,
    has_id,
    indexed_keys,
    key_of,
    primary_keys_of,
    write_newest,
)
from django_redis_components.core.object_values import number_of, relations_in, value_of, values_of
from django_redis_components.core.protocol import run

logger = guarded_logger("django_redis_components.autocomplete")

#: An object's entries by scope; the scope is "" in an index without scopes.
EntriesByScope = dict[str, Entry]


class ModelIndex(RegisteredIndex):
    """The objects of a model by the prefixes of their words. Declare a subclass, and register it.

    Attributes:
        model: the model.
        name: name of the index; by default that of the model, such as ``"shop.customer"``.
        text: name of the attribute or method with the displayed text; `str` of the object by default.
        terms: names of attributes or methods with further terms: an e-mail address, a nickname.
        weight: name of the attribute with the weight; "" for none.
        watch_fields: names of the model's fields that entries and scopes depend on; () for all. A `save` with
            `update_fields` that names none of them is not indexed: a sign-in saves `last_login`.
        relations: names of many-to-many fields of the model whose changes change an entry or its scopes.
        forward: names of other fields of the form that determine the scope; see `RegisteredIndex`.
        typos: whether the view corrects one typo; see `RegisteredIndex`.

    Override `queryset`, `scope`, `scope_for`, `is_permitted` or `recents` as needed. The keyword arguments are those of
    `RegisteredIndex`. By default users who may view the model may query the index.

    Objects are written after the commit of each `save`, `delete` and change of `relations`, also by proxies, parents
    and children of the model. Call `update` after changes that send no signals (`bulk_create`, `bulk_update`,
    `QuerySet.update` and raw SQL) and after changes of other objects that entries depend on.
    ``manage.py redis autocomplete check`` finds what was missed.

    Raises:
        TypeError, ValueError, FieldDoesNotExist: an attribute is not accepted.
    """

    model: type[models.Model]
    name: str = ""
    text: str = ""
    terms: Sequence[str] = ()
    weight: str = ""
    watch_fields: Sequence[str] = ()
    relations: Sequence[str] = ()
    forward: Any = ()
    typos: bool = False

    def __init__(self, **options: Any) -> None:
        model = getattr(type(self), "model", None)
        if not (isinstance(model, type) and issubclass(model, models.Model)):
            raise TypeError(f"{type(self).__name__}.model is {model!r}: expected a model.")
        for what in ("terms", "watch_fields", "relations"):
            check_sequence(getattr(self, what), f"{type(self).__name__}.{what}")
        scoped = type(self).scope is not ModelIndex.scope
        super().__init__(
            type(self).name or model._meta.label_lower,
            **{"scoped": scoped, "forward": type(self).forward, "typos": type(self).typos, **options},
        )
        self._label = f"Index {self.name}"
        self._changes = ModelChanges(
            self._label,
            model,
            self.watch_fields,
            relations_in(model, self.relations, self.terms),
            self._follow,
            "manage.py redis autocomplete repair",
        )

    def queryset(self) -> models.QuerySet[Any]:
        """The objects of the index; all by default."""
        return self.model._default_manager.all()

    def scope(self, obj: Any) -> object | Iterable[object]:
        """Return the scope of an object, or several: it has an entry in each. None for none."""
        raise NotImplementedError

    def is_permitted(self, request: HttpRequest, scope: str) -> bool:
        """Return whether the request may query the index: the given permission, or that to view the model."""
        if self.has_permission_callback:
            return super().is_permitted(request, scope)
        user = getattr(request, "user", None)
        options = self.model._meta
        return bool(user and user.has_perm(f"{options.app_label}.view_{options.model_name}"))

    def entry(self, obj: Any) -> Entry | None:
        """Return the entry of an object; None if it has no text.

        Text is made to fit: control characters become spaces, and what is too long is cut off.
        """
        text = printable(str(value_of(obj, self.text) if self.text else obj))[:MAX_TEXT_CHARS].strip()
        terms = [printable(str(value)) for name in self.terms for value in values_of(obj, name)]
        terms = [term[:MAX_TEXT_CHARS].strip() for term in terms]
        weight = number_of(value_of(obj, self.weight), MAX_WEIGHT) if self.weight else 0
        entry = Entry(
            obj.pk,
            text,
            [term for term in terms if term][: MAX_TERMS - MAX_TEXT_TERMS],
            max(int(weight), 0),
        )
        try:
            record_of(entry)
        except ValueError:
            return None
        return entry

    def _entries_by_scope(self, obj: Any) -> EntriesByScope:
        """Return the entries of an object by scope, none if it is None."""
        entry = self.entry(obj) if obj is not None else None
        if entry is None:
            return {}
        if not self.scoped:
            return {"": entry}
        found = self.scope(obj)
        several = found if isinstance(found, Iterable) and not isinstance(found, str) else [found]
        return {str(each): entry for each in several if each not in (None, "") and self._has_part(str(each))}

    def _stored_entries(self, obj: Any) -> EntriesByScope:
        """Return the entries by scope that Redis should have of an object."""
        return self._entries_by_scope(obj) if obj is not None and has_id(obj.pk, self._label) else {}

    def _has_part(self, scope: str) -> bool:
        """Return whether the index can have a part for a scope; log why not."""
        try:
            validate_name(f"{self.name}:{scope}", "index name with scope")
        except ValueError as exc:
            logger.warning("%s leaves out a scope: %s", self._label, exc)
            return False
        return True

    def update(self, *objects: Any, using: str | None = None) -> None:
        """Write the entries of objects as the database has them now; remove those of deleted objects.

        Args:
            objects: objects of the model, primary keys, or querysets.
            using: the database to read; by default the one that the router writes to.
        """
        alias = using or router.db_for_write(self.model)
        for keys in chunks(primary_keys_of(objects), CHUNK):
            self._update(keys, alias)

    def rebuild(self, *, progress: Callable[[int], object] | None = None) -> int:
        """Replace the whole index, scope by scope, and return its number of entries.

        Readers see the old or the new entries of a scope. Changes during the rebuild are kept.

        Args:
            progress: is called with the number of objects that were written since the last call.

        Raises:
            RebuildSuperseded: a later rebuild started.
        """
        check_progress(progress)
        if not self.scoped:
            return self.index().rebuild(self._entries(progress))
        by_scope = self._place_all()
        for scope in self._known_scopes():  # also those without objects: one may join meanwhile
            by_scope.setdefault(scope, [])
        entries = {}
        for scope, keys in by_scope.items():
            entries[scope] = self.index(scope).rebuild(self._entries_of(scope, keys))
            if progress is not None:
                progress(len(keys))
        empty = [scope for scope, count in entries.items() if not count]
        run(connections.client(self.using), model_sync.forget_scopes(self, empty))
        return sum(entries.values())

    def find_drift(self, *, progress: Callable[[int], object] | None = None) -> Drift[ScopedId]:
        """Compare all objects and all entries. Objects that changed meanwhile are compared again.

        Args:
            progress: is called with the number of objects that were compared since the last call.
        """
        return DriftFinder(self, self._stored_entries).find(self._known_scopes(), check_progress(progress))

    def repair(self, drift: Drift[ScopedId]) -> None:
        """Write what the drift names as the database has it now.

        Raises:
            AutocompleteError: objects changed again and again.
        """
        DriftFinder(self, self._stored_entries).repair(drift)

    def _known_scopes(self) -> set[str]:
        """Return the scopes that were written; {""} for an index without scopes."""
        if not self.scoped:
            return {""}
        scopes: set[str] = run(connections.client(self.using), model_sync.read_scopes(self.name))
        return scopes

    def _connect(self) -> None:
        """Follow the changes of the model; `register` calls it."""
        self._changes.connect()

    def _disconnect(self) -> None:
        """Follow them no longer; `unregister` calls it."""
        self._changes.disconnect()

    def _follow(self, keys: Sequence[Any], using: str) -> None:
        with connections.page_attempt(self.using):
            self._update(keys, using)

    def _update(self, keys: Sequence[Any], using: str) -> None:
        written: dict[Any, set[str]] = {}

        def write(objects: Mapping[Any, EntriesByScope]) -> None:
            run(connections.client(self.using), model_sync.write(self, objects, written))
            for key, entries in objects.items():
                written.setdefault(key, set()).update(entries)

        keys = indexed_keys(self.model, keys, self._label)
        if keys and not write_newest(keys, self.queryset().using(using).in_bulk, self._entries_by_scope, write):
            raise AutocompleteError(f"Index {self.name!r}: objects changed again and again while they were written.")

    def _entries(self, progress: Callable[[int], object] | None) -> Iterator[Entry]:
        for some in chunks(self._newest().iterator(chunk_size=CHUNK), CHUNK):
            yield from (entry for obj in some for entry in self._stored_entries(obj).values())
            if progress is not None:
                progress(len(some))

    def _place_all(self) -> dict[str, list[Any]]:
        """Return the primary keys of all objects by scope, and note the scopes of objects that have none yet."""
        by_scope: dict[str, list[Any]] = {}
        for some in chunks(self._newest().iterator(chunk_size=CHUNK), CHUNK):
            entries = {obj.pk: placed for obj in some if (placed := self._stored_entries(obj))}
            run(connections.client(self.using), model_sync.note_scopes(self.name, entries))
            for key, scopes in entries.items():
                for scope in scopes:
                    by_scope.setdefault(scope, []).append(key)
        return by_scope

    def _entries_of(self, scope: str, keys: Sequence[Any]) -> Iterator[Entry]:
        for some in chunks(chain(keys, self._joined(scope, keys)), CHUNK):
            for obj in self._newest().in_bulk(some).values():
                if entry := self._entries_by_scope(obj).get(scope):
                    yield entry

    def _joined(self, scope: str, keys: Sequence[Any]) -> Iterator[Any]:
        """Yield the primary keys of further entries of a scope: of objects that joined it after `keys` were read.

        Read after the rebuild of the scope has begun: objects that join it later are written to the new index too.
        """
        known = {check_id(key) for key in keys}
        for ids in model_sync.stored_ids(self, scope):
            yield from (key for id_ in ids if id_ not in known and (key := key_of(self.model, id_)) is not None)

    def _newest(self) -> models.QuerySet[Any]:
        """Return the objects from the database that is written: a replica may lack some."""
        return self.queryset().using(router.db_for_write(self.model))


def attributes_of(index: ModelIndex) -> Sequence[str]:
    """Return the names that are read from each object; none if the class overrides `entry`."""
    if type(index).entry is not ModelIndex.entry:
        return ()
    return [name for name in (index.text, *index.terms, index.weight) if name]


def scopes_of(index: ModelIndex, obj: Any) -> Iterable[str]:
    """Return the scopes in which an object has an entry."""
    return index._entries_by_scope(obj)
