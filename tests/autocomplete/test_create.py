"""Creating objects for text that matches none: once, also in several rows, and without a server error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django import forms
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.http import QueryDict

from django_redis_components.autocomplete import (
    AutocompleteModelField,
    AutocompleteMultipleChoiceField,
    register,
    unregister,
    widgets,
)
from tests.autocomplete.cities import Cities, City, tables
from tests.support import Store, run_together

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


def create(text: str) -> City:
    return City.objects.create(name=text, code=text[:10])


class CityForm(forms.Form):
    city = AutocompleteModelField("cities", create=create, required=False)


class CitiesForm(forms.Form):
    cities = AutocompleteMultipleChoiceField("cities", create=create, required=False)


Rows = forms.formset_factory(CityForm, extra=0)

widgets.used_indexes.discard("cities")


class Described(Cities):
    """Cities whose text is no field of the model."""

    text = "__str__"


@pytest.fixture(autouse=True)
def _cities(transactional_db: None, redis_server: Store) -> Iterator[None]:
    with tables():
        register(Cities)
        yield
        unregister("cities")


def rows(*names: str) -> Any:
    given = {f"form-{number}-city": name for number, name in enumerate(names)}
    return Rows({"form-TOTAL_FORMS": str(len(names)), "form-INITIAL_FORMS": "0", **given})


def cities(typed: list[str], ids: tuple[int, ...] = ()) -> CitiesForm:
    posted = QueryDict(mutable=True)
    posted.setlist("cities-text", typed)
    posted.setlist("cities", [str(id_) for id_ in ids])
    return CitiesForm(posted)


@pytest.mark.parametrize("index", [Cities, Described])
def test_two_rows_with_the_same_new_text_create_one_object(index: Any) -> None:
    register(index)

    with transaction.atomic():
        formset = rows("Bonn", "bonn", "Ulm")
        assert formset.is_valid(), formset.errors

    chosen = [form.cleaned_data["city"].name for form in formset]
    assert chosen == ["Bonn", "Bonn", "Ulm"]
    assert City.objects.count() == 2


def test_object_that_is_missing_from_the_index_is_found_and_not_created_again() -> None:
    [bonn] = City.objects.bulk_create([City(name="Bonn", code="bonn")])

    form = CityForm({"city": "BONN"})

    assert form.is_valid(), form.errors
    assert form.cleaned_data["city"] == bonn


def test_text_of_an_object_that_may_not_be_chosen_is_an_error() -> None:
    City.objects.create(name="Bonn", code="bonn", country="fr")

    class Form(forms.Form):
        city = AutocompleteModelField(queryset=City.objects.filter(country="de"), create=create)

    with transaction.atomic():
        form = Form({"city": "Bonn"})
        assert form.errors == {"city": ["“Bonn” could not be created."]}
        assert connection.in_atomic_block
        assert City.objects.count() == 1


def test_function_may_reject_the_text() -> None:
    def refuse(text: str) -> Any:
        raise ValidationError("No cities today.")

    class Form(forms.Form):
        city = AutocompleteModelField("cities", create=refuse)

    widgets.used_indexes.discard("cities")

    assert Form({"city": "Bonn"}).errors == {"city": ["No cities today."]}


def test_concurrent_forms_with_the_same_new_text_create_one_object() -> None:
    errors: list[Any] = []

    def send(number: int) -> None:
        form = CityForm({"city": "Bonn"})
        errors.extend([form.errors] if not form.is_valid() else [])
        connection.close()

    run_together(8, send)

    assert errors == []
    assert City.objects.count() == 1


def test_several_new_texts_are_created_and_shown_again_after_an_error() -> None:
    ulm = create("Ulm")
    form = cities(["Bonn", "Kiel", "bonn"], (ulm.pk,))

    assert form.is_valid(), form.errors
    assert {city.name for city in form.cleaned_data["cities"]} == {"Ulm", "Bonn", "Kiel"}
    html = " ".join(str(cities(["Bonn", "<Kiel>", "typed"], (ulm.pk,))["cities"]).split())
    assert f'<input type="checkbox" name="cities" value="{ulm.pk}" checked> Ulm' in html
    assert '<input type="checkbox" name="cities-text" value="Bonn" checked> Bonn' in html
    assert '<input type="checkbox" name="cities-text" value="&lt;Kiel&gt;" checked> &lt;Kiel&gt;' in html
    assert '<input type="text" name="cities-text" value="typed"' in html
    assert cities(["Bonn", ""]).has_changed()


def test_widget_offers_to_create_only_where_the_field_can() -> None:
    class Form(forms.Form):
        city = AutocompleteModelField("cities")

    widgets.used_indexes.discard("cities")

    assert 'data-label-create="Create “{name}”"' in str(CityForm()["city"])
    assert 'data-label-create="Create “{name}”"' in str(cities([])["cities"])
    assert "data-label-create" not in str(Form()["city"])
