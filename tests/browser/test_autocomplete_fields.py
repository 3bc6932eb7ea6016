"""Fields for models in a real browser: several choices, cloned rows, dependent fields, touch, RTL, and the admin."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from playwright.sync_api import Locator, Page, expect

from django_redis_components.autocomplete import register, unregister
from tests.autocomplete.field_pages import ByLetter, Groups
from tests.browser.support import LOOK_RULES
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
        for (const name of ["name", "id", "for"]) {
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
    return [text.strip() for text in page.locator(".drc-chip:visible label").all_inner_texts()]


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
    expect(page.get_by_role("button", name="Remove Editors")).to_be_focused()
    assert chips(page) == ["Authors", "Editors"]
    page.keyboard.press("Backspace")
    expect(field).to_be_focused()
    assert chips(page) == ["Authors"]
    choose(page, "Groups:", "<b", "<b>Bold</b>")
    choose(page, "Groups:", "edi", "Editors")
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="Remove <b>Bold</b>")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Delete")
    expect(page.get_by_role("button", name="Remove Editors")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Remove Editors")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(field).to_be_focused()

    assert send(page)["groups"] == ["Editors"]


def test_screen_reader_hears_ten_steps(page: Page, site: str) -> None:
    page.goto(site)
    page.evaluate(LISTEN)
    field = page.get_by_role("combobox", name="Groups:")

    def heard(*keys: str, says: str, number: int) -> None:
        for key in keys:
            page.keyboard.press(key)
        eventually(lambda: page.evaluate("window.said.length") >= number)
        assert page.evaluate("window.said.at(-1)") == says

    field.focus()
    heard("a", says="2 suggestions", number=1)
    heard("u", says="1 suggestion", number=2)
    heard("ArrowDown", "Enter", says="Authors chosen", number=3)
    heard("x", says="No suggestions", number=4)
    heard("Backspace", "e", says="2 suggestions", number=5)
    heard("ArrowDown", "ArrowDown", "Enter", says="Engineers chosen", number=6)
    heard("Backspace", "Backspace", says="Engineers removed", number=7)
    heard("e", says="2 suggestions", number=8)
    heard("ArrowDown", "Enter", says="Editors chosen", number=9)
    heard("a", "r", says="1 suggestion", number=10)

    assert page.evaluate("window.said.length") == 10
    assert chips(page) == ["Authors", "Editors"]
    tree = page.locator("redis-autocomplete:has(#id_groups)").aria_snapshot()
    assert '- list "Chosen"' in tree
    assert '- button "Remove Editors"' in tree
    assert '- combobox "Groups:" [expanded]' in tree
    assert '- option "Artists"' in tree


def test_added_row_of_a_formset_has_its_own_choices(page: Page, site: str, groups: dict[str, Group]) -> None:
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
    page.get_by_role("button", name="Remove Editors").tap()

    assert send(page)["groups"] == ["Artists"]


def test_dependent_field_suggests_what_fits_and_is_cleared(page: Page, site: str) -> None:
    page.goto(site)
    letter, main = page.get_by_label("Letter:"), page.get_by_role("combobox", name="Main:")

    main.press_sequentially("e")
    expect(page.locator(".drc-note:visible")).to_have_text(
        "First choose a value in the field that this one depends on."
    )
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


def test_field_that_depends_on_a_disabled_one_suggests_what_fits(page: Page, site: str) -> None:
    page.goto(f"{site}?letter=E")
    expect(page.get_by_label("Letter:")).to_be_disabled()

    page.get_by_role("combobox", name="Main:").press_sequentially("e")

    expect(suggestions(page)).to_have_text(["Editors", "Engineers"])


def test_text_without_an_entry_is_created_by_the_keyboard(page: Page, site: str) -> None:
    page.goto(site)
    page.evaluate(LISTEN)
    field = page.get_by_role("combobox", name="Tags:")

    field.press_sequentially("edito")
    expect(suggestions(page)).to_have_text(["Editors", "Create “edito”"])
    eventually(lambda: page.evaluate("window.said.at(-1)") == "1 suggestion. Create “edito”")
    field.fill("EDITORS")
    expect(suggestions(page)).to_have_text(["Editors"])
    for name in ("Painters", "<i>"):
        field.fill(name)
        expect(suggestions(page)).to_have_text([f"Create “{name}”"])
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
    assert chips(page) == ["Painters", "<i>"]
    eventually(lambda: page.evaluate("window.said.at(-1)") == "<i> chosen")
    one = page.get_by_role("combobox", name="Tag:")
    one.fill("Painters")
    suggestions(page).filter(has_text="Create “Painters”").click()
    expect(one).to_have_value("Painters")

    assert send(page)["tags"] == ["<i>", "Painters"]
    assert Group.objects.filter(name="Painters").count() == 1


def test_further_suggestions_are_shown_on_request(page: Page, site: str) -> None:
    register(Groups, permission=lambda request, scope: True, limit=2)
    for number in range(3):
        Group.objects.create(name=f"Agents {number}")
    page.goto(site)
    field = page.get_by_role("combobox", name="Groups:")

    field.press_sequentially("a")
    expect(suggestions(page)).to_have_text(["Agents 0", "Agents 1", "Show more"])
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(suggestions(page)).to_have_text(["Agents 0", "Agents 1", "Agents 2", "Artists", "Show more"])
    expect(page.locator("[role=option][aria-selected=true]")).to_have_text("Agents 2")
    suggestions(page).filter(has_text="Show more").click()
    expect(suggestions(page)).to_have_text(["Agents 0", "Agents 1", "Agents 2", "Artists", "Authors"])
    page.keyboard.press("Enter")

    assert send(page)["groups"] == ["Authors"]


def test_reset_shows_the_initial_choices_again(page: Page, site: str, groups: dict[str, Group]) -> None:
    page.goto(f"{site}/?groups={groups['Editors'].pk}")
    choose(page, "Groups:", "art", "Artists")
    page.get_by_role("button", name="Remove Editors").click()
    assert chips(page) == ["Artists"]

    page.evaluate("document.querySelector('form').reset()")

    eventually(lambda: chips(page) == ["Editors"])


def test_without_javascript_chosen_entries_are_check_boxes(
    open_page: Callable[..., Page], site: str, groups: dict[str, Group]
) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(f"{site}/?groups={groups['Editors'].pk}&groups={groups['Artists'].pk}")

    page.get_by_role("checkbox", name="Editors").uncheck()

    assert send(page)["groups"] == ["Artists"]


@pytest.mark.parametrize("language", ["en", "ar"])
def test_fields_are_accessible_in_each_look(
    page: Page, site: str, check_axe: Callable[..., None], language: str
) -> None:
    speak(page, language, site)
    page.goto(site)
    assert page.evaluate("document.documentElement.dir") == ("rtl" if language == "ar" else "ltr")
    choose(page, "Groups:", "edi", "Editors")
    choose(page, "Groups:", "مؤل", "مؤلفون")

    open_and_check(page, language, check_axe)
    for media, width in (({"color_scheme": "dark"}, 1200), ({"forced_colors": "active"}, 1200), ({}, 320)):
        page.emulate_media(**{"color_scheme": "light", "forced_colors": "none", **media})
        page.set_viewport_size({"width": width, "height": 900})
        page.get_by_role("combobox", name="Groups:").fill("")
        expect(suggestions(page)).to_have_count(0)
        open_and_check(page, language, partial(check_axe, rules=LOOK_RULES))


def open_and_check(page: Page, language: str, check: Callable[[Page], None]) -> None:
    page.get_by_role("combobox", name="Groups:").press_sequentially("a")
    expect(suggestions(page)).to_have_count(2)
    page.keyboard.press("ArrowDown")

    check(page)
    popup, field = page.locator(".drc-popup:visible").bounding_box(), page.locator("#id_groups").bounding_box()
    assert popup
    assert field
    edges = [(box["x"] + box["width"]) if language == "ar" else box["x"] for box in (popup, field)]
    assert abs(edges[0] - edges[1]) <= 1, "the list starts where the field starts"
    assert popup["x"] >= 0
    assert popup["x"] + popup["width"] <= page.evaluate("innerWidth")
    outline = page.locator("[role=option][aria-selected=true]").evaluate("one => getComputedStyle(one).outlineStyle")
    assert outline == "solid"


@pytest.mark.parametrize("language", ["en", "ar"])
def test_admin_saves_what_was_chosen(
    page: Page, site: str, groups: dict[str, Group], check_axe: Callable[..., None], language: str
) -> None:
    root = User.objects.create_superuser("root", password="x")
    root.groups.add(groups["Authors"])
    client = Client()
    client.force_login(root)
    speak(page, language, site)
    page.context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": site}])
    page.goto(f"{site}/admin/auth/user/{root.pk}/change/")
    assert chips(page) == ["Authors"]

    field = page.locator("#id_groups")
    field.press_sequentially("edi")
    expect(suggestions(page).filter(has_text="Editors")).to_be_visible()
    page.keyboard.press("ArrowDown")
    check_axe(page, ".drc-autocomplete")
    page.emulate_media(color_scheme="dark")
    check_axe(page, ".drc-autocomplete", LOOK_RULES)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Remove Authors").click()
    page.locator("[name=_continue]").click()

    expect(page.locator(".messagelist .success")).to_be_visible()
    assert chips(page) == ["Editors"]
    assert list(root.groups.all()) == [groups["Editors"]]
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        colors = page.locator("#id_groups").evaluate(
            "one => [getComputedStyle(one).color, getComputedStyle(one).backgroundColor]"
        )
        assert colors[0] != colors[1]


def test_added_row_of_an_admin_inline_depends_on_its_own_field(page: Page, site: str) -> None:
    root = User.objects.create_superuser("root", password="x")
    client = Client()
    client.force_login(root)
    page.context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": site}])
    kind = ContentType.objects.get_for_model(Group)
    page.goto(f"{site}/admin/contenttypes/contenttype/{kind.pk}/change/")
    rows = kind.permission_set.count()

    page.get_by_text("Add another Permission").click()
    page.get_by_text("Add another Permission").click()
    for number, (letter, typed, name) in enumerate((("E", "ed", "Editors"), ("A", "ar", "Artists")), rows):
        page.locator(f"#id_permission_set-{number}-letter").select_option(letter)
        for field in ("main", "groups"):
            page.locator(f"#id_permission_set-{number}-{field}").press_sequentially(typed)
            expect(suggestions(page)).to_have_text([name])
            page.keyboard.press("ArrowDown")
            page.keyboard.press("Enter")

    assert chips(page) == ["Editors", "Artists"]
    expect(page.locator(f"#id_permission_set-{rows}-main")).to_have_value("Editors")
