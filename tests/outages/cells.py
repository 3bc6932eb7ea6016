"""One function for each row of the table in docs/guides/when-redis-is-away.md.

It prepares the component while Redis is well, and returns what is done during the outage. That returns the outcome, or
raises.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client, TestCase
from django.utils import timezone
from redis.exceptions import RedisError

from django_redis_components.analytics import UniqueVisitors
from django_redis_components.analytics.rendering import read_calendar
from django_redis_components.autocomplete import AutocompleteField, ModelIndex, PrefixIndex
from django_redis_components.autocomplete import register as register_index
from django_redis_components.bloom import BloomFilter
from django_redis_components.expiry import cached
from django_redis_components.files import FileChannel
from django_redis_components.geoip import IpLookup, IpRange, Place, country_of
from django_redis_components.locks import Lock
from django_redis_components.messaging import Chat, unread_counts
from django_redis_components.ratelimits import RateLimit
from django_redis_components.search import ModelSearch, SearchIndex
from django_redis_components.search import register as register_search
from django_redis_components.semaphores import Semaphore
from django_redis_components.taskqueue import outbox, task
from django_redis_components.transactions import Pipe, atomic_update

Act = Callable[[], object]

#: For `healthz/`.
TOKEN = "health-token-0123456789"


#: The outcome of a call that raises.
RAISES = "raises"


def attempt(act: Act) -> object:
    """Return what a call returns, or `RAISES`."""
    try:
        return act()
    except RedisError:
        return RAISES


@task
def nothing() -> None:
    """Nothing."""


def open_limit() -> Act:
    limit = RateLimit("open", "2/m")
    return lambda: [limit.hit("ada").is_allowed for _ in range(4)]


def closed_limit() -> Act:
    limit = RateLimit("closed", "2/m", on_error="closed")
    return lambda: [limit.hit("ada").is_allowed for _ in range(2)]


def page_views() -> Act:
    return lambda: Client().get("/page/").status_code


def sign_in() -> Act:
    User.objects.create(username=(name := secrets.token_hex(4)))
    return lambda: Client().get("/enter/", {"name": name}).status_code


def calendar() -> Act:
    return lambda: "omitted" if read_calendar(7, "default", None, None) is None else "shown"


def counters() -> Act:
    UniqueVisitors("outage").add(1)
    visitors, today = UniqueVisitors("outage"), timezone.localdate()
    return lambda: [attempt(lambda: visitors.count(today)), attempt(lambda: visitors.add(2))]


def countries() -> Act:
    IpLookup(source="ranges").rebuild([IpRange("8.8.8.0", "8.8.8.255", Place("US"))])
    assert country_of("8.8.8.8") == "US"
    return lambda: country_of("8.8.8.8")


def suggestions() -> Act:
    PrefixIndex("contacts").add(1, "Anna")
    register_index("contacts", permission=lambda request, scope: True)

    def act() -> object:
        response = Client().get("/redis/autocomplete/contacts/", {"term": "an"})
        return response.status_code if response.status_code == 200 else (response.status_code, response["Retry-After"])

    return act


def form_field() -> Act:
    PrefixIndex("contacts").add(1, "Anna")
    register_index("contacts", permission=lambda request, scope: True)

    def act() -> str:
        try:
            return AutocompleteField("contacts").clean("Anna").text
        except ValidationError as exc:
            return exc.messages[0]

    return act


def search() -> Act:
    index = SearchIndex("outage", fields={"title": 1})
    index.add("1", {"title": "a red cup"})
    return lambda: index.search("cup").paginator.count


def indexed_object() -> Act:
    class Members(ModelIndex):
        model = User
        text = "username"

    register_index(Members)
    name = secrets.token_hex(4)

    def act() -> str:
        with TestCase.captureOnCommitCallbacks(execute=True):
            User.objects.create(username=name)
        return "saved" if User.objects.filter(username=name).exists() else "lost"

    return act


def searched_object() -> Act:
    class People(ModelSearch):
        model = User
        fields = {"username": 1}

    people = register_search(People)
    people.index.add("0", {"username": "cup"})
    name = secrets.token_hex(4)

    def act() -> object:
        with TestCase.captureOnCommitCallbacks(execute=True):
            User.objects.create(username=name)
        is_saved = User.objects.filter(username=name).exists()
        return ["saved" if is_saved else "lost", attempt(lambda: people.search("cup").paginator.count)]

    return act


def unread_view() -> Act:
    client, user = _member()
    Chat.create("other", [user.pk], "hi", chat_id="room")
    return lambda: client.get("/redis/chats/unread/").status_code


def unread() -> Act:
    Chat.create("other", ["nora"], "hi", chat_id="room")
    return lambda: unread_counts("nora")


def read_messages() -> Act:
    client, user = _member()
    Chat.create("other", [user.pk], "hi", chat_id="room")
    return lambda: client.get("/redis/chats/room/messages/").status_code


def send_message() -> Act:
    client, user = _member()
    Chat.create("other", [user.pk], "hi", chat_id="room")
    body = json.dumps({"body": "hello"})
    return lambda: client.post("/redis/chats/room/messages/", body, content_type="application/json").status_code


def chat() -> Act:
    Chat.create("other", ["nora"], "hi", chat_id="room")
    room = Chat("room")
    return lambda: [attempt(lambda: room.unread("nora")), attempt(lambda: room.send("nora", "hello"))]


def cached_value() -> Act:
    @cached("value", 60)
    def value() -> int:
        return 7

    return value


def cached_or_error() -> Act:
    @cached("value", 60, on_error="raise")
    def value() -> int:
        return 7

    return value


def lock() -> Act:
    return lambda: Lock("outage").acquire(blocking=False)


def semaphore() -> Act:
    return lambda: Semaphore("outage", 2).acquire(blocking=False)


def enqueue() -> Act:
    return lambda: nothing.enqueue().id


class Rows:
    """The storage of an outbox, in this process."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def add(self, rows: Sequence[outbox.OutboxRow], using: str, database: str) -> None:
        self.tokens += [row.token for row in rows]


def stored_task() -> Act:
    storage = Rows()

    def act() -> int:
        outbox.install(storage)
        try:
            with TestCase.captureOnCommitCallbacks(execute=True):
                nothing.using(outbox=True).enqueue_on_commit()
        finally:
            outbox.install(None)
        return len(storage.tokens)

    return act


def transaction() -> Act:
    def change(pipe: Pipe) -> None:
        pipe.multi()
        pipe.set("outage", 1)

    return lambda: atomic_update(change, "outage", timeout=0.2)


def bloom() -> Act:
    known = BloomFilter("outage", capacity=100)
    known.add("a")
    return lambda: [attempt(lambda: known.contains("a")), attempt(lambda: known.add("b"))]


def publish(directory: Path) -> Act:
    (file := directory / "file").write_bytes(b"text")
    return lambda: FileChannel("outage", ["print"]).publish(file, timeout=0)


def dashboard() -> Act:
    client, _ = _member(is_superuser=True)
    return lambda: client.get("/admin/django_redis_components/overview/").status_code


def healthz() -> Act:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return lambda: Client().get("/redis/healthz/", headers=headers).status_code


def _member(**fields: bool) -> tuple[Client, User]:
    user = User.objects.create_user(secrets.token_hex(4), is_staff=True, **fields)
    client = Client()
    client.force_login(user)
    return client, user
