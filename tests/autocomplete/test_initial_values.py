"""Initial values of fields for models: what is shown comes from the database, also by another key than the primary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import RequestFactory

from django_redis_components.autocomplete import (
    AutocompleteModelField,
    AutocompleteMultipleChoiceField,
    register,
    unregister,
    widgets,
)
from django_redis_components.autocomplete.admin import RedisAutocompleteMixin
from tests.autocomplete.cities import Cities, CitiesByCountry, City, Visit, Visitor, tables
from tests.support import Store

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


class VisitForm(forms.ModelForm):
    city = AutocompleteModelField("cities", to_field_name="code")

    class Meta:
        model = Visit
        fields = ("city",)


class CityForm(forms.Form):
    country = forms.CharField(required=False)
    city = AutocompleteModelField("cities-by-country", required=False)


class CitiesForm(forms.Form):
    cities = AutocompleteMultipleChoiceField("cities", required=False, to_field_name="code")


widgets.used_indexes.difference_update({"cities", "cities-by-country"})


@pytest.fixture(autouse=True)
def _tables(transactional_db: None) -> Iterator[None]:
    with tables():
        yield


@pytest.fixture
def cities(redis_server: Store) -> Iterator[list[City]]:
    register(Cities)
    register(CitiesByCountry)
    # The code of each city is the primary key of another one.
    yield [City.objects.create(pk=n, code=str(4 - n), name=name) for n, name in enumerate(("Berlin", "Köln", "Ulm"), 1)]
    unregister("cities")
    unregister("cities-by-country")


@pytest.fixture
def visitor() -> Visitor:
    return Visitor.objects.create(name="Anna")


@pytest.fixture
def redis_away(settings: Any) -> None:
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {
        "CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}
    }


def test_foreign_key_to_another_field_saves_the_chosen_object(cities: list[City], visitor: Visitor) -> None:
    form = VisitForm({"city": "Berlin", "city-id": "1"}, instance=Visit(visitor=visitor))

    assert form.is_valid(), form.errors
    assert form.save().city == cities[0]


def test_foreign_key_to_another_field_shows_its_object_and_has_not_changed(
    cities: list[City], visitor: Visitor
) -> None:
    visit = Visit.objects.create(visitor=visitor, city=cities[0])

    html = str(VisitForm(instance=visit)["city"])

    assert 'name="city-id" value="1"' in html
    assert 'value="Berlin"' in html
    unchanged = VisitForm({"city": "Berlin", "city-id": "1"}, instance=visit)
    assert not unchanged.has_changed()
    assert unchanged.is_valid(), unchanged.errors
    assert unchanged.save().city == cities[0]
    assert VisitForm({"city": "Ulm", "city-id": "3"}, instance=visit).has_changed()


def test_disabled_field_keeps_the_object_of_the_other_key(cities: list[City], visitor: Visitor) -> None:
    visit = Visit.objects.create(visitor=visitor, city=cities[0])
    form = VisitForm({}, instance=visit)
    form.fields["city"].disabled = True

    assert form.is_valid(), form.errors
    assert form.save().city == cities[0]


@pytest.mark.parametrize(("data", "changed"), [({}, True), ({"city": "3"}, False), ({"city": "1"}, True)])
def test_keys_of_another_widget_are_compared(cities: list[City], data: dict[str, str], changed: bool) -> None:
    for initial in ("3", cities[0]):
        form = VisitForm(data, initial={"city": initial})
        form.fields["city"].widget = forms.HiddenInput()

        assert form.has_changed() == changed
        assert not VisitForm({}).has_changed()
        assert form.is_valid() == bool(data)


def test_several_initial_objects_may_be_given_by_another_key(cities: list[City]) -> None:
    html = str(CitiesForm(initial={"cities": ["3", "1"]})["cities"])

    assert 'value="1" checked> Berlin' in " ".join(html.split())
    assert 'value="3" checked> Ulm' in " ".join(html.split())
    assert not CitiesForm({"cities": ["1", "3"]}, initial={"cities": ["3", "1"]}).has_changed()
    assert list(CitiesForm.base_fields["cities"].clean(["3"])) == [cities[0]]


@pytest.mark.parametrize("scoped", [True, False])
def test_initial_key_is_shown_with_the_text_of_its_object(cities: list[City], scoped: bool) -> None:
    class OfRequest(CitiesByCountry):
        name = "cities-by-country"
        forward = ()

    if scoped:
        register(OfRequest, scope_for=lambda request: "de")

    html = str(CityForm(initial={"city": 1})["city"])

    assert 'value="Berlin"' in html
    assert 'name="city-id" value="1"' in html


def test_initial_object_of_another_scope_than_the_field_has_is_not_shown(cities: list[City]) -> None:
    class OfTenant(CitiesByCountry):
        name = "cities-by-country"
        forward = ()

    register(OfTenant)
    form = CityForm(initial={"city": 1})
    form.fields["city"].scope = "fr"

    assert "Berlin" not in str(form["city"])


def test_instance_is_shown_while_redis_is_unavailable(cities: list[City], visitor: Visitor, redis_away: None) -> None:
    visit = Visit.objects.create(visitor=visitor, city=cities[1])

    assert 'value="Köln"' in str(VisitForm(instance=visit)["city"])


def test_object_that_is_not_indexed_is_shown(cities: list[City], visitor: Visitor) -> None:
    [lost] = City.objects.bulk_create([City(code="bonn", name="Bonn")])

    assert 'value="Bonn"' in str(VisitForm(instance=Visit(visitor=visitor, city=lost))["city"])
    assert 'value="Bonn"' in str(VisitForm(initial={"city": "bonn"})["city"])


@pytest.mark.parametrize("value", ["none", "\x00", "9" * 400, 7.5, ["x"]])
def test_initial_value_without_an_object_is_shown_as_text(cities: list[City], value: Any) -> None:
    html = str(VisitForm(initial={"city": value})["city"]) + str(CityForm(initial={"city": value})["city"])

    assert '-id"' in html
    assert 'name="city-id" value' not in html


def test_another_widget_gets_the_key(cities: list[City], visitor: Visitor) -> None:
    form = VisitForm(instance=Visit(visitor=visitor, city=cities[0]))
    form.fields["city"].widget = forms.HiddenInput()

    assert str(form["city"]) == '<input type="hidden" name="city" value="3" id="id_city">'


def test_callable_initial_value_is_compared_with_its_hidden_field(cities: list[City]) -> None:
    class Form(forms.Form):
        city = AutocompleteModelField("cities", initial=lambda: 1, show_hidden_initial=True)

    widgets.used_indexes.discard("cities")
    hidden = Form()["city"].as_hidden(only_initial=True)

    assert 'value="1"' in hidden
    given = {"city": "Berlin", "city-id": "1", "initial-city": "1"}
    assert not Form(given).has_changed()
    assert Form({**given, "city-id": "2", "city": "Köln"}).has_changed()


def test_rows_of_a_formset_are_shown_by_one_query(
    cities: list[City], visitor: Visitor, django_assert_num_queries: Any
) -> None:
    Visit.objects.bulk_create(Visit(visitor=visitor, city=city) for city in cities)
    FormSet = forms.inlineformset_factory(Visitor, Visit, form=VisitForm, extra=1)  # noqa: N806 - a class

    with django_assert_num_queries(1):
        html = str(FormSet(instance=visitor, queryset=Visit.objects.select_related("city")))

    assert all(f'value="{city.name}"' in html for city in cities)


def test_rows_of_an_inline_are_shown_by_one_query(
    cities: list[City], visitor: Visitor, django_assert_num_queries: Any
) -> None:
    Visit.objects.bulk_create(Visit(visitor=visitor, city=city) for city in cities)

    class Visits(RedisAutocompleteMixin, admin.TabularInline):
        model = Visit
        redis_autocomplete_fields = {"city": "cities"}

    request = RequestFactory().get("/")
    request.user = User(is_superuser=True, is_active=True)
    inline = Visits(Visitor, admin.AdminSite())
    FormSet = inline.get_formset(request)  # noqa: N806 - a class

    with django_assert_num_queries(1):
        html = str(FormSet(instance=visitor, queryset=inline.get_queryset(request)))

    assert all(f'value="{city.name}"' in html for city in cities)
