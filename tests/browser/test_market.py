"""The market in a real browser: buying, writing with the keyboard alone, and how its pages look."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.market import authenticate, fits, sign_in
from tests.browser.support import LOOK_RULES, another_look
from tests.support import eventually

#: Seconds within which a rush must be over.
RUSH_S = 90

#: Pages that everybody may see, and pages for members.
OPEN_PAGES = ["/", "/rush/", "/places/?by=city", "/search/?q=a", "/?show=sold", "/items/1/", "/login/", "/mails/"]
MEMBERS_PAGES = ["/", "/items/1/", "/items/new/", "/mine/", "/write/", "/chats/"]


def test_a_visitor_buys_an_item_and_the_mail_appears(page, demo):
    sign_in(page, demo, "lukasz")
    page.get_by_role("link", name="Lantern that never smokes").click()
    expect(page.get_by_text("On sale")).to_be_visible()

    page.get_by_role("button", name="Buy").click()

    expect(page.get_by_role("status")).to_contain_text("Lantern that never smokes is yours.")
    expect(page.get_by_text("Łukasz Wiśniewski").last).to_be_visible()
    page.get_by_role("link", name="Mails").click()
    mail = page.get_by_role("article").filter(has_text="Sold: Lantern that never smokes")
    eventually(lambda: (page.reload(), mail.count())[1])
    expect(mail).to_contain_text("Łukasz Wiśniewski bought your Lantern that never smokes for 65 gold.")


def test_the_second_buyer_sees_that_the_item_is_sold(open_page, demo, complaints, check_axe):
    first, second = open_page(), open_page()
    authenticate(first, demo, "zola")
    authenticate(second, demo, "weiss")
    for page in (first, second):
        page.goto(f"{demo.base}/")
        page.get_by_role("link", name="Map of the drowned quarter").click()
        expect(page.get_by_role("button", name="Buy")).to_be_visible()
    complaints.expect_status(409)

    first.get_by_role("button", name="Buy").click()
    expect(first.get_by_role("status")).to_contain_text("is yours")
    second.get_by_role("button", name="Buy").click()

    expect(second.get_by_role("heading", level=1)).to_have_text("Already sold")
    expect(second.get_by_role("main")).to_contain_text("You were not charged.")
    check_axe(second)


@pytest.mark.parametrize(("typed", "name"), [("张", "张三"), ("emi", "Émile Zola"), ("luk", "Łukasz Wiśniewski")])
def test_the_keyboard_alone_completes_a_name_and_sends_the_letter(page, demo, typed, name):
    authenticate(page, demo, "kitano")
    page.goto(f"{demo.base}/write/")
    page.get_by_role("combobox", name="To:", exact=True).focus()

    page.keyboard.type(typed)
    expect(page.get_by_role("option", name=name, exact=True).first).to_be_visible()
    for _ in range(10):
        page.keyboard.press("ArrowDown")
        if page.locator("[role=option][aria-selected=true]").inner_text() == name:
            break
    page.keyboard.press("Enter")

    expect(page.get_by_role("combobox", name="To:", exact=True)).to_have_value(name)
    page.get_by_label("Letter").focus()
    page.keyboard.type("By keyboard.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text(f"Your letter to {name} is on its way.")


def test_the_latest_recipient_is_suggested_first(page, demo):
    authenticate(page, demo, "papadaki")
    page.goto(f"{demo.base}/write/")
    page.get_by_label("To:", exact=True).fill("Hans Ørsted")
    page.get_by_label("Letter").fill("About the compass.")
    page.get_by_role("button", name="Send message").click()
    expect(page.get_by_role("status").first).to_contain_text("Hans Ørsted")

    page.get_by_role("combobox", name="To:", exact=True).focus()
    page.keyboard.type("h")

    expect(page.get_by_role("option").first).to_contain_text("Hans Ørsted")


def test_an_unknown_name_shows_an_error_beside_the_field(page, demo):
    authenticate(page, demo, "papadaki")
    page.goto(f"{demo.base}/write/")
    page.get_by_label("To:", exact=True).fill("Nobody At All")
    page.get_by_label("Letter").fill("Hello?")
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Send message").click()

    expect(page.locator(".errorlist")).to_have_text("“Nobody At All” was not found. Choose one of the suggestions.")


def test_the_skip_link_comes_first_and_focus_is_visible(page, demo):
    page.goto(f"{demo.base}/")

    page.keyboard.press("Tab")

    skip = page.get_by_role("link", name="Skip to main content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_every_page_is_accessible_and_does_not_scroll_sideways(page, demo, check_axe):
    def check(path):
        page.goto(demo.base + path)
        check_axe(page)
        assert fits(page), path
        with another_look(page, width=360):
            check_axe(page, rules=LOOK_RULES)
            assert fits(page), path

    for path in OPEN_PAGES:
        check(path)
    authenticate(page, demo, "zhangsan")
    for path in MEMBERS_PAGES:
        check(path)


def test_colors_follow_the_system_theme(page, demo):
    shades = {}
    page.goto(f"{demo.base}/")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shades[scheme] = sum(map(int, re.findall(r"\d+", color)[:3]))

    assert shades["light"] > 600
    assert shades["dark"] < 150


def test_an_unknown_address_shows_the_404_page(page, demo, complaints, check_axe):
    complaints.expect_status(404)

    page.goto(f"{demo.base}/nothing/here/")

    expect(page.get_by_role("heading", level=1)).to_have_text("Page not found")
    expect(page.get_by_role("link", name="Back to the market")).to_be_visible()
    check_axe(page)


def test_a_rush_is_followed_without_reloading_and_a_worker_is_killed(page, demo, check_axe):
    page.goto(f"{demo.base}/rush/")
    page.get_by_label("Strategy").select_option("Lock per item")

    page.get_by_role("button", name="Rush").click()
    page.get_by_role("button", name=re.compile("^Kill process")).first.click(timeout=RUSH_S * 1_000)

    expect(page.get_by_role("region", name="Events")).to_contain_text("(SIGKILL) while it answered buyer")
    expect(page.get_by_role("region", name="Events")).to_contain_text("run 2", timeout=RUSH_S * 1_000)
    finished = page.locator("[data-part=figures] > div").last
    expect(finished).to_contain_text("100 of 100", timeout=RUSH_S * 1_000)
    expect(page.get_by_role("img", name=re.compile("^1 bought the item, 0 wait, 99 were told"))).to_be_visible()
    check_axe(page)


def test_the_rush_works_without_javascript(open_page, demo):
    page = open_page(java_script_enabled=False)
    page.goto(f"{demo.base}/rush/")

    page.get_by_role("button", name="Rush").click()

    finished = page.locator("[data-part=figures] > div").last  # the page reloads itself
    expect(finished).to_contain_text("100 of 100", timeout=RUSH_S * 1_000)


def test_a_letter_is_sent_to_several_members_that_are_chosen_by_the_keyboard(page, demo, check_axe):
    authenticate(page, demo, "kitano")
    page.goto(f"{demo.base}/write/")
    page.get_by_label("To:", exact=True).fill("Émile Zola")
    copies = page.get_by_role("combobox", name="Copy to:")

    for typed in ("张三", "Hans Ø"):
        copies.focus()
        page.keyboard.type(typed)
        expect(page.get_by_role("option").first).to_be_visible()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(copies).to_have_value("")
    expect(page.get_by_role("button", name="Remove 张三")).to_be_visible()
    expect(page.get_by_role("button", name="Remove Hans Ørsted")).to_be_visible()
    check_axe(page)
    page.keyboard.press("Backspace")
    expect(page.get_by_role("button", name="Remove Hans Ørsted")).to_be_focused()
    page.keyboard.press("Backspace")
    expect(page.get_by_role("button", name="Remove Hans Ørsted")).to_have_count(0)
    page.keyboard.type("Łukasz")
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_label("Letter").fill("To all of you.")
    page.get_by_role("button", name="Send").click()

    expect(page.get_by_role("status").first).to_contain_text("is on its way")
    for recipient in ("Émile Zola", "张三", "Łukasz Wiśniewski"):
        mail = page.get_by_role("article").filter(has_text="To all of you.").filter(has_text=recipient)
        eventually(lambda mail=mail: (page.goto(f"{demo.base}/mails/"), mail.count())[1])
    assert not page.get_by_role("article").filter(has_text="To all of you.").filter(has_text="Hans").count()


def test_the_seller_of_an_item_is_chosen_in_the_admin(open_page, demo, check_axe):
    for scheme, width in (("light", 1200), ("dark", 360)):
        page = open_page(scheme, width)
        authenticate(page, demo, "admin")
        page.goto(f"{demo.base}/admin/market/item/1/change/")
        seller = page.get_by_role("combobox", name="Seller:")
        expect(seller).not_to_have_value("")

        seller.fill("")
        page.get_by_role("button", name="Save and continue editing").click()
        expect(page.locator(".errorlist")).to_contain_text("This field is required.")
        seller.fill(f"Zolx {scheme}")
        page.get_by_role("option", name=f"Create “Zolx {scheme}”").click()
        page.get_by_role("button", name="Save and continue editing").click()
        expect(page.get_by_role("combobox", name="Seller:")).to_have_value(f"Zolx {scheme}")
        seller.fill("zol")
        expect(page.get_by_role("option", name="Émile Zola")).to_be_visible()
        check_axe(page, ".drc-autocomplete")
        page.get_by_role("option", name="Émile Zola").click()
        assert fits(page)
        page.get_by_role("button", name="Save and continue editing").click()

        expect(page.locator(".messagelist")).to_contain_text("was changed successfully")
        expect(page.get_by_role("combobox", name="Seller:")).to_have_value("Émile Zola")


def test_results_appear_while_a_visitor_types(page, demo, check_axe):
    page.goto(f"{demo.base}/search/")
    page.get_by_label("Words").focus()

    page.keyboard.type("lant")

    expect(page.get_by_role("link", name="Lantern that never smokes")).to_be_visible()
    expect(page.get_by_role("status")).to_contain_text("item")
    expect(page).to_have_url(re.compile(r"/search/\?q=lant&order=relevance$"))
    check_axe(page)
    page.get_by_role("link", name=re.compile(r"^Lights \(")).click()
    expect(page.get_by_role("link", name="Lantern that never smokes")).to_be_visible()
    expect(page.get_by_label("Words")).to_have_value("lant")
    page.get_by_label("Order").select_option("Lowest price")
    expect(page).to_have_url(re.compile("order=cheap"))
