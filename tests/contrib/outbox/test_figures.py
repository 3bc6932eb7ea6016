"""What operators see: the panel, the problem, `doctor`, the system check, and the migration."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import Error as DatabaseError
from django.db import connection, connections
from django.utils import timezone, translation

from django_redis_components.checks import check_schedules
from django_redis_components.contrib.outbox import storage
from django_redis_components.contrib.outbox.models import OutboxEntry
from django_redis_components.contrib.outbox.relay import Relay
from django_redis_components.contrib.prometheus import RedisComponentsCollector
from django_redis_components.dashboard.problems import Problem
from django_redis_components.dashboard.problems.facts import read_facts
from django_redis_components.dashboard.problems.finding import find_problems
from django_redis_components.taskqueue import outbox, registry
from tests.conftest import components_settings
from tests.contrib.outbox.support import SITE, nothing_is_sent, row_count, use_outbox
from tests.dashboard.support import URL, client_of, text_of
from tests.support import Store
from tests.support.processes import Children
from tests.taskqueue.support import taskqueue_settings
from tests.taskqueue.tasks import add
from tools.localserver import free_port

pytestmark = pytest.mark.integration


def wait_since(minutes: int, calls: int) -> None:
    """Store calls that were not sent since some minutes."""
    with nothing_is_sent():
        for _ in range(calls):
            add.enqueue_on_commit(1, 1)
    OutboxEntry._base_manager.update(created_at=timezone.now() - timedelta(minutes=minutes))


def problems() -> list[Problem]:
    return [each for each in find_problems(read_facts("default")) if each.code.startswith("outbox")]


def test_overview_shows_the_backlog(redis_server: Store, table: None) -> None:
    client = client_of("superuser")
    assert "Outbox Waiting 0 Oldest –" in text_of(client.get(URL).content.decode())

    wait_since(7, calls=3)

    assert "Outbox Waiting 3 Oldest 7 min" in text_of(client.get(URL).content.decode())
    data = client.get(URL, {"format": "json"}).json()["panels"]["outbox"]
    assert (data["count"], data["is_cut"], data["missing"]) == (3, False, [])


def test_calls_that_wait_are_a_problem(redis_server: Store, table: None) -> None:
    wait_since(0, calls=2)
    assert problems() == []

    wait_since(2, calls=1)

    [problem] = problems()
    assert problem.text.startswith("3 calls wait in the outbox, the oldest since ")
    assert (problem.severity, problem.command) == ("critical", "python manage.py runpoller")
    with translation.override("zh-hans"):
        assert problems()[0].text.startswith("发件箱中有 3 个调用在等待")


def test_number_of_waiting_calls_is_bounded(redis_server: Store, table: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "MAX_COUNTED", 2)
    wait_since(2, calls=4)

    assert problems()[0].text.startswith("2+ calls wait in the outbox")


def test_doctor_finds_the_missing_table_and_the_waiting_calls(redis_server: Store, installed: None, db: None) -> None:
    def findings() -> dict[str, dict[str, str]]:
        out = io.StringIO()
        with contextlib.suppress(SystemExit):
            call_command("redis", "doctor", "--json", stdout=out)
        return {each["code"]: each for each in json.loads(out.getvalue())["findings"]}

    found = findings()["outbox_table"]

    assert (found["severity"], found["command"]) == ("critical", "python manage.py migrate")
    assert found["text"] == "The outbox has no table: calls that are enqueued on commit fail."


def test_doctor_finds_calls_that_wait(redis_server: Store, table: None) -> None:
    wait_since(2, calls=1)
    out = io.StringIO()

    with contextlib.suppress(SystemExit):
        call_command("redis", "doctor", stdout=out)

    assert "1 call waits in the outbox, the oldest since " in out.getvalue()
    assert row_count() == 1


def samples_of_the_outbox() -> dict[str, float]:
    """Return what Prometheus scrapes."""
    pytest.importorskip("prometheus_client")
    return {
        sample.name.removeprefix("redis_components_outbox_"): sample.value
        for family in RedisComponentsCollector().collect()
        for sample in family.samples
        if sample.name.startswith("redis_components_outbox_")
    }


def test_prometheus_gets_the_number_of_rows_and_the_age_of_the_oldest(redis_server: Store, table: None) -> None:
    assert samples_of_the_outbox() == {"rows": 0, "oldest_row_age_seconds": 0}

    wait_since(7, calls=3)
    OutboxEntry._base_manager.create(using="other", token="x", format=1, message=b"", size=0)

    found = samples_of_the_outbox()
    assert found["rows"] == 3
    assert 7 * 60 <= found["oldest_row_age_seconds"] < 8 * 60


def test_prometheus_gets_the_rows_while_redis_is_away(table: None, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "CONNECTIONS": {"default": {"URL": f"redis://127.0.0.1:{free_port()}/0"}},
    }
    wait_since(2, calls=1)

    assert samples_of_the_outbox()["rows"] == 1


def test_prometheus_gets_no_rows_without_the_app_or_if_the_database_fails(
    redis_server: Store, installed: None, db: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert samples_of_the_outbox() == {"rows": 0, "oldest_row_age_seconds": 0}, "the table is missing"

    def fail(_: str) -> None:
        raise DatabaseError("the server closed the connection")

    monkeypatch.setattr(storage, "has_table", fail)
    assert samples_of_the_outbox() == {}
    assert "The metrics of the outbox cannot be read: the server closed the connection" in caplog.text
    outbox.install(None)
    assert samples_of_the_outbox() == {}


def test_figures_read_a_bounded_number_of_rows(
    redis_server: Store, table: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of another connection count, too: there is no index of the connections."""
    monkeypatch.setattr(storage, "MAX_COUNTED", 3)
    rows = [OutboxEntry(using=using, token="x", format=1, message=b"", size=0) for using in ("other", "default") * 2]
    OutboxEntry._base_manager.bulk_create(rows)

    backlog = storage.read_backlog("default")

    assert (backlog.count, backlog.is_cut) == (1, True)


