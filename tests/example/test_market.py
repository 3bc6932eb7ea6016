"""The market as its visitors see it: a running demo, asked over HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.autocomplete.hostile_values import HOSTILE
from tests.support import eventually, run_together
from tests.support.demo import Demo, Reply, demo_environment


def mail_about(demo: Demo, subject: str) -> str:
    """Return the mails page, once it has a mail with this subject."""
    text = demo.visitor().get("/mails/").text
    assert f"<h2>{subject}</h2>" in text
    return text


def test_market_is_shown_without_its_numbers_while_redis_hangs(demo: Demo) -> None:
    anonymous, zola = demo.visitor(), demo.visitor("zola")
    process = demo.raw().info("server")["process_id"]
    assert re.search("visitors? today", anonymous.get("/").text)

    os.kill(process, signal.SIGSTOP)
    try:  # a visitor waits for 30 seconds at most; each number alone took 5 to 10
        replies = [visitor.get("/") for visitor in (anonymous, zola, anonymous, zola)]
    finally:
        os.kill(process, signal.SIGCONT)

    assert [reply.status for reply in replies] == [200] * 4
    assert not any("visitors today" in reply.text or "visitor today" in reply.text for reply in replies)
    assert re.search("visitors? today", eventually(lambda: anonymous.get("/")).text)
    eventually(lambda: zola.get("/redis/chats/unread/").status == 200)  # for some seconds pages skip Redis


@pytest.mark.integration
def test_a_sale_is_mailed_to_the_seller(demo, list_item):
    item = list_item("Teapot with two spouts")

    reply = demo.visitor("zhangsan").post(f"/items/{item}/buy/")

    assert (reply.status, reply.headers["Location"]) == (302, f"/items/{item}/")
    page = eventually(lambda: mail_about(demo, "Sold: Teapot with two spouts"))
    assert "张三 bought your Teapot with two spouts for 7 gold." in page
    assert "Émile Zola" in page


def test_the_dashboard_shows_the_sales_of_today(demo, list_item):
    admin = demo.visitor("admin")
    overview = "/admin/django_redis_components/overview/"
    before = json.loads(admin.get(f"{overview}?format=json").text)["panels"]["sales"]
    item = list_item("Whistle that calls one bird")
    demo.visitor("zhangsan").post(f"/items/{item}/buy/")

    after = json.loads(admin.get(f"{overview}?format=json").text)["panels"]["sales"]

    assert after == {"open": before["open"], "sold": before["sold"] + 1, "revenue": before["revenue"] + 7}
    assert "Sales today" in admin.get(overview).text


def test_administrator_names_a_new_member_as_seller(demo: Demo, list_item: Callable[[str], int]) -> None:
    item = list_item("Ladder of two rungs")
    admin = demo.visitor("admin")
    given = {"title": "Ladder of two rungs", "kind": "ring", "price": 7, "description": "", "seller": "Nadia Novak"}

    saved = admin.post(f"/admin/market/item/{item}/change/", **given)

    assert saved.status == 302, saved.text
    assert "Nadia Novak" in demo.visitor().get(f"/items/{item}/").text
    again = list_item("Ladder of three rungs")
    assert admin.post(f"/admin/market/item/{again}/change/", **given).status == 302
    assert admin.get("/admin/market/member/?q=Nadia").text.count('class="field-name">Nadia Novak') == 1


def test_one_of_six_concurrent_buyers_wins_and_the_others_get_a_409(demo, list_item):
    item = list_item("Comb of the mermaid")
    buyers = [demo.visitor(name) for name in ("zhangsan", "kitano", "lukasz", "orsted", "ismail", "lisi")]

    replies = run_together(6, lambda number: buyers[number].post(f"/items/{item}/buy/"))

    assert sorted(reply.status for reply in replies) == [302, 409, 409, 409, 409, 409]
    refused = next(reply for reply in replies if reply.status == 409)
    assert "Already sold" in refused.text
    assert "Another member bought Comb of the mermaid first. You were not charged." in refused.text
    page = eventually(lambda: mail_about(demo, "Sold: Comb of the mermaid"))
    assert page.count("<h2>Sold: Comb of the mermaid</h2>") == 1


def test_a_sale_without_a_buyer_ends_and_the_seller_is_notified(demo, children):
    env = demo_environment(demo.directory)
    item = children.call("tests.example.acts:list_item", "zola", "Umbrella for two", 0.4, env=env).result()

    page = eventually(lambda: mail_about(demo, "Not sold: Umbrella for two"))

    assert "It was not bought for 7 gold" in page
    assert "Sale ended" in demo.visitor().get(f"/items/{item}/").text
    late = demo.visitor("zhangsan").post(f"/items/{item}/buy/")
    assert (late.status, "Sale ended" in late.text) == (409, True)


def test_a_sale_whose_task_was_lost_is_ended_by_the_periodic_task(demo, list_item, children):
    item = list_item("Bottle without a letter")
    env = demo_environment(demo.directory)

    ended = children.call("tests.example.acts:lose_the_end_of", item, [30, 90], env=env).result()

    assert ended == [0, 1]
    assert "It was not bought" in eventually(lambda: mail_about(demo, "Not sold: Bottle without a letter"))


def test_the_market_has_periodic_tasks(demo):
    schedules = eventually(lambda: demo.raw().zrange("market:taskqueue:{default}:schedules", 0, -1))

    tasks = ("aggregate_access_log", "end_overdue_sales")
    assert sorted(schedules) == [f"example_project.market.tasks.{name} every 60 s".encode() for name in tasks]


def test_sellers_cannot_buy_their_own_items(demo, list_item):
    item = list_item("Mirror of the seller", seller="lisi")

    reply = demo.visitor("lisi").post(f"/items/{item}/buy/")

    assert reply.status == 409
    assert "You cannot buy your own item." in reply.text


def test_buying_needs_a_sign_in_a_post_and_an_item(demo, list_item):
    item = list_item("Bell without a clapper")
    visitor = demo.visitor()
    visitor.get("/login/")

    assert visitor.post(f"/items/{item}/buy/").headers["Location"] == f"/login/?next=/items/{item}/buy/"
    assert visitor.get(f"/items/{item}/buy/").status == 405
    assert demo.visitor("zhangsan").post("/items/999999/buy/").status == 404


def test_the_fourth_concurrent_label_is_rejected_with_retry_after(demo, list_item):
    item = list_item("Book of stairs", seller="orsted")
    seller = demo.visitor("orsted")

    replies: list[Reply] = run_together(4, lambda number: seller.get(f"/items/{item}/label/"))

    assert sorted(reply.status for reply in replies) == [200, 200, 200, 503]
    full = next(reply for reply in replies if reply.status == 503)
    assert "It prints 3 labels at a time." in full.text
    assert full.headers["Retry-After"] == "2"
    printed = next(reply for reply in replies if reply.status == 200)
    assert "BOOK OF STAIRS" in printed.text
    assert "from Hans Ørsted" in printed.text


def test_only_the_seller_can_print_a_label(demo, list_item):
    item = list_item("Key to nothing", seller="orsted")

    assert demo.visitor("zhangsan").get(f"/items/{item}/label/").status == 404


def test_a_letter_is_delivered_and_its_recipient_suggested_first(demo):
    writer = demo.visitor("kitano")
    writer.get("/write/")

    reply = writer.post("/write/", to="Łukasz Wiśniewski", text="The lantern is still here.")

    assert reply.status == 302
    assert "The lantern is still here." in eventually(lambda: mail_about(demo, "A letter from 北野 愛"))
    first = json.loads(writer.get(f"/redis/autocomplete/contacts/?term={quote('l')}").text)["results"][0]
    assert (first["text"], first["group"]) == ("Łukasz Wiśniewski", "recent")


def test_new_links_of_letters_are_reported_once(demo):
    anna = demo.visitor("zola")
    text = "See https://example.test/teapots. And https://example.test/teapots, too!"

    for _ in range(2):
        assert anna.post("/write/", to="zhangsan", text=text).status == 302

    def page_of_both_letters() -> str:
        page = mail_about(demo, "New links in a letter from Émile Zola")
        assert page.count("<h2>A letter from Émile Zola</h2>") == 2
        return page

    page = eventually(page_of_both_letters)
    assert page.count("<h2>New links in a letter from") == 1


def test_the_page_of_a_member_has_the_calendar_of_visits_and_the_top_sellers(demo, list_item):
    item = list_item("Kettle of ten voices")
    demo.visitor("zhangsan").post(f"/items/{item}/buy/")

    page = demo.visitor("zola").get("/mine/").text

    assert page.count("drc-day-on") == 1, "signed in today"
    assert "Top sellers of the month" in page
    assert re.search(r"<td>zola</td><td class=.number.>\d+</td>", page)


def test_a_letter_to_an_unknown_member_is_not_sent(demo):
    writer = demo.visitor("kitano")
    writer.get("/write/")

    reply = writer.post("/write/", to="Nobody at all", text="Hello?")

    assert reply.status == 200
    assert "“Nobody at all” was not found. Choose one of the suggestions." in reply.text


def test_the_address_book_requires_a_sign_in(demo):
    assert demo.visitor().get("/redis/autocomplete/contacts/?term=z").status == 403


def test_listing_an_item_schedules_the_end_of_its_sale(demo):
    seller = demo.visitor("ismail")
    seller.get("/items/new/")

    reply = seller.post("/items/new/", title="Carpet, slow", kind="boots", price=90, description="", lasts_s=86400)

    assert reply.status == 302
    page = seller.get(reply.headers["Location"]).text
    assert "Carpet, slow is on sale." in page
    assert "Carpet, slow" in seller.get("/").text
    assert "Carpet, slow" in seller.get("/mine/").text


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("price", "0", "greater than or equal to 1"),
        ("title", "", "This field is required"),
        ("lasts_s", "5", "Select a valid choice"),
    ],
)
def test_invalid_sales_are_rejected(demo, field, value, error):
    seller = demo.visitor("ismail")
    seller.get("/items/new/")
    sale = {"title": "Odd thing", "kind": "ring", "price": 5, "description": "", "lasts_s": 86400, field: value}

    reply = seller.post("/items/new/", **sale)

    assert reply.status == 200
    assert error in reply.text


def test_visitors_and_views_are_counted(demo):
    before = _seen(demo.visitor().get("/").text)
    demo.visitor("papadaki").get("/")

    after = eventually(lambda: _more(before, _seen(demo.visitor().get("/").text)))

    assert after[0] >= 1


def test_every_page_has_the_strict_content_security_policy(demo):
    for path in ("/", "/login/", "/mails/", "/nothing/"):
        assert demo.visitor().get(path).headers["Content-Security-Policy"].startswith("default-src 'self';")


@pytest.mark.parametrize("page", ["0", "-1", "x", "9" * 21, "9" * 5_000, "²", "٣"])
def test_the_mails_page_accepts_any_page_number(demo, page):
    assert demo.visitor().get(f"/mails/?page={quote(page)}").status == 200


def test_unexpected_parameters_cause_no_server_error(demo, list_item):
    item = list_item("Bottle without a genie")
    visitor = demo.visitor("zhangsan")
    answers = {}

    for value in HOSTILE:
        text = quote(value.encode("utf-8", "replace"), safe="")
        addresses = [
            f"{path}={text}"
            for path in (
                "/?page",
                "/?show",
                "/search/?q",
                "/search/?q=ring&kind",
                "/mails/?page",
                "/write/?to",
                "/login/?next",
            )
        ]
        addresses += [f"/items/{text}/", f"/redis/autocomplete/contacts/?term=a&page={text}"]
        addresses += [f"/redis/autocomplete/contacts/?term={text}", f"/redis/autocomplete/{text}/"]
        answers |= {address: visitor.get(address).status for address in addresses}
        for posted in (
            visitor.post("/write/", **{"to": value.encode(errors="replace"), "to-id": "1", "text": "x"}),
            visitor.post("/write/", **{"to": "Zola", "to-id": value.encode(errors="replace"), "text": "x"}),
            visitor.post("/items/new/", title="x", price=value.encode(errors="replace"), kind="x"),
            visitor.post(f"/items/{item}/label/", page=value.encode(errors="replace")),
            visitor.post("/rush/", way=value.encode(errors="replace")),
        ):
            answers[f"POST {text[:20]} {posted.text[:80]}"] = posted.status

    assert {address[:60]: status for address, status in answers.items() if status >= 500} == {}


def test_pages_render_without_numbers_and_buying_fails_while_redis_is_unavailable(demo, list_item, children):
    item = list_item("Sand for an hourglass")
    nowhere = demo_environment(demo.directory) | {"REDIS_URL": "redis://127.0.0.1:1/0"}

    pages = children.call("tests.example.acts:pages_without_redis", item, env=nowhere).result()

    assert {path: status for path, (status, _text) in pages.items()} == {
        "/": 200,
        f"/items/{item}/": 200,
        "/write/": 200,
        "/mails/": 200,
        "/chats/": 503,
        "/places/": 200,
        "/search/?q=ring": 503,
        "buy": 503,
    }
    assert "Redis is not available." in pages["buy"][1]
    assert "Redis is not available." in pages["/places/"][1]
    assert "Seen by" not in pages[f"/items/{item}/"][1]


def _seen(page: str) -> tuple[int, int]:
    """Visitors and views that the market page shows."""
    visitors = re.search(r"(\d+) visitors? today", page)
    views = re.search(r"this page was seen\s+(\d+)", page)
    assert visitors, page
    assert views, page
    return int(visitors[1]), int(views[1])


def _more(before: tuple[int, int], after: tuple[int, int]) -> tuple[int, int]:
    assert after[0] >= before[0]
    assert after[1] > before[1]
    return after


def test_items_are_found_by_their_words_kind_and_order(demo, list_item):
    visitor = demo.visitor()
    list_item("Gargoyle whistle")
    list_item("Whistle for gargoyles, loud")

    found = eventually(lambda: _titles(visitor.get("/search/?q=gargoyle").text))

    assert set(found) == {"Gargoyle whistle", "Whistle for gargoyles, loud"}
    assert _titles(visitor.get("/search/?q=gargoyle+-loud").text) == ["Gargoyle whistle"]
    assert _titles(visitor.get("/search/?q=gargoyle&order=new").text)[0] == "Whistle for gargoyles, loud"
    assert _titles(visitor.get("/search/?q=gargoyle&kind=blade").text) == []
    assert len(_titles(visitor.get("/search/?q=garg&kind=ring&part=1").text)) == 2
    assert _titles(visitor.get("/search/?q=the").text) == _titles(visitor.get("/search/").text) == []


def test_items_of_the_demo_are_shown_and_found_in_chinese(demo, list_item):
    visitor = demo.visitor()
    visitor.add_header("Accept-Language", "zh-CN")
    ring, own = list_item("Ring of small luck"), list_item("Sold")
    list_item("Lucky sickle")

    found = eventually(lambda: _titles(visitor.get(f"/search/?q={quote('镰刀')}").text))

    assert set(found) == {"幸运镰刀"}
    assert "<h1>小幸运戒指</h1>" in visitor.get(f"/items/{ring}/").text
    assert "<h1>Sold</h1>" in visitor.get(f"/items/{own}/").text
    assert "<h1>Ring of small luck</h1>" in demo.visitor().get(f"/items/{ring}/").text


def test_words_that_are_not_searched_are_named(demo):
    words = "+".join(f"w{number}" for number in range(18))

    assert "Not searched: w16, w17" in demo.visitor().get(f"/search/?q={words}").text


def _titles(page: str) -> list[str]:
    titles = re.findall(r'<h2><a href="/items/\d+/">(.*?)</a></h2>', page)
    return [re.sub(r"</?mark>", "", title) for title in titles]
