"""The watching process: one at a time, what it stores, what it remembers, and whom it tells."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.core import mail
from django.core.mail import EmailMessage
from django.test import Client
from django.utils.translation import gettext_lazy
from redis.exceptions import ConnectionError

from django_redis_components.analytics import SignIns
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.problems import Problem, keyspace, notifications, register_check
from django_redis_components.dashboard.problems import rounds as rounds_module
from django_redis_components.dashboard.problems import watcher as watcher_module
from django_redis_components.dashboard.problems.facts import read_facts
from django_redis_components.dashboard.problems.finding import find_problems
from django_redis_components.dashboard.problems.incidents import Announcement, IncidentState
from django_redis_components.dashboard.problems.registry import unregister_check
from django_redis_components.dashboard.problems.storage import change_state, read_resolved, read_state
from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from django_redis_components.search import SearchIndex
from tests.dashboard.problems.support import without_persistence
from tests.dashboard.support import URL, client_of, write_minute, write_poller, write_queue, write_worker
from tests.support import Store, eventually
from tests.support.raising_logs import raising_logs

pytestmark = pytest.mark.django_db


class Hooks:
    """A web server that records what it is sent, and answers with `status`."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.status = 204
        self.is_slow = False
        self.stopped = threading.Event()
        hooks = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hooks.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                while hooks.is_slow and not hooks.stopped.wait(0.02):  # one header, byte by byte
                    self.wfile.write(b"x")
                self.send_response(hooks.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def events(self) -> list[tuple[str, str]]:
        return [(each["event"], each["code"]) for each in self.received]


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    found = Hooks()
    yield found
    found.stopped.set()
    eventually(lambda: not is_delivering())
    found.server.shutdown()
    found.server.server_close()


def is_delivering() -> bool:
    """Return whether a thread delivers an announcement."""
    return any(each.name.startswith("notify ") for each in threading.enumerate())


def exit_process(*_: object) -> None:
    raise SystemExit


def notify(settings: Any, **options: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "NOTIFICATIONS": options}


def state() -> IncidentState:
    return run(connections.client("default"), read_state("default"))


def resolved_codes() -> list[str]:
    return [each.code for each in run(connections.client("default"), read_resolved("default"))]


@pytest.fixture
def unserved(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site with one critical problem: that the servers of tests store nothing on disk is none here."""
    without_persistence(monkeypatch)
    write_queue(redis_server, "mail", ready=2)
    write_poller(redis_server)


def serve(store: Store) -> None:
    """Solve the problem."""
    write_worker(store, "here:a", queues=["mail"])


def test_one_process_watches_and_another_takes_its_place(redis_server: Store) -> None:
    first, second = ProblemWatcher("default"), ProblemWatcher("default")

    first.round()
    second.round()
    assert (first.is_active, second.is_active) == (True, False)
    first.round()
    assert first.is_active, "it renews its lease"
    assert 0 < redis_server.raw.pttl(keyspace.key("lease")) <= watcher_module.LEASE_S * 1_000

    first.stop()
    second.round()
    assert second.is_active


def test_lasting_warning_is_announced_by_default(
    redis_server: Store, settings: Any, mailoutbox: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_persistence(monkeypatch)
    monkeypatch.setattr("django_redis_components.dashboard.problems.incidents.WARN_AFTER_S", 0.0)
    notify(settings, EMAILS=["ops@example.com"])
    write_queue(redis_server, "mail", ready=1, age_s=400)
    write_poller(redis_server)
    serve(redis_server)

    ProblemWatcher("default").round()

    [sent] = mailoutbox
    assert sent.subject.startswith("Problem: Queue mail is behind: its oldest task has waited for 6 min ")


@pytest.mark.usefixtures("unserved")
def test_incident_is_remembered_from_its_beginning_to_its_end(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = ProblemWatcher("default")
    watcher.round()
    [first_seen] = state().incidents.values()
    watcher.round()
    [seen_again] = state().incidents.values()

    assert (first_seen.id, first_seen.severity, first_seen.queue) == ("no_worker:mail", "critical", "mail")
    assert first_seen.text.startswith("Queue mail has 2 ready tasks and no live worker.")
    assert seen_again.started_at == first_seen.started_at < seen_again.seen_at

    serve(redis_server)
    monkeypatch.setattr("django_redis_components.dashboard.problems.incidents.END_AFTER_S", -1.0)
    watcher.round()

    assert state().incidents == {}
    assert resolved_codes() == ["no_worker"]


@pytest.mark.usefixtures("unserved")
def test_webhook_is_notified_once_by_whichever_process_is_active(
    redis_server: Store, hooks: Hooks, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify(
        settings, WEBHOOKS=[hooks.url], SLACK=[hooks.url], EMAILS=["ops@example.com"], LINK="https://shop.example.com/"
    )
    first, second = ProblemWatcher("default"), ProblemWatcher("default")

    for each in (first, second, first):
        each.round()
    first.stop()
    second.round()

    webhook, slack = sorted(hooks.received, key=lambda body: "event" not in body)  # each in a separate thread
    assert (webhook["event"], webhook["code"], webhook["severity"]) == ("started", "no_worker", "critical")
    assert webhook["command"] == "python manage.py runworker mail"
    assert webhook["url"] == "https://shop.example.com/"
    assert slack["text"].startswith("Problem: Queue mail has 2 ready tasks and no live worker.")
    [sent] = mail.outbox
    assert sent.subject.startswith("Problem: Queue mail has 2 ready tasks")
    assert sent.to == ["ops@example.com"]

    serve(redis_server)
    monkeypatch.setattr("django_redis_components.dashboard.problems.incidents.END_AFTER_S", -1.0)
    second.round()
    second.round()

    assert [each["event"] for each in hooks.received if "event" in each] == ["started", "resolved"]
    assert mail.outbox[1].subject.startswith("Resolved: Queue mail has 2 ready tasks")


@pytest.mark.usefixtures("unserved")
def test_notification_is_in_the_language_of_the_site(redis_server: Store, settings: Any) -> None:
    settings.LANGUAGE_CODE = "zh-hans"
    notify(settings, EMAILS=["ops@example.com"])

    ProblemWatcher("default").round()

    assert mail.outbox[0].subject.startswith("问题：队列 mail 有 2 个就绪任务，但没有存活的工作进程。")


@pytest.mark.usefixtures("unserved")
@pytest.mark.parametrize("status", [500, 302])
def test_channel_that_fails_is_tried_again_and_the_others_are_not(
    status: int, hooks: Hooks, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify(settings, WEBHOOKS=[hooks.url], EMAILS=["ops@example.com"])
    monkeypatch.setattr(rounds_module, "CLAIMED_S", 0.0)
    hooks.status = status
    watcher = ProblemWatcher("default")

    watcher.round()
    assert [each.channels for each in state().pending] == [("webhook 1",)]
    hooks.status = 204
    watcher.round()
    watcher.round()

    assert hooks.events() == [("started", "no_worker"), ("started", "no_worker")]
    assert len(mail.outbox) == 1
    assert state().pending == ()


@pytest.mark.usefixtures("unserved")
def test_announcement_of_a_process_that_died_is_made_by_another(
    redis_server: Store, hooks: Hooks, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify(settings, WEBHOOKS=[hooks.url])
    dying, other = ProblemWatcher("default"), ProblemWatcher("default")
    with monkeypatch.context() as patch:
        patch.setattr(rounds_module, "deliver", exit_process)
        with pytest.raises(SystemExit):
            dying.round()
    redis_server.raw.delete(keyspace.key("lease"))
    other.round()
    assert hooks.received == [], "the process may still be about to deliver it"
    monkeypatch.setattr(rounds_module, "CLAIMED_S", 0.0)
    other.round()

    assert hooks.events() == [("started", "no_worker")]


@pytest.mark.usefixtures("unserved")
def test_webhook_that_responds_byte_by_byte_delays_neither_the_round_nor_the_others(
    hooks: Hooks, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify(settings, WEBHOOKS=[hooks.url], EMAILS=["ops@example.com"], TIMEOUT=0.2)
    monkeypatch.setattr(rounds_module, "CLAIMED_S", 0.0)
    hooks.is_slow = True
    watcher = ProblemWatcher("default")

    started = time.monotonic()
    watcher.round()
    watcher.round()

    assert time.monotonic() - started < 5.0
    assert hooks.events() == [("started", "no_worker")], "a channel has one delivery at a time"
    assert [each.channels for each in state().pending] == [("webhook 1",)]
    assert len(mail.outbox) == 1


@pytest.mark.usefixtures("unserved")
def test_delivery_that_succeeds_late_is_not_repeated(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    notify(settings, EMAILS=["ops@example.com"], TIMEOUT=0.05)
    monkeypatch.setattr(rounds_module, "CLAIMED_S", 0.0)
    may_end, sent = threading.Event(), []

    def send(announcement: Announcement, _channel: str) -> None:
        may_end.wait(10)
        sent.append(announcement.event)

    monkeypatch.setattr(notifications, "deliver", send)
    watcher = ProblemWatcher("default")
    watcher.round()
    assert [each.channels for each in state().pending] == [("e-mail",)]
    may_end.set()
    eventually(lambda: not is_delivering())
    watcher.round()
    watcher.round()

    assert sent == ["started"]
    assert state().pending == ()


@pytest.mark.usefixtures("unserved")
def test_mail_backend_that_ends_its_thread_is_tried_again_and_webhooks_are_not(
    hooks: Hooks, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify(settings, WEBHOOKS=[hooks.url], EMAILS=["ops@example.com"])
    monkeypatch.setattr(EmailMessage, "send", exit_process)

    ProblemWatcher("default").round()

    assert hooks.events() == [("started", "no_worker")]
    assert [each.channels for each in state().pending] == [("e-mail",)]


@pytest.mark.usefixtures("unserved")
def test_process_that_loses_its_lease_in_a_round_announces_nothing(
    redis_server: Store, hooks: Hooks, settings: Any, site_check: Callable[[Any], None]
) -> None:
    notify(settings, WEBHOOKS=[hooks.url])
    site_check(lambda _facts: redis_server.raw.set(keyspace.key("lease"), "another") and ())

    ProblemWatcher("default").round()

    assert hooks.received == []
    assert state() == IncidentState()


@pytest.mark.usefixtures("unserved")
def test_process_that_stops_in_a_round_leaves_the_lease_to_another(
    redis_server: Store, site_check: Callable[[Any], None]
) -> None:
    watcher = ProblemWatcher("default")

    def stop(_facts: object) -> list[Problem]:
        watcher.stop()
        return []

    site_check(stop)

    watcher.round()

    assert redis_server.raw.get(keyspace.key("lease")) is None


@pytest.mark.usefixtures("unserved")
@pytest.mark.parametrize("has_delivered", [True, False], ids=["this one delivered", "the other one delivered"])
def test_announcement_that_another_process_has_claimed_meanwhile_is_left_to_it(
    settings: Any, monkeypatch: pytest.MonkeyPatch, *, has_delivered: bool
) -> None:
    notify(settings, EMAILS=["ops@example.com"])

    def deliver_slowly(announcement: Announcement, _now: float) -> tuple[Announcement, dict[str, str]]:
        other = dataclasses.replace(announcement, claimed_at=announcement.claimed_at + 121)
        pending = (other,) if has_delivered else ()
        change_state(lambda before: (dataclasses.replace(before, pending=pending), []), "default")
        return (dataclasses.replace(announcement, channels=()) if has_delivered else announcement), {}

    monkeypatch.setattr(rounds_module, "deliver", deliver_slowly)
    ProblemWatcher("default").round()

    assert [each.channels for each in state().pending] == ([("e-mail",)] if has_delivered else [])


@pytest.mark.usefixtures("unserved")
def test_announcements_for_which_a_round_has_no_time_are_delivered_by_the_next(
    hooks: Hooks, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify(settings, WEBHOOKS=[hooks.url])
    watcher = ProblemWatcher("default")
    with monkeypatch.context() as patch:
        patch.setattr(rounds_module, "DELIVERY_S", -1.0)
        watcher.round()
    assert hooks.received == []

    watcher.round()

    assert hooks.events() == [("started", "no_worker")]


@pytest.mark.parametrize("by_standby", [False, True], ids=["by the process that watched", "by another"])
def test_loss_of_all_data_is_a_problem_that_names_what_was_lost(own_server: Store, *, by_standby: bool) -> None:
    write_queue(own_server, "mail", ready=20, failed=3)
    write_queue(own_server, "news", scheduled=7)
    watcher, standby = ProblemWatcher("default"), ProblemWatcher("default")
    watcher.round()
    standby.round()

    own_server.raw.flushall()
    (standby if by_standby else watcher).round()

    viewer = client_of("staff with the permission")
    found = {each["code"]: each for each in viewer.get(URL, {"format": "json"}).json()["problems"]}
    lost = found["data_lost"]
    assert lost["severity"] == "critical"
    assert lost["text"].startswith("All data in Redis was deleted before ")
    assert lost["text"].endswith(", not by a restart. It held 30 tasks in 2 queues.")
    watcher.round()
    assert "data_lost:" in state().incidents, "it is not forgotten with the next round"


@pytest.mark.parametrize(
    ("keeps_data", "ending"),
    [(True, ", not by a restart. It held 20 tasks in 1 queue."), (False, ". It held 20 tasks in 1 queue.")],
)
def test_loss_is_that_of_the_restart_only_if_the_server_has_started_without_data(
    own_server: Store, *, keeps_data: bool, ending: str
) -> None:
    """FLUSHALL follows within seconds of a restart, before the next round."""
    write_queue(own_server, "mail", ready=20)
    watcher = ProblemWatcher("default")
    watcher.round()
    [server] = own_server.servers
    server.appendonly = keeps_data

    server.stop()
    server.start()
    assert bool(own_server.raw.dbsize()) is keeps_data
    own_server.raw.flushall()
    watcher.round()

    [lost] = [problem for problem in state().incidents.values() if problem.code == "data_lost"]
    first = "All data in Redis was deleted before " if keeps_data else "Redis lost all data in a restart before "
    assert lost.text.startswith(first)
    assert lost.text.endswith(ending)


def test_refused_flushall_is_no_cause_of_a_loss(own_server: Store) -> None:
    write_queue(own_server, "mail", ready=20)
    watcher = ProblemWatcher("default")
    watcher.round()
    [server] = own_server.servers

    server.stop()
    shutil.rmtree(server.directory / "appendonlydir")
    server.start()
    own_server.raw.acl_setuser("reader", enabled=True, nopass=True, commands=["+ping", "-flushall"])
    with own_server.raw.client() as reader:
        reader.execute_command("AUTH", "reader", "any")
        with pytest.raises(redis.exceptions.NoPermissionError):
            reader.flushall()
        reader.connection.disconnect()
    assert "cmdstat_flushall" in own_server.raw.info("commandstats")
    watcher.round()

    [lost] = [problem for problem in state().incidents.values() if problem.code == "data_lost"]
    assert lost.text.startswith("Redis lost all data in a restart before ")


def test_loss_names_the_keys_of_other_components(own_server: Store) -> None:
    SearchIndex("items").add(1, "lamp")
    SignIns("check-in").sign_in(7, at=date(2025, 2, 3))
    watcher = ProblemWatcher("default")
    watcher.round()
    keys = json.loads(own_server.raw.get(keyspace.key("held")))["keys"]

    own_server.raw.flushall()
    watcher.round()

    viewer = client_of("staff with the permission")
    [lost] = [each for each in viewer.get(URL, {"format": "json"}).json()["problems"] if each["code"] == "data_lost"]
    assert set(keys) == {"search", "analytics"}
    named = f"analytics {keys['analytics']}, search {keys['search']}"
    assert lost["text"].endswith(f", not by a restart. Keys of other components: {named}.")
    assert lost["advice"].endswith(
        " runs FLUSHDB. Restore a backup. Fill indexes again with rebuild_search and rebuild_autocomplete."
    )


def test_deleting_the_last_task_is_no_loss(redis_server: Store) -> None:
    write_queue(redis_server, "mail", ready=2)
    watcher = ProblemWatcher("default")
    watcher.round()
    redis_server.raw.delete(*redis_server.raw.keys(f"{redis_server.prefix}:taskqueue:*"))
    watcher.round()

    assert "data_lost:" not in state().incidents


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "[]",
        '{"run_id": "", "queues": 1, "tasks": 3, "of a later version": 1}',
        '{"run_id": "", "queues": 1, "tasks": 3, "loss": 3}',
        '{"run_id": "", "queues": 1, "tasks": 3, "loss": {"at": "x", "queues": 1, "tasks": 3}}',
        '{"run_id": "", "queues": 1, "tasks": "x"}',
        '{"run_id": "", "queues": 1, "tasks": 3, "keys": 3}',
        '{"run_id": "", "queues": 1, "tasks": 3, "keys": {"search": "x"}}',
    ],
)
def test_note_that_another_version_has_written_is_no_loss_of_data(redis_server: Store, stored: str) -> None:
    write_queue(redis_server, "mail", ready=2)
    watcher = ProblemWatcher("default")
    watcher.round()
    redis_server.raw.set(keyspace.key("held"), stored)

    watcher.round()

    assert "data_lost:" not in state().incidents
    assert json.loads(redis_server.raw.get(keyspace.key("held")))["tasks"] == 2


def test_server_without_any_persistence_is_a_problem_at_once(own_server: Store) -> None:
    own_server.raw.config_set("appendonly", "no")
    own_server.raw.config_set("save", "")

    watcher = ProblemWatcher("default")
    watcher.round()

    found = state().incidents["no_persistence:"]
    assert found.text == "Redis stores nothing on disk: a restart of the server deletes all tasks."
    assert found.severity == "warning", "a new site has nothing to lose"

    write_queue(own_server, "mail")
    watcher.round()
    assert state().incidents["no_persistence:"].severity == "critical"


def test_outage_is_announced_by_the_process_that_was_active(
    hooks: Hooks, own_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify(settings, WEBHOOKS=[hooks.url])
    monkeypatch.setattr(watcher_module, "AWAY_AFTER_S", 0.0)
    active, standby = ProblemWatcher("default"), ProblemWatcher("default")
    active.round()
    standby.round()
    [server] = own_server.servers

    server.stop()
    for _ in range(2):
        active.round()
        standby.round()
    server.start()
    active.round()

    outage = [event for event in hooks.events() if event[1].startswith("redis_")]
    assert outage == [("started", "redis_unreachable"), ("resolved", "redis_unreachable")]
    assert "redis_unreachable" in resolved_codes()


def test_server_that_hangs_is_away_since_the_round_that_waits_for_it(
    hooks: Hooks, own_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify(settings, WEBHOOKS=[hooks.url])
    monkeypatch.setattr(watcher_module, "AWAY_AFTER_S", 0.2)
    watcher, known = ProblemWatcher("default"), settings.REDIS_COMPONENTS
    watcher.round()
    assert watcher.next_round_s() > watcher_module.AWAY_ROUND_S
    impatient = {**known["CONNECTIONS"]["default"], "SOCKET_TIMEOUT": 0.3}
    settings.REDIS_COMPONENTS = {**known, "CONNECTIONS": {**known["CONNECTIONS"], "default": impatient}}

    os.kill(own_server.servers[0].pid, signal.SIGSTOP)
    try:
        watcher.round()
        assert watcher.next_round_s() <= watcher_module.AWAY_ROUND_S
    finally:
        os.kill(own_server.servers[0].pid, signal.SIGCONT)
    settings.REDIS_COMPONENTS = known
    watcher.round()

    outage = [event for event, code in hooks.events() if code.startswith("redis_")]
    assert outage == ["started", "resolved"]
    assert [code for code in resolved_codes() if code.startswith("redis_")]


def test_thread_survives_whatever_the_announcement_of_its_start_raises(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter([OSError("no descriptor is left")])

    def client(using: str) -> Any:
        for error in errors:
            raise error
        return real(using)

    real = connections.client
    monkeypatch.setattr(watcher_module, "FIRST_ROUND_S", 0.1)
    monkeypatch.setattr(connections, "client", client)
    watcher = ProblemWatcher("default")

    watcher.start()

    eventually(lambda: redis_server.raw.exists(keyspace.key("facts")))
    watcher.stop()


def test_long_round_that_fails_at_its_end_is_no_outage_of_its_length(
    hooks: Hooks, redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify(settings, WEBHOOKS=[hooks.url])
    now = [time.time()]

    def fail(*_: object) -> None:
        now[0] += 100
        raise ConnectionError("closed")

    monkeypatch.setattr(rounds_module, "watch", fail)
    monkeypatch.setattr(watcher_module, "time", SimpleNamespace(time=lambda: now[0]))

    ProblemWatcher("default").round()

    assert hooks.events() == []


def test_only_the_active_process_asks_a_server_often_that_is_away(own_server: Store) -> None:
    active, standby = ProblemWatcher("default"), ProblemWatcher("default")
    for watcher in (active, standby):
        watcher.round()
    own_server.servers[0].stop()

    for watcher in (active, standby):
        watcher.round()

    assert active.next_round_s() <= watcher_module.AWAY_ROUND_S < standby.next_round_s()


def test_check_of_the_site_that_raises_hides_no_other_problem(unserved: None) -> None:
    def broken(_facts: object) -> Iterator[Problem]:
        yield Problem("orders", "3 orders are unpaid.", "")
        raise KeyError("no such provider")

    def fine(_facts: object) -> Iterator[Problem]:
        yield Problem("orders", "3 orders are unpaid.", "Ask the provider.")

    viewer = client_of("staff with the permission")
    for check in (broken, fine):
        register_check(check)
    try:
        ProblemWatcher("default").round()
        found = viewer.get(URL, {"format": "json"}).json()["problems"]
    finally:
        for check in (broken, fine):
            unregister_check(check)

    assert [each["code"] for each in found] == ["no_worker", "check_failed", "orders"]
    assert "broken failed" in found[1]["text"]
    assert set(state().incidents) >= {"no_worker:mail", "orders:"}


class Silent(BaseException):
    """An exception whose text cannot be read."""

    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__


class Unnamed:
    """A check that raises, whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise SystemExit

    def __call__(self, _facts: object) -> Any:
        raise Silent


def endless(_facts: object) -> Iterator[Problem]:
    for number in itertools.count():
        yield Problem("orders", "late", "", severity="critical" if number == 900 else "warning", subject=str(number))


def returning(*found: Any) -> Any:
    return lambda _facts: found


#: Checks of the site that fail, each in its own way.
HOSTILE = {
    "raises": Unnamed(),
    "returns a number": lambda _facts: 3,
    "returns no problems": returning("late", None),
    "text is none": returning(Problem("orders", None, "")),  # type: ignore[arg-type]
    "count is a text": returning(Problem("orders", "late", "", count="3")),  # type: ignore[arg-type]
    "names are unhashable": returning(Problem([], "late", "")),  # type: ignore[arg-type]
    "text cannot be read": returning(Problem("orders", Silent(), "")),  # type: ignore[arg-type]
}


@pytest.fixture
def site_check() -> Iterator[Callable[[Any], None]]:
    """Registers a check of the site until the test ends."""
    with contextlib.ExitStack() as stack:

        def register(check: Any) -> None:
            register_check(check)
            stack.callback(unregister_check, check)

        yield register


@pytest.mark.usefixtures("unserved")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_check_of_the_site_stops_neither_the_watching_thread_nor_a_page(
    name: str, site_check: Callable[[Any], None]
) -> None:
    site_check(HOSTILE[name])

    with ThreadPoolExecutor(1) as thread:
        thread.submit(ProblemWatcher("default").round).result()
        facts = thread.submit(read_facts).result()
        found = thread.submit(find_problems, facts).result()

    assert [each.code for each in found] == ["no_worker", "check_failed"]
    assert {each.code for each in state().incidents.values()} == {"no_worker", "check_failed"}


@pytest.mark.usefixtures("unserved")
def test_endless_check_is_cut_and_its_critical_problems_come_first(site_check: Callable[[Any], None]) -> None:
    site_check(endless)

    found = [each for each in find_problems(read_facts()) if each.code == "orders"]

    assert [each.subject for each in found] == ["900", "0", "1", "2", "3", "…"]
    assert found[-1].count == 995


@pytest.mark.usefixtures("unserved")
def test_texts_of_a_check_are_bounded_and_may_be_lazy(site_check: Callable[[Any], None]) -> None:
    long = "\udc80" + "x" * 100_000
    problem = Problem(long, gettext_lazy("Redis"), long, long, queue=long, subject=long)  # type: ignore[arg-type]
    other = dataclasses.replace(problem, subject=f"{long}y")
    site_check(returning(problem, other))

    ProblemWatcher("default").round()

    found = [each for each in find_problems(read_facts()) if each.text == "Redis"]
    assert len({each.id for each in found}) == 2, "they are two problems, also when their names are cut"
    incidents = [state().incidents[each.id] for each in found]
    assert [each.command for each in incidents] == ["", ""], "a part of a command is another command"
    assert len(json.dumps(state().encode())) < 10_000


def test_check_must_be_a_function() -> None:
    with pytest.raises(TypeError, match=r"^register_check\(3\): expected a function that gets ProblemFacts"):
        register_check(3)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"WEBHOOKS": ["ftp://secret.example.com"]}, "expected a list of up to ten URLs, such as 'https://hooks"),
        ({"SLACK": "https://hooks.example.com/secret"}, "expected a list of up to ten URLs"),
        ({"EMAILS": ["secret"]}, "expected a list of up to 50 e-mail addresses"),
        ({"SEVERITY": "all"}, "expected one of 'critical', 'warning'"),
    ],
)
def test_wrong_setting_names_what_is_accepted(options: Any, expected: str, settings: Any) -> None:
    notify(settings, **options)

    [error] = conf.validation_errors()

    assert expected in error
    assert "secret" not in error or "EMAILS" in error


