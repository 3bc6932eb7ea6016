"""A night shift, with real workers and its own server: each incident is on the overview soon, with its remedy."""

from __future__ import annotations

import os
import re
import shutil
import signal
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from django_redis_components.core.settings import conf
from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.held import HeldData
from django_redis_components.taskqueue import get_queue
from tests.dashboard.problem_rows import LEASE_S, row_with, rows, set_option, text_at
from tests.dashboard.support import URL, browser, fail_with, fields_of, text_of, write_minute
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import SITE, Held, queue_key, queue_worker, server_ms
from tests.taskqueue.tasks import fail, hold, note

pytestmark = pytest.mark.django_db(transaction=True)

LOST_ERROR = "Connection unexpectedly closed"


@pytest.fixture
def operator() -> Client:
    """A user who may make the changes that the overview offers."""
    return browser("view_overview", "view_failure", "retry_task", "pause_queue")


def restart_without_persistence(store: Store) -> None:
    """Kill the server, and start it without its files, and without an append-only file."""
    server = store.servers[0]
    server.kill()
    server.appendonly = False
    for path in server.directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    server.start()


def tasks_noted(store: Store) -> int:
    """Return how many tasks the server had when it was last watched."""
    held = HeldData.parse(store.raw.get(keyspace.key("held", "default")))
    return held.tasks if held else 0


def seconds_until(clock: str, ms: float) -> float:
    """Return the seconds from a time of the server to the nearest "12:04:50" of the site's zone; below 0: past."""
    hours, minutes, seconds = map(int, clock.split(":"))
    at = timezone.localtime(datetime.fromtimestamp(ms / 1_000, UTC))
    of_day = at.hour * 3_600 + at.minute * 60 + at.second + at.microsecond / 1e6
    return (hours * 3_600 + minutes * 60 + seconds - of_day + 43_200) % 86_400 - 43_200


