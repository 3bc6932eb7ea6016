"""Every page and message in Chinese: no text is left in English, except for what is marked as English."""

from __future__ import annotations

import re
import socket
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.test import Client

from django_redis_components.dashboard.task_search.query import STATE_WORDS
from django_redis_components.dashboard.task_search.suggestions import TIMES
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.options import DeclaredOptions
from tests.dashboard.action_pages import ACTIONS, write_entries
from tests.dashboard.catalogue import CATALOGUE, PLACEHOLDER, entries
from tests.dashboard.urls_of_pages import ADMIN, confirmations, fill, pages
from tests.support import Store

pytestmark = pytest.mark.django_db

#: Attributes that a user reads or hears.
ATTRIBUTES = re.compile(r"title|aria-label|placeholder|alt|data-l|data-text-.*")
#: Elements whose content is code, the label of a key, or is not shown.
CODE = {"script", "style", "code", "kbd", "pre"}
#: Any element with ``lang="en"``; its content is not checked.
ENGLISH = "(English)"
#: Elements without an end tag.
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
WORD = re.compile(r"[A-Za-z][\w.]*[A-Za-z]")
#: Data with a form: texts of errors, paths of modules, ids, fingerprints, sizes.
DATA = re.compile(
    r"out of order|no stock|\btests\.[\w.]+|(?<![\w-])[\w-]{20}(?![\w-])|\b[0-9a-f]{32}\b|\b[\d.]+\s[KMG]B\b"
)
#: Names that `fill` writes, and those of the site and the server.
NAMES = {
    *("mail", "default", "add", "note", "fails", "what", "stock", "api", "app", "hourly", "here", "abc", "ada", "root"),
    *("repair", "later", "LookupError", "order_id"),
    *("Django", "Valkey", "noeviction", "gcra", "MainThread", "Europe", "Berlin", "FR", "mon", "fri", "runworker"),
    *re.split(r"\W", socket.gethostname()),
}
#: Identifiers that only one page shows.
IDENTIFIERS = {"tasksearch": {*STATE_WORDS, *TIMES}, "taskclass": {*DeclaredOptions.__annotations__, "None"}}
#: Choices on pages that the examples of `urls_of_pages` do not make.
CHOICES = (
    "analytics/?period=month&compare=year",
    "analytics/?source=device:mobile&compare=none",
    "queues/mail/?state=successful",
    "tasksearch/?q=no+stock",
    "taskflow/",
    "overview/?range=90d",
)


