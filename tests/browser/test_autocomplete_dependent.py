"""An autocomplete field that depends on another one, whose text is typed and not chosen from the list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from django_redis_components.autocomplete import PrefixIndex, register, unregister
from tests.support import Store

CITIES = {"br": ["Rio de Janeiro", "Recife"], "co": ["Riohacha"]}


@pytest.fixture(autouse=True)  # before `page`, which is closed first: late requests must find the indexes
def site(redis_server: Store, settings: Any, live_server: Any) -> Iterator[str]:
    """The address of the page."""
    settings.ROOT_URLCONF = "tests.autocomplete.dependent_pages"
    allowed: dict[str, Callable[..., bool]] = {"permission": lambda request, scope: True}
    PrefixIndex("countries").rebuild([("br", "Brazil"), ("co", "Colombia"), ("cr", "Côte d’Ivoire"), ("x", "Brazilia")])
    register("countries", **allowed)
    cities = register("cities", forward=["country"], **allowed)
    for scope, names in CITIES.items():
        cities.index(scope).rebuild(enumerate(names, 1))
    yield live_server.url
    unregister("countries")
    unregister("cities")


@pytest.fixture
def country(page: Page, site: str) -> Locator:
    page.goto(site)
    return page.get_by_role("combobox", name="Country")


@pytest.fixture
def city(page: Page, country: Locator) -> Locator:
    return page.get_by_role("combobox", name="City")


def options(page: Page) -> Locator:
    return page.get_by_role("option")


def chosen_id(field: Locator) -> str:
    return field.evaluate("one => one.parentElement.querySelector('input[type=hidden]').value")


@pytest.mark.parametrize("typed", ["Brazil", "brazil", " BRAZIL "])
def test_text_that_names_one_entry_is_chosen_when_the_field_is_left(
    page: Page, country: Locator, city: Locator, typed: str
) -> None:
    country.focus()
    page.keyboard.type(typed)
    page.keyboard.press("Tab")
    expect(country).to_have_value("Brazil")
    expect(page.get_by_role("button", name="Remove Brazil")).to_be_visible()
    assert chosen_id(country) == "br"

    city.focus()
    page.keyboard.type("ri")

    expect(options(page)).to_have_text(["Rio de Janeiro"])


def test_text_without_accents_names_the_entry(page: Page, country: Locator, city: Locator) -> None:
    country.focus()
    page.keyboard.type("cote d’ivoire")
    page.keyboard.press("Tab")

    expect(country).to_have_value("Côte d’Ivoire")


def test_text_that_is_typed_meanwhile_is_kept_and_gets_suggestions(page: Page, country: Locator, city: Locator) -> None:
    held: list[Route] = []
    page.route("**/autocomplete/countries/*", lambda route: held.append(route))
    country.focus()
    page.keyboard.type("Colombia")
    page.keyboard.press("Tab")
    expect(city).to_be_focused()
    page.keyboard.type("rio")
    expect(page.locator(".drc-note:visible")).to_contain_text("First choose a value")

    while held:
        held.pop(0).continue_()

    expect(options(page)).to_have_text(["Riohacha"])
    expect(city).to_have_value("rio")


def test_text_that_was_typed_and_left_meanwhile_is_kept(page: Page, country: Locator, city: Locator) -> None:
    held: list[Route] = []
    page.route("**/autocomplete/countries/*", lambda route: held.append(route))
    country.focus()
    page.keyboard.type("Brazil")
    page.keyboard.press("Tab")
    page.keyboard.type("Recife")
    page.keyboard.press("Tab")
    expect(city).not_to_be_focused()

    while held:
        held.pop(0).continue_()

    expect(page.get_by_role("button", name="Remove Brazil")).to_be_visible()
    expect(city).to_have_value("Recife")


@pytest.mark.parametrize("typed", ["Braz", "Nowhere"])
def test_other_text_stays_and_is_no_choice(page: Page, country: Locator, city: Locator, typed: str) -> None:
    with page.expect_response(lambda response: f"term={typed}" in response.url):
        country.focus()
        page.keyboard.type(typed)
        page.keyboard.press("Tab")

    city.press_sequentially("ri")
    expect(page.locator(".drc-note:visible")).to_contain_text("First choose a value")
    expect(country).to_have_value(typed)
    assert chosen_id(country) == ""


def test_another_country_replaces_a_chosen_city(page: Page, country: Locator, city: Locator) -> None:
    for name, prefix, chosen in (("Brazil", "ri", "Rio de Janeiro"), ("Colombia", "rio", "Riohacha")):
        country.fill("")
        country.press_sequentially(name)
        country.press("Tab")
        expect(page.get_by_role("button", name=f"Remove {name}")).to_be_visible()
        expect(city).to_have_value("")
        city.press_sequentially(prefix)
        expect(options(page)).to_have_text([chosen])
        city.press("ArrowDown")
        city.press("Enter")
        expect(city).to_have_value(chosen)
