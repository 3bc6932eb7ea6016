"""Fields for models in a real browser: several choices, cloned rows, dependent fields, touch, RTL, and the admin."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from playwright.sync_api import Locator, Page, expect

from django_redis_components.autocomplete import register, unregister
from tests.autocomplete.field_pages import ByLetter, Groups
from tests.support import Store, eventually

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ["Authors", "Artists", "Editors", "Engineers", "مؤلفون", "<b>Bold</b>"]

#: In the page: collects what the live regions say, in order.
LISTEN = """() => {
    window.said = [];
    new MutationObserver((changes) => {
        for (const change of changes) {
            const region = change.target.closest?.("[role=status]");
            if (region?.textContent) {
                window.said.push(region.textContent);
            }
        }
    }).observe(document.body, { subtree: true, childList: true });
}"""

#: In the page: adds a row to the formset, as the admin does.
CLONE = """(number) => {
    const row = document.getElementById("empty").cloneNode(true);
    row.removeAttribute("id");
    row.hidden = false;
    for (const one of row.querySelectorAll("*")) {
        for (const name of ["name", "id", "for", "data-multiple"]) {
            if (one.hasAttribute(name)) {
                one.setAttribute(name, one.getAttribute(name).replace("__prefix__", number));
            }
        }
    }
    document.getElementById("rows").append(row);
}"""


@pytest.fixture
def groups() -> dict[str, Group]:
    return {}


@pytest.fixture(autouse=True)  # before `page`, which is closed first: late requests must find the index
def site(redis_server: Store, settings: Any, live_server: Any, groups: dict[str, Group]) -> Iterator[str]:
    """The address of the page."""
    settings.ROOT_URLCONF = "tests.autocomplete.field_pages"
    allowed = {"permission": lambda request, scope: True}
    register(Groups, **allowed)
    register(ByLetter, **allowed)
    groups.update({name: Group.objects.create(name=name) for name in NAMES})
    yield live_server.url
    unregister("all-groups")
    unregister("groups-by-letter")


def chips(page: Page) -> list[str]:
    """Return the names of the chosen entries."""
    return [text.strip() for text in page.locator(".drc-chip:has(input:checked)").all_inner_texts()]


def suggestions(page: Page) -> Locator:
    """Return the options of the lists, without those of select elements."""
    return page.locator(".drc-option:visible")


def speak(page: Page, language: str, site: str) -> None:
    page.context.add_cookies([{"name": "django_language", "value": language, "url": site}])


def choose(page: Page, label: str, typed: str, name: str) -> None:
    page.get_by_role("combobox", name=label, exact=True).press_sequentially(typed)
    expect(suggestions(page).filter(has_text=name)).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


def send(page: Page) -> Any:
    page.get_by_role("button", name="Send").click()
    return json.loads(page.locator("body").inner_text())


def test_several_are_chosen_and_removed_by_the_keyboard(page: Page, site: str) -> None:
    page.goto(site)
    field = page.get_by_role("combobox", name="Groups:")

    choose(page, "Groups:", "auth", "Authors")
    choose(page, "Groups:", "edi", "Editors")
    choose(page, "Groups:", "auth", "Authors")
    assert chips(page) == ["Authors", "Editors"]
    field.press("Backspace")
    assert chips(page) == ["Authors"]
    choose(page, "Groups:", "<b", "<b>Bold</b>")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("checkbox", name="Editors")).to_be_focused()
    page.keyboard.press("Space")

    assert send(page)["groups"] == ["<b>Bold</b>", "Authors", "Editors"]


def test_screen_reader_hears_ten_steps(page: Page, site: str) -> None:
    page.goto(site)
    page.evaluate(LISTEN)
    field = page.get_by_role("combobox", name="Groups:")

    def heard(*keys: str, says: str, number: int) -> None:
        for key in keys:
            page.keyboard.press(key)
        eventually(lambda: page.evaluate("window.said.length") >= number)
        assert page.evaluate("window.said").pop() == says

    field.focus()
    heard("a", says="2 suggestions", number=1)
    heard("u", says="1 suggestion", number=2)
    heard("ArrowDown", "Enter", says="Authors chosen", number=3)
    heard("x", says="No suggestions", number=4)
    heard("Backspace", "e", says="2 suggestions", number=5)
    heard("ArrowDown", "ArrowDown", "Enter", says="Engineers chosen", number=6)
    heard("Backspace", says="Engineers removed", number=7)
    heard("Backspace", says="Authors removed", number=8)
    page.keyboard.press("Shift+Tab")
    heard("Space", says="Engineers chosen", number=9)
    page.keyboard.press("Tab")
    heard("a", "r", says="1 suggestion", number=10)

    assert page.evaluate("window.said.length") == 10
    assert chips(page) == ["Engineers"]
    tree = page.locator("redis-autocomplete[data-multiple=groups]").aria_snapshot()
    assert '- checkbox "Engineers" [checked]' in tree
    assert '- combobox "Groups:" [expanded]' in tree
    assert '- option "Artists"' in tree


def test_added_row_of_a_formset_has_choices_of_its_own(page: Page, site: str, groups: dict[str, Group]) -> None:
    page.goto(site)
    page.evaluate(CLONE, 0)
    page.evaluate(CLONE, 1)
    rows = page.get_by_role("combobox", name="Row:")

    for number, name in ((0, "Editors"), (1, "Artists")):
        rows.nth(number).press_sequentially(name[:3])
        suggestions(page).filter(has_text=name).click()

    answer = send(page)
    assert answer["rows"] == [[str(groups["Editors"].pk)], [str(groups["Artists"].pk)]]
    assert answer["groups"] == []


def test_options_are_chosen_by_touch(open_page: Callable[..., Page], site: str) -> None:
    page = open_page(width=390, has_touch=True, is_mobile=True)
    page.goto(site)

    page.get_by_role("combobox", name="Groups:").tap()
    page.keyboard.type("ed")
    suggestions(page).filter(has_text="Editors").tap()
    assert chips(page) == ["Editors"]
    page.keyboard.type("ar")
    suggestions(page).filter(has_text="Artists").tap()
    page.get_by_role("checkbox", name="Editors").tap()

    assert send(page)["groups"] == ["Artists"]


def test_dependent_field_suggests_what_fits_and_is_cleared(page: Page, site: str) -> None:
    page.goto(site)
    letter, main = page.get_by_label("Letter:"), page.get_by_role("combobox", name="Main:")

    main.press_sequentially("e")
    expect(page.locator(".drc-note:visible")).to_have_text("First fill in the field that this one depends on.")
    letter.select_option("E")
    expect(main).to_have_value("")
    choose(page, "Main:", "ed", "Editors")
    expect(main).to_have_value("Editors")
    letter.select_option("A")
    expect(main).to_have_value("")
    main.press_sequentially("a")
    expect(suggestions(page)).to_have_text(["Artists", "Authors"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    assert send(page)["main"] == "Artists"


@pytest.mark.parametrize("look", [{"scheme": "light"}, {"scheme": "dark"}, {"forced_colors": "active"}, {"width": 320}])
@pytest.mark.parametrize("language", ["en", "ar"])
def test_fields_are_accessible_in_each_look(
    open_page: Callable[..., Page],
    site: str,
    check_axe: Callable[..., None],
    look: dict[str, Any],
    language: str,
) -> None:
    page = open_page(**look)
    speak(page, language, site)
    page.goto(site)
    assert page.evaluate("document.documentElement.dir") == ("rtl" if language == "ar" else "ltr")
    choose(page, "Groups:", "edi", "Editors")
    choose(page, "Groups:", "مؤل", "مؤلفون")

    page.get_by_role("combobox", name="Groups:").press_sequentially("a")
    expect(suggestions(page)).to_have_count(2)
    page.keyboard.press("ArrowDown")

    check_axe(page)
    popup, field = page.locator(".drc-popup:visible").bounding_box(), page.locator("#id_groups").bounding_box()
    assert popup
    assert field
    edges = [(box["x"] + box["width"]) if language == "ar" else box["x"] for box in (popup, field)]
    assert abs(edges[0] - edges[1]) <= 1, "the list starts where the field starts"
    assert popup["x"] >= 0
    assert popup["x"] + popup["width"] <= page.evaluate("innerWidth")
    outline = page.locator("[role=option][aria-selected=true]").evaluate("one => getComputedStyle(one).outlineStyle")
    assert outline == "solid"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "ar"])
def test_admin_saves_what_was_chosen(
    open_page: Callable[..., Page],
    site: str,
    groups: dict[str, Group],
    check_axe: Callable[..., None],
    scheme: str,
    language: str,
) -> None:
    root = User.objects.create_superuser("root", password="x")
    root.groups.add(groups["Authors"])
    client = Client()
    client.force_login(root)
    page = open_page(scheme=scheme)
    speak(page, language, site)
    page.context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": site}])
    page.goto(f"{site}/admin/auth/user/{root.pk}/change/")
    assert chips(page) == ["Authors"]

    field = page.locator("#id_groups")
    field.press_sequentially("edi")
    expect(suggestions(page).filter(has_text="Editors")).to_be_visible()
    page.keyboard.press("ArrowDown")
    check_axe(page, ".drc-autocomplete")
    page.keyboard.press("Enter")
    page.get_by_role("checkbox", name="Authors").uncheck()
    page.locator("[name=_continue]").click()

    expect(page.locator(".messagelist .success")).to_be_visible()
    assert chips(page) == ["Editors"]
    assert list(root.groups.all()) == [groups["Editors"]]
    colors = page.locator("#id_groups").evaluate(
        "one => [getComputedStyle(one).color, getComputedStyle(one).backgroundColor]"
    )
    assert colors[0] != colors[1]
