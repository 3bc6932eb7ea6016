"""The panel of chats."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from django_redis_components.dashboard.panels.messaging import MAX_CHATS
from django_redis_components.messaging import Chat, Retention
from tests.dashboard.support import text_of
from tests.dashboard.test_lock_page import browser
from tests.support import Store

pytestmark = pytest.mark.django_db

MESSAGING = "/admin/django_redis_components/messaging/"


@pytest.fixture
def viewer() -> Client:
    return browser("view_messaging")


def chats_of(client: Client) -> dict[str, Any]:
    panels = client.get(MESSAGING, {"format": "json"}).json()["panels"]
    assert panels["chats"] is not None, client.get(MESSAGING, {"format": "json"}).json()["errors"]
    return {row["id"]: row for row in panels["chats"]}


@pytest.mark.contract
def test_chats_show_members_lag_and_memory(store: Store, viewer: Client) -> None:
    chat = Chat.create("a", ["<late>"], 1, "<room>", retention=Retention(keep_last=0, keep_for=0))
    for number in range(2, 6):
        chat.send("a", number)
    chat.ack("a", 5)
    chat.ack("<late>", 2)
    Chat.create("a", [], 1, "deleted").delete()

    rows = chats_of(viewer)

    assert rows["<room>"].pop("bytes") > 100
    assert rows == {
        "<room>": {"id": "<room>", "members": 2, "sent": 5, "stored": 3, "lag": 3, "behind": "<late>"},
    }
    page = viewer.get(MESSAGING).content.decode()
    assert " 2 5 3 3 " in text_of(page)
    assert "&lt;late&gt;" in page
    assert "<late>" not in page


def test_only_the_newest_chats_are_read(redis_server: Store, viewer: Client) -> None:
    assert chats_of(viewer) == {}
    for number in range(MAX_CHATS + 1):
        Chat.create("a", [], 1, f"room {number}")

    assert len(chats_of(viewer)) == MAX_CHATS
    assert "There are no chats." not in text_of(viewer.get(MESSAGING).content.decode())
