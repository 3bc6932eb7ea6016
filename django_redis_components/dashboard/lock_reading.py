"""What is held now, as far as a page may look: names by their keys, by a name that was asked for, by decorators."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

from redis.exceptions import NoPermissionError, RedisError, ResponseError

from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Flow, run
from django_redis_components.core.registry import DeclaredName, registered_names
from django_redis_components.dashboard import clients, scanning
from django_redis_components.dashboard.counting import Cost, CountingDoor
from django_redis_components.dashboard.lock_places import Place, place_of, places_named
from django_redis_components.dashboard.reading import NothingRead
from django_redis_components.dashboard.scanning import Position, Slice
from django_redis_components.dashboard.together import Outcome, together
from django_redis_components.locks.group import group_keys
from django_redis_components.locks.lock_scripts import PlainScripts
from django_redis_components.locks.state import LockState, inspect, inspect_keys, inspect_readwrite
from django_redis_components.semaphores import state as semaphores

#: Most names whose state is read for one page: a command for each.
SHOWN = 100
#: Most of the names that decorators use which are read on each page, whether they are found or not.
DECLARED = 30


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """One who holds something.

    Attributes:
        token: what the server knows it by.
        role: "holder", "writer", "reader" or "permit".
        remaining_s: seconds until the lease ends; infinite for a key without an end.
        age_s: seconds since the grant; None where that is not kept.
        permits: for how many it counts.
    """

    token: str
    role: str
    remaining_s: float
    age_s: float | None = None
    permits: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Thing:
    """Something that can be held, and who holds it.

    Attributes:
        holders: at most a hundred.
        held: how many hold it, or how many permits are held.
        limit: how many may; None if that is not known.
        waiting: how many stand in line and live; of a group's name, at most a hundred.
        fencing_token: of the last grant; None if it has none or it is forgotten.
        error: why it could not be read, or "".
    """

    place: Place
    holders: tuple[Holder, ...] = ()
    held: int = 0
    limit: int | None = 1
    waiting: int = 0
    fencing_token: int | None = None
    error: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What a page was asked for.

    Attributes:
        using: the connection.
        name, group: only what has this name; "" looks through keys.
        positions: where to go on; () begins.
        skip: how many of what is found there were shown before.
    """

    using: str
    name: str = ""
    group: str = ""
    positions: tuple[Position, ...] = ()
    skip: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class LockSnapshot:
    """What was read.

    Attributes:
        things: what is held or waited for; with a name also what is free.
        part: what was looked through; None when a name was asked for.
        more: how many of what was found there are not shown on this page.
        declared: what decorators of this process use.
        problem: why the name that was asked for cannot be one, or "".
    """

    at: datetime
    question: Question
    things: list[Thing]
    part: Slice[Place] | None
    more: int
    declared: list[DeclaredName]
    problem: str
    cost: Cost
    address: str
    nodes: bool


def read(question: Question) -> LockSnapshot:
    """Read it: with a name in one round trip, else in a few more.

    Raises:
        NothingRead: it could not be read.
    """
    cost, address = Cost(), ""
    try:
        endpoint = connections.endpoint(question.using)
        address = str(endpoint)
        client = clients.client(question.using)
        anchors = client.key_per_primary()
        things, part, problem = run(CountingDoor(client, cost), _read(question, anchors))
    except (RedisError, RedisComponentsError) as exc:
        raise NothingRead(exc, address) from exc
    known = [each for each in registered_names() if each.using == question.using]
    more = max(0, len(part.found) - question.skip - SHOWN) if part else 0
    nodes = endpoint.kind == "cluster"
    return LockSnapshot(datetime.now(UTC), question, things, part, more, known, problem, cost, address, nodes)


def state_of_place(place: Place, using: str) -> Thing:
    """Read one.

    Raises:
        NothingRead: it could not be read.
    """
    address = ""
    try:
        address = str(connections.endpoint(using))
        [thing] = run(CountingDoor(clients.client(using), Cost()), _things([place]))
    except (RedisError, RedisComponentsError) as exc:
        raise NothingRead(exc, address) from exc
    return thing


def _read(question: Question, anchors: list[str]) -> Flow[tuple[list[Thing], Slice[Place] | None, str]]:
    if question.name:
        try:
            named = places_named(question.name, question.group)
        except ValueError as exc:
            return [], None, str(exc)
        return (yield from _things(named)), None, ""
    positions = question.positions or tuple(Position(anchor, 0) for anchor in anchors)
    pattern = f"{scanning.escaped(conf.settings().prefix)}:[ls]*:{{*"
    part = yield from scanning.look_through(pattern, place_of, positions, anchors, question.skip + SHOWN)
    wanted = dict.fromkeys(part.found[question.skip : question.skip + SHOWN] + _declared_places(question.using))
    things = yield from _things(list(wanted))
    return [each for each in things if each.held or each.waiting or each.error], part, ""


def _declared_places(using: str) -> list[Place]:
    kinds = {"locks": "lock", "semaphores": "semaphore"}
    exact = (each for each in registered_names() if each.is_exact and each.using == using)
    return list(dict.fromkeys(Place(each.name, kinds[each.component]) for each in exact))[:DECLARED]


def _things(places: list[Place]) -> Flow[list[Thing]]:
    """All of them in one round trip. What is no lock under the key of one is told; other errors are raised."""
    outcomes = yield from together([_READERS[place.kind](place) for place in places])
    return [_thing_or_error(place, outcome) for place, outcome in zip(places, outcomes, strict=True)]


def _thing_or_error(place: Place, outcome: Outcome) -> Thing:
    error = outcome.error
    if error is None:
        thing: Thing = outcome.value
        return thing
    if isinstance(error, ResponseError | ValueError) and not isinstance(error, NoPermissionError):
        return Thing(place, error=str(error))
    raise error


def _lock(place: Place) -> Flow[Thing]:
    state: LockState = yield from inspect(PlainScripts(place.name, 1.0))
    return _of_lock(place, state)


def _name_of_group(place: Place) -> Flow[Thing]:
    """A name of a group is a lock whose line is its own, and whose waiters live with those of the others."""
    made = group_keys(place.name, place.group)
    state: LockState = yield from inspect_keys(made)
    return dataclasses.replace(_of_lock(place, state), waiting=len(state.waiters))


def _of_lock(place: Place, state: LockState) -> Thing:
    holders = (Holder(state.holder, "holder", state.remaining, state.age or None),) if state.holder else ()
    return Thing(place, holders, len(holders), 1, state.waiting, state.fencing_token)


def _readwrite(place: Place) -> Flow[Thing]:
    state = yield from inspect_readwrite(place.name)
    holders = [Holder(token, "reader", left) for token, left in state.readers.items()]
    if state.writer is not None:
        holders.insert(0, Holder(state.writer, "writer", state.remaining))
    held = state.reading + (state.writer is not None)
    return Thing(place, tuple(holders), held, None, state.waiting, state.fencing_token)


def _semaphore(place: Place) -> Flow[Thing]:
    state = yield from semaphores.inspect(place.name)
    holders = [
        Holder(permit, "permit", left, permits=semaphores.permits_of(permit)[0])
        for permit, left in state.permits.items()
    ]
    return Thing(place, tuple(holders), state.held, state.limit, state.waiting)


_READERS = {"lock": _lock, "readwrite": _readwrite, "group": _name_of_group, "semaphore": _semaphore}
