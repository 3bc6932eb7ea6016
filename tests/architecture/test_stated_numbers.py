"""Limits and times that pages state in their sentences are those of the code."""

from __future__ import annotations

import pytest

from django_redis_components.autocomplete import entries
from django_redis_components.bloom import part, plans, top_k
from django_redis_components.contrib.outbox import storage
from django_redis_components.core.observability import catalog
from django_redis_components.core.settings.sections import NotificationsSettings
from django_redis_components.dashboard.locks import scan
from django_redis_components.dashboard.problems.watched import messages
from django_redis_components.geoip import blocks, country
from django_redis_components.management.redis.doctor import group as doctor
from django_redis_components.management.redis.doctor import keyspace
from django_redis_components.management.redis.tasks import selection
from django_redis_components.management.redis.top import group as top
from django_redis_components.management.redis.top import snapshot as top_snapshot
from django_redis_components.semaphores import permits
from django_redis_components.taskqueue.flows import graph
from django_redis_components.taskqueue.queue import MAX_PAGE
from django_redis_components.taskqueue.schedules import changes
from django_redis_components.taskqueue.stats import errors, metrics, queue_stats
from tests.architecture.sources import ROOT

OPERATIONS, MESSAGES = "guides/operating-queues", "components/messaging"
#: Page, and what it says.
STATED = [
    ("guides/command-line", f"about {scan.COUNT:,} keys per call"),
    ("guides/command-line", f"At most `--scan` keys are read (default {doctor.SCAN:,})"),
    ("guides/command-line", f"keys above {keyspace.LARGE_BYTES // 2**20} MiB"),
    ("guides/command-line", f"a kind with {catalog.MAX_NAMES} names or more"),
    ("guides/command-line", f"every {top.INTERVAL_S:g} seconds (`--interval`)"),
    ("guides/command-line", f"{queue_stats.MAX_QUEUES:,} queues, {queue_stats.MAX_WORKERS} workers"),
    (
        "guides/command-line",
        f"{top_snapshot.MAX_RUNNING} running tasks of each of the {top_snapshot.MAX_QUEUES} queues",
    ),
    ("components/dashboard", f"scans about {scan.COUNT:,} keys on each primary"),
    ("components/dashboard", f"list the {catalog.MAX_NAMES} names of a kind"),
    ("reference/dashboard-pages", f"about {scan.COUNT:,} on each primary"),
    ("reference/problem-codes", f"more than {queue_stats.MAX_QUEUES:,} queues or {queue_stats.MAX_WORKERS} workers"),
    ("reference/problem-codes", f"the {queue_stats.MAX_OLDEST} with the oldest"),
    ("reference/problem-codes", f"at least {messages.FLOOD_PER_MINUTE} messages per minute"),
    ("reference/problem-codes", f"one of the {messages.MAX_READ:,} newest chats"),
    ("reference/problem-codes", f"Of more than {metrics.MAX_QUEUES} queues, a page measures"),
    ("guides/problems", f"takes longer than `TIMEOUT` ({NotificationsSettings().timeout_s:g} s)"),
    (OPERATIONS, f"{selection.MAX_SELECTED:,} at most"),
    (OPERATIONS, f"(1 to {MAX_PAGE:,}; default 50)"),
    (OPERATIONS, f"`--minutes` (1 to {metrics.MAX_MINUTES}) selects"),
    (OPERATIONS, f"the {errors.MAX_ERRORS} most recent groups"),
    (OPERATIONS, f"Shown for {metrics.MAX_QUEUES} queues at most"),
    ("components/bloom", f"A filter grows to {plans.MAX_LAYERS} layers"),
    ("components/bloom", f"multiply this by up to {part.MAX_PARTS}"),
    ("components/bloom", f"a top list {top_k.MAX_COUNTERS:,} counters"),
    ("components/semaphores", f"at most {permits.MAX_PERMITS:,}. The highest limit is {permits.MAX_LIMIT:,}"),
    ("components/geoip", f"Names are cut to {blocks.MAX_NAME_CHARS} characters"),
    ("components/geoip", f"blocks for up to {country.TIMEOUT_S:g} s"),
    ("components/flows", f"At most {graph.MAX_TASKS:,} tasks per flow"),
    ("components/periodic-tasks", f"kept in Redis, at most {changes.MAX_ADDED:,}"),
    ("guides/monitoring", f"reads at most {storage.MAX_COUNTED:,} rows"),
    (
        "components/autocomplete",
        f"at most {entries.MAX_TEXT_CHARS} characters, an entry at most {entries.MAX_TERMS} terms",
    ),
]


@pytest.mark.parametrize(("page", "text"), STATED, ids=[f"{page}: {text}" for page, text in STATED])
def test_page_states_the_number_of_the_code(page: str, text: str) -> None:
    assert text.lower() in " ".join((ROOT / "docs" / f"{page}.md").read_text().split()).lower()
