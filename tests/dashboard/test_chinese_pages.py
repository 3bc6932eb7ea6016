"""Every page in Chinese: no text is left in English."""

from __future__ import annotations

import re
import socket
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_redis_components.dashboard.task_search.suggestions import TIMES
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.options import DeclaredOptions
from django_redis_components.taskqueue.store.scan import STATES
from tests.dashboard.catalogue import CATALOGUE, PLACEHOLDER, entries
from tests.dashboard.urls_of_pages import ADMIN, confirmations, fill, pages
from tests.support import Store

pytestmark = pytest.mark.django_db

#: Attributes that a user reads or hears.
ATTRIBUTES = ("title", "aria-label", "placeholder", "alt", "data-l")
#: Elements whose content is code, the label of a key, or is not shown.
CODE = {"script", "style", "code", "kbd", "pre"}
#: Elements without an end tag.
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
WORD = re.compile(r"[A-Za-z][\w.]*[A-Za-z]")
#: Data with a form: texts of errors, paths of modules, ids, fingerprints, sizes.
DATA = re.compile(
    r"out of order|no stock|\btests\.[\w.]+|(?<![\w-])[\w-]{20}(?![\w-])|\b[0-9a-f]{32}\b|\b[\d.]+\s[KMG]B\b"
)
#: Names that `fill` writes, and those of the site and the server.
NAMES = {
    *("mail", "default", "add", "note", "fails", "what", "stock", "api", "hourly", "here", "abc", "ada", "root"),
    *("repair", "later", "LookupError", "order_id"),
    *("Django", "Valkey", "noeviction", "gcra", "MainThread", "Europe", "Berlin", "FR", "mon", "fri", "runworker"),
    *re.split(r"\W", socket.gethostname()),
}
#: Identifiers that only one page shows.
IDENTIFIERS = {"tasksearch": {*STATES, *TIMES}, "taskclass": {*DeclaredOptions.__annotations__, "None"}}
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
        self.found += [value for name, value in attrs if name in ATTRIBUTES and value]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ATTRIBUTES and value]

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not CODE.intersection(self._open):
            self.found.append(data.strip())


def terms() -> set[str]:
    """Return the words in Latin letters that translations use: names of products, settings and commands."""
    texts = (text for translations in entries(CATALOGUE).values() for text in translations)
    return {word for text in texts for word in WORD.findall(PLACEHOLDER.sub(" ", text))}


def test_no_page_has_text_in_english(redis_server: Store, settings: Any) -> None:
    settings.LANGUAGE_CODE = "zh-hans"
    queues = {task.options.queue_name for task in registry.all_tasks()}  # other tests of this process register tasks
    client, known, allowed = Client(), fill(redis_server), terms() | NAMES | queues
    client.force_login(User.objects.create_superuser("root"))
    words: dict[str, tuple[str, str]] = {}

    for address in [*pages(known), *confirmations(known), *(ADMIN + each for each in CHOICES)]:
        identifiers = next((found for page, found in IDENTIFIERS.items() if f"/{page}/" in address), set())
        texts = Texts()
        texts.feed(client.get(address).content.decode())
        for text in texts.found:
            for word in {*WORD.findall(DATA.sub(" ", text))} - allowed - identifiers:
                words.setdefault(word, (text, address))

    assert words == {}