def test_failing_queue_is_one_incident_from_the_failures_to_the_recovery(redis_server: Store) -> None:
    write_queue(redis_server, "mail", failed=40)
    write_minute(redis_server, "mail", ago=1, failed=40, succeeded=60)
    write_poller(redis_server)
    watcher = ProblemWatcher("default")
    watcher.round()
    assert state().incidents["failures:mail"].severity == "critical"

    write_minute(redis_server, "mail", ago=1, succeeded=80)
    write_minute(redis_server, "mail", ago=8, failed=40, succeeded=60)
    watcher.round()

    assert state().incidents["failures:mail"].severity == "warning"


def test_page_writes_nothing(unserved: None, redis_server: Store) -> None:
    viewer: Client = client_of("staff with the permission")
    viewer.get(URL)

    assert not redis_server.raw.keys(f"{redis_server.prefix}:problems:*")


def test_process_exits_at_once_while_redis_hangs(own_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher_module, "STOP_S", 0.05)
    watcher = ProblemWatcher("default")
    watcher.round()
    pid = own_server.servers[0].pid
    assert pid

    os.kill(pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        watcher.stop()
        stopped_s = time.monotonic() - started
    finally:
        os.kill(pid, signal.SIGCONT)

    assert stopped_s < 2.0, "the connection allows more for a reply"
    assert own_server.raw.get(keyspace.key("lease")) == watcher.id.encode()


def test_process_that_lost_its_lease_does_not_release_that_of_another(redis_server: Store) -> None:
    first, second = ProblemWatcher("default"), ProblemWatcher("default")
    first.round()
    redis_server.raw.delete(keyspace.key("lease"))
    second.round()

    first.stop()

    assert redis_server.raw.get(keyspace.key("lease")) == second.id.encode()


def test_thread_survives_a_round_and_database_connections_that_raise(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[None] = []

    def fail(_watcher: ProblemWatcher) -> None:
        rounds.append(None)
        raise Silent

    monkeypatch.setattr(watcher_module, "FIRST_ROUND_S", 0.01)
    monkeypatch.setattr(watcher_module, "ROUND_S", 0.01)
    monkeypatch.setattr("django.db.connections.close_all", exit_process)
    monkeypatch.setattr(ProblemWatcher, "round", fail)

    with raising_logs(SystemExit), watcher_module.watching("default"):
        eventually(lambda: len(rounds) > 2)


def test_process_that_runs_tasks_makes_its_first_round_later_than_a_poller(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[ProblemWatcher] = []
    monkeypatch.setattr(watcher_module, "FIRST_ROUND_S", 0.01)
    monkeypatch.setattr(ProblemWatcher, "round", lambda watcher: rounds.append(watcher))
    worker, poller = ProblemWatcher("default", runs_tasks=True), ProblemWatcher("default")

    worker.start()
    poller.start()
    try:
        eventually(lambda: rounds)
    finally:
        worker.stop()
        poller.stop()

    assert rounds == [poller]
