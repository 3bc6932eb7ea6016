"""Commands print English whatever the language of the site is, as Django's own do: scripts read their output."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import translation

from django_redis_components.locks import Lock
from django_redis_components.taskqueue import chain, get_queue
from tests.dashboard.support import fail_with, write_queue, write_schedule, write_worker
from tests.management.support import READS
from tests.support import Store
from tests.taskqueue.tasks import add, note

CHINESE = re.compile(r"[\u3000-\u9fff\uff00-\uffef]")
#: Commands whose text has words that pages of the dashboard translate: states, reasons, options, problems, errors.
FURTHER = [
    ["tasks", "list", "mail", "failed"],
    ["tasks", "find", "--text", "zzz"],
    ["tasks", "show", "unheard-of"],
    ["tasks", "list", "mail", "ready", "--since", "yesterday"],
    ["queues", "status", "mail"],
    ["queues", "errors", "mail"],
    ["queues", "purge", "mail"],
    ["locks", "show", "stock:42"],
    ["locks", "release", "stock:42"],
    ["shards", "empty", "default"],
    ["workers", "stop", "nobody:1:abc", "--yes"],
]


@pytest.fixture
def chinese_site(redis_server: Store, settings: Any) -> Store:
    settings.LANGUAGE_CODE = "zh-hans"
    translation.activate("zh-hans")
    return redis_server


def printed(*words: str) -> str:
    """Return all that a command prints, with its error."""
    out, error = io.StringIO(), ""
    try:
        call_command("redis", *words, stdout=out, stderr=out)
    except (CommandError, SystemExit) as exc:
        error = str(exc)
    return out.getvalue() + error


@pytest.mark.django_db
def test_commands_of_a_chinese_site_print_english(chinese_site: Store) -> None:
    fail_with("no such customer", queue="mail")
    write_queue(chinese_site, "late", ready=2, age_s=900)
    write_worker(chinese_site, "far:1:abc", seen_s=120, host="far", queues=["mail"])
    write_schedule(chinese_site, "nightly")
    get_queue("mail").pause("a migration", author="ann")
    flow = chain(add.s(1, 2), add.s(3)).enqueue()
    scheduled = note.using(run_after=600).enqueue("later")
    tasks = [["flows", "show", flow.id], ["tasks", "show", flow.last.id], ["tasks", "show", scheduled.id]]

    with Lock("stock:42", timeout=60):
        texts = {tuple(words): printed(*words) for words in (*READS.values(), *FURTHER, *tasks)}

    assert {words: text for words, text in texts.items() if CHINESE.search(text) or not text} == {}
    assert "has 2 ready tasks and no live worker" in texts["doctor", "--scan", "0"]
    assert translation.get_language() == "zh-hans"
