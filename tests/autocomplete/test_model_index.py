"""An index of a model: what is written when, for which scopes, and what a check finds and a repair mends."""

from __future__ import annotations

import io
import json
import math
import os
import signal
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client, RequestFactory
from django.utils import timezone
from django.utils.translation import gettext_lazy

from django_redis_components.autocomplete import (
    AutocompleteError,
    Entry,
    ModelIndex,
    PrefixIndex,
    register,
    registry,
    unregister,
)
from django_redis_components.autocomplete.entries import MAX_WEIGHT
from django_redis_components.autocomplete.index import part_key
from django_redis_components.autocomplete.model_sync import read_scopes
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from tests.support import Store, run_together
from tests.support.processes import Children
from tests.support.raising_logs import raising_logs
from tests.taskqueue.hostile import errors

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


class Users(ModelIndex):
    model = User
    text = "get_full_name"
    terms = ("username", "email")
    weight = "last_points"

    def queryset(self) -> Any:
        return User.objects.filter(is_active=True)


class Members(ModelIndex):
    """One part for each group of a user."""

    model = User
    name = "members"
    text = "username"
    relations = ("groups",)

    def queryset(self) -> Any:
        return User.objects.prefetch_related("groups")

    def scope(self, obj: Any) -> Iterable[object]:
        return [group.pk for group in obj.groups.all()]


User.last_points = 0  # type: ignore[attr-defined]


@pytest.fixture
def users(store: Store) -> Users:
    return register(Users)  # type: ignore[return-value]


@pytest.fixture
def members(store: Store) -> Members:
    return register(Members)  # type: ignore[return-value]


def named(name: str, **fields: Any) -> User:
    first, _, last = name.partition(" ")
    return User.objects.create(
        username=fields.pop("username", name.lower()), first_name=first, last_name=last, **fields
    )


def scopes_of(index: ModelIndex) -> set[str]:
    return run(connections.client("default"), read_scopes(index.name))


def found(index: ModelIndex, typed: str, scope: object = None) -> list[str]:
    return [one.text for one in index.index(scope).complete(typed)]


def clean(index: ModelIndex) -> bool:
    return not index.find_drift()


@pytest.mark.contract
def test_objects_are_indexed_after_the_commit(users: Users) -> None:
    with transaction.atomic():
        anna = named("Anna Meyer", email="am@example.org")
        assert found(users, "an") == []

    assert found(users, "mey") == found(users, "am@") == found(users, "anna m") == ["Anna Meyer"]
    anna.last_name = "Bell"
    anna.save()
    assert (found(users, "mey"), found(users, "bell")) == ([], ["Anna Bell"])
    anna.delete()
    assert found(users, "") == []


def test_rolled_back_changes_are_not_indexed(users: Users) -> None:
    with transaction.atomic():
        named("Anna Meyer")
        transaction.set_rollback(True)

    assert found(users, "") == []


def test_objects_outside_of_the_queryset_are_removed(users: Users) -> None:
    anna = named("Anna Meyer")
    anna.is_active = False

    anna.save(update_fields=["is_active"])

    assert found(users, "") == []


def test_primary_key_as_text_is_that_of_its_object(users: Users) -> None:
    anna = User.objects.create(username="anna", first_name="Anna")

    users.update(str(anna.pk))
    assert found(users, "ann") == ["Anna"]
    User(pk=str(anna.pk), username="anna", first_name="Hanna").save()

    assert found(users, "han") == ["Hanna"]


def test_bulk_changes_are_written_by_one_call(users: Users) -> None:
    User.objects.bulk_create(User(username=f"u{n}", first_name=f"Anna{n}") for n in range(1_200))
    assert users.index().count() == 0

    users.update(User.objects.filter(username__startswith="u"))
    assert users.index().count() == 1_200
    User.objects.filter(username="u7").update(first_name="Zoe")
    gone = User.objects.get(username="u8").pk
    User.objects.filter(username="u8")._raw_delete("default")
    changed = User.objects.get(username="u7")
    users.update(changed, gone)

    assert (found(users, "zoe"), users.index().count()) == (["Zoe"], 1_199)


