"""A night shift, with real workers and a server of its own: each incident is on the overview soon, with its remedy."""

from __future__ import annotations

import os
import re
import shutil
import signal
from html import unescape
from typing import Any

import pytest
from django.test import Client

from django_redis_components.core import conf
from django_redis_components.taskqueue import get_queue
from tests.dashboard.support import URL, text_of
from tests.dashboard.test_lock_page import browser
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import Held, queue_worker
from tests.taskqueue.tasks import fail, hold, note

pytestmark = pytest.mark.django_db(transaction=True)

#: Seconds within which the overview shows an incident.
WITHIN_S = 15.0
#: Seconds more that this machine may take.
SLACK_S = 15.0


@pytest.fixture
def operator() -> Client:
    """Somebody on call, who may do what the overview offers."""
    return browser("view_overview", "view_failure", "retry_task", "pause_queue")


class Row:
    """A problem on the overview: its text, its command, and its links by label."""

    def __init__(self, html: str) -> None:
        self.text = unescape(text_of(html))
        found = re.findall(r'<a class="[^"]*" href="([^"]+)">([^<]+)', html)
        self.links = {unescape(label).strip(): unescape(url) for url, label in found}


def rows(client: Client) -> list[Row]:
    html = client.get(URL).content.decode()
    section = html.partition('data-drc-live="health"')[2].partition("</section>")[0]
    return [Row(item) for item in re.findall(r"<li>(.*?)</li>", section, re.DOTALL)]


def row_with(client: Client, pattern: str, timeout_s: float = WITHIN_S + SLACK_S) -> Row:
    """Wait for a problem whose text matches; return its row."""

    def find() -> Row:
        found = rows(client)
        matching = [row for row in found if re.search(pattern, row.text)]
        assert matching, [row.text for row in found]
        return matching[0]

    return eventually(find, timeout_s)


def set_option(settings: Any, **options: Any) -> None:
    dashboard = {**settings.REDIS_COMPONENTS["DASHBOARD"], **options}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": dashboard}


def test_each_incident_of_a_night_is_shown_with_its_cause_and_its_remedy(
    own_server: Store, operator: Client, children: Children, settings: Any
) -> None:
    worker = queue_worker(children, "mail", "reports", "--processes", "1")
    assert conf.settings().taskqueue.lease_s == WITHIN_S

    # 400 of 3,000 mails fail.
    note.using(queue_name="mail").enqueue_many([((number,), {}) for number in range(2_600)])
    fail.using(queue_name="mail", max_attempts=1).enqueue_many([(("Connection unexpectedly closed",), {})] * 400)
    failures = row_with(operator, r"Queue mail: 13\.33 % of tasks failed in the last hour \(400 of 3,000\)\.")
    cause = (
        r"400 failures in the last hour with the same error, first seen [\d:]+: LookupError: Connection unexpectedly"
    )
    assert re.search(cause, failures.text)
    assert failures.text.startswith("■ Critical")
    assert "LookupError" in text_of(operator.get(failures.links["Show failures"]).content.decode())
    assert "Retry 400 tasks" in text_of(operator.get(failures.links["Retry…"]).content.decode())

    # Nobody serves a queue.
    note.using(queue_name="webhooks").enqueue_many([((number,), {}) for number in range(1_204)])
    unserved = row_with(operator, r"Queue webhooks has 1,204 ready tasks and no live worker\.")
    assert "Start a worker: python manage.py runworker webhooks" in unserved.text
    assert operator.get(unserved.links["Show workers"]).status_code == 200

    # A queue is paused and forgotten.
    set_option(settings, PAUSED_AFTER=1)
    get_queue("video").pause("codec update", author="m.keller")
    note.using(queue_name="video").enqueue_many([((number,), {}) for number in range(47)])
    paused = row_with(operator, r"Critical Queue video is paused and has 47 ready tasks\.")
    assert re.search(r"Paused .* ago by m\.keller: codec update\. Resume it:", paused.text)
    resume = operator.get(paused.links["Resume…"])
    assert "Resume queue video" in text_of(resume.content.decode())

    # A host dies with a task.
    hold.using(queue_name="reports").enqueue("night")
    Held(own_server, "night").started()
    eventually(lambda: operator.get(f"{URL}?format=json").json()["workers"][0]["busy"] == 1)
    os.killpg(worker.pid, signal.SIGKILL)
    lost = row_with(operator, r"Worker .+ is lost\. Last heartbeat: \d+ s ago\. It held 1 task\.")
    assert "Check the worker’s log and its host, then restart it." in lost.text
    assert re.search(r"\blost\b", text_of(operator.get(lost.links["Show workers"]).content.decode()))
    missing = row_with(operator, r"No poller is active: tasks of crashed workers are not recovered\.")
    assert "python manage.py runpoller" in missing.text

    # The server restarts without persistence.
    set_option(settings, RESTARTED_WITHIN=600)
    server = own_server.servers[0]
    server.kill()
    server.appendonly = False
    for path in server.directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    server.start()
    restarted = row_with(operator, r"Redis restarted (< 1|\d+) s ago\.")
    assert "The append-only file is off: changes after the last snapshot are lost. Turn it on:" in restarted.text
    assert "redis-cli CONFIG SET appendonly yes" in restarted.text
    assert restarted.text.startswith("■ Critical")


def test_remedies_are_shown_only_to_those_who_may_apply_them(redis_server: Store, settings: Any) -> None:
    get_queue("video").pause("codec update")
    note.using(queue_name="video").enqueue("x")

    def links(*permissions: str) -> set[str]:
        [row] = [row for row in rows(browser(*permissions)) if "is paused" in row.text]
        return set(row.links)

    assert links("view_overview") == {"Show queue"}
    assert links("view_overview", "pause_queue") == {"Show queue", "Resume…"}
    set_option(settings, READ_ONLY=True)
    assert links("view_overview", "pause_queue", "view_failure") == {"Show queue"}
