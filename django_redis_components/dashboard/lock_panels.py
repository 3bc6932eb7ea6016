"""The page of locks and semaphores as the template shows it: every word and number ready, in the active language."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.core import conf
from django_redis_components.dashboard import scanning, wording
from django_redis_components.dashboard.lock_places import Place
from django_redis_components.dashboard.lock_reading import LockSnapshot, Question, Thing
from django_redis_components.dashboard.panels import cost_words
from django_redis_components.dashboard.rows import NOTHING
from django_redis_components.dashboard.wording import Moment, number

#: Holders of one thing that have a row of their own; a line says how many more there are.
ROWS_OF_A_THING = 20


@dataclasses.dataclass(frozen=True, slots=True)
class LockRow:
    """One holder of something, or something that nobody holds.

    Attributes:
        token: what the holder is known by; "" if nobody holds it.
        release: what the link to its release asks for; "" without a holder.
        error: why it could not be read, or "".
        more: how many holders are not shown, in words; only on the last row of something.
    """

    name: str
    group: str
    kind: str
    token: str = ""
    held_for: str = NOTHING
    expires: str = NOTHING
    waiting: str = NOTHING
    waited_for: bool = False
    fence: str = NOTHING
    release: str = ""
    error: str = ""
    more: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class DeclaredRow:
    """A name that a decorator uses; `lookup` asks for its state, "" where only a call would tell the name."""

    name: str
    kind: str
    function: str
    lookup: str


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """A link to the page with another question."""

    label: str
    query: str
    current: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class LockPage:
    """Everything on the page."""

    rows: list[LockRow]
    empty: str
    part: str
    links: list[Link]
    connections: list[Link]
    declared: list[DeclaredRow]
    name: str
    group: str
    using: str
    problem: str
    read_at: Moment
    zone: str
    cost: str


def page(snapshot: LockSnapshot) -> LockPage:
    """The page of a snapshot."""
    question = snapshot.question
    rows = [row for thing in _sorted(snapshot.things) for row in _rows(thing, question.using)]
    return LockPage(
        rows=rows,
        empty=_empty(snapshot),
        part=_part(snapshot),
        links=[*_links(snapshot)],
        connections=_connections(question),
        declared=[*_declared(snapshot)],
        name=question.name,
        group=question.group,
        using=question.using,
        problem=snapshot.problem,
        read_at=wording.moment(snapshot.at, snapshot.at),
        zone=wording.zone(),
        cost=cost_words(snapshot.cost, nodes=snapshot.nodes),
    )


def kind_words(kind: str, role: str = "") -> str:
    """What kind of thing it is, and in which role it is held."""
    words = {
        "lock": _("lock"),
        "readwrite": _("read-write lock"),
        "group": _("lock of a group"),
        "semaphore": _("semaphore"),
        "writer": _("read-write lock, writer"),
        "reader": _("read-write lock, reader"),
    }
    return words.get(role) or words[kind]


def time_left(seconds: float) -> str:
    """In how long a lease ends."""
    return pgettext("a lease ends", "never") if math.isinf(seconds) else _("in %(age)s") % {"age": wording.age(seconds)}


def release_query(place: Place, token: str, using: str) -> str:
    """What the link to a release asks for."""
    asked = {"using": using, "kind": place.kind, "group": place.group, "name": place.name, "token": token}
    return urlencode({name: value for name, value in asked.items() if value})


def _sorted(things: list[Thing]) -> list[Thing]:
    """Those that somebody waits for first, then those that are held the longest."""

    def order(thing: Thing) -> tuple[bool, int, float, Place]:
        oldest = max((holder.age_s or 0.0 for holder in thing.holders), default=0.0)
        return not thing.error, -thing.waiting, -oldest, thing.place

    return sorted(things, key=order)


def _rows(thing: Thing, using: str) -> Iterable[LockRow]:
    place = thing.place
    shared = {
        "name": place.name,
        "group": place.group,
        "waiting": number(thing.waiting),
        "waited_for": thing.waiting > 0,
        "fence": str(thing.fencing_token or NOTHING),
    }
    if thing.error or not thing.holders:
        yield LockRow(kind=_kind(thing, ""), error=thing.error, **shared)  # type: ignore[arg-type]
    shown = thing.holders[:ROWS_OF_A_THING]
    for at, holder in enumerate(shown, 1):
        yield LockRow(
            kind=_kind(thing, holder.role),
            token=holder.token,
            held_for=NOTHING if holder.age_s is None else wording.age(holder.age_s),
            expires=time_left(holder.remaining_s),
            release=release_query(place, holder.token, using),
            more=_more(thing) if at == len(shown) else "",
            **shared,  # type: ignore[arg-type]
        )


def _kind(thing: Thing, role: str) -> str:
    if thing.place.kind != "semaphore":
        return kind_words(thing.place.kind, role)
    if thing.limit is None:
        return _("semaphore, %(held)s held") % {"held": number(thing.held)}
    return _("semaphore, %(held)s of %(limit)s held") % {"held": number(thing.held), "limit": number(thing.limit)}


def _more(thing: Thing) -> str:
    shown = sum(holder.permits for holder in thing.holders[:ROWS_OF_A_THING])
    rest = thing.held - shown
    return ngettext("and %(count)s more", "and %(count)s more", rest) % {"count": number(rest)} if rest > 0 else ""


def _empty(snapshot: LockSnapshot) -> str:
    if snapshot.part is None:
        return ""
    if snapshot.part.rest:
        return _("Nothing held was found among these keys.")
    return _("Nothing is held.") if not snapshot.question.positions else _("Nothing held was found in the rest.")


def _part(snapshot: LockSnapshot) -> str:
    """How much of the keyspace these rows stand for."""
    part = snapshot.part
    if part is None:
        return ""
    if not part.rest and not snapshot.question.positions:
        return _("Keys looked through: all %(total)s.") % {"total": number(part.total)}
    words = _("Keys looked through for this page: about %(looked)s of %(total)s.") % {
        "looked": number(part.looked),
        "total": number(part.total),
    }
    return words if part.rest else f"{words} {_('They were the last.')}"


def _links(snapshot: LockSnapshot) -> Iterable[Link]:
    question, part = snapshot.question, snapshot.part
    if part is None or question.positions or question.skip:
        yield Link(_("From the beginning"), urlencode({"using": question.using}))
    if part is None:
        return
    if snapshot.more:
        skip = len(part.found) - snapshot.more
        shown = {"using": question.using, "skip": skip, "at": scanning.text_of(question.positions)}
        label = ngettext("%(count)s more of these keys", "%(count)s more of these keys", snapshot.more)
        yield Link(
            label % {"count": number(snapshot.more)}, urlencode({key: value for key, value in shown.items() if value})
        )
    if part.rest:
        yield Link(_("Go on"), urlencode({"using": question.using, "at": scanning.text_of(part.rest)}))


def _connections(question: Question) -> list[Link]:
    """The connections, if there are several."""
    names = sorted(conf.settings().connections)
    return [Link(name, urlencode({"using": name}), name == question.using) for name in names] if names[1:] else []


def _declared(snapshot: LockSnapshot) -> Iterable[DeclaredRow]:
    for each in snapshot.declared:
        kind = kind_words("semaphore" if each.component == "semaphores" else "lock")
        lookup = urlencode({"using": each.using, "name": each.name}) if each.is_exact else ""
        yield DeclaredRow(each.name or _("made by a function"), kind, each.function, lookup)
