"""Changes that an index of a model follows: through proxies, parents, children, and the objects of a relation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models.signals import post_delete
from django.test.utils import isolate_apps

from django_redis_components.autocomplete import ModelIndex, register, unregister
from tests.autocomplete.cities import Cities, City, GermanCity, Resort, Stop, Trip, Visit, Visitor, tables
from tests.support import Store

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


class Resorts(ModelIndex):
    model = Resort
    text = "name"


class GermanCities(ModelIndex):
    model = GermanCity
    text = "name"


class Visitors(ModelIndex):
    """Visitors by the city that they visit."""

    model = Visitor
    text = "name"
    relations = ("cities",)

    def scope(self, obj: Any) -> Iterable[object]:
        return [city.code for city in obj.cities.all()]


class Friends(ModelIndex):
    """Visitors by their friends, who have them as friends too."""

    model = Visitor
    name = "friends"
    text = "name"
    relations = ("friends",)

    def scope(self, obj: Any) -> Iterable[object]:
        return [friend.pk for friend in obj.friends.all()]


class Members(ModelIndex):
    """Users by their groups."""

    model = User
    name = "members"
    text = "username"
    relations = ("groups",)

    def scope(self, obj: Any) -> Iterable[object]:
        return [group.pk for group in obj.groups.all()]


class Stops(ModelIndex):
    """Stops by their city."""

    model = Stop
    text = "nights"

    def scope(self, obj: Any) -> object:
        return obj.city_id


@pytest.fixture(autouse=True)
def _tables(transactional_db: None, redis_server: Store) -> Iterator[None]:
    with tables():
        yield


@pytest.fixture
def follow() -> Iterator[Any]:
    names = []

    def registered(kind: type[ModelIndex]) -> ModelIndex:
        index: Any = register(kind)
        names.append(index.name)
        return index

    yield registered
    for name in names:
        unregister(name)


def found(index: ModelIndex, scope: object = None) -> list[str]:
    return [one.text for one in index.index(scope).complete("", limit=50)]


@pytest.mark.parametrize("index", [Cities, GermanCities])
@pytest.mark.parametrize("saved", [City, GermanCity, Resort])
def test_saves_and_deletions_by_proxies_and_children_are_followed(follow: Any, index: Any, saved: Any) -> None:
    cities = follow(index)

    bonn = saved.objects.create(name="Bonn", code="bonn")
    assert found(cities) == ["Bonn"]
    bonn.name = "Bonna"
    bonn.save()
    assert found(cities) == ["Bonna"]
    bonn.delete()

    assert found(cities) == []


def test_saves_and_deletions_by_the_parent_are_followed(follow: Any) -> None:
    resorts = follow(Resorts)
    Resort.objects.create(name="Davos", code="davos")
    City.objects.create(name="Bonn", code="bonn")
    parent = City.objects.get(code="davos")

    parent.name = "Davos Dorf"
    parent.save()
    assert found(resorts) == ["Davos Dorf"]
    parent.delete()

    assert found(resorts) == []


def test_model_that_is_defined_later_is_followed(follow: Any) -> None:
    cities = follow(Cities)

    with isolate_apps("tests.autocomplete"):

        class Late(City):
            class Meta:
                app_label = "autocomplete"
                proxy = True

            def __str__(self) -> str:
                return self.name

    Late.objects.create(name="Ulm", code="ulm")

    assert found(cities) == ["Ulm"]


@pytest.mark.parametrize("watched", ["city", "city_id"])
def test_foreign_key_is_watched_by_the_name_of_its_field_and_of_its_column(
    follow: Any, watched: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stops, "watch_fields", (watched,))
    stops = follow(Stops)
    bonn, ulm, jena = (City.objects.create(name=name, code=name) for name in ("Bonn", "Ulm", "Jena"))
    stop = Stop.objects.create(trip=Trip.objects.create(title="Tour", city=bonn), city=bonn)

    deferred = Stop.objects.defer("nights").get(pk=stop.pk)
    deferred.city = ulm
    deferred.save()
    assert (found(stops, bonn.pk), found(stops, ulm.pk)) == ([], ["1"])
    Stop.objects.update_or_create(pk=stop.pk, defaults={"city_id": jena.pk})
    assert (found(stops, ulm.pk), found(stops, jena.pk)) == ([], ["1"])
    stop.city = bonn
    stop.save(update_fields=["city"])
    assert (found(stops, jena.pk), found(stops, bonn.pk)) == ([], ["1"])


def test_rows_of_a_relation_with_a_model_are_followed(follow: Any) -> None:
    visitors = follow(Visitors)
    anna, bonn = Visitor.objects.create(name="Anna"), City.objects.create(name="Bonn", code="bonn")

    visit = Visit.objects.create(visitor=anna, city=bonn)
    assert found(visitors, "bonn") == ["Anna"]
    visit.delete()
    assert found(visitors, "bonn") == []
    anna.cities.add(bonn)
    assert found(visitors, "bonn") == ["Anna"]


def test_row_of_a_relation_that_is_given_to_another_object_is_followed(follow: Any) -> None:
    visitors = follow(Visitors)
    anna, bert = (Visitor.objects.create(name=name) for name in ("Anna", "Bert"))
    visit = Visit.objects.create(visitor=anna, city=City.objects.create(name="Bonn", code="bonn"))

    visit.visitor = bert
    visit.save()

    assert found(visitors, "bonn") == ["Bert"]


def test_both_sides_of_a_symmetrical_relation_are_followed(follow: Any) -> None:
    friends = follow(Friends)
    anna, bert, carl = (Visitor.objects.create(name=name) for name in ("Anna", "Bert", "Carl"))

    anna.friends.add(bert)
    assert [found(friends, each.pk) for each in (anna, bert)] == [["Bert"], ["Anna"]]
    bert.friends.set([carl])
    assert [found(friends, each.pk) for each in (anna, bert, carl)] == [[], ["Carl"], ["Bert"]]
    bert.friends.clear()
    assert [found(friends, each.pk) for each in (bert, carl)] == [[], []]


def test_deletion_of_an_object_of_a_relation_is_followed(follow: Any) -> None:
    visitors, members = follow(Visitors), follow(Members)
    anna, bonn = Visitor.objects.create(name="Anna"), City.objects.create(name="Bonn", code="bonn")
    red, bert = Group.objects.create(name="red"), User.objects.create(username="bert")
    anna.cities.add(bonn)
    bert.groups.add(red)
    assert (found(visitors, "bonn"), found(members, red.pk)) == (["Anna"], ["bert"])
    gone = red.pk

    bonn.delete()
    with transaction.atomic():
        Group.objects.all().delete()
        assert found(members, gone) == ["bert"]

    assert (found(visitors, "bonn"), found(members, gone)) == ([], [])


def test_unregistered_index_follows_no_class(follow: Any) -> None:
    cities = follow(Cities)
    unregister("cities")

    for number, saved in enumerate((City, GermanCity, Resort)):
        saved.objects.create(name=str(number), code=str(number))
        assert not post_delete.has_listeners(saved)

    assert found(cities) == []


def test_other_models_are_deleted_without_signals(follow: Any) -> None:
    follow(Cities)

    assert not post_delete.has_listeners(Session)
