"""The chats of sales as members see them without JavaScript: a running demo, requested over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from tests.support import eventually
from tests.support.demo import Demo, Reply, Visitor, demo_environment
from tests.support.processes import Children

SELLER, BUYER, STRANGER = "garcia", "oconnor", "petrova"

#: Bodies that the JSON view accepts and the market never sends.
ODD_BODIES = [
    None,
    7,
    "plain",
    [1, 2],
    {},
    {"text": None},
    {"text": {"a": 1}},
    {"event": ["sold"]},
    {"event": "added"},
    {"event": "added", "member": "9" * 30},
    {"event": "added", "member": "٣"},
    {"text": "100 % %(sender)s <script>alert(1)</script>"},
]


@pytest.fixture
def sell(demo: Demo) -> Callable[[str], int]:
    """Returns a function that lists an item and buys it; returns the item's id."""

    def sold(title: str) -> int:
        listed = demo.visitor(SELLER).post(
            "/items/new/", title=title, price=7, kind="ring", description="", lasts_s=3600
        )
        pk = int(listed.headers["Location"].strip("/").rpartition("/")[2])
        assert demo.visitor(BUYER).post(f"/items/{pk}/buy/").status == 302
        return pk

    return sold


def unread(visitor: Visitor) -> int:
    """Return the number in the navigation."""
    found = re.search(r'<span id="unread"[^>]*><span>(\d+)</span>', visitor.get("/search/").text)
    assert found
    return int(found[1])


def lines(reply: Reply) -> list[str]:
    """Return the texts of the messages and events on the page of a chat."""
    assert reply.status == 200, reply.text
    log = reply.text.partition('<div id="log">')[2].partition("</section>")[0]
    return re.findall(r'class="said">(.*?)</', log, re.DOTALL)


def write(visitor: Visitor, pk: int, text: str, key: str = "k") -> Reply:
    return visitor.post(f"/chats/{pk}/", text=text, key=key)


def test_a_sale_opens_a_chat_of_seller_and_buyer_that_is_unread_for_the_seller(demo, sell):
    seller, buyer = demo.visitor(SELLER), demo.visitor(BUYER)
    before = unread(seller), unread(buyer)

    pk = sell("Lamp of the chatty")

    eventually(lambda: (unread(seller), unread(buyer)) == (before[0] + 1, before[1]))
    assert f"/chats/{pk}/" in buyer.get(f"/items/{pk}/").text
    assert f"/chats/{pk}/" not in demo.visitor(STRANGER).get(f"/items/{pk}/").text
    page = seller.get(f"/chats/{pk}/")
    assert lines(page) == ["Siobhán O&#x27;Connor bought this item."]
    assert "María García Núñez, Siobhán O&#x27;Connor" in page.text
    assert unread(seller) == before[0]


def test_a_message_is_unread_until_its_receiver_opens_the_chat(demo, sell):
    pk = sell("Lamp of the unread")
    seller, buyer = demo.visitor(SELLER), demo.visitor(BUYER)
    seller.get(f"/chats/{pk}/")
    before = unread(seller)

    reply = write(buyer, pk, "Is the wick included?")

    assert (reply.status, reply.headers["Location"]) == (302, f"/chats/{pk}/")
    eventually(lambda: unread(seller) == before + 1)
    first = seller.get("/chats/").text.partition('<li class="chat')[2].partition("</li>")[0]
    assert "Lamp of the unread" in first, "the chat with the latest message is the first one"
    assert "Siobhán O&#x27;Connor: Is the wick included?" in first
    assert lines(seller.get(f"/chats/{pk}/"))[1:] == ["Is the wick included?"]
    assert unread(seller) == before


def test_a_form_that_is_sent_twice_is_one_message_and_a_changed_text_another(demo, sell):
    pk = sell("Lamp of the impatient")
    buyer = demo.visitor(BUYER)

    for text in ("Twice", "Twice", "Changed after the Back button"):
        write(buyer, pk, text, key="the same form")

    assert lines(buyer.get(f"/chats/{pk}/"))[1:] == ["Twice", "Changed after the Back button"]


@pytest.mark.parametrize("text", ["", "   ", "x" * 2001])
def test_an_invalid_message_is_shown_with_its_error(demo, sell, text):
    pk = sell("Lamp of the silent")
    buyer = demo.visitor(BUYER)

    reply = write(buyer, pk, text)

    assert reply.status == 200
    assert "errorlist" in reply.text
    assert len(lines(buyer.get(f"/chats/{pk}/"))) == 1


def test_bodies_of_any_shape_are_rendered_as_text(demo: Demo, sell: Callable[[str], int], children: Children) -> None:
    pk = sell("Lamp of the odd")
    env = demo_environment(demo.directory)

    children.call("tests.example.acts:send_to_chat", pk, BUYER, ODD_BODIES, env=env).result()

    seller = demo.visitor(SELLER)
    assert seller.get("/chats/").status == 200
    shown = lines(seller.get(f"/chats/{pk}/"))
    assert len(shown) == 1 + len(ODD_BODIES)
    assert shown[-1] == "100 % %(sender)s &lt;script&gt;alert(1)&lt;/script&gt;"
    assert "Siobhán O&#x27;Connor added A former member." in shown


