"""The chat of a sale in two browsers: new messages without reloading, and after a time without a connection."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.market import authenticate, fits
from tests.browser.support import LOOK_RULES, another_look
from tests.browser.windows import Complaints
from tests.support import eventually
from tests.support.demo import Demo, demo_environment
from tests.support.processes import Children

SELLER, BUYER = "garcia", "oconnor"

#: Milliseconds within which a message is shown in the other browser.
DELAY_MS = 1_000

#: Texts of the page's line about the connection.
LOST = "No connection. Trying again."
NOT_SENT = "The message was not sent. Try again."

#: More messages than the page fetches at once.
MANY = 105


@pytest.fixture
def sale(demo: Demo) -> int:
    """The id of an item that was sold."""
    item = {"title": "Kite that argues", "price": 7, "kind": "ring", "description": "", "lasts_s": 3600}
    listed = demo.visitor(SELLER).post("/items/new/", **item)
    pk = int(listed.headers["Location"].strip("/").rpartition("/")[2])
    assert demo.visitor(BUYER).post(f"/items/{pk}/buy/").status == 302
    return pk


@pytest.fixture
def join(open_page: Callable[..., Page], demo: Demo, sale: int) -> Callable[..., Page]:
    """Returns a function that opens the chat as a member, in a new browser context."""

    def open_chat(username: str, **options: object) -> Page:
        page = open_page(**options)
        authenticate(page, demo, username)
        page.goto(f"{demo.base}/chats/{sale}/")
        return page

    return open_chat


def write(page: Page, text: str) -> None:
    page.get_by_label("Message:").fill(text)
    page.keyboard.press("Enter")


def line(page: Page, text: str) -> Locator:
    return page.get_by_role("log").get_by_text(text, exact=True)


def texts(page: Page) -> list[str]:
    return page.get_by_role("log").locator(".message .said").all_inner_texts()


def unread(demo: Demo, username: str, sale: int) -> int:
    """Return the number of unread messages of a member, as the site counts them."""
    return json.loads(demo.visitor(username).get("/redis/chats/unread/").text)["chats"][f"sale-{sale}"]


def test_a_message_appears_in_the_other_browser_within_a_second(join, demo, sale):
    seller, buyer = join(SELLER), join(BUYER)
    sent = [f"Message {number}" for number in range(10)]

    for number, text in enumerate(sent):
        sender, receiver = (seller, buyer) if number % 2 else (buyer, seller)
        write(sender, text)
        line(receiver, text).wait_for(timeout=DELAY_MS)
        line(sender, text).wait_for()

    assert texts(seller) == texts(buyer) == sent
    eventually(lambda: unread(demo, BUYER, sale) == unread(demo, SELLER, sale) == 0)


def test_edits_and_deletions_are_shown_without_reloading(join, demo, sale, children):
    for text in ("Rendered by the site", "Stays"):
        demo.visitor(BUYER).post(f"/chats/{sale}/", text=text, key=text)
    seller = join(SELLER)
    buyer = join(BUYER)
    write(buyer, "Shown by the script")
    line(seller, "Shown by the script").wait_for()

    def change(id: int, body: object) -> None:
        env = demo_environment(demo.directory)
        children.call("tests.example.acts:change_in_chat", sale, BUYER, id, body, env=env).result()

    change(2, {"text": "Edited"})
    line(seller, "Edited").wait_for()
    change(4, None)
    expect(line(seller, "Shown by the script")).to_have_count(0)
    change(2, None)
    expect(line(seller, "Edited")).to_have_count(0)

    write(buyer, "Afterwards")
    line(seller, "Afterwards").wait_for(timeout=DELAY_MS)
    assert texts(seller) == texts(buyer) == ["Stays", "Afterwards"]
    expect(seller.locator(".event")).to_have_count(1)


def test_a_browser_that_was_offline_shows_all_messages_in_order(join, complaints):
    seller, buyer = join(SELLER), join(BUYER)
    complaints.expect_offline()
    write(seller, "Before")
    line(buyer, "Before").wait_for()
    buyer.context.set_offline(True)
    expect(buyer.locator("#connection")).to_have_text(LOST)

    meanwhile = [f"Meanwhile {number}" for number in range(8)]
    for text in meanwhile:
        write(seller, text)
        line(seller, text).wait_for()
    assert texts(buyer) == ["Before"]
    buyer.context.set_offline(False)

    line(buyer, meanwhile[-1]).wait_for()
    expect(buyer.locator("#connection")).to_be_empty()
    write(seller, "Afterwards")
    line(buyer, "Afterwards").wait_for(timeout=DELAY_MS)
    assert texts(buyer) == ["Before", *meanwhile, "Afterwards"]


def test_more_messages_than_one_fetch_returns_arrive_in_order_beside_another_device(
    join: Callable[..., Page], demo: Demo, sale: int, complaints: Complaints, children: Children
) -> None:
    buyer = join(BUYER)
    complaints.expect_offline()
    buyer.context.set_offline(True)
    expect(buyer.locator("#connection")).to_have_text(LOST)
    sent = [f"Line {number}" for number in range(MANY)]
    env = demo_environment(demo.directory)
    bodies = [{"text": text} for text in sent]
    children.call("tests.example.acts:send_to_chat", sale, SELLER, bodies, env=env).result()
    demo.visitor(BUYER).get(f"/chats/{sale}/")  # another device of the member has read all of them

    buyer.context.set_offline(False)

    line(buyer, sent[-1]).wait_for()
    assert texts(buyer) == sent
    expect(line(buyer, sent[-1])).to_be_in_viewport()


def test_a_message_that_was_not_sent_stays_in_the_field_and_is_sent_once(join, complaints):
    seller, buyer = join(SELLER), join(BUYER)
    complaints.expect_offline()
    buyer.context.set_offline(True)
    expect(buyer.locator("#connection")).to_have_text(LOST)

    write(buyer, "Are you there?")
    expect(buyer.locator("#connection")).to_have_text(NOT_SENT)
    expect(buyer.get_by_label("Message:")).to_have_value("Are you there?")
    buyer.context.set_offline(False)
    expect(buyer.locator("#connection")).to_be_empty()
    buyer.keyboard.press("Enter")

    line(seller, "Are you there?").wait_for()
    expect(buyer.get_by_label("Message:")).to_have_value("")
    expect(line(buyer, "Are you there?")).to_have_count(1)


def test_a_hidden_page_marks_nothing_as_read(join, demo, sale):
    seller, buyer = join(SELLER), join(BUYER)
    hide = "(value) => { Object.defineProperty(document, 'hidden', {configurable: true, get: () => value});"
    hide += " document.dispatchEvent(new Event('visibilitychange')); }"

    buyer.evaluate(hide, True)
    write(seller, "Look here")
    line(seller, "Look here").wait_for()
    eventually(lambda: unread(demo, SELLER, sale) == 0)
    assert unread(demo, BUYER, sale) == 1
    buyer.evaluate(hide, False)

    line(buyer, "Look here").wait_for()
    eventually(lambda: unread(demo, BUYER, sale) == 0)


def test_the_number_of_unread_messages_is_kept_current_without_reloading(open_page, join, demo):
    seller, buyer = join(SELLER), open_page(is_shared=False)
    buyer.clock.install()
    authenticate(buyer, demo, BUYER)
    buyer.goto(f"{demo.base}/")
    link = buyer.get_by_role("navigation", name="Main").get_by_role("link", name="Chats")
    expect(link).to_be_visible()
    shown = int(link.locator("span span").first.inner_text())

    write(seller, "For your badge")
    line(seller, "For your badge").wait_for()
    buyer.clock.fast_forward(30_000)

    expect(link).to_have_accessible_name(f"Chats {shown + 1} unread")
    link.click()
    buyer.get_by_role("link", name="Kite that argues").first.click()
    line(buyer, "For your badge").wait_for()
    expect(link).to_have_accessible_name(f"Chats {shown} unread" if shown else "Chats")


def test_a_member_is_added_and_named_in_open_pages(join, demo):
    seller, buyer = join(SELLER), join(BUYER)

    buyer.get_by_role("combobox", name="Add a member:").focus()
    buyer.keyboard.type("петр")
    buyer.get_by_role("option", name="Анна Петрова", exact=True).click()
    buyer.get_by_role("button", name="Add", exact=True).click()

    line(seller, "Siobhán O'Connor added Анна Петрова.").wait_for()
    expect(seller.locator("#members")).to_contain_text("Анна Петрова")
    petrova = join("petrova")
    write(petrova, "<b>Hello</b> & welcome to me")
    for page in (seller, buyer, petrova):
        line(page, "<b>Hello</b> & welcome to me").wait_for()
    expect(seller.locator(".message").last).to_contain_text("Анна Петрова")


def test_leaving_in_another_tab_closes_the_open_page(join, demo, sale, complaints):
    buyer = join(BUYER)
    for status in (403, 404):  # of the poll, or of the names of members
        complaints.expect_status(status)
    other = buyer.context.new_page()
    other.goto(f"{demo.base}/chats/{sale}/")

    other.get_by_role("button", name="Leave the chat").click()

    expect(other.get_by_role("status")).to_contain_text("You left the chat.")
    expect(buyer.locator("#connection")).to_have_text("This chat is closed for you. Reload the page.")


def test_the_chat_works_without_javascript(join):
    buyer = join(BUYER, java_script_enabled=False)

    for number in range(12):
        buyer.get_by_label("Message:").fill(f"Plain {number}")
        buyer.get_by_role("button", name="Send").click()
        expect(line(buyer, f"Plain {number}")).to_be_in_viewport()

    assert texts(buyer) == [f"Plain {number}" for number in range(12)]


def test_the_chat_is_accessible_and_does_not_scroll_sideways(join, demo, check_axe):
    seller = join(SELLER)
    for text in ["Short", "A longer message that needs more than a line on a narrow page", "x" * 200] * 4:
        write(seller, text)
        expect(seller.get_by_label("Message:")).to_have_value("")
    expect(seller.locator(".message")).to_have_count(12)

    for path in ("", "/chats/"):
        if path:
            seller.goto(demo.base + path)
        check_axe(seller)
        assert fits(seller)
        with another_look(seller, width=360):
            check_axe(seller, rules=LOOK_RULES)
            assert fits(seller)
