"""Twelve incidents of a night: the overview, the doctor, ``healthz`` and a notification say the same, and then the end.

Each incident is made as it happens, on its own server. Where a condition takes time, what is stored is made older,
or the threshold is lowered.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core import mail
from django.core.management import CommandError, call_command
from django.test import Client

from django_redis_components.core.client import connections
from django_redis_components.dashboard.problems import incidents, keyspace
from django_redis_components.dashboard.problems import watcher as watcher_module
from django_redis_components.dashboard.problems.watched import messages
from django_redis_components.dashboard.problems.watched import tasks as watched_tasks
from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from django_redis_components.messaging import Chat
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.stats import run_time
from tests.dashboard.problem_rows import Row, rows
from tests.dashboard.support import (
    URL,
    client_of,
    fail_with,
    fields_of,
    now_ms,
    settle_tasks,
    text_of,
    write_minute,
    write_poller,
    write_queue,
)
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.support.waiting import TIMEOUT_S
from tests.taskqueue.schedulers import HOUR, at, next_round, poller_of, state_key, take_place_from
from tests.taskqueue.support import (
    Held,
    base_key,
    queue_key,
    queue_worker,
    recover,
    renewal,
)
from tests.taskqueue.tasks import hold, note

pytestmark = pytest.mark.django_db(transaction=True)

#: Has the seconds of a large site: pytest -o log_cli=true --log-cli-level=INFO
logger = logging.getLogger(__name__)

TOKEN = "health-token-0123456789"


class Site:
    """A site with an incident, and the four places where people read of it."""

    def __init__(self, store: Store, operator: Client, children: Children) -> None:
        self.store = store
        self.operator = operator
        self.children = children
        self.watcher = ProblemWatcher("default")

    def assert_reported(self, code: str, text: str, *, severity: str) -> Row:
        """Wait until the overview shows a problem; the other readers must report the same. Return its row."""
        row = eventually(lambda: self._row(text))
        self.watcher.round()  # the page may have seen it before the round did
        problem = self._problem(code)
        assert re.search(text, problem["text"])
        assert problem["severity"] == severity
        assert row.text.startswith("■ Critical") is (severity == "critical")
        status = 503 if any(each["severity"] == "critical" for each in self.health()[1]) else 200
        assert self.health()[0] == status
        [finding] = [each for each in self.findings() if each["code"] == code and re.search(text, each["text"])]
        assert finding["severity"] == severity
        assert finding["command"] == problem["command"]
        [_] = [each for each in self.subjects("Problem: ") if re.search(text, each)]
        return row

    def is_over(self, code: str, text: str) -> None:
        """Wait until no reader reports it, and its end was announced."""

        def find() -> None:
            self.watcher.round()
            assert not [each for each in rows(self.operator) if re.search(text, each.text)]
            assert [each for each in self.subjects("Resolved: ") if re.search(text, each)]

        eventually(find)
        assert code not in [each["code"] for each in self.health()[1]]
        assert code not in [each["code"] for each in self.findings()]

    def confirm(self, url: str) -> None:
        """Open a confirmation, and confirm it."""
        page = self.operator.get(url)
        assert page.status_code == 200
        assert self.operator.post(url, fields_of(page)).status_code == 302

    def serve(self, *queues: str) -> None:
        """Report a worker of these queues, and a poller."""
        info = json.dumps({"host": "app-1", "pid": 7, "queues": queues, "threads": 1, "busy": 0, "finished": 0})
        connections.client().execute(renewal("app-1:7.a", [], lease_ms=15_000, info=info))
        write_poller(self.store)

    def _row(self, text: str) -> Row:
        self.watcher.round()
        found = rows(self.operator)
        matching = [each for each in found if re.search(text, each.text)]
        assert matching, [each.text for each in found]
        return matching[0]

    def _problem(self, code: str) -> dict[str, Any]:
        [found] = [each for each in self.health()[1] if each["code"] == code]
        return found

    def health(self) -> tuple[int, list[dict[str, Any]]]:
        response = self.operator.get("/redis/healthz/", headers={"Authorization": f"Bearer {TOKEN}"})
        return response.status_code, response.json()["problems"]

    def findings(self) -> list[dict[str, Any]]:
        out = io.StringIO()
        with contextlib.suppress(SystemExit):  # by which it says that it has found something
            call_command("redis", "doctor", "--scan", "0", "--json", stdout=out, stderr=io.StringIO())
        found: list[dict[str, Any]] = json.loads(out.getvalue())["findings"]
        return found

    def subjects(self, label: str) -> list[str]:
        return [each.subject.removeprefix(label) for each in mail.outbox if each.subject.startswith(label)]


@pytest.fixture
def site(own_server: Store, children: Children, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site that gets a notification of each problem, and of its end, at the next round."""
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "MONITORING": {"TOKEN": TOKEN},
        "NOTIFICATIONS": {"EMAILS": ["ops@example.com"], "SEVERITY": "warning"},
    }
    monkeypatch.setattr(incidents, "WARN_AFTER_S", 0.0)
    monkeypatch.setattr(incidents, "END_AFTER_S", -1.0)
    write_poller(own_server)
    site = Site(own_server, client_of("superuser"), children)
    site.watcher.round()  # else a worker that the test starts might be the one that watches
    return site


