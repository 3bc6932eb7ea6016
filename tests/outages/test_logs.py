"""What requests write to the log while Redis is away: one line a minute, and nothing that Django mails to ADMINS."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpResponse
from django.template import engines
from django.test import AsyncClient, Client, RequestFactory

from django_redis_components.autocomplete import register, registry
from tests.outages.cells import TOKEN

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.outages.urls")]

#: Requests of each kind.
TIMES = 5
MESSAGES = "/redis/chats/room/messages/"
MESSAGE = json.dumps({"body": "hello"})
SEND = {"data": MESSAGE, "content_type": "application/json"}
DASHBOARD = "/admin/django_redis_components/overview/"
HEALTH = {"headers": {"Authorization": f"Bearer {TOKEN}"}}
#: Requests by method, path and options; the async pages are below "/async/".
REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "suggestions": ("get", "/redis/autocomplete/contacts/?term=an", {}),
    "unread": ("get", "/redis/chats/unread/", {}),
    "messages": ("get", MESSAGES, {}),
    "send": ("post", MESSAGES, SEND),
    "ack": ("post", "/redis/chats/room/ack/", {"data": '{"id": 1}', "content_type": "application/json"}),
    "dashboard": ("get", DASHBOARD, {}),
    "dashboard, JSON": ("get", f"{DASHBOARD}?format=json", {}),
    "healthz": ("get", "/redis/healthz/", HEALTH),
}
#: The same pages, async.
ASYNC = ("suggestions", "unread", "messages", "send", "ack")


@pytest.fixture
def site(settings: Any) -> Any:
    """A site whose server is away; a user is signed in."""
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"MONITORING": {"TOKEN": TOKEN}}
    register("contacts", permission=lambda request, scope: True)
    yield settings
    registry.unregister("contacts")


def lines(caplog: pytest.LogCaptureFixture) -> dict[str, int]:
    """Return the number of lines of each logger, from warnings on. Each component that is used has its line."""
    return Counter(record.name for record in caplog.records if record.levelno >= 30)


def signed_in(client: Any) -> Any:
    client.force_login(User.objects.create_superuser("ada"))
    return client


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_write_one_line_and_send_no_mail(name: str, site: Any, caplog: pytest.LogCaptureFixture) -> None:
    method, path, options = REQUESTS[name]
    client = signed_in(Client())
    caplog.clear()

    found = [getattr(client, method)(path, **options).status_code for _ in range(TIMES)]

    assert found == [503] * TIMES
    assert set(lines(caplog).values()) == {1}
    assert "django.request" not in lines(caplog)


@pytest.mark.parametrize("name", ASYNC)
def test_async_requests_write_one_line_and_send_no_mail(name: str, site: Any, caplog: pytest.LogCaptureFixture) -> None:
    method, path, options = REQUESTS[name]
    client = signed_in(AsyncClient())
    caplog.clear()

    async def ask() -> list[int]:
        asked = [await getattr(client, method)(f"/async{path}", **options) for _ in range(TIMES)]
        return [each.status_code for each in asked]

    assert async_to_sync(ask)() == [503] * TIMES
    assert set(lines(caplog).values()) == {1}
    assert "django.request" not in lines(caplog)


def test_new_event_streams_write_one_line(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    client = signed_in(AsyncClient())
    caplog.clear()

    async def ask() -> list[HttpResponse]:
        return [await client.get("/redis/chats/room/events/") for _ in range(TIMES)]

    assert [each.status_code for each in async_to_sync(ask)()] == [200] * TIMES
    assert set(lines(caplog).values()) == {1}


@pytest.mark.parametrize("tag", ["sign_in_calendar 7", "page_views", "page_visitors"])
def test_template_tags_write_one_line(tag: str, site: Any, caplog: pytest.LogCaptureFixture) -> None:
    template = engines["django"].from_string(f"{{% load redis_components %}}{{% {tag} %}}")
    request = RequestFactory().get("/")
    request.user = AnonymousUser()

    for _ in range(TIMES):
        template.render({}, request)

    assert sum(lines(caplog).values()) == 1


def test_invalid_settings_write_one_line(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    client = signed_in(Client())
    caplog.clear()
    site.REDIS_COMPONENTS = {"CONNECTION": {}}

    found = [client.get("/redis/chats/unread/").status_code for _ in range(TIMES)]

    assert found == [503] * TIMES
    assert sum(lines(caplog).values()) == 1
