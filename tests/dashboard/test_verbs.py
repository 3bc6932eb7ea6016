"""What all changes share: READ_ONLY, tickets, chunks, the confirmation page."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import Client, RequestFactory

from django_redis_components.dashboard import verbs
from django_redis_components.dashboard.elements import TaskLine
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Check, Confirmation, NameCount, Ticket
from django_redis_components.locks import Lock
from django_redis_components.taskqueue import get_queue
from tests.dashboard.lock_pages import LOCKS, RELEASE
from tests.dashboard.queue_pages import verb_url
from tests.dashboard.support import HOSTILE, Page, text_of
from tests.support import Store

pytestmark = pytest.mark.django_db

RETRY, DELETE = Verb("retry", "retry_task", MODELS["task"]), Verb("delete", "delete_task", MODELS["task"])
SELECTION = {"queue": "mail", "until_ms": "1700000000000.5", "typed": "mail"}


def request_of(user: User, **form: str) -> HttpRequest:
    request = RequestFactory().post("/", form)
    request.user = user
    return request


def ticket(user: User, signer: User | None = None, verb: Verb = RETRY, **form: str) -> Ticket:
    signed = verbs.sign(request_of(signer or user), RETRY, SELECTION)
    return verbs.ticket_of(request_of(user, **{"ticket": signed, "typed": "mail", **form}), verb)


@pytest.fixture
def ada() -> User:
    return User.objects.create_superuser("ada")


def test_ticket_returns_the_selection_to_its_user(ada: User) -> None:
    found = ticket(ada)

    assert (found.selection, found.problem, found.is_confirmed) == (SELECTION, "", True)


def test_ticket_of_another_user_or_verb_or_a_forged_one_is_refused(ada: User) -> None:
    bob = User.objects.create_superuser("bob")

    for found in (ticket(bob, ada), ticket(ada, verb=DELETE), ticket(ada, ticket="e30:1:x"), ticket(ada, ticket="ü")):
        assert (found.selection, found.is_confirmed) == ({}, False)
        assert found.problem == "This confirmation is not valid. Nothing was changed."
    assert ticket(ada, ticket="") == Ticket()


def test_expired_ticket_and_wrong_name_must_be_confirmed_again(ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = ticket(ada, typed="mial")
    monkeypatch.setattr(verbs, "TICKET_S", -1)
    late = ticket(ada)

    assert wrong.problem == "The typed name does not match. Nothing was changed."
    assert late.problem.startswith("This confirmation was older than 10 minutes.")
    assert [(each.selection, each.is_confirmed) for each in (wrong, late)] == [(SELECTION, False)] * 2


def test_user_whose_text_raises_may_change(
    redis_server: Store, ada: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(user: User) -> str:
        raise RuntimeError("no profile")

    monkeypatch.setattr(User, "__str__", fail)
    client = Client()
    client.force_login(ada)

    with caplog.at_level(logging.WARNING, "django_redis_components.dashboard"):
        response = client.post(verb_url("pause"), {"reason": "", "minutes": ""})

    assert response.status_code == 302
    assert get_queue("default").info().paused is not None
    assert "Pause queue 'default' by ada: done" in caplog.text


def test_chunks_stop_when_the_time_is_up() -> None:
    left = [3]

    def step() -> tuple[int, bool]:
        left[0] -= 1
        return 500, left[0] > 0

    assert verbs.in_chunks(step) == (1_500, False)
    assert verbs.in_chunks(step, budget_s=0) == (0, True)


@pytest.mark.parametrize("text", HOSTILE)
def test_confirmation_shows_everything_escaped(text: str, ada: User) -> None:
    request = request_of(ada)
    task = TaskLine(text, text, "/task/", text, "3 s")
    confirmation = Confirmation(
        title=text,
        button=text,
        back="/back/",
        question=text,
        facts=[(text, text)],
        counts=[NameCount(text, "7", text)],
        total_label=text,
        total="7",
        checks=[Check(text), Check(text, "caution")],
        sample=[task],
        sample_note=text,
        fields={"ticket": text},
        typed=(text, text),
        gentler=[(text, "/gentler/")],
    )
    page_request = PageRequest(request, admin.site.get_model_admin(MODELS["overview"]))

    response = verbs.confirm(page_request, confirmation, problem=text).render()
    plain = verbs.confirm(page_request, Confirmation(title="t", button="b", back="/back/")).render()

    assert response.status_code == 409
    page, clean = Page(response.content.decode()), Page(plain.content.decode())
    for tag in ("b", "script", "img"):
        assert len(page.all(tag)) == len(clean.all(tag)), tag
    assert not any(word.startswith("on") for _, attributes in page.tags for word in attributes)
    assert {"type": "hidden", "name": "ticket", "value": text} in page.all("input")


def test_read_only_refuses_every_change(redis_server: Store, settings: Any, ada: User) -> None:
    held = Lock("a")
    held.acquire()
    client = Client()
    client.force_login(ada)
    asked = {"kind": "lock", "name": "a", "token": held.token}
    assert "Release…" in text_of(client.get(LOCKS).content.decode())
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"READ_ONLY": True}}

    shown = text_of(client.get(LOCKS).content.decode())

    assert "Release…" not in shown
    assert "a lock" in shown
    assert [client.get(RELEASE, asked).status_code, client.post(RELEASE, asked).status_code] == [403, 403]
    assert held.owned()
