"""The autocomplete widget in a real browser: keyboard, screen reader, IME, cloned rows, faults, and no script."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from django_redis_components.autocomplete import PrefixIndex, RecentList, register, unregister
from tests.browser.support import LOOK_RULES
from tests.support import Store, eventually

NAMES = ["Anna", "Anton", "Émile Zola", "张三", "北野 愛", "Łukasz", "<img src=x onerror=alert(1)>", "Annabell Lee"]

#: In the page: how often the server was asked.
ASKED = "performance.getEntriesByType('resource').filter(one => one.name.includes('/autocomplete/contacts/')).length"


@pytest.fixture
def recents() -> RecentList:
    return RecentList("user:7")


@pytest.fixture(autouse=True)  # before `page`, which is closed first: late requests must find the index
def site(redis_server: Store, settings: Any, live_server: Any, recents: RecentList) -> Iterator[str]:
    """The address of the page with the widget."""
    settings.ROOT_URLCONF = "tests.autocomplete.pages"
    PrefixIndex("contacts").rebuild(enumerate(NAMES, 1))
    register("contacts", permission=lambda request, scope: True, recents=lambda request: recents)
    yield live_server.url
    unregister("contacts")


@pytest.fixture
def field(page: Page, site: str) -> Locator:
    page.goto(site)
    return page.get_by_role("combobox", name="To:", exact=True)


def options(page: Page) -> list[str]:
    return page.get_by_role("option").all_inner_texts()


def chosen_id(field: Locator) -> str:
    return field.evaluate("one => one.parentElement.querySelector('input[type=hidden]').value")


def active(page: Page) -> str:
    """Return the text of the option that the focused input names as its active one."""
    return page.evaluate(
        """() => {
            const id = document.activeElement.getAttribute("aria-activedescendant");
            return id ? document.getElementById(id).textContent : "";
        }"""
    )


def send(page: Page) -> dict[str, Any]:
    page.get_by_role("button", name="Send").click()
    return json.loads(page.locator("body").inner_text())


@pytest.mark.parametrize(
    ("typed", "name", "id_"),
    [("三", "张三", "4"), ("emi", "Émile Zola", "3"), ("luk", "Łukasz", "6"), ("愛", "北野 愛", "5")],
)
def test_the_keyboard_alone_completes_a_name_and_the_server_gets_its_id(
    page: Page, field: Locator, typed: str, name: str, id_: str
) -> None:
    field.focus()
    page.keyboard.type(typed)
    expect(page.get_by_role("option", name=name, exact=True)).to_be_visible()

    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    expect(field).to_have_value(name)
    expect(page.get_by_role("option")).to_have_count(0)
    assert send(page)["to"] == [id_, name]


def test_the_input_is_a_combobox_that_names_its_list_and_its_active_option(page: Page, field: Locator) -> None:
    expect(field).to_have_attribute("aria-expanded", "false")
    field.press_sequentially("ann")
    listbox = page.get_by_role("listbox", name="Suggestions")
    expect(listbox).to_be_visible()

    field.press("ArrowDown")

    expect(field).to_have_attribute("aria-autocomplete", "list")
    expect(field).to_have_attribute("aria-expanded", "true")
    expect(field).to_have_attribute("autocomplete", "off")
    assert field.get_attribute("aria-controls") == listbox.get_attribute("id") == "id_to-list"
    assert field.get_attribute("aria-activedescendant") == "id_to-list-0"
    assert field.get_attribute("aria-describedby") == "id_to_helptext"
    expect(page.get_by_role("option", selected=True)).to_have_text(["Anna"])
    expect(field).to_be_focused()


def test_arrows_wrap_around_and_enter_the_list_at_either_end(page: Page, field: Locator) -> None:
    field.press_sequentially("ann")
    expect(page.get_by_role("option")).to_have_text(["Anna", "Annabell Lee"])

    seen = []
    for key in ("ArrowUp", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        field.press(key)
        seen.append(active(page))

    assert seen == ["Annabell Lee", "Anna", "Annabell Lee", "Anna", "Annabell Lee"]


@pytest.mark.parametrize("key", ["Home", "End", "ArrowLeft", "ArrowRight"])
def test_keys_that_move_the_cursor_deactivate_the_option(page: Page, field: Locator, key: str) -> None:
    field.press_sequentially("ann")
    expect(page.get_by_role("option")).to_have_count(2)
    field.press("ArrowDown")

    field.press(key)

    assert field.get_attribute("aria-activedescendant") is None
    expect(page.get_by_role("option", selected=True)).to_have_count(0)
    expect(page.get_by_role("option")).to_have_count(2)
    assert field.evaluate("one => one.selectionStart") == (0 if key == "Home" else 2 if key == "ArrowLeft" else 3)


def test_an_arrow_opens_a_closed_list_at_its_end(page: Page, field: Locator) -> None:
    field.press_sequentially("ann")
    expect(page.get_by_role("option")).to_have_count(2)
    field.press("Escape")
    expect(page.get_by_role("option")).to_have_count(0)

    field.press("ArrowUp")

    expect(page.get_by_role("option", selected=True)).to_have_text(["Annabell Lee"])


def test_alt_with_an_arrow_opens_without_moving_and_closes(page: Page, field: Locator) -> None:
    field.press_sequentially("ann")
    expect(page.get_by_role("option")).to_have_count(2)
    field.press("Alt+ArrowUp")
    expect(page.get_by_role("option")).to_have_count(0)

    field.press("Alt+ArrowDown")

    expect(page.get_by_role("option")).to_have_count(2)
    assert active(page) == ""


def test_escape_closes_the_list_then_clears_the_field(page: Page, field: Locator) -> None:
    field.press_sequentially("ann")
    expect(page.get_by_role("option")).to_have_count(2)

    field.press("Escape")
    expect(field).to_have_attribute("aria-expanded", "false")
    after_first = field.input_value()
    field.press("Escape")

    assert after_first == "ann"
    expect(field).to_have_value("")


def test_escape_reaches_a_dialog_unless_it_closed_the_list(page: Page, field: Locator) -> None:
    page.evaluate("window.escapes = 0; document.addEventListener('keydown', e => { escapes += e.key === 'Escape'; })")
    field.press_sequentially("ann")
    expect(page.get_by_role("option")).to_have_count(2)

    field.press("Escape")
    while_open = page.evaluate("escapes")
    field.press("Escape")

    assert (while_open, page.evaluate("escapes")) == (0, 1)


def test_tab_moves_the_focus_and_selects_nothing(page: Page, field: Locator) -> None:
    field.press_sequentially("ann")
    expect(page.get_by_role("option")).to_have_count(2)
    field.press("ArrowDown")

    field.press("Tab")

    expect(page.get_by_role("combobox", name="Copy to")).to_be_focused()
    expect(field).to_have_value("ann")
    expect(page.get_by_role("option")).to_have_count(0)
    assert chosen_id(field) == ""


def test_enter_without_an_active_option_submits_the_text_for_lookup(page: Page, field: Locator) -> None:
    field.press_sequentially("emile zola")
    expect(page.get_by_role("option")).to_have_count(1)

    field.press("Enter")

    page.wait_for_url("**/sent/")
    answer = json.loads(page.locator("body").inner_text())
    assert answer["to"] == ["3", "Émile Zola"]
    assert answer["posted"]["to-id"] == ""


def test_a_screen_reader_announces_the_number_of_options_and_the_choice(page: Page, field: Locator) -> None:
    spoken = field.locator("xpath=..").get_by_role("status")

    field.press_sequentially("ann")
    expect(spoken.filter(has_text="2 suggestions")).to_have_count(1)
    field.press_sequentially("x")
    expect(spoken.filter(has_text="No suggestions")).to_have_count(1)
    field.fill("zol")
    expect(spoken.filter(has_text="1 suggestion")).to_have_count(1)
    field.press("ArrowDown")
    field.press("Enter")

    expect(spoken.filter(has_text="Émile Zola chosen")).to_have_count(1)
    assert [text for text in spoken.all_inner_texts() if text] == ["Émile Zola chosen"]


def test_an_empty_result_is_shown_as_a_message_and_not_as_an_option(page: Page, field: Locator) -> None:
    field.press_sequentially("nobody")

    expect(page.locator(".drc-note:visible")).to_have_text("No suggestions")
    expect(page.get_by_role("option")).to_have_count(0)
    expect(field).to_have_attribute("aria-expanded", "false")


def test_the_choice_is_cleared_by_keyboard(page: Page, field: Locator) -> None:
    field.press_sequentially("zol")
    expect(page.get_by_role("option")).to_have_count(1)
    field.press("ArrowDown")
    field.press("Enter")
    expect(page.get_by_role("button", name="Remove Émile Zola")).to_be_visible()

    field.press("Tab")
    expect(page.get_by_role("button", name="Remove Émile Zola")).to_be_focused()
    page.keyboard.press("Enter")

    expect(field).to_be_focused()
    expect(field).to_have_value("")
    expect(page.get_by_role("button", name="Remove")).to_have_count(0)
    expect(field.locator("xpath=..").get_by_role("status").filter(has_text="Émile Zola removed")).to_have_count(1)
    assert chosen_id(field) == ""


def test_editing_the_text_clears_the_choice(page: Page, field: Locator) -> None:
    field.press_sequentially("zol")
    page.get_by_role("option", name="Émile Zola").click()
    assert chosen_id(field) == "3"

    field.press("End")
    field.press("Backspace")

    assert chosen_id(field) == ""
    expect(page.get_by_role("button", name="Remove")).to_have_count(0)


def test_a_click_selects_an_option_and_keeps_the_focus_in_the_field(page: Page, field: Locator) -> None:
    page.evaluate(
        "window.heard = []; for (const kind of ['input', 'change']) "
        "document.addEventListener(kind, e => heard.push(kind + ' ' + e.target.name))"
    )
    field.press_sequentially("anto")
    page.get_by_role("option", name="Anton").click()

    expect(field).to_have_value("Anton")
    expect(field).to_be_focused()
    assert chosen_id(field) == "2"
    assert page.evaluate("heard.slice(-2)") == ["input to", "change to"]


def test_leaving_the_field_closes_the_list(page: Page, field: Locator) -> None:
    field.press_sequentially("ann")
    expect(page.get_by_role("option")).to_have_count(2)

    page.get_by_role("heading", name="Write a letter").click()

    expect(page.get_by_role("option")).to_have_count(0)


def test_recents_open_on_focus_and_come_first_in_a_group(page: Page, field: Locator, recents: RecentList) -> None:
    recents.touch(2)
    recents.touch(8)

    field.focus()
    expect(page.get_by_role("option")).to_have_text(["Annabell Lee", "Anton"])
    field.press_sequentially("an")

    expect(page.get_by_role("option")).to_have_text(["Annabell Lee", "Anton", "Anna"])
    group = page.get_by_role("group", name="Recent")
    expect(group.get_by_role("option")).to_have_text(["Annabell Lee", "Anton"])


def test_an_option_activated_during_a_request_stays_active(page: Page, field: Locator) -> None:
    held: list[Route] = []
    page.route("**/contacts/?term=ann", lambda route: held.append(route))
    field.press_sequentially("an")
    expect(page.get_by_role("option")).to_have_text(["Anna", "Annabell Lee", "Anton"])
    with page.expect_request("**/contacts/?term=ann"):
        field.press_sequentially("n")
    field.press("ArrowDown")
    field.press("ArrowDown")

    held[0].continue_()

    expect(page.get_by_role("option")).to_have_text(["Anna", "Annabell Lee"])
    assert active(page) == "Annabell Lee"


def test_an_empty_field_without_recents_opens_nothing(page: Page, field: Locator) -> None:
    with page.expect_response("**/autocomplete/contacts/**"):
        field.focus()

    expect(page.locator(".drc-popup:visible")).to_have_count(0)


def test_text_from_the_index_never_becomes_html(page: Page, field: Locator) -> None:
    field.press_sequentially("<img")

    expect(page.get_by_role("option")).to_have_text(["<img src=x onerror=alert(1)>"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Remove <img src=x onerror=alert(1)>")).to_be_visible()
    assert page.locator("main img").count() == 0


def test_fast_typing_sends_one_request(page: Page, field: Locator) -> None:
    field.focus()
    eventually(lambda: page.evaluate(ASKED) == 1)  # the recent choices, for the empty field
    before = 1

    field.evaluate(
        """(input) => {
            for (const typed of ["a", "an", "ann", "anna", "annab"]) {
                input.value = typed;
                input.dispatchEvent(new InputEvent("input", { bubbles: true }));
            }
        }"""
    )

    expect(page.get_by_role("option")).to_have_text(["Annabell Lee"])
    assert page.evaluate(ASKED) - before == 1


def test_a_late_response_is_not_shown(page: Page, field: Locator) -> None:
    held: list[Route] = []
    page.route("**/contacts/?term=ann", lambda route: held.append(route))
    field.focus()
    with page.expect_request("**/contacts/?term=ann"):
        page.keyboard.type("ann")
    page.keyboard.type("abell")
    expect(page.get_by_role("option")).to_have_text(["Annabell Lee"])

    for route in held:
        route.fulfill(json={"results": [{"id": "9", "text": "Late"}], "pagination": {"more": False}, "status": "1"})

    page.wait_for_timeout(50)
    assert options(page) == ["Annabell Lee"]
    assert len(held) == 1


def compose(page: Page, *texts: str) -> None:
    """Compose a text as an input method does: each text takes the place of the one before."""
    ime = page.context.new_cdp_session(page)
    for text in texts:
        ime.send("Input.imeSetComposition", {"text": text, "selectionStart": len(text), "selectionEnd": len(text)})


@pytest.mark.parametrize(("texts", "found"), [(("a", "an", "ann", "anna"), "Annabell Lee"), (("张",), "张三")])
def test_suggestions_follow_the_text_that_an_input_method_composes(
    page: Page, field: Locator, texts: tuple[str, ...], found: str
) -> None:
    field.focus()

    compose(page, *texts)

    expect(page.get_by_role("option").filter(has_text=found)).to_be_visible()
    expect(field).to_have_value(texts[-1])


def test_keys_belong_to_the_input_method_while_it_composes(page: Page, field: Locator) -> None:
    field.focus()
    compose(page, "an", "ann")
    expect(page.get_by_role("option")).to_have_text(["Anna", "Annabell Lee"])

    for key in ("ArrowDown", "Enter"):
        field.dispatch_event("keydown", {"key": key, "isComposing": True, "keyCode": 229})

    assert active(page) == ""
    expect(field).to_have_value("ann")
    expect(page.get_by_role("option")).to_have_count(2)


def test_choosing_during_a_composition_keeps_the_chosen_entry(page: Page, field: Locator) -> None:
    field.focus()
    compose(page, "a", "annab")

    page.get_by_role("option").filter(has_text="Annabell Lee").click()

    expect(field).to_have_value("Annabell Lee")
    assert send(page)["to"] == ["8", "Annabell Lee"]


def test_a_server_error_is_shown_and_the_text_stays(page: Page, field: Locator, complaints: Any) -> None:
    complaints.expect_status(503)
    page.route("**/autocomplete/contacts/**", lambda route: route.fulfill(status=503, json={"error": "away"}))

    field.press_sequentially("anna")

    note = page.locator(".drc-note:visible")
    expect(note).to_have_text("Suggestions are not available at the moment.")
    expect(field).to_have_value("anna")
    page.unroute("**/autocomplete/contacts/**")
    field.press("Backspace")
    expect(page.get_by_role("option")).to_have_count(2)
    assert send(page)["errors"] == ["“ann” was not found. Choose one of the suggestions."]


def test_why_suggestions_are_refused_is_shown(page: Page, field: Locator, complaints: Any) -> None:
    complaints.expect_status(403)
    answer: dict[str, Any] = {"json": {"error": "You may not see these."}}
    page.route("**/autocomplete/contacts/**", lambda route: route.fulfill(status=403, **answer))
    note = page.locator(".drc-note:visible")

    field.press_sequentially("anna")
    expect(note).to_have_text("You may not see these.")

    answer = {"body": "<h1>Forbidden</h1>"}  # of another view, such as a login in front of it
    field.press("Backspace")
    expect(note).to_have_text("Suggestions are not available at the moment.")


CLONE = """(number) => {
    const row = document.getElementById("empty").cloneNode(true);
    row.removeAttribute("id");
    row.hidden = false;
    for (const one of row.querySelectorAll("*")) {
        for (const name of ["id", "name", "for"]) {
            if (one.hasAttribute(name)) {
                one.setAttribute(name, one.getAttribute(name).replace("__prefix__", number));
            }
        }
    }
    document.getElementById("rows").append(row);
}"""


def test_a_cloned_row_of_a_formset_works(page: Page, field: Locator) -> None:
    page.evaluate(CLONE, 1)
    new = page.get_by_role("combobox", name="Recipient").nth(1)

    new.press_sequentially("luk")
    expect(page.get_by_role("option")).to_have_text(["Łukasz"])
    new.press("ArrowDown")
    new.press("Enter")

    assert new.get_attribute("aria-controls") == "id_form-1-to-list"
    assert {"form-1-to": "Łukasz", "form-1-to-id": "6"}.items() <= send(page)["posted"].items()


def test_a_row_numbered_after_insertion_works(page: Page, field: Locator) -> None:
    page.evaluate(
        """() => {
            const row = document.getElementById("empty").cloneNode(true);
            row.removeAttribute("id");
            row.hidden = false;
            document.getElementById("rows").append(row);
            row.innerText;
            for (const one of row.querySelectorAll("input")) {
                one.name = one.name.replace("__prefix__", "5");
                one.id = one.id.replace("__prefix__", "5");
            }
        }"""
    )
    new = page.locator("#id_form-5-to")

    new.focus()
    new.press_sequentially("luk")

    expect(page.get_by_role("option")).to_have_text(["Łukasz"])
    expect(new).to_have_attribute("role", "combobox")


def test_a_clone_of_a_used_field_is_independent(page: Page, field: Locator) -> None:
    field.press_sequentially("ann")
    expect(page.get_by_role("option")).to_have_count(2)
    page.evaluate(
        """() => {
            const copy = document.querySelector("redis-autocomplete").cloneNode(true);
            copy.querySelectorAll("input").forEach(one => { one.name = "copy-" + one.name; });
            copy.querySelector("input").id = "copy";
            copy.querySelector("input").setAttribute("aria-label", "Copied");
            document.getElementById("rows").append(copy);
        }"""
    )
    copy = page.get_by_role("combobox", name="Copied")

    copy.fill("luk")
    expect(page.get_by_role("option")).to_have_text(["Łukasz"])

    assert page.locator("redis-autocomplete:has(#copy) .drc-popup").count() == 1
    assert page.locator("redis-autocomplete:has(#copy) .drc-remove").count() == 1
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))


def test_a_field_that_is_moved_still_works(page: Page, field: Locator) -> None:
    page.evaluate("document.querySelector('form').append(document.querySelector('redis-autocomplete'))")

    page.locator("#id_to").press_sequentially("luk")

    expect(page.get_by_role("option")).to_have_text(["Łukasz"])
    assert page.locator("redis-autocomplete:has(#id_to) .drc-popup").count() == 1


def test_reset_restores_the_initial_choice(page: Page, site: str) -> None:
    page.goto(f"{site}/?to=3")
    field = page.get_by_role("combobox", name="To:", exact=True)
    expect(field).to_have_value("Émile Zola")
    page.get_by_role("button", name="Remove Émile Zola").click()
    expect(field).to_have_value("")

    page.get_by_role("button", name="Reset").click()

    expect(field).to_have_value("Émile Zola")
    expect(page.get_by_role("button", name="Remove Émile Zola")).to_be_visible()
    assert send(page)["to"] == ["3", "Émile Zola"]


@pytest.mark.parametrize("state", ["disabled", "readOnly"])
def test_a_field_that_cannot_be_edited_sends_no_requests(page: Page, site: str, state: str) -> None:
    page.goto(f"{site}/?to=3")
    field = page.get_by_role("combobox", name="To:", exact=True)
    page.evaluate(f"document.getElementById('id_to').{state} = true")

    field.click(force=True)
    field.press("ArrowDown")
    field.press("Escape")

    page.wait_for_timeout(50)
    assert page.evaluate(ASKED) == 0
    expect(field).to_have_value("Émile Zola")


def test_without_javascript_the_text_is_looked_up_by_the_server(open_page: Callable[..., Page], site: str) -> None:
    page = open_page(java_script_enabled=False)
    page.goto(f"{site}/?to=1")
    field = page.get_by_label("To:", exact=True)
    expect(field).to_have_value("Anna")

    field.fill("emile zola")

    assert send(page)["to"] == ["3", "Émile Zola"]


def test_the_configured_minimum_length_is_respected(page: Page, site: str) -> None:
    register("contacts", permission=lambda request, scope: True, min_length=3)
    page.goto(site)
    field = page.get_by_role("combobox", name="To:", exact=True)

    field.press_sequentially("an")
    page.wait_for_timeout(50)
    asked = page.evaluate(ASKED)
    field.press_sequentially("n")

    expect(page.get_by_role("option")).to_have_count(2)
    assert asked == 0


def test_the_open_list_is_accessible(
    page: Page, site: str, recents: RecentList, check_axe: Callable[..., None]
) -> None:
    def check() -> None:
        page.emulate_media(color_scheme="light")
        check_axe(page)
        page.emulate_media(color_scheme="dark")
        check_axe(page, rules=LOOK_RULES)

    recents.touch(2)
    page.goto(f"{site}/?to=3")
    field = page.get_by_role("combobox", name="Copy to")
    check()

    field.press_sequentially("an")
    expect(page.get_by_role("option")).to_have_count(3)
    field.press("ArrowDown")
    check()
    field.fill("nobody")
    expect(page.locator(".drc-note:visible")).to_be_visible()

    check()


def test_the_list_opens_upwards_where_there_is_no_room_below(page: Page, field: Locator) -> None:
    page.evaluate("document.querySelector('main').prepend(document.createElement('hr'))")
    page.set_viewport_size({"width": 500, "height": 260})
    last = page.get_by_role("combobox", name="Recipient")
    last.scroll_into_view_if_needed()

    last.press_sequentially("an")
    expect(page.get_by_role("option")).to_have_count(3)

    box, input_box = page.locator(".drc-popup:visible").bounding_box(), last.bounding_box()
    assert box["y"] + box["height"] <= input_box["y"] or box["y"] + box["height"] <= 260


def test_it_fits_a_narrow_screen(open_page: Callable[..., Page], site: str) -> None:
    page = open_page(width=320)
    page.goto(site)
    page.get_by_role("combobox", name="To:", exact=True).press_sequentially("<img")
    expect(page.get_by_role("option")).to_have_count(1)

    box = page.locator(".drc-popup:visible").bounding_box()

    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 320
