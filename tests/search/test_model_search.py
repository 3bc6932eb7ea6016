"""A search index of a model: what is indexed when, and what a check finds and a repair mends."""

from __future__ import annotations

import io
import json
import math
import os
import re
import signal
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.files import File
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models import Value
from django.utils.translation import gettext_lazy

from django_redis_components import autocomplete
from django_redis_components.autocomplete import ModelIndex
from django_redis_components.checks import check_indexes
from django_redis_components.search import (
    Document,
    Drift,
    InvalidSearch,
    ModelSearch,
    SearchIndex,
    register,
    registered,
    unregister,
)
from django_redis_components.search.index import scan_ids
from tests.support import Store, run_async, run_together
from tests.support.processes import Children

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


class Users(ModelSearch):
    model = User
    fields = {"get_full_name": 3, "email": 1}
    facets = ("is_staff", "group_names")
    sort_values = ("date_joined", "username")
    watch_fields = ("first_name", "last_name", "email", "is_staff", "is_active", "username")
    relations = ("groups",)

    def queryset(self) -> Any:
        return User.objects.filter(is_active=True).prefetch_related("groups")


User.group_names = lambda self: [group.name for group in self.groups.all()]  # type: ignore[attr-defined]


@pytest.fixture
def users(store: Store) -> Iterator[Users]:
    yield register(Users)  # type: ignore[misc]
    for one in registered():
        unregister(one.name)


class UsersOfGroups(ModelSearch):
    model = User
    fields = {"username": 1, "groups": 1}
    facets = ("groups",)


class Placed(Users):
    location = "place"


User.place = (10.0, 50.0)  # type: ignore[attr-defined]


def named(name: str, year: int = 2026, **fields: Any) -> User:
    first, _, last = name.partition(" ")
    joined = datetime(year, 1, 1, tzinfo=UTC)
    return User.objects.create(username=name, first_name=first, last_name=last, date_joined=joined, **fields)


def test_many_to_many_field_is_read_and_followed_without_being_a_declared_relation(redis_server: Store) -> None:
    group = Group.objects.create(name="Painters")
    people = register(UsersOfGroups)
    try:
        anna = named("anna")
        assert people.search("painters").ids == []

        anna.groups.add(group)

        page = people.search("painters", facets=["groups"])
        assert (page.ids, page.facets) == ([str(anna.pk)], {"groups": {"Painters": 1}})
        anna.groups.clear()
        assert people.search("painters").ids == []
    finally:
        unregister(people.name)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"facets": ["is_staf"]},
            "facets: 'is_staf' is not declared by Users: is_staff, group_names. Did you mean 'is_staff'?",
        ),
        ({"filters": {"kind": "a"}}, "filters: 'kind' is not declared by Users: is_staff, group_names."),
        (
            {"order_by": "-name"},
            "order_by: 'name' is not declared by Users: relevance, distance, date_joined, username.",
        ),
        ({"order_by": {"votes": 2}}, "order_by: 'votes' is not declared by Users"),
    ],
)
def test_search_by_an_undeclared_name_is_refused(users: Users, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidSearch, match=re.escape(text)):
        users.search("anna", **options)


@pytest.mark.parametrize(
    "options", [{"facets": 5}, {"facets": (name for name in ["is_staff"])}, {"filters": 5}, {"order_by": 5}]
)
def test_search_names_the_option_of_a_wrong_type(users: Users, options: dict[str, Any]) -> None:
    [(name, _value)] = options.items()
    with pytest.raises(TypeError, match=f"^{name}="):
        users.search("anna", **options)


def test_error_for_an_undeclared_name_is_short(users: Users) -> None:
    with pytest.raises(ValueError, match="is not declared by Users") as raised:
        users.search("anna", facets=["x" * 100_000])
    assert len(str(raised.value)) < 300


def test_search_that_overrides_document_accepts_any_name(redis_server: Store) -> None:
    class Custom(Users):
        def document(self, obj: Any) -> Any:
            return super().document(obj)

    assert Custom().search("anna", order_by="votes", facets=["kind"]).ids == []