def shown_command(row: Row, program: str) -> list[str]:
    """Return the words of the command that a row shows, without the program."""
    found = re.search(rf"{program} ((?:[^ ]+ ?)+)", row.text)
    assert found, row.text
    return found[1].split()


def test_queue_without_worker(site: Site) -> None:
    note.using(queue_name="webhooks").enqueue_many([((number,), {}) for number in range(3)])
    text = r"Queue webhooks has 3 ready tasks and no live worker\."

    row = site.assert_reported("no_worker", text, severity="critical")
    assert "Start a worker: python manage.py runworker webhooks" in row.text
    queue_worker(site.children, "webhooks", "--processes", "1")

    site.is_over("no_worker", text)


def test_paused_queue(site: Site) -> None:
    site.serve("video")
    get_queue("video").pause("codec update", author="m.keller")
    note.using(queue_name="video").enqueue("x")
    paused = base_key(site.store, "paused")
    until, _, reason = site.store.raw.hget(paused, "video").decode().split("|", 2)
    site.store.raw.hset(paused, "video", f"{until}|{now_ms(site.store) - 2 * HOUR}|{reason}")
    text = r"Queue video is paused and has 1 ready task\."

    row = site.assert_reported("paused", text, severity="critical")
    assert "Paused 2 h 0 min ago by m.keller: codec update." in row.text
    site.confirm(row.links["Resume…"])

    site.is_over("paused", text)


def test_killed_worker(site: Site, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"LEASE": 2}}
    worker = queue_worker(site.children, "reports", "--processes", "1", "--no-poller")
    task = hold.using(queue_name="reports").enqueue("night")
    Held(site.store, "night").started()
    eventually(lambda: site.operator.get(f"{URL}?format=json").json()["workers"][0]["busy"] == 1)

    os.killpg(worker.pid, signal.SIGKILL)

    text = rf"Worker {re.escape(socket.gethostname())} \(\d+\) is lost\."
    row = site.assert_reported("worker_lost", text, severity="warning")
    assert "It held 1 task at its last heartbeat." in row.text
    assert site.operator.get(row.links["Show workers"]).status_code == 200
    site.store.raw.delete(base_key(site.store, "poller"))
    recover()
    task.refresh()
    assert task.state == "ready"
    # Its heartbeat is ten minutes old: a poller forgets it.
    workers = base_key(site.store, "workers")
    site.store.raw.zadd(workers, {site.store.raw.zrange(workers, 0, 0)[0]: now_ms(site.store) - 601_000})
    recover()

    site.is_over("worker_lost", text)