def test_each_incident_of_a_night_is_shown_with_its_cause_and_its_remedy(
    own_server: Store, operator: Client, children: Children, settings: Any
) -> None:
    children.manage("runpoller", env=SITE).wait_for("started with")
    eventually(lambda: own_server.raw.exists(keyspace.key("lease", "default")))  # it watches; the worker is killed
    worker = queue_worker(children, "mail", "reports", "--processes", "1", "--no-poller")
    assert conf.settings().taskqueue.lease_s == LEASE_S
    quiet = text_at(operator, URL)
    assert "No problems. No tasks have been enqueued yet." in quiet or "No problems checked at" in quiet

    # 400 of 3,000 mails fail.
    note.using(queue_name="mail").enqueue_many([((number,), {}) for number in range(2_600)])
    fail.using(queue_name="mail", max_attempts=1).enqueue_many([((LOST_ERROR,), {})] * 400)
    eventually(lambda: get_queue("mail").info().failed == 400)
    failures = row_with(operator, r"Queue mail: 13\.33 % of tasks failed in the last \d min \(400 of 3,000\)\.")
    assert re.search(
        r"400 failed tasks are left\. 400 failures in the last hour with the same error, first seen [\d:]+: "
        rf"LookupError: {LOST_ERROR}\. "
        r"Correct the cause, then retry the tasks\. List the errors: python manage\.py redis queues errors mail",
        failures.text,
    )
    assert failures.text.startswith("■ Critical")
    assert f"LookupError {LOST_ERROR}" in text_at(operator, failures.links["Show failures"])
    assert "Retry 400 tasks" in text_at(operator, failures.links["Retry…"])

    # A queue has no worker.
    note.using(queue_name="webhooks").enqueue_many([((number,), {}) for number in range(1_204)])
    unserved = row_with(operator, r"Queue webhooks has 1,204 ready tasks and no live worker\.")
    assert unserved.text.startswith("■ Critical")
    assert "Start a worker: python manage.py runworker webhooks" in unserved.text
    assert "mail, reports" in text_at(operator, unserved.links["Show workers"])

    # A queue is paused and forgotten.
    set_option(settings, PAUSED_AFTER=1)
    get_queue("video").pause("codec update", author="m.keller")
    note.using(queue_name="video").enqueue_many([((number,), {}) for number in range(47)])
    paused = row_with(operator, r"Critical Queue video is paused and has 47 ready tasks\.")
    assert re.search(
        r"Paused .* ago by m\.keller: codec update\. Resume it: python manage\.py redis queues resume video",
        paused.text,
    )
    resume = operator.get(paused.links["Resume…"])
    assert "Resume queue video" in text_of(resume.content.decode())
    operator.post(paused.links["Resume…"], fields_of(resume))
    row_with(operator, r"Queue video has 47 ready tasks and no live worker\.")
    assert not [row for row in rows(operator) if "is paused" in row.text]

    # The host of a worker dies.
    task = hold.using(queue_name="reports").enqueue("night")
    Held(own_server, "night").started()
    eventually(lambda: operator.get(f"{URL}?format=json").json()["workers"][0]["busy"] == 1)
    os.killpg(worker.pid, signal.SIGKILL)
    [(_id, lease_ends_ms)] = own_server.raw.zrange(queue_key(own_server, "running", "reports"), 0, -1, withscores=True)
    silent = row_with(operator, r"Worker .+ \(\d+\) (does not respond|is lost)\. Last heartbeat: \d\d s ago\.")
    promise = re.search(
        r"It held 1 task at its last heartbeat\. (?:Its 1 task returns to its queue by ([\d:]+)|The)", silent.text
    )
    assert promise, silent.text
    promised = promise[1]  # None if a busy machine has shown the row only after the end of the lease
    if promised:
        assert 0 <= seconds_until(promised, lease_ends_ms) <= LEASE_S, "it is no earlier than the end of the lease"
    assert "Check the worker’s log and its host, then restart it." in silent.text
    row_with(operator, r"Worker .+ is lost\. Last heartbeat: \d\d s ago\.")
    lost = row_with(operator, r"Queue reports has 1 ready task and no live worker\.")
    assert re.search(
        r"Its last worker, .+ \(\d+\), was lost \d+ s ago\. Start a worker: python manage\.py runworker reports",
        lost.text,
    )
    if promised:
        assert seconds_until(promised, server_ms(own_server)) <= LEASE_S, "it returned as promised"
    task.refresh()
    assert task.state == "ready"
    assert re.search(r"\blost\b", text_at(operator, lost.links["Show workers"]))

    # The server restarts without persistence.
    set_option(settings, RESTARTED_WITHIN=600)
    eventually(lambda: tasks_noted(own_server) > 400)
    restart_without_persistence(own_server)
    lost_data = row_with(operator, r"Redis lost all data in a restart before [\d:]+\. It held .+ tasks in \d queues?\.")
    assert lost_data.text.startswith("■ Critical")
    assert "Restore a backup, or enqueue the tasks again. Turn the append-only file on:" in lost_data.text
    assert re.search(r"redis-cli -h \S+ -p \d+ CONFIG SET appendonly yes", lost_data.text)
    assert not [row for row in rows(operator) if "Redis started" in row.text], "one cause is one row"


def test_without_poller_the_overview_promises_no_recovery(
    own_server: Store, operator: Client, children: Children
) -> None:
    worker = queue_worker(children, "reports", "--processes", "1")
    hold.using(queue_name="reports").enqueue("night")
    Held(own_server, "night").started()
    eventually(lambda: operator.get(f"{URL}?format=json").json()["workers"][0]["busy"] == 1)

    os.killpg(worker.pid, signal.SIGKILL)

    # The poller's own lease is 15 s long, too.
    missing = row_with(operator, r"No poller is active: tasks of crashed workers are not recovered\.")
    assert "Start a poller, or a worker without --no-poller: python manage.py runpoller" in missing.text
    assert operator.get(missing.links["Show workers"]).status_code == 200
    lost = row_with(operator, r"Worker .+ is lost\.")
    assert "It held 1 task at its last heartbeat. No poller is active to return it to its queue." in lost.text


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


def test_retry_is_offered_only_to_those_who_may_retry(redis_server: Store, settings: Any) -> None:
    fail_with(*["no reply"] * 20)
    write_minute(redis_server, "default", failed=20)

    def links(*permissions: str) -> set[str]:
        [row] = [row for row in rows(browser(*permissions)) if "of tasks failed" in row.text]
        return set(row.links)

    assert links("view_overview") == {"Show queue"}
    assert links("view_overview", "retry_task") == {"Show queue", "Retry all…"}, "one error is retried from its page"
    assert links("view_overview", "view_failure") == {"Show failures"}
    assert links("view_overview", "view_failure", "retry_task") == {"Show failures", "Retry…"}
    set_option(settings, READ_ONLY=True)
    assert links("view_overview", "retry_task", "view_failure", "pause_queue") == {"Show failures"}