def test_scrape_in_a_new_thread_leaves_no_database_connection_open(
    redis_server: Store, table: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ones: list[Any] = []

    def scrape() -> None:
        samples_of_the_outbox()
        open_ones.extend(each.connection for each in connections.all(initialized_only=True))

    monkeypatch.setattr(
        storage, "read_backlog", lambda _: (connection.ensure_connection(), storage.Backlog(0, False, None))[1]
    )
    thread = threading.Thread(target=scrape)
    thread.start()
    thread.join()

    assert open_ones == [None]


def status(*options: str) -> str:
    out = io.StringIO()
    call_command("redis", "outbox", "status", *options, stdout=out)
    return out.getvalue()


def test_command_shows_rows_by_connection_and_the_relay(redis_server: Store, table: None) -> None:
    assert status().splitlines() == [
        "No row waits in the outbox.",
        "Relay of connection 'default': none is active. Start a worker, or a poller: manage.py runpoller.",
    ]
    wait_since(7, calls=3)
    OutboxEntry._base_manager.create(using="renamed", token="x", format=1, message=b"", size=0)
    relay = Relay("default")
    with nothing_is_sent():
        relay.step()
        add.enqueue_on_commit(1, 1)
    wait_since(7, calls=2)

    shown = status()

    assert re.search(r"^default +default +3 +\d+ min \d+ s$", shown, re.M)
    assert re.search(r"^default +renamed +1 +\d+ min \d+ s$", shown, re.M)
    assert re.search(rf"^Relay of connection 'default': .*{os.getpid()}.*, active for ", shown, re.M)
    assert "Relay of connection 'renamed': the settings have no such connection, so its rows are not sent." in shown
    relay.release()
    data = json.loads(status("--json", "--using", "default"))
    assert [(row["database"], row["connection"], row["count"]) for row in data["rows"]] == [("default", "default", 3)]
    assert data["rows"][0]["oldest_age_s"] >= 7 * 60


def test_command_to_start_a_relay_has_the_connection(redis_server: Store, table: None, settings: Any) -> None:
    settings.REDIS_COMPONENTS = components_settings(redis_server, far=redis_server.url)

    assert "a poller: manage.py runpoller --using far." in status("--using", "far")


def test_command_shows_rows_while_redis_is_away(table: None, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "CONNECTIONS": {"default": {"URL": f"redis://127.0.0.1:{free_port()}/0"}},
    }
    wait_since(2, calls=1)

    assert re.search(r"^default +default +1 +\d+ min \d+ s$", status(), re.M)
    assert "Relay of connection 'default': unknown, Redis is unavailable: " in status()


def test_command_names_what_is_missing(
    redis_server: Store, installed: None, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Database 'default' has no table: run manage.py migrate." in status()

    def fail(_: str) -> None:
        raise DatabaseError("the server closed the connection")

    monkeypatch.setattr(storage, "has_table", fail)
    with pytest.raises(CommandError, match=r"^Database 'default' cannot be read: the server closed the connection$"):
        status()
    outbox.install(None)
    assert status().startswith('The outbox is not installed: "django_redis_components.contrib.outbox" is not in')


def test_setting_without_the_app_is_an_error(settings: Any) -> None:
    use_outbox(settings)

    [message] = check_schedules()

    assert message.id == "drc.E047"
    assert message.msg == (
        'REDIS_COMPONENTS["TASKQUEUE"]["OUTBOX"] is True, but "django_redis_components.contrib.outbox" is not in'
        " INSTALLED_APPS."
    )
    assert message.hint == (
        'Add "django_redis_components.contrib.outbox" to INSTALLED_APPS and run "manage.py migrate", or remove the'
        " option. Until then enqueue_on_commit raises InvalidTask."
    )


def test_task_with_the_option_without_the_app_is_an_error(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    taskqueue_settings(settings)
    monkeypatch.setattr(registry, "all_tasks", lambda: [add.using(outbox=True), add.using(outbox=False)])

    [message] = check_schedules()

    assert message.id == "drc.E047"
    assert message.msg.startswith("Task tests.taskqueue.tasks.add has outbox=True, but ")


def test_migration_is_that_of_the_model(redis_server: Store, children: Children) -> None:
    child = children.manage("makemigrations", "--check", "--dry-run", env=SITE)

    assert child.wait() == 0, child.output
