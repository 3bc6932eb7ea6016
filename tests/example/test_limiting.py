"""What the market limits: guessing of passwords, and questions of the autocomplete widget."""

from __future__ import annotations

import re

import pytest
from django.test import RequestFactory

from example_project.market import limiting
from tests.support import Store
from tests.support.demo import PASSWORD, Demo


def test_guessing_passwords_is_limited_with_retry_after(demo: Demo) -> None:
    guesser = demo.visitor()
    guesser.get("/login/")

    replies = [guesser.post("/login/", username="Nobody", password=f"guess {n}") for n in range(6)]

    assert [reply.status for reply in replies] == [200] * 5 + [429]
    denied = replies[-1]
    assert 1 <= int(denied.headers["Retry-After"]) <= 12
    assert "Too many sign-in attempts" in denied.text
    assert re.search(r"Try again in \d+ seconds?\.", denied.text)
    assert guesser.post("/login/", username=" nobody", password="once more").status == 429
    assert guesser.get("/login/").status == 200


def test_successful_sign_ins_are_not_counted(demo: Demo) -> None:
    for _ in range(6):
        member = demo.visitor()
        member.get("/login/")
        assert member.post("/login/", username="kitano", password=PASSWORD).status == 302


def test_an_address_trying_many_names_is_limited(redis_server: Store) -> None:
    request = RequestFactory(REMOTE_ADDR="192.0.2.7").post("/login/")
    elsewhere = RequestFactory(REMOTE_ADDR="192.0.2.8").post("/login/")

    answers = [bool(limiting.attempt(request, f"name {n}")) for n in range(31)]

    assert answers == [True] * 30 + [False]
    assert limiting.attempt(elsewhere, "name 30")


@pytest.mark.parametrize("spelling", [" ada ", "ADA", "ａｄａ", "𝐚𝐝𝐚", "adª"])
def test_spellings_of_a_name_that_sign_in_share_a_limit(redis_server: Store, spelling: str) -> None:
    for number in range(5):
        assert limiting.attempt(RequestFactory().get("/", REMOTE_ADDR=f"203.0.113.{number}"), "ada")

    assert not limiting.attempt(RequestFactory().get("/", REMOTE_ADDR="203.0.113.9"), spelling)


def test_a_denied_attempt_is_not_counted(redis_server: Store) -> None:
    request = RequestFactory(REMOTE_ADDR="192.0.2.7").post("/login/")
    for _ in range(5):
        limiting.attempt(request, "ada")
    before = limiting.BY_ADDRESS.peek("ip:192.0.2.7").remaining

    assert not limiting.attempt(request, "ada")

    assert limiting.BY_ADDRESS.peek("ip:192.0.2.7").remaining == before


def test_suggestions_are_limited(demo: Demo) -> None:
    typist = demo.visitor("ismail")

    replies = []
    while not replies or (replies[-1].status == 200 and len(replies) < 400):
        replies.append(typist.get("/redis/autocomplete/contacts/?term=z"))

    denied = replies[-1]
    assert (denied.status, denied.headers["Content-Type"]) == (429, "application/json")
    assert len(replies) > 20
    assert int(denied.headers["Retry-After"]) == 1
    assert '"300/m";q=300;w=60' in denied.headers["RateLimit-Policy"]


def test_searches_are_limited(demo: Demo) -> None:
    typist = demo.visitor("ismail")

    replies = []
    while not replies or (replies[-1].status == 200 and len(replies) < 400):
        replies.append(typist.get("/search/?q=ring&part=1"))

    denied = replies[-1]
    assert (denied.status, len(replies) > 20, int(denied.headers["Retry-After"])) == (429, True, 1)
    assert "Too many searches. Go on in a moment." in denied.text
