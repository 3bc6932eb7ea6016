"""Problems that depend on a threshold of ``DASHBOARD``: rates of tasks, and the state of the server."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_redis_components.dashboard.overview.server import server_facts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.server import clock_problem, server_problems, started_empty
from django_redis_components.taskqueue import chain
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview
from tests.dashboard.support import (
    URL,
    client_of,
    fail_with,
    now_ms,
    text_of,
    write_minute,
    write_poller,
    write_queue,
    write_worker,
)
from tests.support import Store
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import fail, note

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)

#: INFO of a server without problems.
HEALTHY = {
    "redis_version": "7.2.5",
    "uptime_in_seconds": "86400",
    "used_memory": "79",
    "maxmemory": "100",
    "aof_enabled": "1",
    "role": "master",
    "connected_slaves": "1",
    "slave0": "ip=10.0.0.2,port=6379,state=online,offset=1,lag=1",
    "rdb_last_bgsave_status": "ok",
    "rdb_last_save_time": str(int(NOW.timestamp()) - 86_400),
    "rdb_changes_since_last_save": "7",
    "connected_clients": "62",
    "maxclients": "10000",
}


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


def problems(client: Client) -> list[dict[str, str]]:
    found: list[dict[str, str]] = client.get(URL, {"format": "json"}).json()["problems"]
    return found


def failure_rate(client: Client) -> str:
    """Return the class of the card of the failure rate."""
    [found] = re.findall(r'<div( class="[^"]*")?>\s*<dt>(?:<a[^>]*>)?Failure rate', client.get(URL).content.decode())
    return found.removeprefix(' class="').rstrip('"')


def overview_of(**changed: str) -> TaskQueueOverview:
    return TaskQueueOverview(NOW, [], [], None, None, server=HEALTHY | changed)


def found_in(watched: Any = None, **changed: str) -> list[Problem]:
    return list(server_problems(overview_of(**changed), watched or {}))


def test_failures_are_critical_from_twice_the_failure_rate(redis_server: Store, viewer: Client) -> None:
    for queue, failed in (("mail", 13), ("news", 6), ("fine", 5)):
        write_queue(redis_server, queue, failed=failed)
        write_minute(redis_server, queue, succeeded=100 - failed, failed=failed)
    write_poller(redis_server)

    found = problems(viewer)

    assert [(each["queue"], each["severity"]) for each in found] == [("mail", "critical"), ("news", "warning")]
    assert found[0]["text"] == "Queue mail: 13.00 % of tasks failed in the last 5 min (13 of 100)."
    assert found[0]["command"] == "python manage.py redis queues errors mail"


def test_cause_of_failures_is_the_error_with_most_of_them(redis_server: Store, viewer: Client) -> None:
    fail_with(*["mail server is away"] * 25)
    fail_with(*["unknown address kim@example.org"] * 3, *[f"error {letter}" for letter in "abcde"])
    write_poller(redis_server)

    found = problems(viewer)[0]

    assert found["code"] == "failures"
    assert re.match(
        r"33 failed tasks are left\. 25 failures in the last hour with the same error, first seen [\d:]+: "
        r"LookupError: mail server is away\. "
        r"Others: LookupError: unknown address …@… \(3\); LookupError: error \w \(1\); ",
        found["advice"],
    )
    assert found["fingerprint"] == "", "there is no one error to retry"
    root = Client()
    root.force_login(User.objects.create_superuser("root"))
    [link] = re.findall(r'href="([^"]+)">Retry all…', root.get(URL).content.decode())
    assert "Retry 33 failed tasks of the queue “default”?" in text_of(root.get(unescape(link)).content.decode())


def test_each_named_error_of_a_queue_can_be_retried(redis_server: Store, viewer: Client) -> None:
    fail_with(*["mail server is away"] * 25)
    fail_with(*["unknown address"] * 3, "no <b>reply</b>")
    write_minute(redis_server, "default", failed=29)
    write_poller(redis_server)
    root = Client()
    root.force_login(User.objects.create_superuser("root"))

    page = root.get(URL).content.decode()

    links = re.findall(r'href="([^"]+)">Retry…<span class="drc-vh"> ([^<]+)</span></a> <bdi>', page)
    assert [unescape(error) for _url, error in links] == [
        "LookupError: mail server is away",
        "LookupError: unknown address",
        "LookupError: no <b>reply</b>",
    ]
    assert "Retry 3 failed tasks of this error?" in text_of(root.get(unescape(links[1][0])).content.decode())
    assert "drc-retry" not in viewer.get(URL).content.decode()


def test_errors_of_earlier_hours_are_no_cause(redis_server: Store, viewer: Client) -> None:
    fail_with(*["mail server is away"] * 25)
    [group] = redis_server.raw.keys(f"{home().base}:q:default:error:*")
    redis_server.raw.hset(group, "minutes", f"{now_ms(redis_server) // 60_000 - 90}:25")
    write_poller(redis_server)

    [found] = problems(viewer)

    assert found["advice"] == "25 failed tasks are left. Correct the cause, then retry the tasks. List the errors:"


def test_failures_end_with_their_cause(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", failed=150)
    write_minute(redis_server, "mail", ago=20, succeeded=150, failed=150)
    write_minute(redis_server, "mail", ago=10, succeeded=60)
    write_poller(redis_server)

    [recovering] = problems(viewer)

    assert (recovering["code"], recovering["severity"]) == ("failures", "warning")
    assert recovering["text"] == "Queue mail recovers: 0 of the last 60 tasks failed."
    assert recovering["advice"].startswith("150 failed tasks are left. ")
    assert recovering["command"] == "python manage.py redis queues retry mail"


def test_failures_are_a_warning_once_none_has_failed_for_minutes(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", failed=150)
    write_minute(redis_server, "mail", ago=7, succeeded=150, failed=150)
    write_poller(redis_server)

    [quiet] = problems(viewer)

    assert (quiet["code"], quiet["severity"]) == ("failures", "warning")
    assert re.fullmatch(r"Queue mail: no task has failed for [78] min\.", quiet["text"])
    assert quiet["advice"].startswith("150 failed tasks are left. ")
    assert quiet["command"] == "python manage.py redis queues retry mail"
    assert failure_rate(viewer) == "", "the card alarms while tasks fail"


@pytest.mark.parametrize(
    ("left", "failed", "text", "severity"),
    [
        (150, 150, "Queue mail: 50.00 % of tasks failed in the last 5 min (150 of 300).", "critical"),
        (3, 3, "Queue mail recovers: 3 of the last 300 tasks failed.", "warning"),
    ],
)
def test_a_retry_is_no_new_task_in_the_share_that_has_failed(
    left: int, failed: int, text: str, severity: str, redis_server: Store, viewer: Client
) -> None:
    """150 of 300 have failed, and were retried: all have failed twice, or three have."""
    write_queue(redis_server, "mail", failed=left)
    write_minute(redis_server, "mail", ago=2, succeeded=150, failed=150)
    write_minute(redis_server, "mail", ago=1, succeeded=150 - failed, failed=failed)
    write_poller(redis_server)

    [found] = problems(viewer)

    assert (found["text"], found["severity"]) == (text, severity)
    again = "150 failures are not counted: the tasks were retried or deleted since, or never ran."
    assert found["advice"].startswith(f"{left} failed tasks are left. {again} ")
    assert failure_rate(viewer) == ("drc-alarming" if severity == "critical" else "")


def test_steps_of_a_flow_that_never_ran_do_not_count(redis_server: Store, viewer: Client) -> None:
    note.enqueue_many([((number,), {}) for number in range(40)])
    for _number in range(2):
        chain(fail.s(), *[note.si("never") for _step in range(4)]).enqueue()
    work_off()
    write_poller(redis_server)

    assert problems(viewer) == [], "2 of 42 have failed: 8 of the 10 have not run"
    assert failure_rate(viewer) == ""

    chain(fail.s(), note.si("never")).enqueue()
    work_off()

    [found] = problems(viewer)
    assert found["text"] == "Queue default: 6.98 % of tasks failed in the last 5 min (3 of 43)."
    assert "9 failures are not counted: the tasks were retried or deleted since, or never ran." in found["advice"]
    assert failure_rate(viewer) == "drc-alarming"


def test_failures_are_over_when_no_failed_task_is_left(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail")
    write_minute(redis_server, "mail", ago=3, succeeded=300, failed=150)
    write_poller(redis_server)

    assert problems(viewer) == [], "they were retried with success, or deleted"


def test_sudden_failures_are_found_although_the_hour_was_good(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", failed=40)
    write_minute(redis_server, "mail", ago=30, succeeded=10_000)
    write_minute(redis_server, "mail", succeeded=20, failed=40)
    write_poller(redis_server)

    [found] = problems(viewer)

    assert found["text"] == "Queue mail: 66.67 % of tasks failed in the last 5 min (40 of 60)."
    assert found["severity"] == "critical"


def test_few_failures_are_no_failure_rate(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail")
    write_minute(redis_server, "mail", succeeded=9, failed=10)
    write_poller(redis_server)

    assert problems(viewer) == []


def test_retries_and_lost_leases_are_problems(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail")
    write_minute(redis_server, "mail", succeeded=30, retried=31, recovered=10)
    write_poller(redis_server)

    found = problems(viewer)

    assert [each["code"] for each in found] == ["retry_storm", "leases_lost"]
    assert found[0]["text"] == "Queue mail: 31 retries in the last hour, 30 finished tasks."


def test_one_lost_lease_is_named_in_the_singular(redis_server: Store, viewer: Client, settings) -> None:
    thresholds = settings.REDIS_COMPONENTS["DASHBOARD"] | {"LOST_LEASES": 1}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": thresholds}
    write_queue(redis_server, "mail")
    write_minute(redis_server, "mail", succeeded=1, retried=31, recovered=1)
    write_poller(redis_server)

    assert [each["text"] for each in problems(viewer)] == [
        "Queue mail: 31 retries in the last hour, 1 finished task.",
        "Queue mail: 1 lease lost in the last hour.",
    ]


def test_queue_with_more_arrivals_than_completions_is_growing(redis_server: Store, viewer: Client, settings) -> None:
    base, now = home().base, now_ms(redis_server)
    write_queue(redis_server, "mail", ready=100, age_s=100)
    pipe = redis_server.raw.pipeline()
    for number in range(100):  # one each second
        pipe.hset(f"{base}:t:mail-{number}", "e", str((now - (100 - number) * 1_000) * 1_000))
    pipe.execute()
    write_minute(redis_server, "mail", succeeded=50)
    write_worker(redis_server, "here:a", queues=["mail"])
    write_poller(redis_server)

    [found] = problems(viewer)

    assert re.match(r"Queue mail is growing: ([2-5]\d|60)/min in, ", found["text"])  # fewer on a busy machine
    assert "growing" in viewer.get(URL).content.decode()

    thresholds = settings.REDIS_COMPONENTS["DASHBOARD"] | {"LATE_AFTER": 60, "GROWING_AFTER": 3_600}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": thresholds}
    assert [each["code"] for each in problems(viewer)] == ["late"], "it is reported, as either"


def test_names_and_modules_of_unregistered_tasks_are_listed(redis_server: Store, viewer: Client) -> None:
    base = home().base
    write_queue(redis_server, "mail", unregistered=2)
    for number, name in enumerate(["shop.mails.send", "shop.<b>.x"]):
        redis_server.raw.hset(f"{base}:t:unregistered-{number}", mapping={"n": name, "q": "mail", "s": "unregistered"})
    write_poller(redis_server)

    [found] = problems(viewer)

    assert "shop.mails.send" in found["advice"]
    assert "Modules to import: shop.<b>, shop.mails." in found["advice"]
    assert "shop.<b>" not in viewer.get(URL).content.decode()


def test_start_of_a_server_without_append_only_file_is_a_warning(own_server: Store, viewer: Client, settings) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {}}
    own_server.raw.config_set("maxmemory", "1gb")
    own_server.raw.config_set("appendonly", "no")

    [found] = problems(viewer)

    assert (found["code"], found["severity"]) == ("restarted", "warning")
    host, port = re.findall(r"//([^:]+):(\d+)", own_server.url)[0]
    assert found["command"] == f"redis-cli -h {host} -p {port} CONFIG SET appendonly yes"
    html = viewer.get(URL).content.decode()
    assert "of 1.0" in html  # the panel of the server
    assert "primary, replicas: 0" in html


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"uptime_in_seconds": "5"}, "restarted"),
        ({"aof_enabled": "0"}, "no_persistence"),
        ({"used_memory": "81"}, "memory"),
        ({"connected_clients": "8001", "maxclients": "10000"}, "clients"),
        ({"slave0": "ip=10.0.0.2,port=6379,state=online,offset=1,lag=11"}, "replica_lag"),
        ({"rdb_last_bgsave_status": "err"}, "disk"),
        ({"role": "slave", "master_link_status": "down"}, "replica_link"),
    ],
)
def test_state_of_the_server_is_a_problem(changed: dict[str, str], code: str) -> None:
    assert [problem.code for problem in found_in(**changed)] == [code]


def test_healthy_server_has_no_problems() -> None:
    assert found_in() == []
    assert found_in(aof_enabled="0", rdb_changes_since_last_save="0") == []
    values = [fact.value for fact in server_facts(HEALTHY, NOW)]
    assert values[2:] == ["append-only file", "primary, replicas: 1", "62 of 10,000", "Redis 7.2.5", "1 d"]


def test_start_without_data_is_told_from_a_restart() -> None:
    new = found_in(uptime_in_seconds="5", aof_enabled="0", rdb_last_load_keys_loaded="0")[0]
    loaded = found_in(uptime_in_seconds="5", aof_enabled="0", rdb_last_load_keys_loaded="7")[0]

    assert (new.text, new.severity) == ("Redis started 5 s ago without data.", "warning")
    assert new.advice == "The append-only file is off: a restart loses what no snapshot has saved. Turn it on:"
    assert (loaded.text, loaded.severity) == ("Redis restarted 5 s ago.", "critical")


def test_start_of_a_server_that_stores_nothing_is_one_problem() -> None:
    fresh = {"uptime_in_seconds": "5", "aof_enabled": "0", "rdb_last_load_keys_loaded": "0"}
    fresh["rdb_changes_since_last_save"] = "0"

    assert found_in({"persistence": ""}, **fresh) == [], "no_persistence says it"
    assert started_empty(overview_of(**fresh), {}) == "Redis started 5 s ago without data."
    assert started_empty(overview_of(**fresh | {"rdb_last_load_keys_loaded": "7"}), {}) == ""
    assert started_empty(overview_of(**fresh | {"uptime_in_seconds": "600"}), {}) == ""
    assert [each.code for each in found_in({"persistence": "3600 1"}, **fresh)] == ["restarted"]


@pytest.mark.parametrize(
    ("before_s", "is_restart", "is_of_this_start"), [(3, True, True), (3, False, False), (60, True, False)]
)
def test_start_that_lost_data_is_one_problem(before_s: int, is_restart: bool, is_of_this_start: bool) -> None:
    loss = {"at": NOW.timestamp() - before_s, "queues": 1, "tasks": 30, "is_restart": is_restart}

    empty = {"uptime_in_seconds": "5", "aof_enabled": "0", "rdb_last_load_keys_loaded": "0"}
    found = found_in({"data_loss": loss}, **empty)

    assert ("restarted" not in [each.code for each in found]) is is_of_this_start, "data_lost says it"
    assert (started_empty(overview_of(**empty), {"data_loss": loss}) == "") is is_of_this_start, "nor no_persistence"


def test_start_of_the_server_is_not_shown_as_a_snapshot() -> None:
    info = {**HEALTHY, "aof_enabled": "0"}

    saved = [fact.value for fact in server_facts(info | {"rdb_last_bgsave_time_sec": "0"}, NOW)][2]
    unsaved = [fact.value for fact in server_facts(info | {"rdb_last_bgsave_time_sec": "-1"}, NOW)][2]

    assert saved.startswith("no append-only file; last snapshot: ")
    assert unsaved == "no append-only file; no snapshot since the start of the server"


@pytest.mark.parametrize(("offset_s", "side"), [(1.5, "ahead of"), (-1.5, "behind")])
def test_clock_offset_is_a_problem(offset_s: float, side: str) -> None:
    [found] = clock_problem(offset_s)

    assert found.text == f"The clock of Redis is 1.5 s {side} the clock of this host."
    assert list(clock_problem(0.9)) == []