def test_memory_that_is_nearly_full(site: Site) -> None:
    # A value of zeros that the server makes itself: a sent one would also fill a buffer, which is freed a while later.
    site.store.raw.setrange("large", 99_999_999, "x")
    used = site.store.raw.info("memory")["used_memory"]
    site.store.raw.config_set("maxmemory", int(used * 1.06))
    text = r"Redis uses 9\d\.\d\d % of its memory"

    row = site.assert_reported("memory", text, severity="warning")
    assert "Raise maxmemory, or remove data that is not needed." in row.text
    assert site.operator.get(row.links["Show memory"]).status_code == 200
    site.store.raw.config_set("maxmemory", used * 10)

    site.is_over("memory", text)


def test_growing_queue(site: Site) -> None:
    site.serve("mail")
    tasks = note.using(queue_name="mail").enqueue_many([((number,), {}) for number in range(50)])
    for task in tasks:
        site.store.raw.hset(base_key(site.store, "t", task.id), "e", (now_ms(site.store) - 90_000) * 1_000)
    write_minute(site.store, "mail", succeeded=1)
    text = r"Queue mail is growing: \d\.\d/min in, 0\.\d/min out, oldest 1 min 3\d s\."

    row = site.assert_reported("growing", text, severity="warning")
    assert "Add a worker: python manage.py runworker mail" in row.text
    assert settle_tasks("succeeded", queue="mail") == list(range(50))

    site.is_over("growing", text)


def test_failing_task(site: Site) -> None:
    site.serve("default")
    fail_with(*["no reply"] * 30)
    text = r"Queue default: 100\.00 % of tasks failed in the last hour \(30 of 30\)\."

    row = site.assert_reported("failures", text, severity="critical")
    site.confirm(row.links["Retry…"])
    assert len(settle_tasks("succeeded")) == 30
    # Some minutes pass.
    for minute in sorted(site.store.raw.keys(queue_key(site.store, "minute:*"))):
        name, _, number = minute.decode().rpartition(":")
        site.store.raw.rename(minute, f"{name}:{int(number) - 3}")

    site.is_over("failures", r"Queue default: ")