@pytest.mark.parametrize(
    "body", [*ODD_BODIES[:-1], {"event": "sold"}, {"text": "", "event": "left"}, {"text": "x" * 2001}]
)
def test_the_json_view_accepts_no_events_and_no_odd_bodies(
    demo: Demo, sell: Callable[[str], int], body: object
) -> None:
    pk = sell("Lamp of the forger")
    buyer = demo.visitor(BUYER)
    path = f"/redis/chats/sale-{pk}/messages/"

    refused = buyer.post_json(path, {"body": body})
    sent = buyer.post_json(path, {"body": {"text": "A message"}, "key": "k"})

    assert (refused.status, json.loads(refused.text)) == (400, {"error": "Only texts can be sent."})
    assert sent.status == 201
    assert lines(buyer.get(f"/chats/{pk}/"))[1:] == ["A message"]


def test_strangers_get_a_404(demo, sell):
    pk = sell("Lamp of the private")
    stranger, anonymous = demo.visitor(STRANGER), demo.visitor()
    anonymous.get("/login/")

    replies = [
        stranger.get(f"/chats/{pk}/"),
        stranger.get(f"/chats/{pk}/members/"),
        stranger.get("/chats/999999/"),
        write(stranger, pk, "Hello?"),
        stranger.post(f"/chats/{pk}/members/", member="Анна Петрова"),
        stranger.post(f"/chats/{pk}/leave/"),
    ]

    assert [reply.status for reply in replies] == [404] * 6
    assert "Lamp of the private" not in stranger.get("/chats/").text
    assert anonymous.get(f"/chats/{pk}/").headers["Location"] == f"/login/?next=/chats/{pk}/"
    assert 'id="unread"' not in anonymous.get("/").text


def test_an_added_member_reads_what_was_written_before(demo, sell):
    pk = sell("Lamp of the many")
    buyer, third = demo.visitor(BUYER), demo.visitor(STRANGER)
    write(buyer, pk, "Who can fetch it?")
    before = unread(third)

    replies = [buyer.post(f"/chats/{pk}/members/", member=name) for name in ("Анна Петрова", "Анна Петрова", "Nobody")]

    assert [reply.status for reply in replies] == [302] * 3
    assert unread(third) == before + 1
    event = "Siobhán O&#x27;Connor added Анна Петрова."
    assert lines(third.get(f"/chats/{pk}/"))[1:] == ["Who can fetch it?", event]
    assert "Анна Петрова" in json.loads(buyer.get(f"/chats/{pk}/members/").text).values()
    notes = buyer.get(f"/chats/{pk}/").text
    assert "Анна Петрова is a member already." in notes
    assert "“Nobody” was not found. Choose one of the suggestions." in notes


def test_the_last_member_who_leaves_deletes_the_chat(demo, sell):
    pk = sell("Lamp of the parting")
    seller, buyer = demo.visitor(SELLER), demo.visitor(BUYER)

    assert buyer.post(f"/chats/{pk}/leave/").headers["Location"] == "/chats/"

    assert buyer.get(f"/chats/{pk}/").status == 404
    assert f"/chats/{pk}/" not in buyer.get(f"/items/{pk}/").text
    assert lines(seller.get(f"/chats/{pk}/"))[-1] == "Siobhán O&#x27;Connor left the chat."
    seller.post(f"/chats/{pk}/leave/")
    assert demo.raw().exists(f"market:messaging:{{sale-{pk}}}:chat:meta") == 0


def test_the_task_creates_a_chat_that_was_not_created_on_commit(demo, sell, children):
    pk = sell("Lamp of the crash")

    before, after = children.call(
        "tests.example.acts:chat_members_after_the_task", pk, env=demo_environment(demo.directory)
    ).result()

    assert (before, len(after)) == ([], 2)
    assert lines(demo.visitor(SELLER).get(f"/chats/{pk}/")) == ["Siobhán O&#x27;Connor bought this item."]


def test_deleting_an_item_deletes_its_chat(demo, sell, children):
    pk = sell("Lamp of the past")
    seller = demo.visitor(SELLER)
    before = unread(seller)

    children.call("tests.example.acts:delete_item", pk, env=demo_environment(demo.directory)).result()

    assert unread(seller) == before - 1
    assert seller.get(f"/chats/{pk}/").status == 404


def test_deleting_a_member_deletes_their_messages(demo, sell, children):
    pk = sell("Lamp of the forgotten")

    children.call("tests.example.acts:delete_member_of_chat", pk, BUYER, env=demo_environment(demo.directory)).result()

    page = demo.visitor(SELLER).get(f"/chats/{pk}/")
    assert lines(page)[1:] == ["Siobhán O&#x27;Connor added A former member."]
    assert "Shortlived" not in page.text