def test_text_of_the_database_is_made_to_fit(users: Users) -> None:
    named("Anna\tMey\ner" + "x" * 40, username="u" * 150)
    named("👩", username="!!!")
    User.objects.create(username="\u200c", first_name="\x00\u200b")

    users.update(User.objects.all())

    assert found(users, "mey") == ["Anna Mey er" + "x" * 40]
    assert users.index().count() == 2
    assert clean(users)


@pytest.mark.contract
def test_objects_have_an_entry_in_each_of_their_scopes(members: Members) -> None:
    red, blue = Group.objects.create(name="red"), Group.objects.create(name="blue")
    anna, bert = named("Anna"), named("Bert")

    anna.groups.set([red, blue])
    red.user_set.add(bert)
    assert (found(members, "", red.pk), found(members, "", blue.pk)) == (["anna", "bert"], ["anna"])
    anna.groups.remove(red)
    assert (found(members, "", red.pk), found(members, "", blue.pk)) == (["bert"], ["anna"])
    red.user_set.clear()
    blue.user_set.set([bert])
    assert (found(members, "", red.pk), found(members, "", blue.pk)) == ([], ["bert"])
    bert.delete()
    assert found(members, "", blue.pk) == []
    assert clean(members)


def test_objects_that_move_between_scopes_concurrently_are_in_their_last_ones_only(members: Members) -> None:
    groups = [Group.objects.create(name=f"g{number}") for number in range(4)]
    people = [named(f"Name{number}") for number in range(3)]

    def move(mover: int) -> None:
        for step in range(8):
            people[(mover + step) % len(people)].groups.set([groups[(mover * 3 + step) % len(groups)]])
        connection.close()

    run_together(6, move)

    for group in groups:
        wanted = sorted(User.objects.filter(groups=group).values_list("username", flat=True))
        assert sorted(found(members, "", group.pk)) == wanted
    assert clean(members)


def test_object_leaves_a_scope_that_only_a_rebuild_has_noticed(members: Members) -> None:
    red, blue = Group.objects.create(name="red"), Group.objects.create(name="blue")
    anna = named("Anna")
    anna.groups.add(red)
    User.groups.through.objects.filter(user=anna).update(group=blue)  # no signal

    members.rebuild()
    assert (found(members, "", red.pk), found(members, "", blue.pk)) == ([], ["anna"])
    anna.groups.clear()

    assert found(members, "", blue.pk) == []


def test_several_scopes_are_rebuilt_and_scopes_without_objects_are_emptied(members: Members) -> None:
    groups = [Group.objects.create(name=f"g{n}") for n in range(5)]
    people = User.objects.bulk_create(User(username=f"u{n}") for n in range(50))
    through = User.groups.through
    through.objects.bulk_create(through(user=one, group=groups[n % 4]) for n, one in enumerate(people))
    named("Zoe").groups.add(groups[4])
    through.objects.filter(group=groups[4]).delete()  # no signal of the relation

    assert members.rebuild() == 50

    assert [members.index(group.pk).count() for group in groups] == [13, 13, 12, 12, 0]
    assert clean(members)


def test_objects_that_join_a_scope_before_its_rebuild_begins_are_kept(members: Members) -> None:
    red, blue, green = (Group.objects.create(name=name) for name in ("red", "blue", "green"))
    anna, bert, zoe = named("Anna"), named("Bert"), named("Zoe")
    anna.groups.add(red)
    bert.groups.add(blue)

    def join(count: int) -> None:
        bert.groups.remove(blue)
        zoe.groups.set([blue, green])

    members.rebuild(progress=join)

    assert (found(members, "", blue.pk), found(members, "", green.pk)) == (["zoe"], ["zoe"])
    assert clean(members)


def test_scope_that_is_joined_while_it_is_emptied_is_kept(members: Members) -> None:
    red, blue = Group.objects.create(name="red"), Group.objects.create(name="blue")
    anna, zoe = named("Anna"), named("Zoe")
    zoe.groups.add(blue)
    zoe.groups.clear()
    anna.groups.add(red)

    members.rebuild(progress=lambda count: zoe.groups.add(blue))

    assert found(members, "", blue.pk) == ["zoe"]
    assert scopes_of(members) == {str(red.pk), str(blue.pk)}
    assert clean(members)