def test_hung_task(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (run_time, watched_tasks):
        monkeypatch.setattr(module, "MIN_OVERLONG_S", 0.2)
    quick = Held(site.store, "quick")
    quick.release()
    worker = queue_worker(site.children, "default", "--processes", "1")
    hold.enqueue_many([(("quick",), {})] * 20)
    eventually(lambda: quick.ends() == 20)
    task = hold.enqueue("night")
    text = rf"Task {re.escape(hold.name)} \({task.id}, queue default\) has run for "

    row = site.assert_reported("hung", text, severity="warning")
    assert f"Cancel it: python manage.py redis tasks cancel {task.id}" in row.text
    page = site.operator.get(row.links["Show task"]).content.decode()
    [cancel] = re.findall(r'href="([^"]+/cancel/[^"]*)"', page)
    site.confirm(cancel)

    site.is_over("hung", text)
    assert worker.returncode is None


def test_lost_data(site: Site) -> None:
    site.serve("mail")
    note.using(queue_name="mail").enqueue_many([((number,), {}) for number in range(30)])
    site.watcher.round()
    site.store.raw.flushall()
    text = r"All data in Redis was deleted before [\d:]+, not by a restart\. It held 30 tasks in 1 queue\."

    row = site.assert_reported("data_lost", text, severity="critical")
    assert "FLUSHALL or FLUSHDB deleted all keys" in row.text
    # Seven days pass.
    held = json.loads(site.store.raw.get(keyspace.key("held")))
    held["loss"]["at"] -= 8 * 86_400
    site.store.raw.set(keyspace.key("held"), json.dumps(held))

    site.is_over("data_lost", text)


def test_missing_persistence(site: Site) -> None:
    write_queue(site.store, "mail")  # a new site has nothing to lose
    site.store.raw.config_set("appendonly", "no")
    site.store.raw.config_set("save", "")
    text = r"Redis stores nothing on disk: a restart of the server deletes all tasks\."

    row = site.assert_reported("no_persistence", text, severity="critical")
    command = shown_command(row, "redis-cli")
    server = command.index("-p") + 2
    assert command[server - 1] == str(site.store.servers[0].port)
    site.store.raw.execute_command(*command[server : server + 4])

    site.is_over("no_persistence", text)


def test_late_schedule(site: Site) -> None:
    site.store.raw.delete(base_key(site.store, "poller"))
    schedule = at(now_ms(site.store) + HOUR, name="nightly")
    next_round(poller := poller_of(schedule))
    site.store.raw.hset(state_key(site.store, "nightly"), "next", now_ms(site.store) - 90_000)
    text = r"Schedule nightly is 1 min \d+ s overdue: no poller has enqueued its task\."

    row = site.assert_reported("schedule_late", text, severity="critical")
    assert "python manage.py runpoller" in row.text
    assert site.operator.get(row.links["Show schedules"]).status_code == 200
    take_place_from(site.store, poller)
    next_round(poller_of(schedule))

    site.is_over("schedule_late", text)


def test_flooded_chat(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "FLOOD_PER_MINUTE", 20)
    chat, stopped = Chat.create("ada", ["kim"]), threading.Event()

    def flood() -> None:
        while not stopped.wait(0.002):
            chat.send("ada", "hello")

    flooding = threading.Thread(target=flood)
    flooding.start()
    text = rf"Chat {chat.id} receives [\d,]+ messages per minute\."
    try:
        row = site.assert_reported("chat_flood", text, severity="warning")
    finally:
        stopped.set()
        flooding.join()

    assert site.operator.get(row.links["Show chats"]).status_code == 200
    site.is_over("chat_flood", text)


def test_outage_of_redis(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher_module, "AWAY_AFTER_S", 0.0)
    [server] = site.store.servers

    server.stop()
    site.watcher.round()

    page = site.operator.get(URL)
    assert page.status_code == 503
    [problem] = site.health()[1]
    assert (problem["code"], problem["severity"]) == ("redis_unreachable", "critical")
    with pytest.raises(CommandError, match=re.escape(str(server.port))) as raised:
        call_command("redis", "doctor", stdout=io.StringIO(), stderr=io.StringIO())
    assert raised.value.returncode == 3
    [subject] = site.subjects("Problem: ")
    assert subject in text_of(page.content.decode())

    server.start()
    site.watcher.round()

    assert site.operator.get(URL).status_code == 200
    assert "redis_unreachable" not in [each["code"] for each in site.health()[1]]
    assert site.subjects("Resolved: ") == [subject]


class LargeSite:
    """A site with 300 queues and 300 workers, whose watching thread makes rounds with its own pauses."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._stopped = threading.Event()
        self._heartbeats = threading.Thread(target=self._report, daemon=True)

    def start(self) -> None:
        """Enqueue a task in each queue, report the workers, and watch."""
        for number in range(300):
            note.using(queue_name=f"tenant-{number}", run_after=86_400).enqueue("x")
        self._heartbeats.start()
        self.site.watcher.start()
        eventually(lambda: self._facts()["memory"][1]["used"], 2 * TIMEOUT_S)

    def stop(self) -> None:
        """Stop both threads."""
        self._stopped.set()
        self._heartbeats.join()
        self.site.watcher.stop()

    def wait_for_round(self) -> dict[str, Any]:
        """Wait until the next round has stored what it has found; return it."""
        before = self._facts()
        eventually(lambda: self._facts() != before, 2 * TIMEOUT_S)
        return self._facts()

    def seconds_until(self, code: str, text: str) -> dict[str, float]:
        """Return the seconds until each reader has reported a problem with this text."""
        started, found = time.monotonic(), dict[str, float]()

        def ask() -> None:
            reported = {
                "overview": [row.text for row in rows(self.site.operator)],
                "healthz": [each["text"] for each in self.site.health()[1] if each["code"] == code],
                "doctor": [each["text"] for each in self.site.findings() if each["code"] == code],
                "notification": self.site.subjects("Problem: "),
            }
            for reader, texts in reported.items():
                if any(re.search(text, each) for each in texts):
                    found.setdefault(reader, time.monotonic() - started)
            assert found.keys() == reported.keys(), (found, reported)

        eventually(ask, 4 * TIMEOUT_S)
        logger.info(
            "%s: seconds until each reader reports it: %s", code, {name: round(each) for name, each in found.items()}
        )
        return found

    def assert_over(self, code: str, text: str, repeated: Callable[[], object] = lambda: None) -> None:
        """Wait until no reader reports it and its end was announced."""
        started = time.monotonic()

        def ask() -> None:
            repeated()
            assert [each for each in self.site.subjects("Resolved: ") if re.search(text, each)]
            assert not [each for each in rows(self.site.operator) if re.search(text, each.text)]

        eventually(ask, 4 * TIMEOUT_S)
        assert code not in [each["code"] for each in [*self.site.health()[1], *self.site.findings()]]
        logger.info("%s: over after %.0f s", code, time.monotonic() - started)

    def _facts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.site.store.raw.get(keyspace.key("facts")) or '{"memory": [0, {"used": []}]}'
        )
        return found

    def _report(self) -> None:
        facts = {
            "pid": 7,
            "queues": [f"tenant-{number}" for number in range(5)],
            "threads": 4,
            "busy": 0,
            "finished": 0,
        }
        reports = {f"app-{number}:7.a": json.dumps({"host": f"app-{number}", **facts}) for number in range(300)}
        while not self._stopped.is_set():
            calls = [renewal(worker, [], lease_ms=15_000, info=info) for worker, info in reports.items()]
            connections.client().execute_many(calls)
            write_poller(self.site.store)
            self._stopped.wait(5.0)


@pytest.fixture
def large_site(site: Site) -> Iterator[LargeSite]:
    found = LargeSite(site)
    try:
        found.start()
        yield found
    finally:
        found.stop()


#: Two rounds, and the round itself beside other tests.
ALARM_S = 3 * watcher_module.ROUND_S


def test_growing_memory_of_a_large_site(large_site: LargeSite) -> None:
    site = large_site.site
    # An hour passes, in which the memory doubles.
    facts = large_site.wait_for_round()
    used = site.store.raw.info("memory")["used_memory"]
    facts["memory"][1]["used"] = [[now_ms(site.store) / 1_000 - 3_600, used / 2]]
    site.store.raw.set(keyspace.key("facts"), json.dumps(facts))
    site.store.raw.config_set("maxmemory", used * 2)
    text = r"Redis grows by [\d.]+\sMB per hour: its memory \([\d.]+\sMB of [\d.]+\sMB\) is full in about \d"

    seconds = large_site.seconds_until("memory_growth", text)
    assert max(seconds.values()) < ALARM_S, seconds
    [row] = [row for row in rows(site.operator) if re.search(text, row.text)]
    assert "Most of it is used by taskqueue" in row.text
    assert "When it is full, Redis rejects new tasks." in row.text
    assert site.operator.get(row.links["Show memory"]).status_code == 200

    site.store.raw.config_set("maxmemory", 0)
    large_site.assert_over("memory_growth", text)


def test_lost_data_of_a_large_site(large_site: LargeSite) -> None:
    site = large_site.site
    large_site.wait_for_round()
    site.store.raw.flushall()
    text = r"All data in Redis was deleted before [\d:]+, not by a restart\. It held 300 tasks in 300 queues\."

    seconds = large_site.seconds_until("data_lost", text)
    assert max(seconds.values()) < ALARM_S, seconds
    [row] = [row for row in rows(site.operator) if re.search(text, row.text)]
    assert row.text.startswith("■ Critical")
    assert "FLUSHALL or FLUSHDB deleted all keys" in row.text

    def seven_days_pass() -> None:
        held = json.loads(site.store.raw.get(keyspace.key("held")))
        if held["loss"] and held["loss"]["at"] > time.time() - 86_400:
            held["loss"]["at"] -= 8 * 86_400
            site.store.raw.set(keyspace.key("held"), json.dumps(held))

    large_site.assert_over("data_lost", text, seven_days_pass)
