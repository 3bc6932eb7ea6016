"""The admin saves foreign keys, many-to-many fields and inlines that are chosen from an index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import models
from django.test import Client
from django.urls import include, path

from django_redis_components.autocomplete import ModelIndex, register, unregister
from django_redis_components.autocomplete.admin import RedisAutocompleteMixin
from tests.autocomplete.cities import Cities, City, Stop, Trip, Visitor, tables
from tests.support import Store

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]

ADD = "/admin/autocomplete/trip/add/"


class Visitors(ModelIndex):
    model = Visitor
    text = "name"


class Stops(RedisAutocompleteMixin, admin.TabularInline):
    model = Stop
    redis_autocomplete_fields = ("city",)
    extra = 1


class TripAdmin(RedisAutocompleteMixin, admin.ModelAdmin):
    redis_autocomplete_fields = ("city", "guests")
    redis_autocomplete_create = {"guests": lambda name: Visitor.objects.create(name=name)}
    inlines = (Stops,)


class Site(admin.AdminSite):
    def get_app_list(self, *arguments: Any, **options: Any) -> list[Any]:
        """Return no list: the app of the models is not installed."""
        return []


site = Site()
site.register(Trip, TripAdmin)
urlpatterns = [path("admin/", site.urls), path("redis/", include("django_redis_components.urls"))]


@pytest.fixture(autouse=True)
def cities(transactional_db: None, redis_server: Store, settings: Any) -> Iterator[list[City]]:
    settings.ROOT_URLCONF = "tests.autocomplete.test_admin"
    with tables():
        register(Cities)
        register(Visitors)
        # The code of each city is the primary key of another one.
        yield [
            City.objects.create(pk=number, code=str(4 - number), name=name)
            for number, name in enumerate(("Berlin", "Köln", "Ulm"), 1)
        ]
        unregister("cities")
        unregister("autocomplete.visitor")


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def guests() -> list[Visitor]:
    return [Visitor.objects.create(name=name) for name in ("Anna", "Bert", "Carl")]


def posted(initial: int = 0, total: int = 1, **values: Any) -> dict[str, Any]:
    """Return the data of a form with rows, such as ``row1_city="Ulm"``."""
    data = {"title": "Rhine", "stop_set-INITIAL_FORMS": initial, "stop_set-TOTAL_FORMS": total}
    for name, value in values.items():
        field = re.sub(r"^row(\d)_", r"stop_set-\1-", name)
        data[re.sub(r"_(id|text)$", r"-\1", field)] = value
    return data


def shown(html: str, name: str) -> str:
    """Return the value of a text field."""
    found = re.search(rf'name="{name}" value="([^"]*)"', html)
    return found[1] if found else ""


def test_errors_are_shown_with_what_was_entered_and_nothing_is_saved(staff: Client, guests: list[Visitor]) -> None:
    answer = staff.post(
        ADD,
        posted(city="Nowhere", guests=[guests[0].pk, 404], row0_city="Atlantis", row0_nights="2", total=2,
               row1_city="Ulm", row1_nights="-1"),
    )  # fmt: skip

    html = answer.content.decode()
    assert answer.status_code == 200
    for text in ("Nowhere", "404", "Atlantis"):
        assert f"“{text}” was not found. Choose one of the suggestions." in html
    assert "Ensure this value is greater than or equal to 0." in html
    assert (shown(html, "city"), shown(html, "stop_set-0-city")) == ("Nowhere", "Atlantis")
    assert shown(html, "stop_set-1-city") == "Ulm"
    assert f'name="guests" value="{guests[0].pk}" checked> Anna' in html
    assert not Trip.objects.exists()


def test_new_object_with_rows_is_saved(staff: Client, cities: list[City], guests: list[Visitor]) -> None:
    answer = staff.post(
        ADD,
        posted(city="Berlin", city_id="1", guests=[guests[0].pk], guests_text="bert", total=3,
               row0_city="Ulm", row0_city_id="3", row0_nights="2", row1_city="köln", row1_nights="1", row2_nights="1"),
    )  # fmt: skip

    assert answer.status_code == 302, answer.content.decode()
    trip = Trip.objects.get()
    assert trip.city == cities[0]
    assert set(trip.guests.all()) == set(guests[:2])
    assert [(stop.city, stop.nights) for stop in trip.stop_set.order_by("pk")] == [(cities[2], 2), (cities[1], 1)]


def test_saved_object_is_shown_changed_and_saved(staff: Client, cities: list[City], guests: list[Visitor]) -> None:
    trip = Trip.objects.create(title="Rhine", city=cities[0])
    trip.guests.set(guests[:2])
    stops = [Stop.objects.create(trip=trip, city=city) for city in cities[1:]]
    url = f"/admin/autocomplete/trip/{trip.pk}/change/"

    html = staff.get(url).content.decode()
    assert (shown(html, "city"), shown(html, "city-id")) == ("Berlin", "1")
    assert [shown(html, f"stop_set-{number}-city") for number in range(3)] == ["Köln", "Ulm", ""]
    answer = staff.post(
        url,
        posted(city="Ulm", city_id="3", guests=[guests[1].pk, guests[2].pk], guests_text="", initial=2, total=3,
               row0_id=stops[0].pk, row0_trip=trip.pk, row0_city="Berlin", row0_city_id="1", row0_nights="5",
               row1_id=stops[1].pk, row1_trip=trip.pk, row1_city="Ulm", row1_city_id="3", row1_nights="1",
               row1_DELETE="on", row2_trip=trip.pk, row2_nights="1"),
    )  # fmt: skip

    assert answer.status_code == 302, answer.content.decode()
    trip = Trip.objects.get()
    assert trip.city == cities[2]
    assert set(trip.guests.all()) == set(guests[1:])
    assert [(stop.city, stop.nights) for stop in trip.stop_set.all()] == [(cities[0], 5)]


@pytest.mark.parametrize("model", [Trip, Visitor])
def test_objects_are_created_for_users_who_may_add_them(
    client: Client, guests: list[Visitor], model: type[models.Model]
) -> None:
    user = User.objects.create(username="editor", is_staff=True)
    for one in {Trip, model}:
        kind = ContentType.objects.get_for_model(one)
        name = f"add_{one._meta.model_name}"
        user.user_permissions.add(Permission.objects.get_or_create(content_type=kind, codename=name)[0])
    client.force_login(user)

    answer = client.post(ADD, {"title": "Rhine", "city": "Berlin", "guests": [guests[0].pk], "guests-text": "Zoe"})

    if model is Visitor:
        assert answer.status_code == 302, answer.content.decode()
        assert [guest.name for guest in Trip.objects.get().guests.order_by("name")] == ["Anna", "Zoe"]
    else:
        assert "“Zoe” was not found." in answer.content.decode()
        assert not Visitor.objects.filter(name="Zoe").exists()


def messages_of(model: type[models.Model], **attributes: Any) -> list[tuple[str | None, str, str | None]]:
    """Return ids, texts and hints of the checks of an admin class of a model."""
    kind = type("Checked", (RedisAutocompleteMixin, admin.ModelAdmin), attributes)
    return [(each.id, each.msg, each.hint) for each in kind(model, site).check()]


def test_right_fields_and_inlines_pass_the_checks() -> None:
    assert TripAdmin(Trip, site).check() == []
    assert messages_of(Stop, redis_autocomplete_fields={"city": "cities"}) == []


NO_LIST = "expected a list of names of fields, or a mapping of names to indexes."


@pytest.mark.parametrize(
    ("attributes", "id_", "text", "hint"),
    [
        ({"redis_autocomplete_fields": "city"}, "drc.E030", f"fields='city': {NO_LIST}", None),
        ({"redis_autocomplete_fields": [7]}, "drc.E030", f"fields=[7]: {NO_LIST}", None),
        (
            {"redis_autocomplete_fields": ["guest"]},
            "drc.E031",
            "fields: autocomplete.Trip has no field 'guest'.",
            "Did you mean 'guests'?",
        ),
        (
            {"redis_autocomplete_fields": ["title"]},
            "drc.E032",
            "fields: 'title' is neither a foreign key nor a many-to-many field.",
            None,
        ),
        (
            {"redis_autocomplete_fields": ["stop"]},
            "drc.E032",
            "fields: 'stop' is neither a foreign key nor a many-to-many field.",
            None,
        ),
        (
            {"redis_autocomplete_fields": {"city": "towns"}},
            "drc.E033",
            "fields: 'city' has no index. No autocomplete index 'towns' is registered.",
            "Register a ModelIndex of autocomplete.City in the module indexes.py of an app.",
        ),
        (
            {"redis_autocomplete_fields": {"city": "contacts"}},
            "drc.E033",
            "fields: 'city' has no index of a model: 'contacts' is no ModelIndex.",
            None,
        ),
        (
            {"redis_autocomplete_fields": {"guests": "cities"}},
            "drc.E033",
            "fields: 'guests' refers to autocomplete.Visitor, and the index 'cities' is one of autocomplete.City.",
            None,
        ),
        (
            {"redis_autocomplete_fields": ["city"], "redis_autocomplete_create": {"guests": str}},
            "drc.E035",
            "create: 'guests' is not in redis_autocomplete_fields.",
            None,
        ),
        (
            {"redis_autocomplete_fields": ["city"], "redis_autocomplete_create": {"city": "new"}},
            "drc.E035",
            "create: 'city' is 'new': expected a function.",
            None,
        ),
        (
            {"redis_autocomplete_create": ["x"]},
            "drc.E035",
            "create=['x']: expected a mapping of names to functions.",
            None,
        ),
    ],
)
def test_mistakes_in_an_admin_class_are_found_by_a_check(
    attributes: dict[str, Any], id_: str, text: str, hint: str | None
) -> None:
    register("contacts")

    [message] = messages_of(Trip, **attributes)

    assert message[0] == id_
    assert message[1].startswith(f"Checked.redis_autocomplete_{text}")
    assert message[2] == hint


def test_field_of_a_model_without_an_index_is_found_by_a_check() -> None:
    unregister("cities")

    [message] = messages_of(Trip, redis_autocomplete_fields=["city"])

    text = "'city' has no index. Indexes of autocomplete.City: none. Expected one: register a ModelIndex, or name the"
    hint = "Register a ModelIndex of autocomplete.City in the module indexes.py of an app."
    assert message == ("drc.E033", f"Checked.redis_autocomplete_fields: {text} index.", hint)


def test_field_of_an_index_with_scopes_needs_a_scope() -> None:
    class Scoped(Cities):
        def scope(self, obj: Any) -> str:
            return str(obj.country)

    class Located(Scoped):
        def scope_for(self, request: Any) -> str:
            return "de"

    register(Scoped)
    [message] = messages_of(Trip, redis_autocomplete_fields=["city"])
    with_scope = messages_of(Trip, redis_autocomplete_fields=["city"], redis_autocomplete_scope=lambda *_: "de")
    register(Located)

    text = "'city' has the index 'cities', which has one part per scope, and nothing says which one."
    assert message[:2] == ("drc.E034", f"Checked.redis_autocomplete_fields: {text}")
    assert with_scope == messages_of(Trip, redis_autocomplete_fields=["city"]) == []
