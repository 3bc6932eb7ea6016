"""A search index of a model's objects, kept in step with the database."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from functools import partial
from itertools import islice
from typing import Any

from django.db import models, router

from django_redis_components.core.arguments import check_progress, check_sequence, check_string, short_repr
from django_redis_components.core.chunks import chunks
from django_redis_components.core.client import connections
from django_redis_components.core.model_changes import (
    CHUNK,
    Drift,
    ModelChanges,
    has_id,
    indexed_keys,
    key_of,
    primary_keys_of,
    store_check,
    write_newest,
)
from django_redis_components.core.object_values import has_parts, number_of, relations_in, value_of, values_of
from django_redis_components.core.protocol import run
from django_redis_components.search.arguments import (
    MAX_FACETS,
    MAX_LATITUDE,
    MAX_LONGITUDE,
    RESERVED,
    Point,
    SortValue,
    check_id,
)
from django_redis_components.search.documents import Document
from django_redis_components.search.exceptions import InvalidSearch, SearchError
from django_redis_components.search.index import SearchIndex, find_differences, scan_ids, write_documents
from django_redis_components.search.page import SearchPage

#: Largest number by which objects are sorted, and that of infinity: a weighted sum of some has an order, too.
LARGEST = 1e300

_searches: dict[str, ModelSearch] = {}


class ModelSearch:
    """A search index of a model. Declare a subclass, and register it.

    Attributes:
        model: the model.
        name: name of the index; by default that of the model, such as ``"shop.item"``.
        fields: weights of attributes or methods with text, by name.
        facets: names of attributes or methods with a value, or several; the first 64 of an object count.
        sort_values: names of attributes with numbers, texts, dates, times or durations; times and durations are stored
            in seconds. NaN is 0, and any other value its text.
        location: name of an attribute or method with longitude and latitude, with a point of GeoDjango, or None. A
            place beyond 180 and 85 degrees is none.
        watch_fields, relations: as for `ModelIndex` of autocomplete.
        language, synonyms, stemmer, field_queries: as for `SearchIndex`.

    Objects are indexed after the commit of each `save`, `delete` and change of `relations`. Call `update` after changes
    that send no signals. ``manage.py redis search check`` finds what was missed.

    Raises:
        TypeError, ValueError, FieldDoesNotExist: an attribute is not accepted.
    """

    model: type[models.Model]
    name: str = ""
    fields: Mapping[str, float]
    facets: Sequence[str] = ()
    sort_values: Sequence[str] = ()
    location: str = ""
    watch_fields: Sequence[str] = ()
    relations: Sequence[str] = ()
    language: str | None = "en"
    synonyms: Mapping[str, Sequence[str]] | None = None
    stemmer: str | None = None
    field_queries: Sequence[str] = ()

    def __init__(self, *, using: str = "default") -> None:
        kind = type(self)
        model = getattr(kind, "model", None)
        if not (isinstance(model, type) and issubclass(model, models.Model)):
            raise TypeError(f"{kind.__name__}.model is {model!r}: expected a model.")
        if not isinstance(getattr(kind, "fields", None), Mapping) or not kind.fields:
            raise TypeError(f"{kind.__name__}.fields: expected weights by name, such as {{'title': 3}}.")
        for what in ("facets", "sort_values", "watch_fields", "relations", "field_queries"):
            check_sequence(getattr(self, what), f"{kind.__name__}.{what}")
        self.name = kind.name or model._meta.label_lower
        self.index = SearchIndex(
            self.name,
            fields=self.fields,
            language=self.language,
            synonyms=self.synonyms,
            stemmer=self.stemmer,
            field_queries=self.field_queries,
            using=using,
        )
        self._label = f"Search {self.name}"
        self._changes = ModelChanges(
            self._label,
            model,
            self.watch_fields,
            relations_in(model, self.relations, [*self.fields, *self.facets]),
            self._follow,
            "manage.py redis search repair",
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def queryset(self) -> models.QuerySet[Any]:
        """The objects that are indexed; all by default."""
        return self.model._default_manager.all()

    def document(self, obj: Any) -> Document | None:
        """Return what is indexed of an object; None for no document."""
        if obj is None:
            return None
        return Document(
            {name: _text(value_of(obj, name)) for name in self.fields},
            _facets({name: [_facet(each) for each in values_of(obj, name)] for name in self.facets}),
            {name: _sort_value(value_of(obj, name)) for name in self.sort_values},
            _point(value_of(obj, self.location)) if self.location else None,
        )

    def search(self, query: str, **options: Any) -> SearchPage:
        """See `SearchIndex.search`. A facet, filter or order that the class does not declare is an InvalidSearch."""
        self._check_names(options)
        return self.index.search(query, **options)

    async def asearch(self, query: str, **options: Any) -> SearchPage:
        """See `search`."""
        self._check_names(options)
        return await self.index.asearch(query, **options)

    def objects(self, page: SearchPage) -> list[Any]:
        """Return the objects of a page in its order, by one query. Those that were deleted meanwhile are left out."""
        keys = self._keys_of(page)
        found = self.queryset().in_bulk(keys)
        return [found[key] for key in keys if key in found]

    async def aobjects(self, page: SearchPage) -> list[Any]:
        """See `objects`."""
        keys = self._keys_of(page)
        found = await self.queryset().ain_bulk(keys)
        return [found[key] for key in keys if key in found]

    def update(self, *objects: Any, using: str | None = None) -> None:
        """Index objects as the database has them now; remove the documents of deleted objects.

        Args:
            objects: objects of the model, primary keys, or querysets.
            using: the database to read; by default the one that the router writes to.
        """
        for keys in chunks(primary_keys_of(objects), CHUNK):
            self._update(keys, using or router.db_for_write(self.model))

    def rebuild(self, *, progress: Callable[[int], object] | None = None) -> int:
        """Replace the whole index by the objects of the database; return the number of documents.

        Searches use the old documents until all are written. Changes during the rebuild are kept.

        Raises:
            RebuildSuperseded: a later rebuild has started, or this one paused for 15 minutes.
        """
        return self.index.rebuild(self._documents(check_progress(progress)))

    def find_drift(self, *, progress: Callable[[int], object] | None = None) -> Drift[str]:
        """Compare all objects and all documents. Objects that changed meanwhile are compared again."""
        check_progress(progress)
        missing, stale, count = [], [], 0
        extra: list[str] = []
        for some in chunks(self.queryset().iterator(chunk_size=CHUNK), CHUNK):
            wrong = self._differing({check_id(obj.pk): obj for obj in some if has_id(obj.pk, self._label)})
            again = self._differing(self._objects_of(wrong))
            missing += [id_ for id_, is_stored in again.items() if not is_stored]
            stale += [id_ for id_, is_stored in again.items() if is_stored]
            count += len(some)
            if progress is not None:
                progress(len(some))
        for ids in scan_ids(self.index):
            without = [id_ for id_, obj in self._objects_of(ids).items() if obj is None]
            extra += self._differing({id_: None for id_, obj in self._objects_of(without).items() if obj is None})
        drift = Drift(count, tuple(missing), tuple(stale), tuple(dict.fromkeys(extra)))
        self._store_check(count, len(drift.ids))
        return drift

    def repair(self, drift: Drift[str]) -> None:
        """Index what the drift names as the database has it now; rebuild an index that has no document right.

        Then a structure of the index was lost, and postings of former documents may be left, which only a rebuild
        removes.

        Raises:
            SearchError: objects changed again and again.
            RebuildSuperseded: a later rebuild has started.
        """
        if drift.objects and len(drift.missing) + len(drift.stale) >= drift.objects:
            self.rebuild()
        else:
            self._update_ids(drift.ids)
        self._store_check(drift.objects, 0)

    def _documents(self, progress: Callable[[int], object] | None) -> Iterator[tuple[Any, Document]]:
        objects = self.queryset().using(router.db_for_write(self.model))
        for some in chunks(objects.iterator(chunk_size=CHUNK), CHUNK):
            kept = [obj for obj in some if has_id(obj.pk, self._label)]
            yield from ((obj.pk, document) for obj in kept if (document := self.document(obj)))
            if progress is not None:
                progress(len(some))

    def _follow(self, keys: Sequence[Any], using: str) -> None:
        with connections.page_attempt(self.index.using):
            self._update(keys, using)

    def _update(self, keys: Sequence[Any], using: str, *, force: bool = False) -> None:
        objects, keys = self.queryset().using(using), indexed_keys(self.model, keys, self._label)
        if keys and not write_newest(keys, objects.in_bulk, self.document, partial(self._write, force=force)):
            raise SearchError(f"Search {self.name!r}: objects changed again and again while they were written.")

    def _write(self, documents: Mapping[Any, Document | None], *, force: bool) -> None:
        """Write the documents of objects, by primary key; remove those that are None."""
        write_documents(self.index, {check_id(key): document for key, document in documents.items()}, force=force)

    def _update_ids(self, ids: Iterable[str]) -> None:
        """Index the objects of ids as the database has them now, and remove the documents of the others."""
        keys = {id_: key_of(self.model, id_) for id_ in ids}
        for some in chunks((key for key in keys.values() if key is not None), CHUNK):
            self._update(some, router.db_for_write(self.model), force=True)
        write_documents(self.index, {id_: None for id_, key in keys.items() if key is None})

    def _check_names(self, options: Mapping[str, Any]) -> None:
        """Refuse a name that finds nothing; a class that overrides `document` may have more than it declares."""
        if type(self).document is not ModelSearch.document:
            return
        for what in ("facets", "filters"):
            self._check_declared(what, options.get(what), self.facets)
        order = options.get("order_by")
        names = [order.removeprefix("-")] if isinstance(order, str) else order
        self._check_declared("order_by", names, (*RESERVED, *self.sort_values))

    def _check_declared(self, what: str, names: Any, declared: Sequence[str]) -> None:
        if not isinstance(names, Mapping | list | tuple):  # the index refuses other types
            return
        for name in names:
            if isinstance(name, str) and name not in declared:
                near = difflib.get_close_matches(name, declared, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                accepted = ", ".join(declared) or "none"
                kind = type(self).__name__
                raise InvalidSearch(f"{what}: {short_repr(name)} is not declared by {kind}: {accepted}.{hint}")

    def _keys_of(self, page: SearchPage) -> list[Any]:
        """Return the primary keys of a page in its order."""
        return [key for id_ in page.ids if (key := key_of(self.model, id_)) is not None]

    def _objects_of(self, ids: Iterable[str]) -> dict[str, Any]:
        keys = {id_: key_of(self.model, id_) for id_ in ids}
        objects = self.queryset().using(router.db_for_write(self.model))
        found: dict[Any, Any] = {}
        for some in chunks({key for key in keys.values() if key is not None}, CHUNK):
            found.update(objects.in_bulk(some))
        return {id_: found.get(key) for id_, key in keys.items()}

    def _differing(self, objects: Mapping[str, Any]) -> dict[str, bool]:
        """Return the ids whose documents differ from their objects, each with whether it has a document."""
        return find_differences(self.index, {id_: self.document(obj) for id_, obj in objects.items()})

    def _store_check(self, objects: int, differences: int) -> None:
        run(connections.client(self.index.using), store_check("search", self.name, objects, differences))


def register(kind: type[ModelSearch], **options: Any) -> ModelSearch:
    """Register a search index of a model, and follow the model; call it in the module `indexes` of an installed app.

    A second registration of a name replaces the first.
    """
    search = kind(**options)
    unregister(search.name)
    _searches[search.name] = search
    search._changes.connect()
    return search


def unregister(name: str) -> None:
    """Remove a name. An unknown name is ignored.

    Raises:
        TypeError: not a name.
    """
    if search := _searches.pop(check_string(name, "name"), None):
        search._changes.disconnect()


def registered() -> list[ModelSearch]:
    """Return all registered indexes, ordered by name."""
    return [_searches[name] for name in sorted(_searches)]


def attributes_of(search: ModelSearch) -> Sequence[str]:
    """Return the names that are read from each object; none if the class overrides `document`."""
    if type(search).document is not ModelSearch.document:
        return ()
    location = (search.location,) if search.location else ()
    return (*search.fields, *search.facets, *search.sort_values, *location)


def _text(value: Any) -> str:
    if has_parts(value) and not isinstance(value, Mapping):
        return " ".join(map(_text, value))
    return "" if value is None else str(value)


def _facet(value: Any) -> str:
    """Return a value of a facet as it can be stored: control characters and braces become spaces."""
    text = "".join(each if each.isprintable() and each not in "{}" else " " for each in str(value))
    return text.encode()[:200].decode(errors="ignore").strip() or "-"


def _facets(values: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return the first values that a document may have, of all facets together."""
    first: dict[str, list[str]] = {name: [] for name in values}
    pairs = dict.fromkeys((name, value) for name, some in values.items() for value in some)
    for name, value in islice(pairs, MAX_FACETS):
        first[name].append(value)
    return first


def _sort_value(value: Any) -> SortValue:
    if isinstance(value, datetime):
        return _seconds(value)
    if hasattr(value, "toordinal"):
        return float(value.toordinal() * 86_400)
    if isinstance(value, time):
        return timedelta(
            hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
        ).total_seconds()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str) and issubclass(type(value), str):
        return value
    try:
        return number_of(value, LARGEST)
    except (TypeError, ValueError):  # a text that is translated later, a UUID, an object of another model
        return str(value)


def _seconds(moment: datetime) -> float:
    """Return the seconds of a time since the epoch."""
    try:
        return moment.timestamp()
    except (ValueError, OverflowError):  # a naive one of the first or last day of the calendar
        return moment.replace(tzinfo=UTC).timestamp()


def _point(value: Any) -> Point | None:
    """Return a place; None for one that Redis cannot store, such as one at a pole."""
    if value is None:
        return None
    longitude, latitude = (value.x, value.y) if hasattr(value, "x") else value
    if None in (longitude, latitude):
        return None
    place = float(longitude), float(latitude)
    return place if abs(place[0]) <= MAX_LONGITUDE and abs(place[1]) <= MAX_LATITUDE else None
