"""Writing the entries of a model's objects, and which scopes each object has.

An object may have entries in several indexes, one for each scope. A hash has the scopes of each object: before its
entries are written, all scopes that it had or gets; afterwards those that it has. So the next write of an object
removes what a process that was killed in between has left. A set has all scopes that were written, where a check looks
for what is left in the others; a rebuild removes those without entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from redis.exceptions import ResponseError

from django_redis_components.autocomplete.entries import Entry, check_id
from django_redis_components.autocomplete.index import PrefixIndex, add_call, check_call, part_key, remove_call
from django_redis_components.autocomplete.registry import RegisteredIndex
from django_redis_components.autocomplete.scripts import CHANGE_SCOPES, FIND_ORPHANS
from django_redis_components.core import keys
from django_redis_components.core.chunks import chunks
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Call, Command, Flow, Read, run

#: Elements that one HSCAN or SSCAN looks at.
SCAN_COUNT = 500
#: Members that one call compares with their entries.
ORPHANS_COUNT = 100
#: Stands for the record of an entry that one of the structures of the index has lost; no record is empty.
DAMAGED = b""


def write(
    source: RegisteredIndex, placed: Mapping[Any, Mapping[str, Entry]], written: Mapping[Any, Collection[str]]
) -> Flow[None]:
    """Write the entries of objects by primary key and scope, and remove those of other scopes.

    Args:
        written: scopes that the caller has written of an object before; another writer may have forgotten them.
    """
    ids = {key: check_id(key) for key in placed}
    if not source.scoped:
        yield Batch([_call(source, "", ids[key], entries.get("")) for key, entries in placed.items()])
        return
    known = yield _change(source.name, {ids[key]: (entries, ()) for key, entries in placed.items()})
    gone = {
        key: ({*_split(before), *written.get(key, ())}) - entries.keys()
        for (key, entries), before in zip(placed.items(), known, strict=True)
    }
    calls = [
        _call(source, scope, ids[key], entry) for key, entries in placed.items() for scope, entry in entries.items()
    ]
    calls += [_call(source, scope, ids[key], None) for key, scopes in gone.items() for scope in scopes]
    if calls:
        scopes = sorted({scope for entries in placed.values() for scope in entries})
        yield Batch([*calls, *_noted(source.name, scopes)])
    if removed := {ids[key]: ((), scopes) for key, scopes in gone.items() if scopes}:
        yield _change(source.name, removed)


def note_scopes(name: str, placed: Mapping[Any, Mapping[str, Entry]]) -> Flow[None]:
    """Add the scopes of objects to those that are stored."""
    if changes := {check_id(key): (entries, ()) for key, entries in placed.items() if entries}:
        yield _change(name, changes)


def forget_scopes(source: RegisteredIndex, scopes: list[str]) -> Flow[None]:
    """Remove scopes without entries from those that are stored.

    They are removed before their entries are counted, and a writer adds its scopes again after it has added entries: so
    a scope with entries is stored.
    """
    for some in chunks(scopes, SCAN_COUNT):
        yield Command("SREM", all_scopes_key(source.name), *some, retry=True)
        counts = yield Batch([Read("HLEN", part_key(part_of(source, scope), "entries")) for scope in some])
        if noted := _noted(source.name, [scope for scope, count in zip(some, counts, strict=True) if count]):
            yield Batch(noted)


def read_scopes(name: str) -> Flow[set[str]]:
    """Return all scopes that may have entries."""
    found: set[str] = set()
    cursor: Any = 0
    while True:
        cursor, members = yield Read("SSCAN", all_scopes_key(name), cursor, "COUNT", SCAN_COUNT)
        found.update(scope.decode(errors="replace") for scope in members)
        if int(cursor) == 0:
            return found


def read_records(
    source: RegisteredIndex, wanted: Sequence[tuple[str, str]]
) -> Flow[dict[tuple[str, str], bytes | None]]:
    """Return the records of ids, given with their scopes; `DAMAGED` for one that not all structures have."""
    if not wanted:
        return {}
    by_scope: dict[str, list[str]] = {}
    for scope, id_ in wanted:
        by_scope.setdefault(scope, []).append(id_)
    replies = yield Batch([check_call(part_of(source, scope), ids) for scope, ids in by_scope.items()])
    found: dict[tuple[str, str], bytes | None] = {}
    for (scope, ids), records in zip(by_scope.items(), replies, strict=True):
        for id_, (record, is_whole) in zip(ids, records, strict=True):
            found[scope, id_] = record if is_whole else DAMAGED
    if source.scoped:
        found |= yield from _without_scope(source.name, [each for each in wanted if found[each] is not None])
    return found


def _without_scope(name: str, ids: Sequence[tuple[str, str]]) -> Flow[dict[tuple[str, str], bytes | None]]:
    """Return the entries whose scope is not stored, or not as one of their objects, as damaged."""
    if not ids:
        return {}
    stored, known = yield Batch(
        [
            Read("HMGET", scopes_key(name), *(id_ for _, id_ in ids)),
            Read("SMISMEMBER", all_scopes_key(name), *(scope for scope, _ in ids)),
        ]
    )
    return {
        each: DAMAGED
        for each, joined, is_known in zip(ids, stored, known, strict=True)
        if each[0] not in _split(joined) or not is_known
    }


def orphans(source: RegisteredIndex, scope: str, *, remove: bool = False) -> set[str]:
    """Return the ids of members of the sorted sets of a scope that no entry has, and remove them if asked."""
    client, part, orphaned = connections.client(source.using), part_of(source, scope), set[str]()
    for name in ("lex", "top"):
        cursor = 0
        while True:
            call = FIND_ORPHANS(
                members=part_key(part, name),
                entries=part_key(part, "entries"),
                cursor=cursor,
                count=ORPHANS_COUNT,
                remove=int(remove),
            )
            cursor, ids = run(client, _orphans(call))
            orphaned.update(ids)
            if not cursor:
                break
    return orphaned


def _orphans(call: Call) -> Flow[tuple[int, list[str]]]:
    following, ids = yield call
    return int(following), [id_.decode(errors="replace") for id_ in ids]


def read_ids(source: RegisteredIndex, scope: str, cursor: int) -> Flow[tuple[int, list[str]]]:
    """Return the next cursor, 0 at the end, and ids of a scope."""
    reply = yield Read("HSCAN", part_key(part_of(source, scope), "entries"), cursor, "COUNT", SCAN_COUNT)
    following, elements = reply
    return int(following), [id_.decode(errors="replace") for id_ in elements[::2]]


def stored_ids(source: RegisteredIndex, scope: str) -> Iterator[list[str]]:
    """Yield the ids of a scope. An id may be yielded twice."""
    cursor = 0
    while True:
        try:
            cursor, ids = run(connections.client(source.using), read_ids(source, scope, cursor))
        except ResponseError:  # another type: written by another client
            return
        yield ids
        if not cursor:
            return


def part_of(source: RegisteredIndex, scope: str) -> PrefixIndex:
    """Return the index of a scope, "" for an index without scopes."""
    return source.index(scope or None)


def scopes_key(name: str) -> str:
    """Return the key of the hash with the scopes of each object."""
    return keys.key("autocomplete", name, "scopes")


def all_scopes_key(name: str) -> str:
    """Return the key of the set of all scopes that may have entries."""
    return keys.key("autocomplete", name, "all_scopes")


def _noted(name: str, scopes: Sequence[str]) -> list[Command]:
    return [Command("SADD", all_scopes_key(name), *scopes, retry=True)] if scopes else []


def _call(source: RegisteredIndex, scope: str, id_: str, entry: Entry | None) -> Call:
    part = part_of(source, scope)
    return remove_call(part, id_) if entry is None else add_call(part, entry)


def _change(name: str, changes: Mapping[str, tuple[Iterable[str], Iterable[str]]]) -> Call:
    """Return the call that adds and removes scopes, by id."""
    parts = [part for id_, (added, removed) in changes.items() for part in (id_, _joined(added), _joined(removed))]
    return CHANGE_SCOPES(scopes=scopes_key(name), all_scopes=all_scopes_key(name), changes=parts)


def _joined(scopes: Iterable[str]) -> str:
    return "\0".join(sorted(scopes))


def _split(joined: bytes | None) -> list[str]:
    return joined.decode(errors="replace").split("\0") if joined else []