class Misspelled(ModelSearch):
    model = User
    fields = {"username": 1, "emial": 1}
    facets = ("is_staff", "group_names", "groups")
    sort_values = ("date_joined", "logins")

    def queryset(self) -> Any:
        return User.objects.annotate(logins=Value(1))


class MisspelledIndex(ModelIndex):
    model, name, text, terms = User, "misspelled", "get_full_nam", ("email",)


def test_check_reports_names_that_the_objects_do_not_have() -> None:
    search, index = register(Misspelled), autocomplete.register(MisspelledIndex)
    try:
        found = [(each.msg, each.hint) for each in check_indexes()]
    finally:
        unregister(search.name)
        autocomplete.unregister(index.name)

    text = "which auth.User does not have: no object can be written."
    assert found == [
        (f"Search auth.user names 'emial', {text}", "Did you mean 'email'?"),
        (f"Index misspelled names 'get_full_nam', {text}", "Did you mean 'get_full_name'?"),
    ]


@pytest.mark.contract
def test_objects_are_indexed_after_the_commit(users: Users) -> None:
    with transaction.atomic():
        anna = named("Anna Meyer", email="am@example.org")
        assert users.search("anna").paginator.count == 0

    assert users.search("meyer anna").ids == users.search("example").ids == [str(anna.pk)]
    anna.last_name = "Bell"
    anna.save()
    assert [users.search(word).paginator.count for word in ("meyer", "bell")] == [0, 1]
    anna.is_active = False
    anna.save(update_fields=["is_active"])
    assert users.search("anna").paginator.count == 0
    anna.delete()
    assert users.index.count() == 0


def test_facets_follow_relations_and_objects_are_read_in_order(users: Users) -> None:
    old, new = named("Anna Old", 2020), named("Anna New", 2025, is_staff=True)
    red = Group.objects.create(name="red {team}")
    old.groups.add(red)

    page = users.search("anna", order_by="-date_joined", facets=["is_staff", "group_names"])

    assert users.objects(page) == [new, old]
    assert page.facets == {"is_staff": {"False": 1, "True": 1}, "group_names": {"red  team": 1}}
    assert users.objects(users.search("anna", order_by="username")) == [new, old]
    red.user_set.clear()
    assert users.search("anna", facets=["group_names"]).facets == {"group_names": {}}
    assert run_async(lambda: users.asearch("anna", filters={"is_staff": "True"})).ids == [str(new.pk)]


@pytest.mark.contract
def test_drift_is_found_named_and_repaired(users: Users) -> None:
    anna, bert, carl = named("Anna Meyer"), named("Bert Bell"), named("Carl Crane")
    User.objects.filter(pk=anna.pk).update(last_name="Maier")
    users.index.remove(bert.pk)
    User.objects.filter(pk=carl.pk).delete()
    users.index.add(carl.pk, {"get_full_name": "Carl Crane", "email": ""})
    users.index.add("no-number", {"get_full_name": "Ghost", "email": ""})

    drift = users.find_drift()

    assert (drift.objects, drift.missing, drift.stale) == (2, (str(bert.pk),), (str(anna.pk),))
    assert set(drift.extra) == {str(carl.pk), "no-number"}
    users.repair(drift)
    assert not users.find_drift()
    assert [users.search(word).paginator.count for word in ("maier", "meyer", "ghost", "crane", "bell")] == [
        1,
        0,
        0,
        0,
        1,
    ]


@pytest.mark.parametrize(("option", "value", "missing"), [("stemmer", "english", 1), ("field_queries", ("email",), 0)])
def test_check_finds_an_index_of_other_terms_and_repair_rebuilds_it(
    users: Users, monkeypatch: pytest.MonkeyPatch, option: str, value: Any, missing: int
) -> None:
    named("Runs Fast", email="ada@example.org").save()
    monkeypatch.setattr(Users, option, value)
    changed: Any = register(Users)

    drift = changed.find_drift()
    assert (len(drift.missing), len(drift.stale)) == (missing, 1 - missing)

    changed.repair(drift)
    assert changed.find_drift().ids == ()
    assert changed.search("running" if option == "stemmer" else "email:example").paginator.count == 1


