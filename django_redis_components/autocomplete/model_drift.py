"""The differences between an index and its model's objects: finding and repairing them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.db import router

from django_redis_components.autocomplete import model_sync
from django_redis_components.autocomplete.entries import check_id
from django_redis_components.autocomplete.model_index import ModelIndex
from django_redis_components.core.client import connections
from django_redis_components.core.model_changes import CHUNK, chunks, store_check
from django_redis_components.core.protocol import run

#: An entry: the scope ("" for none) and the id.
Place = tuple[str, str]


@dataclasses.dataclass(slots=True)
class Drift:
    """What an index has and its objects do not, and the reverse; each as scope ("" for none) and id.

    Attributes:
        objects: objects that were compared.
        missing: objects without an entry that they should have.
        stale: entries that differ from their objects, or that a structure of the index has lost.
        extra: entries without an object, or in a scope that the object is not in; and what is left of an entry.
    """

    objects: int = 0
    missing: list[Place] = dataclasses.field(default_factory=list)
    stale: list[Place] = dataclasses.field(default_factory=list)
    extra: list[Place] = dataclasses.field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.missing or self.stale or self.extra)

    @property
    def places(self) -> list[Place]:
        """All differences."""
        return [*self.missing, *self.stale, *self.extra]


def find_drift(index: ModelIndex, progress: Callable[[int], object] = lambda count: None) -> Drift:
    """Compare all objects and all entries. Objects that changed meanwhile are compared again.

    Args:
        progress: is called with the number of objects that were compared since the last call.
    """
    drift, scopes = Drift(), index.known_scopes()
    for some in chunks(index.queryset().iterator(chunk_size=CHUNK)):
        drift.objects += len(some)
        scopes.update(scope for obj in some for scope in index.placed(obj))
        _compare(index, some, drift)
        progress(len(some))
    for scope in sorted(scopes):
        for ids in model_sync.stored_ids(index, scope):
            drift.extra += _unknown(index, scope, ids)
    confirmed = _confirmed(index, drift)
    for scope in sorted(scopes):
        confirmed.extra += [(scope, id_) for id_ in sorted(model_sync.orphans(index, scope))]
    confirmed.extra = list(dict.fromkeys(confirmed.extra))
    _store(index, drift.objects, len(confirmed.places))
    return confirmed


def repair(index: ModelIndex, drift: Drift) -> None:
    """Write what the drift names as the database has it now."""
    keys = _keys_of(index, drift.places)
    index.update(*dict.fromkeys(key for key in keys.values() if key is not None))
    placed = _placed(index, keys)
    for scope, id_ in drift.places:
        if id_ and scope not in placed[scope, id_]:
            model_sync.part_of(index, scope).remove(id_)
    for scope in dict.fromkeys(scope for scope, _ in drift.extra):
        model_sync.orphans(index, scope, remove=True)
    _store(index, drift.objects, 0)


def _store(index: ModelIndex, objects: int, differences: int) -> None:
    """Store the result for the dashboard."""
    run(connections.client(index.using), store_check("autocomplete", index.name, objects, differences))


def _compare(index: ModelIndex, objects: Sequence[Any], drift: Drift) -> None:
    wanted = {
        (scope, check_id(obj.pk)): entry.record().encode()
        for obj in objects
        for scope, entry in index.placed(obj).items()
    }
    stored = _records(index, list(wanted))
    drift.missing += [place for place in wanted if stored[place] is None]
    drift.stale += [place for place, record in wanted.items() if stored[place] not in (None, record)]


def _confirmed(index: ModelIndex, drift: Drift) -> Drift:
    """Return the differences that are still there: an object may have changed since it was read."""
    stored, placed = _records(index, drift.places), _placed(index, _keys_of(index, drift.places))
    confirmed = Drift(drift.objects)
    for place in dict.fromkeys(drift.places):
        entry, record = placed[place].get(place[0]), stored[place]
        if entry is None:
            if record is not None:
                confirmed.extra.append(place)
        elif record is None:
            confirmed.missing.append(place)
        elif record != entry.record().encode():
            confirmed.stale.append(place)
    return confirmed


def _records(index: ModelIndex, places: Sequence[Place]) -> dict[Place, bytes | None]:
    found: dict[Place, bytes | None] = {}
    for some in chunks(iter(places)):
        found.update(run(connections.client(index.using), model_sync.read_records(index, some)))
    return found


def _unknown(index: ModelIndex, scope: str, ids: Sequence[str]) -> list[Place]:
    """Return the ids whose objects are not in the scope."""
    places = [(scope, id_) for id_ in ids]
    placed = _placed(index, _keys_of(index, places))
    return [place for place in places if scope not in placed[place]]


def _keys_of(index: ModelIndex, places: Iterable[Place]) -> dict[Place, Any]:
    """Return the primary key of each id; None for one that no object can have."""
    return {place: index.key_of(place[1]) for place in places}


def _placed(index: ModelIndex, keys: dict[Place, Any]) -> dict[Place, Any]:
    """Return the entries by scope that the object of each place should have."""
    objects = index.queryset().using(router.db_for_write(index.model))
    found: dict[Any, Any] = {}
    for some in chunks(iter({key for key in keys.values() if key is not None})):
        found.update(objects.in_bulk(some))
    return {place: index.placed(found.get(key)) for place, key in keys.items()}