class Texts(HTMLParser):
    """Collects the texts of a page that a user reads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self._open.append(ENGLISH if ("lang", "en") in attrs else tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if ("lang", "en") not in attrs:
            self.found += [value for name, value in attrs if ATTRIBUTES.fullmatch(name) and value]

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() not in (tag, ENGLISH):
            pass

    def handle_data(self, data: str) -> None:
        if not {*CODE, ENGLISH}.intersection(self._open):
            self.found.append(data.strip())


def terms() -> set[str]:
    """Return the words in Latin letters that translations use: names of products, settings and commands."""
    texts = (text for translations in entries(CATALOGUE).values() for text in translations)
    return {word for text in texts for word in WORD.findall(PLACEHOLDER.sub(" ", text))}


@pytest.fixture
def client(settings: Any) -> Client:
    settings.LANGUAGE_CODE = "zh-hans"
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def english(content: bytes, allowed: set[str]) -> dict[str, str]:
    """Return the English words of a page, apart from the allowed ones, with their texts."""
    texts = Texts()
    texts.feed(content.decode())
    return {word: text for text in texts.found for word in {*WORD.findall(DATA.sub(" ", text))} - allowed}


def allowed_words() -> set[str]:
    queues = {task.options.queue_name for task in registry.all_tasks()}  # other tests of this process register tasks
    return terms() | NAMES | queues


def test_no_page_has_text_in_english(redis_server: Store, client: Client) -> None:
    known, allowed = fill(redis_server), allowed_words()
    words: dict[str, tuple[str, str]] = {}

    for address in [*pages(known), *confirmations(known), *(ADMIN + each for each in CHOICES)]:
        identifiers = next((found for page, found in IDENTIFIERS.items() if f"/{page}/" in address), set())
        for word, text in english(client.get(address).content, allowed | identifiers).items():
            words.setdefault(word, (text, address))

    assert words == {}


def test_entries_of_the_log_are_marked_as_english(redis_server: Store, client: Client) -> None:
    write_entries(2, message="Purge queue 'mail': 2 tasks purged, trash 0123456789abcdef.")

    content = client.get(ACTIONS).content

    assert english(content, allowed_words()) == {}
    assert content.decode().count('<bdi lang="en" title="Purge queue') == 2


@pytest.mark.parametrize(
    ("address", "status", "reason"),
    [
        ("queues/mial/", 404, "队列“mial”至少一天没有任务，此进程也没有任务会进入该队列。"),
        ("task/nothing/", 404, "没有此 ID 的任务"),
        ("task/_verb/cancel/nothing/", 404, "没有此 ID 的任务"),
        ("taskflow/nothing/", 404, "没有此 ID 的流程，或者它已过期。"),
        ("schedule/edit/?name=nothing", 404, "运行时没有添加过此名称的周期计划。"),
        ("ratelimit/reset/?limit=nothing&key=ada", 404, "站点没有使用过此限流。"),
        ("queues/%7Bmail%7D/", 404, '<bdi lang="en">'),
        ("overview/?sort=nothing", 400, "sort=&#x27;nothing&#x27;：应为以下之一："),
        ("overview/?format=nothing", 400, "format=&#x27;nothing&#x27;：应为以下之一："),
        ("analytics/?start=yesterday", 400, "start=&#x27;yesterday&#x27;：日期应为 YYYY-MM-DD 格式。"),
        ("queues/mail/?state=failed&begin=noon", 400, "begin=&#x27;noon&#x27;：应为时间，例如 2026-11-23 11:20。"),
        ("failure/retry_error/", 400, "必填参数：group。"),
        ("worker/stop/", 400, "必填参数：id，最多"),
        ("lock/release/", 400, "必填参数：using, kind, name"),
        ("queues/_verb/restore/mail/", 400, "必填参数：trash。"),
        ("queues/_verb/retry/mail/?state=ready", 400, "state=ready：此状态的任务不能这样更改。"),
        ("schedule/run/?name=%7B", 400, '<bdi lang="en">'),
    ],
)
def test_errors_are_pages_of_the_admin_in_chinese(
    address: str, status: int, reason: str, redis_server: Store, client: Client
) -> None:
    response = client.get(ADMIN + address)
    content = response.content.decode()

    assert response.status_code == status
    assert '<html lang="zh-hans"' in content
    assert "<title>" in content
    assert 'class="drc-tabs"' in content
    assert reason in content
    if status == 400:  # names and values of parameters are those of the URL
        content = re.sub(r'<p class="drc-empty">.*?</p>', "", content)
    assert english(content.encode(), allowed_words() | {"mial", "nothing"}) == {}


def test_invalid_requests_of_programs_are_answered_in_plain_text(redis_server: Store, client: Client) -> None:
    for wanted in ("fragment", "json"):
        response = client.get(f"{ADMIN}overview/", {"format": wanted, "sort": "nothing"})

        assert (response.status_code, response["Content-Type"]) == (400, "text/plain")
        assert response.content.startswith(b"sort='nothing': expected one of")


def test_messages_after_changes_are_in_chinese(redis_server: Store, client: Client) -> None:
    known, allowed = fill(redis_server), allowed_words()
    words: dict[str, str] = {}

    for change in (
        "queues/_verb/resume/mail/",
        "queues/_verb/pause/mail/",
        f"task/_verb/run_now/{quote(known['scheduled'])}/",
    ):
        messages = client.post(ADMIN + change, follow=True).context["messages"]
        assert len(messages) == 1, change
        for message in messages:
            words |= english(str(message).encode(), allowed)

    assert words == {}