def test_drift_of_sort_values_and_locations_is_found(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    class Located(Users):
        name = "located"
        location = "place"

    place: Any = (13.4, 52.5)
    monkeypatch.setattr(User, "place", property(lambda self: place), raising=False)
    located = register(Located)
    anna = named("Anna Meyer")
    assert located.search("anna", near=(13.4, 52.5), within=1).ids == [str(anna.pk)]
    assert not located.find_drift()

    User.objects.filter(pk=anna.pk).update(date_joined=datetime(2020, 1, 1, tzinfo=UTC))
    assert located.find_drift().stale == (str(anna.pk),)
    located.repair(located.find_drift())
    place = (13.5, 52.5)
    assert located.find_drift().stale == (str(anna.pk),)
    place = None
    assert located.find_drift().stale == (str(anna.pk),)
    located.repair(located.find_drift())
    assert not located.find_drift()
    assert located.search("anna", near=(13.4, 52.5), within=1).paginator.count == 0
    unregister("located")


def test_places_may_be_points_of_geodjango() -> None:
    from types import SimpleNamespace

    class Located(Users):
        location = "place"

    def place_of(place: Any) -> Any:
        user = User(username="x", date_joined=datetime(2020, 1, 1, tzinfo=UTC))
        user.group_names = list  # type: ignore[attr-defined]
        user.place = place  # type: ignore[attr-defined]
        document = Located().document(user)
        return document.location if document else None

    assert place_of(SimpleNamespace(x=13.4, y=Decimal("52.5"))) == (13.4, 52.5)
    assert place_of((Decimal(1), 2)) == (1.0, 2.0)
    assert place_of(None) is None
    assert place_of((None, None)) is None


def test_bulk_changes_are_indexed_by_one_call_or_a_rebuild(users: Users) -> None:
    User.objects.bulk_create(User(username=f"u{n}", first_name=f"Anna{n} all") for n in range(700))
    steps: list[int] = []

    users.update(User.objects.filter(username="u7"))
    assert users.search("all").paginator.count == 1
    users.index.add(4_000_000, {"get_full_name": "all", "email": ""})
    assert users.rebuild(progress=steps.append) == 700

    assert (sum(steps), users.index.count(), users.search("all", per_page=1).paginator.count) == (700, 700, 700)
    assert not users.find_drift()


def test_concurrent_changes_leave_the_newest_in_the_index(users: Users) -> None:
    people = [named(f"Name{n} X") for n in range(5)]

    def edit(editor: int) -> None:
        for step in range(6):
            person = people[(editor + step) % len(people)]
            User.objects.filter(pk=person.pk).update(last_name=f"By{editor} step{step}")
            fresh = User.objects.get(pk=person.pk)
            fresh.first_name = f"Name{editor}"
            fresh.save()
        connection.close()

    run_together(20, edit)

    assert users.find_drift() == Drift(5)


def test_changes_during_a_rebuild_are_kept(users: Users) -> None:
    people = [named(f"Name{n} X") for n in range(6)]

    def edit(editor: int) -> None:
        for step in range(4):
            if editor == 0:
                users.rebuild()
            else:
                person = User.objects.get(pk=people[(editor + step) % len(people)].pk)
                person.last_name = f"By{editor} step{step}"
                person.save()
        connection.close()

    run_together(6, edit)

    assert users.find_drift() == Drift(6)
    assert users.index.count() == 6


def kill_before_indexing(url: str, prefix: str) -> None:
    """In a child: commit a change, and die before it is written to the index."""
    from django.conf import settings

    from django_redis_components.search import model_search

    settings.REDIS_COMPONENTS = {"PREFIX": prefix, "CONNECTIONS": {"default": {"URL": url}}}
    register(Users)
    model_search.write_documents = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    User.objects.create(username="lost", first_name="Lost", last_name="Change")


def test_process_killed_between_commit_and_index_is_found_and_repaired(
    users: Users, store: Store, children: Children
) -> None:
    named("Anna Meyer")
    child = children.call("tests.search.test_model_search:kill_before_indexing", store.url, store.prefix)
    assert child.wait() == -signal.SIGKILL

    assert users.search("lost").paginator.count == 0
    with pytest.raises(SystemExit) as exit_code:
        call_command("redis", "search", "check", stdout=io.StringIO())
    assert exit_code.value.code == 1
    call_command("redis", "search", "repair", stdout=io.StringIO())
    assert users.search("lost").paginator.count == 1
    assert not users.find_drift()


@pytest.mark.contract
def test_lost_postings_are_found_and_repaired(users: Users, store: Store) -> None:
    anna, bert = named("Anna Meyer"), named("Bert Meyer")
    store.raw.delete(f"{store.prefix}:search:{{auth.user}}:v5:0:w:anna")
    store.raw.srem(f"{store.prefix}:search:{{auth.user}}:v5:0:f:is_staff=False", str(bert.pk))

    drift = users.find_drift()

    assert set(drift.stale) == {str(anna.pk), str(bert.pk)}
    users.repair(drift)
    assert not users.find_drift()
    assert users.search("anna").ids == [str(anna.pk)]
    assert users.search("meyer", filters={"is_staff": "False"}).paginator.count == 2


@pytest.mark.contract
@pytest.mark.parametrize(
    "part",
    [
        *("docs", "facets", "stats", "vocabulary", "names", "state", "geo", "w:anna", "w:meyer"),
        *("s:date_joined", "f:is_staff=False", "f:is_staff=True"),
    ],
)
def test_lost_structure_is_found_and_repaired(users: Users, store: Store, part: str) -> None:
    placed = register(Placed)
    named("Anna Meyer", 2020), named("Bert Meyer", 2021, is_staff=True)
    gone = named("Zoe Meyer", 2022)
    placed.rebuild()
    before = placed.index.info()
    base = f"{store.prefix}:search:{{auth.user}}:v5"
    assert store.raw.delete(f"{base}:{part}" if part == "state" else f"{base}:1:{part}") == 1
    User.objects.filter(pk=gone.pk).update(first_name="Carl")

    drift = placed.find_drift()
    placed.repair(drift)

    assert drift
    assert not placed.find_drift()
    assert placed.index.info().words == before.words
    assert placed.search("an", prefix=True).paginator.count == 1
    assert placed.search("zoe").paginator.count == 0
    assert placed.search("meyer", filters={"is_staff": "True"}).paginator.count == 1
    assert placed.search("meyer", near=(10, 50), order_by="date_joined").paginator.count == 3


def test_document_whose_object_is_deleted_meanwhile_is_not_extra(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    anna = named("Anna Meyer")
    users.index.add("ghost", {"get_full_name": "Ghost", "email": ""})

    def deleting(index: SearchIndex) -> Iterator[list[str]]:
        for ids in scan_ids(index):
            anna.delete()
            yield ids

    monkeypatch.setattr("django_redis_components.search.model_search.scan_ids", deleting)

    assert users.find_drift().extra == ("ghost",)


def test_objects_of_a_page_are_read_without_blocking_the_event_loop(users: Users) -> None:
    old, new = named("Anna Old", 2020), named("Anna New", 2025)
    page = users.search("anna", order_by="-date_joined")
    named("Anna Deleted").delete()

    assert run_async(lambda: users.aobjects(page)) == users.objects(page) == [new, old]


def test_redis_away_is_logged_and_the_change_committed(
    users: Users, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {
        "CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}
    }

    anna = named("Anna Meyer")

    assert User.objects.filter(pk=anna.pk).exists()
    assert f"Search auth.user misses a change of auth.User {anna.pk}: " in caplog.text
    assert ". manage.py redis search repair repairs it." in caplog.text
    assert ".." not in caplog.text


def command(*arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command(*(arguments or ("rebuild_search",)), "--json", stdout=out)
    result: dict[str, Any] = json.loads(out.getvalue())
    return result


def output(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_command_rebuilds_compares_and_repairs(users: Users) -> None:
    User.objects.bulk_create([User(username="anna", first_name="Anna")])
    out = io.StringIO()

    with pytest.raises(SystemExit) as exit_code:
        call_command("redis", "search", "check", stdout=out)

    assert exit_code.value.code == 1
    assert "Repair them: python manage.py redis search repair" in out.getvalue()
    assert command("redis", "search", "repair") == {
        "indexes": [{"name": "auth.user", "objects": 1, "missing": 1, "stale": 0, "extra": 0, "repaired": True}]
    }
    assert command("redis", "search", "check")["indexes"][0]["missing"] == 0
    User.objects.bulk_create([User(username="bert", first_name="Bert")])
    assert output("redis", "search", "repair").endswith("\nRepaired 1 object.\n")
    assert "epair" not in output("redis", "search", "repair")
    [rebuilt] = command()["indexes"]
    assert (rebuilt["name"], rebuilt["documents"]) == ("auth.user", 2)
    with pytest.raises(CommandError, match=r"^Unknown index 'x'\. Indexes of models: auth\.user\.$"):
        command("rebuild_search", "x")


def test_dates_numbers_and_missing_values_are_sorted() -> None:
    class Sorted(Users):
        sort_values = ("born", "price", "nothing", "seen")

    user = User(first_name="Anna")
    user.born, user.price, user.nothing = date(2026, 1, 2), Decimal("7.5"), None  # type: ignore[attr-defined]
    user.seen = datetime(2026, 1, 2, tzinfo=UTC)  # type: ignore[attr-defined]
    user.group_names = list  # type: ignore[attr-defined]

    document = Sorted().document(user)

    assert document is not None
    assert document.sort_values == {
        "born": date(2026, 1, 2).toordinal() * 86_400.0,
        "price": 7.5,
        "nothing": 0,
        "seen": user.seen.timestamp(),  # type: ignore[attr-defined]
    }


class Sessions(ModelSearch):
    model = Session
    fields = {"session_data": 1}


@pytest.mark.parametrize("key", ["a{b}", "a\nb", "a" * 201])
def test_object_whose_key_no_index_can_have_is_left_out(
    users: Users, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    sessions: Any = register(Sessions)
    Session.objects.create(session_key="good", session_data="data", expire_date=datetime.now(UTC))

    Session.objects.create(session_key=key, session_data="data", expire_date=datetime.now(UTC))

    assert "Search sessions.session leaves out an object: primary key '" in caplog.text
    sessions.update(Session.objects.all())
    assert not sessions.find_drift()
    assert sessions.rebuild() == 1
    assert sessions.search("data").ids == ["good"]


def test_primary_key_as_text_is_that_of_its_object(users: Users) -> None:
    anna = named("Anna Meyer")

    users.update(str(anna.pk))
    assert users.search("anna").ids == [str(anna.pk)]
    User(pk=str(anna.pk), username="anna", first_name="Hanna").save()

    assert users.search("hanna").ids == [str(anna.pk)]


def test_values_of_facets_may_be_a_queryset_or_be_generated(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    class Described(Users):
        def document(self, obj: Any) -> Document | None:
            names = obj and obj.groups.values_list("name", flat=True)
            return obj and Document(obj.username, {"group": names, "letter": (letter for letter in obj.username)})

    people: Any = register(Described)
    try:
        anna = named("anna")
        anna.groups.add(Group.objects.create(name="Painters"))
        anna.save()
    finally:
        unregister(people.name)

    assert caplog.messages == []
    found = people.search("anna", facets=["group", "letter"])
    assert found.facets == {"group": {"Painters": 1}, "letter": {"a": 1, "n": 1}}
    assert not people.find_drift()


@pytest.mark.parametrize(
    ("value", "words", "others"),
    [
        (("red", "dark blue"), "red dark blue", "tuple"),
        (gettext_lazy("Yes"), "yes", "y"),
        (File(io.BytesIO(b"content"), "letter.txt"), "letter", "content"),
        ({"color": "red"}, "color red", "dict"),
    ],
    ids=["tuple", "lazy", "file", "mapping"],
)
def test_text_of_a_field_is_that_of_its_value(redis_server: Store, value: Any, words: str, others: str) -> None:
    class Described(Users):
        name = "described"
        fields = {"odd": 1}

    anna = named("anna")
    User.odd = value  # type: ignore[attr-defined]
    try:
        Described().update(anna)
    finally:
        del User.odd  # type: ignore[attr-defined]

    assert Described().search(words).ids == [str(anna.pk)]
    assert Described().search(others).ids == []


def test_text_of_a_queryset_is_that_of_its_values(redis_server: Store) -> None:
    class Described(Users):
        name = "described"
        fields = {"odd": 1}

    anna = named("anna")
    anna.groups.add(Group.objects.create(name="Painters"))
    User.odd = lambda self: self.groups.values_list("name", flat=True)  # type: ignore[attr-defined]
    try:
        Described().update(anna)
    finally:
        del User.odd  # type: ignore[attr-defined]

    assert Described().search("painters").ids == [str(anna.pk)]
    assert Described().search("queryset").ids == []


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (time(10, 3, 0, 500_000), 36_180.5), (timedelta(hours=-1), -3_600.0), (gettext_lazy("Yes"), "Yes"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"), (Decimal("sNaN"), "sNaN"),
        (math.inf, 1e300), (-math.inf, -1e300), (math.nan, 0.0), (10**400, 1e300), (Decimal("NaN"), 0.0), (True, 1.0),
        (datetime.max, 253_402_300_799.999999), (datetime.min, -62_135_596_800.0),  # noqa: DTZ901 - without USE_TZ
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))), 253_402_343_999.999999),
    ],
)  # fmt: skip
def test_odd_number_or_time_does_not_end_a_rebuild(users: Users, value: Any, stored: float | str) -> None:
    class Sorted(Users):
        sort_values = ("odd",)

    named("Anna Meyer")
    User.odd = value  # type: ignore[attr-defined]
    try:
        document = Sorted().document(User.objects.get())
        assert Sorted().rebuild() == 1
    finally:
        del User.odd  # type: ignore[attr-defined]

    assert document is not None
    assert document.sort_values == {"odd": stored if isinstance(stored, str) else pytest.approx(stored)}


@pytest.mark.parametrize("place", [(10.0, 85.1), (181.0, 50.0), (math.nan, 50.0), (10.0, math.inf)])
def test_place_that_redis_cannot_store_does_not_end_a_rebuild(
    users: Users, place: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(User, "place", place)
    placed = Placed()

    named("Anna Meyer")

    assert placed.rebuild() == 1
    assert placed.search("anna").paginator.count == 1
    assert placed.search("anna", near=(10.0, 50.0), within=20_000).paginator.count == 0


def test_too_many_values_of_facets_do_not_end_a_rebuild(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(User, "group_names", lambda self: [str(number) for number in range(100)])

    named("Anna Meyer")

    assert users.rebuild() == 1
    found = users.search("anna", facets=["group_names", "is_staff"], filters={"group_names": "62"})
    assert (found.paginator.count, found.facets["is_staff"]) == (1, {"False": 1})


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({}, "Wrong.model is None: expected a model."),
        ({"model": User}, "Wrong.fields: expected weights by name, such as {'title': 3}."),
        ({"model": User, "fields": {"email": 1}, "facets": "email"}, "Wrong.facets='email': expected a list of names."),
        ({"model": User, "fields": ("email",)}, "Wrong.fields: expected weights by name, such as {'title': 3}."),
        ({"model": User, "fields": {"email": 0}}, "fields['email']=0: expected a number above 0, at most 1000."),
    ],
)
def test_invalid_declarations_raise(attributes: dict[str, Any], problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(problem)}$"):
        type("Wrong", (ModelSearch,), attributes)()
