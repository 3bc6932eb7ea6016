"""The differences between an index and its model's objects: finding and repairing them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from django.db import router

from django_redis_components.autocomplete import model_sync
from django_redis_components.autocomplete.entries import Entry, check_id, record_of
from django_redis_components.core.chunks import chunks
from django_redis_components.core.client import connections
from django_redis_components.core.model_changes import CHUNK, Drift, key_of, store_check
from django_redis_components.core.protocol import run


class ScopedId(NamedTuple):
    """The id of an entry, and the scope whose index has it; "" for none."""

    scope: str
    id: str

    def __str__(self) -> str:
        return f"{self.scope}/{self.id}" if self.scope else self.id


#: What an object should have: its entries by scope.
EntriesByScope = Callable[[Any], dict[str, Entry]]


class DriftFinder:
    """Compares an index with its model.

    Args:
        index: the `ModelIndex`.
        entries_by_scope: returns the entries that an object should have; none for None.
    """

    def __init__(self, index: Any, entries_by_scope: EntriesByScope) -> None:
        self._index = index
        self._entries_of = entries_by_scope

    def find(self, known_scopes: set[str], progress: Callable[[int], object] | None) -> Drift[ScopedId]:
        """Compare all objects and all entries. Objects that changed meanwhile are compared again.

        Args:
            known_scopes: the scopes that were written.
            progress: is called with the number of objects that were compared since the last call.
        """
        count, scopes, suspects = 0, set(known_scopes), list[ScopedId]()
        for some in chunks(self._index.queryset().iterator(chunk_size=CHUNK), CHUNK):
            count += len(some)
            scopes.update(scope for obj in some for scope in self._entries_of(obj))
            suspects += self._differing(some)
            if progress is not None:
                progress(len(some))
        for scope in sorted(scopes):
            for ids in model_sync.stored_ids(self._index, scope):
                suspects += self._unknown(scope, ids)
        missing, stale, extra = self._confirmed(suspects)
        for scope in sorted(scopes):
            extra += [ScopedId(scope, id_) for id_ in sorted(model_sync.orphans(self._index, scope))]
        drift = Drift(count, tuple(missing), tuple(stale), tuple(dict.fromkeys(extra)))
        self._store(count, len(drift.ids))
        return drift

    def repair(self, drift: Drift[ScopedId]) -> None:
        """Write what the drift names as the database has it now."""
        keys = self._keys_of(drift.ids)
        self._index.update(*dict.fromkeys(key for key in keys.values() if key is not None))
        wanted = self._wanted(keys)
        for each in drift.ids:
            if each.id and each.scope not in wanted[each]:
                model_sync.part_of(self._index, each.scope).remove(each.id)
        for scope in dict.fromkeys(scope for scope, _ in drift.extra):
            model_sync.orphans(self._index, scope, remove=True)
        self._store(drift.objects, 0)

    def _store(self, objects: int, differences: int) -> None:
        """Store the result for the dashboard."""
        check = store_check("autocomplete", self._index.name, objects, differences)
        run(connections.client(self._index.using), check)

    def _differing(self, objects: Sequence[Any]) -> list[ScopedId]:
        wanted = {
            ScopedId(scope, check_id(obj.pk)): record_of(entry).encode()
            for obj in objects
            for scope, entry in self._entries_of(obj).items()
        }
        stored = self._records(list(wanted))
        return [each for each, record in wanted.items() if stored[each] != record]

    def _confirmed(self, suspects: Sequence[ScopedId]) -> tuple[list[ScopedId], list[ScopedId], list[ScopedId]]:
        """Return what is missing, stale and extra still: an object may have changed since it was read."""
        stored, wanted = self._records(suspects), self._wanted(self._keys_of(suspects))
        missing, stale, extra = list[ScopedId](), list[ScopedId](), list[ScopedId]()
        for suspect in dict.fromkeys(suspects):
            entry, record = wanted[suspect].get(suspect.scope), stored[suspect]
            if entry is None:
                if record is not None:
                    extra.append(suspect)
            elif record is None:
                missing.append(suspect)
            elif record != record_of(entry).encode():
                stale.append(suspect)
        return missing, stale, extra

    def _records(self, ids: Sequence[ScopedId]) -> dict[tuple[str, str], bytes | None]:
        found: dict[tuple[str, str], bytes | None] = {}
        for some in chunks(ids, CHUNK):
            found.update(run(connections.client(self._index.using), model_sync.read_records(self._index, some)))
        return found

    def _unknown(self, scope: str, ids: Sequence[str]) -> list[ScopedId]:
        """Return the ids whose objects are not in the scope."""
        scoped = [ScopedId(scope, id_) for id_ in ids]
        wanted = self._wanted(self._keys_of(scoped))
        return [each for each in scoped if scope not in wanted[each]]

    def _keys_of(self, ids: Iterable[ScopedId]) -> dict[ScopedId, Any]:
        """Return the primary key of each id; None for one that no object can have."""
        return {each: key_of(self._index.model, each.id) for each in ids}

    def _wanted(self, keys: dict[ScopedId, Any]) -> dict[ScopedId, dict[str, Entry]]:
        """Return the entries by scope that the object of each id should have."""
        objects = self._index.queryset().using(router.db_for_write(self._index.model))
        found: dict[Any, Any] = {}
        for some in chunks({key for key in keys.values() if key is not None}, CHUNK):
            found.update(objects.in_bulk(some))
        return {each: self._entries_of(found.get(key)) for each, key in keys.items()}