def test_scope_that_is_joined_after_it_was_emptied_is_kept(members: Members) -> None:
    red, blue = Group.objects.create(name="red"), Group.objects.create(name="blue")
    anna, zoe = named("Anna"), named("Zoe")
    zoe.groups.add(blue)
    zoe.groups.clear()
    anna.groups.add(red)
    steps: list[int] = []

    def join(count: int) -> None:
        steps.append(count)
        if len(steps) == 2:  # the scope was rebuilt, without entries
            zoe.groups.add(blue)

    members.rebuild(progress=join)

    assert (steps, found(members, "", blue.pk)) == ([1, 0], ["zoe"])
    assert scopes_of(members) == {str(red.pk), str(blue.pk)}
    assert clean(members)


def test_scopes_without_entries_are_forgotten_by_a_rebuild(members: Members) -> None:
    groups = [Group.objects.create(name=f"g{n}") for n in range(3)]
    anna = named("Anna")
    anna.groups.set(groups)
    anna.groups.set(groups[:1])
    assert len(scopes_of(members)) == 3

    members.rebuild()

    assert scopes_of(members) == {str(groups[0].pk)}


class ReplicaLags:
    """Reads users from a database that has none of them."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "replica" if model is User else None


@pytest.mark.parametrize("scoped", [True, False])
def test_rebuild_reads_the_database_that_is_written(
    users: Users, members: Members, settings: Any, scoped: bool
) -> None:
    anna, red = named("Anna Meyer", username="anna"), Group.objects.create(name="red")
    anna.groups.add(red)
    settings.DATABASE_ROUTERS = ["tests.autocomplete.test_model_index.ReplicaLags"]

    (members if scoped else users).rebuild()

    assert found(users, "") == ["Anna Meyer"]
    assert found(members, "", red.pk) == ["anna"]


def test_rebuild_replaces_what_was_missed_and_reports_its_progress(users: Users) -> None:
    User.objects.bulk_create(User(username=f"u{n}", first_name=f"Anna{n}") for n in range(700))
    users.index().add(4_000_000, "Nobody")
    steps: list[int] = []

    assert users.rebuild(progress=steps.append) == 700

    assert (sum(steps), len(steps)) == (700, 2)
    assert found(users, "nob") == []


@pytest.mark.contract
def test_drift_is_found_named_and_repaired(users: Users) -> None:
    anna, bert, carl = named("Anna Meyer"), named("Bert Bell"), named("Carl Crane")
    User.objects.filter(pk=anna.pk).update(last_name="Maier")
    users.index().remove(bert.pk)
    User.objects.filter(pk=carl.pk).delete()
    users.index().add(carl.pk, "Carl Crane")
    users.index().add("no-number", "Ghost")
    users.index().add("9" * 30, "Too large")

    drift = users.find_drift()

    assert (drift.objects, drift.missing, drift.stale) == (2, (("", str(bert.pk)),), (("", str(anna.pk)),))
    assert sorted(drift.extra) == sorted([("", str(carl.pk)), ("", "no-number"), ("", "9" * 30)])
    users.repair(drift)
    assert clean(users)
    assert found(users, "") == ["Anna Maier", "Bert Bell"]


@pytest.mark.contract
@pytest.mark.parametrize("part", ["lex", "top", "entries"])
def test_lost_structure_of_an_index_is_found_and_repaired(
    users: Users, store: Store, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(User, "last_points", 7)
    named("Anna Meyer"), named("Bert Bell")
    store.raw.delete(part_key(users.index(), part))

    drift = users.find_drift()

    assert len(drift.missing) + len(drift.stale) == drift.objects == 2
    users.repair(drift)
    assert clean(users)
    assert [found(users, typed) for typed in ("b", "meyer", "")] == [
        ["Bert Bell"], ["Anna Meyer"], ["Anna Meyer", "Bert Bell"]
    ]  # fmt: skip


@pytest.mark.contract
def test_what_a_lost_entry_has_left_is_found_and_removed(
    users: Users, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(User, "last_points", 7)
    anna, bert = named("Anna Meyer"), named("Bert Bell")
    store.raw.delete(part_key(users.index(), "entries"))
    User.objects.filter(pk=anna.pk).update(first_name="Zoe", username="zoe")
    User.objects.filter(pk=bert.pk).delete()
    assert found(users, "ann") == ["Anna Meyer"]

    drift = users.find_drift()

    assert (drift.missing, set(drift.extra)) == ((("", str(anna.pk)),), {("", str(anna.pk)), ("", str(bert.pk))})
    users.repair(drift)
    assert clean(users)
    assert (found(users, "ann"), found(users, "b"), found(users, "")) == ([], [], ["Zoe Meyer"])


@pytest.mark.parametrize("part", ["scopes", "all_scopes"])
def test_lost_structure_of_scopes_is_found_and_repaired(members: Members, store: Store, part: str) -> None:
    red, blue = Group.objects.create(name="red"), Group.objects.create(name="blue")
    anna = named("Anna")
    anna.groups.set([red, blue])
    store.raw.delete(f"{store.prefix}:autocomplete:{{members}}:{part}")

    drift = members.find_drift()
    members.repair(drift)

    assert set(drift.stale) == {(str(group.pk), str(anna.pk)) for group in (red, blue)}
    assert clean(members)
    anna.groups.remove(red)
    assert (found(members, "an", red.pk), found(members, "an", blue.pk)) == ([], ["anna"])
    assert scopes_of(members) == {str(red.pk), str(blue.pk)}


def test_drift_of_scopes_is_found_and_repaired(members: Members) -> None:
    red, blue = Group.objects.create(name="red"), Group.objects.create(name="blue")
    anna = named("Anna")
    anna.groups.add(red)
    User.groups.through.objects.filter(user=anna).update(group=blue)
    members.index("other").add(anna.pk, "anna")
    members.index("other").add(404, "ghost")
    PrefixIndex(f"members:{red.pk}").add(404, "ghost")

    drift = members.find_drift()
    members.repair(drift)

    assert (drift.missing, set(drift.extra)) == (
        ((str(blue.pk), str(anna.pk)),),
        {(str(red.pk), str(anna.pk)), (str(red.pk), "404")},
    )
    assert (found(members, "", red.pk), found(members, "", blue.pk)) == ([], ["anna"])
    assert clean(members)


def test_entry_left_in_a_scope_that_no_object_has_any_more_is_found_and_removed(members: Members) -> None:
    anna, red = named("Anna"), Group.objects.create(name="red")
    anna.groups.add(red)
    anna.groups.remove(red)
    members.index(red.pk).add(anna.pk, "Anna")  # as by a writer that was killed after another one forgot the scope

    drift = members.find_drift()

    assert (drift.extra, drift.missing, drift.stale) == (((str(red.pk), str(anna.pk)),), (), ())
    members.repair(drift)
    assert clean(members)
    assert found(members, "an", red.pk) == []


def test_concurrent_changes_leave_the_newest_in_the_index(users: Users) -> None:
    people = [named(f"Name{n} X") for n in range(5)]

    def edit(editor: int) -> None:
        for step in range(6):
            person = people[(editor + step) % len(people)]
            User.objects.filter(pk=person.pk).update(last_name=f"By{editor} {step}")
            fresh = User.objects.get(pk=person.pk)
            fresh.first_name = f"Name{editor}"
            fresh.save()
        connection.close()

    run_together(20, edit)

    assert clean(users)


def kill_before_indexing(url: str, prefix: str) -> None:
    """In a child: commit a change, and die before it is written to the index."""
    from django.conf import settings

    from django_redis_components.autocomplete import model_sync

    settings.REDIS_COMPONENTS = {"PREFIX": prefix, "CONNECTIONS": {"default": {"URL": url}}}
    register(Users)
    model_sync.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    User.objects.create(username="lost", first_name="Lost", last_name="Change")


def test_process_killed_between_commit_and_index_is_found_and_repaired(
    users: Users, store: Store, children: Children
) -> None:
    named("Anna Meyer")
    child = children.call("tests.autocomplete.test_model_index:kill_before_indexing", store.url, store.prefix)
    assert child.wait() == -signal.SIGKILL

    assert found(users, "lost") == []
    out = io.StringIO()
    with pytest.raises(SystemExit) as exit_code:
        call_command("redis", "autocomplete", "check", stdout=out)
    assert exit_code.value.code == 1
    assert "missing" in out.getvalue()
    assert "Repair them: python manage.py redis autocomplete repair" in out.getvalue()
    call_command("redis", "autocomplete", "repair", stdout=io.StringIO())
    assert found(users, "lost") == ["Lost Change"]
    assert command("redis", "autocomplete", "check")["indexes"][0] | {"name": ""} == {
        "name": "", "objects": 2, "missing": 0, "stale": 0, "extra": 0, "repaired": False,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["attributes", "text", "slots"])
@pytest.mark.parametrize("hook", ["text", "terms", "queryset", "weight"])
def test_save_is_committed_whatever_a_function_of_the_index_raises(
    users: Users, hook: str, kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise errors.make(kind)

    monkeypatch.setattr(Users, hook, fail)

    anna = named("Anna Meyer")
    with raising_logs(name=""), transaction.atomic():
        bert = named("Bert Meyer")
    with raising_logs(name=""):
        carl = named("Carl Meyer")

    assert set(User.objects.all()) == {anna, bert, carl}
    assert "Index auth.user misses changes of auth.User: a function of the site failed. " in caplog.text


def test_redis_away_is_logged_and_the_change_committed(
    users: Users, store: Store, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {
        "CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}
    }

    anna = named("Anna Meyer")

    assert User.objects.filter(pk=anna.pk).exists()
    assert f"Index auth.user misses a change of auth.User {anna.pk}: " in caplog.text
    assert ". manage.py redis autocomplete repair repairs it." in caplog.text
    assert ".." not in caplog.text


def test_change_without_autocommit_is_logged_and_saved(users: Users, caplog: pytest.LogCaptureFixture) -> None:
    transaction.set_autocommit(False)
    try:
        anna = named("Anna Meyer")
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)

    assert User.objects.get() == anna
    assert f"Index auth.user misses a change of auth.User {anna.pk}: on_commit() cannot be used" in caplog.text
    users.update(anna)
    assert clean(users)


def command(*arguments: str) -> dict[str, Any]:
    out = io.StringIO()
    call_command(*(arguments or ("rebuild_autocomplete",)), "--json", stdout=out)
    result: dict[str, Any] = json.loads(out.getvalue())
    return result


def test_command_rebuilds_all_or_some_indexes(users: Users, members: Members) -> None:
    User.objects.bulk_create([User(username="anna", first_name="Anna")])

    assert [(one["name"], one["entries"]) for one in command()["indexes"]] == [("auth.user", 1), ("members", 0)]
    assert [one["name"] for one in command("rebuild_autocomplete", "members")["indexes"]] == ["members"]
    with pytest.raises(
        CommandError, match=r"^Unknown index 'x'\. Indexes of models: auth\.user, members\.$"
    ) as refused:
        command("rebuild_autocomplete", "x")
    assert refused.value.returncode == 2
    out = io.StringIO()
    call_command("rebuild_autocomplete", stdout=out)
    assert out.getvalue().split()[:5] == ["INDEX", "ENTRIES", "SECONDS", "auth.user", "1"]


def test_without_indexes_of_models_nothing_is_rebuilt(store: Store) -> None:
    register("contacts")

    assert command() == {"indexes": []}


def test_unregistered_index_is_not_written(users: Users) -> None:
    unregister("auth.user")

    named("Anna Meyer")

    assert users.index().count() == 0


def test_users_who_may_view_the_model_may_query_its_index(users: Users, client: Client) -> None:
    named("Anna Meyer")
    reader = User.objects.create_user("reader", is_active=True)
    client.force_login(reader)
    assert client.get("/redis/autocomplete/auth.user/?term=an").status_code == 403
    reader.user_permissions.add(*permissions("view_user"))

    answer = client.get("/redis/autocomplete/auth.user/?term=an")

    assert [row["text"] for row in answer.json()["results"]] == ["Anna Meyer"]
    register(Users, permission=lambda request, scope: False)
    assert client.get("/redis/autocomplete/auth.user/?term=an").status_code == 403


def permissions(codename: str) -> Any:
    from django.contrib.auth.models import Permission

    return Permission.objects.filter(codename=codename)


def test_anonymous_users_may_not_query_an_index_of_a_model() -> None:
    assert not Users().is_permitted(RequestFactory().get("/"), "")


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({}, r"Wrong\.model is None: expected a model\."),
        ({"model": "auth.User"}, r"Wrong\.model is 'auth\.User': expected a model\."),
        ({"model": User, "terms": "email"}, r"Wrong\.terms='email': expected a list of names\."),
        ({"model": User, "relations": ["email"]}, r"relations: 'email' is no many-to-many field of auth\.User\."),
        ({"model": Group, "relations": ["user"]}, r"relations: 'user' is no many-to-many field of auth\.Group\."),
        ({"model": User, "name": "a/b"}, r"slashes are not accepted"),
    ],
)
def test_invalid_declarations_raise(attributes: dict[str, Any], problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        type("Wrong", (ModelIndex,), attributes)()


def test_index_of_a_model_is_looked_up_by_the_model(users: Users) -> None:
    assert registry.index_of_model(User) is users
    with pytest.raises(AutocompleteError, match=r"^Indexes of auth\.Group: none\. Expected one: register a ModelIndex"):
        registry.index_of_model(Group)
    register(Members)
    with pytest.raises(AutocompleteError, match=r"^Indexes of auth\.User: 'auth\.user', 'members'\."):
        registry.index_of_model(User)


def test_weight_and_terms_come_from_attributes() -> None:
    class Weighted(Users):
        weight = "pk"
        terms = ("aliases",)

    user = User(pk=7, first_name="Anna")
    user.aliases = ["Nana", "", "x\ny"]  # type: ignore[attr-defined]

    assert Weighted().entry(user) == Entry(7, "Anna", ["Nana", "x y"], 7)


class Sessions(ModelIndex):
    model = Session
    text = "session_data"


class SessionsByData(Sessions):
    name = "sessions-by-data"

    def scope(self, obj: Any) -> object:
        return obj.session_data


@pytest.mark.parametrize("key", ["a{b}", "a\nb", "a" * 201])
def test_object_whose_key_no_index_can_have_is_left_out(
    store: Store, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    index: Any = register(Sessions)
    Session.objects.create(session_key="good", session_data="Good", expire_date=timezone.now())

    Session.objects.create(session_key=key, session_data="Odd", expire_date=timezone.now())

    assert "Index sessions.session leaves out an object: primary key '" in caplog.text
    index.update(Session.objects.all())
    assert clean(index)
    assert index.rebuild() == 1
    assert found(index, "") == ["Good"]
    Session.objects.all().delete()
    assert found(index, "") == []


@pytest.mark.parametrize("scope", ["a{b}", "a\nb", "a" * 190])
def test_object_whose_scope_no_index_can_have_is_left_out(
    store: Store, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    index: Any = register(SessionsByData)
    for key, data in (("good", "red"), ("odd", scope)):
        Session.objects.create(session_key=key, session_data=data, expire_date=timezone.now())

    assert "Index sessions-by-data leaves out a scope: index name with scope 'sessions-by-data:a" in caplog.text
    index.update(Session.objects.all())
    assert clean(index)
    assert index.rebuild() == 1
    assert found(index, "", "red") == ["red"]


@pytest.mark.parametrize(
    ("value", "weight"),
    [
        (None, 0), ("7", 7), (7.9, 7), (-1, 0), (10**400, MAX_WEIGHT), (-(10**400), 0), (math.inf, MAX_WEIGHT),
        (-math.inf, 0), (math.nan, 0), (Decimal("NaN"), 0), (Decimal("Infinity"), MAX_WEIGHT),
    ],
)  # fmt: skip
def test_weight_is_made_to_fit(value: Any, weight: int) -> None:
    class Weighted(Users):
        weight = "ratio"

    user = User(pk=7, first_name="Anna")
    user.ratio = value  # type: ignore[attr-defined]

    entry = Weighted().entry(user)

    assert entry is not None
    assert entry.weight == weight


def test_term_that_is_translated_later_is_one_term() -> None:
    class Translated(Users):
        terms = ("kind",)

    user = User(pk=7, first_name="Anna")
    user.kind = gettext_lazy("Group")  # type: ignore[attr-defined]

    assert Translated().entry(user) == Entry(7, "Anna", ["Group"])


@pytest.fixture(autouse=True)
def _without_entries(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for one in registry.registered():
        registry.unregister(one.name)
