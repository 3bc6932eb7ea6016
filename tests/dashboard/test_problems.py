"""Problems on the overview, with their remedies."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from django_redis_components.core.client import connections
from django_redis_components.dashboard.problems import queues as queue_problems
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats import queue_stats
from tests.dashboard.support import URL, client_of, now_ms, page_text, text_of, write_poller, write_queue, write_worker
from tests.support import Store
from tests.taskqueue.support import taskqueue_settings

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


def problems(client: Client) -> list[dict[str, str]]:
    return client.get(URL, {"format": "json"}).json()["problems"]


def sentences(client: Client) -> list[str]:
    return [" ".join(filter(None, (each["text"], each["advice"], each["command"]))) for each in problems(client)]


def test_healthy_site_has_no_problems(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "default", ready=3, age_s=2)
    write_worker(redis_server, "here:a", seen_s=1)
    write_poller(redis_server)

    assert problems(viewer) == []
    assert "No problems" in page_text(viewer)


def test_failed_tasks_below_the_threshold_are_in_the_headline(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "default", failed=1_200)
    write_queue(redis_server, "mail", failed=34)
    write_poller(redis_server)

    text = page_text(viewer)

    assert problems(viewer) == []
    assert "No threshold is exceeded. Failed tasks: 1,234 checked at" in text
    assert "No problems" not in text


def test_ready_tasks_without_live_worker_are_a_problem(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", ready=2, age_s=3_700)
    write_worker(redis_server, "here:a", queues=["default"])
    write_worker(redis_server, "gone:b", queues=["mail"], seen_s=50)
    write_poller(redis_server)

    first = sentences(viewer)[0]

    assert re.fullmatch(
        r"Queue mail has 2 ready tasks and no live worker\. Oldest: 1 h 1 min\. "
        r"Its last worker, gone \(7\), was lost [\w ]+ ago\. Start a worker: python manage\.py runworker mail",
        first,
    )


def test_one_ready_task_without_live_worker_uses_the_singular(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", ready=1, age_s=65)
    write_poller(redis_server)

    assert problems(viewer)[0]["text"].startswith("Queue mail has 1 ready task and no live worker. Oldest: 1 min")


@pytest.mark.parametrize(("scheduled", "tasks"), [(1, "1 scheduled task"), (50, "50 scheduled tasks")])
def test_scheduled_tasks_without_live_worker_are_a_warning(
    scheduled: int, tasks: str, redis_server: Store, viewer: Client
) -> None:
    write_queue(redis_server, "mail", scheduled=scheduled)
    write_queue(redis_server, "served", scheduled=1)
    write_worker(redis_server, "here:a", queues=["served"])
    write_poller(redis_server)

    [found] = problems(viewer)

    assert (found["code"], found["severity"], found["queue"]) == ("no_worker", "warning", "mail")
    assert re.fullmatch(rf"Queue mail has {tasks} and no live worker\. Next due: .*\d\d:\d\d:\d\d\.", found["text"])
    assert (found["advice"], found["command"]) == ("Start a worker:", "python manage.py runworker mail")
    assert "mail No worker 0 " in page_text(viewer)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("a b", "python manage.py runworker 'a b'"),
        ("$(rm -rf x)", "python manage.py runworker '$(rm -rf x)'"),
        ("--help", "python manage.py runworker -- --help"),
        ("it's", """python manage.py runworker 'it'"'"'s'"""),
    ],
)
def test_suggested_command_is_shell_quoted(name: str, command: str, redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, name, ready=1)
    write_poller(redis_server)

    assert problems(viewer)[0]["command"] == command


def test_eviction_policy_is_a_problem(own_server: Store, viewer: Client) -> None:
    own_server.raw.config_set("maxmemory-policy", "allkeys-lru")
    server = connections.endpoint("default").redis_cli()

    assert sentences(viewer) == [
        (
            "Redis may evict tasks when its memory is full: maxmemory-policy is allkeys-lru. "
            "Set maxmemory-policy to noeviction, or use a separate server for the task queue. "
            f"{server} CONFIG SET maxmemory-policy noeviction"
        )
    ]


def test_missing_poller_is_a_problem(redis_server: Store, viewer: Client) -> None:
    write_worker(redis_server, "here:a")

    assert sentences(viewer) == [
        (
            "No poller is active: tasks of crashed workers are not recovered. "
            "Start a poller, or a worker without --no-poller: python manage.py runpoller"
        )
    ]


def test_late_queue_is_a_problem(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "default", ready=1, age_s=302)
    write_queue(redis_server, "high", ready=1, age_s=250)
    write_worker(redis_server, "here:a", queues=["default", "high"])
    write_poller(redis_server)

    [found] = problems(viewer)

    assert found["code"] == "late"
    assert found["text"].startswith("Queue default is behind: its oldest task has waited for 5 min")
    assert found["advice"] == "It has too few workers, or long tasks occupy them. Add a worker:"


def test_late_after_setting_is_respected(redis_server: Store, viewer: Client, settings) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"LATE_AFTER": 7_200, "RESTARTED_WITHIN": 0}}
    write_queue(redis_server, "default", ready=1, age_s=7_000)
    write_worker(redis_server, "here:a")
    write_poller(redis_server)

    assert problems(viewer) == []


def test_lost_worker_is_a_problem(redis_server: Store, viewer: Client) -> None:
    write_worker(redis_server, "web-3:a", seen_s=125, pid=99)
    write_poller(redis_server)

    [found] = problems(viewer)

    assert found["text"].startswith("Worker web-3 (99) is lost. Last heartbeat: 2 min")
    assert (
        found["advice"]
        == "It held no tasks at its last heartbeat. Check the worker’s log and its host, then restart it."
    )


@pytest.mark.parametrize(
    ("host", "queue", "started_s", "lost", "is_over"),
    [
        ("web-3", "default", 60, 1, True),
        ("web-3", "default", 200, 1, False),
        ("web-4", "default", 60, 1, False),
        ("web-3", "video", 60, 1, False),
        ("web-3", "default", 60, 2, False),
    ],
)
def test_lost_worker_is_no_problem_once_its_host_has_a_new_one(
    host: str, queue: str, started_s: int, lost: int, is_over: bool, redis_server: Store, viewer: Client
) -> None:
    for number in range(lost):
        write_worker(redis_server, f"web-3:{number}", seen_s=125)
    started_at = now_ms(redis_server) / 1_000 - started_s
    write_worker(redis_server, "new:b", host=host, queues=[queue], started_at=started_at)
    write_poller(redis_server)

    assert ([each["code"] for each in problems(viewer)] == []) is is_over


def test_worker_with_a_dead_thread_is_a_problem(redis_server: Store, viewer: Client) -> None:
    write_worker(redis_server, "web-3:a", pid=99, threads=4, lost_threads=1)
    write_poller(redis_server)

    [found] = problems(viewer)

    assert (found["code"], found["text"]) == ("threads_lost", "Worker web-3 (99) has 3 of 4 threads.")
    assert found["advice"] == (
        "Its process is restarted when its running tasks have finished. Its log names the error."
    )


@pytest.mark.parametrize(("seen_s", "codes"), [(9, []), (11, ["worker_silent"]), (16, ["worker_lost"])])
def test_worker_that_misses_two_heartbeats_is_a_problem(
    seen_s: int, codes: list[str], redis_server: Store, viewer: Client
) -> None:
    write_worker(redis_server, "web-3:a", seen_s=seen_s, pid=99, leases=3)
    write_poller(redis_server)

    found = problems(viewer)

    assert [each["code"] for each in found] == codes
    for each in found:
        assert re.search(rf" Last heartbeat: {seen_s} s ago\.$", each["text"])
        assert re.fullmatch(
            r"It held 3 tasks at its last heartbeat\. Its 3 tasks return to their queues by [\d:]+\. "
            r"Check the worker’s log and its host, then restart it\.",
            each["advice"],
        )


def test_tasks_of_a_lost_worker_are_not_promised_without_poller(redis_server: Store, viewer: Client) -> None:
    write_worker(redis_server, "web-3:a", seen_s=16, leases=1)

    [_poller, found] = problems(viewer)

    assert found["advice"] == (
        "It held 1 task at its last heartbeat. No poller is active to return it to its queue. "
        "Check the worker’s log and its host, then restart it."
    )


@pytest.mark.parametrize(("lease_s", "lost"), [(15, True), (60, False)])
def test_worker_is_lost_after_the_duration_of_a_lease(
    lease_s: int, lost: bool, redis_server: Store, viewer: Client, settings
) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"LEASE": lease_s}}
    write_worker(redis_server, "web-3:a", seen_s=30)
    write_poller(redis_server)

    assert bool(problems(viewer)) == lost


def test_unregistered_tasks_are_a_problem(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", unregistered=1)
    write_queue(redis_server, "news", unregistered=2)
    write_poller(redis_server)

    assert sentences(viewer) == [
        (
            "Queue mail has 1 task with an unregistered name. It is requeued when "
            "a worker that registers the name starts: python manage.py runworker mail"
        ),
        (
            "Queue news has 2 tasks with unregistered names. They are requeued when "
            "a worker that registers the names starts: python manage.py runworker news"
        ),
    ]


def test_a_paused_queue_is_neither_unserved_nor_late(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", ready=3, age_s=4_000)
    write_poller(redis_server)
    get_queue("mail").pause("<b>no</b> mail")

    [found] = problems(viewer)

    assert found["text"] == "Queue mail is paused and has 3 ready tasks."
    assert found["advice"].endswith("ago: <b>no</b> mail. Resume it:")
    assert found["command"] == "python manage.py redis queues resume mail"


def test_pause_note_names_author_and_end(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", ready=1)
    write_poller(redis_server)
    get_queue("mail").pause("", author="anna", until=3_600)

    [found] = problems(viewer)

    assert found["text"] == "Queue mail is paused and has 1 ready task."
    assert re.fullmatch(r"Paused .* ago by anna until [\w ,.]*\d\d:\d\d:\d\d\. Resume it:", found["advice"])


def test_paused_queue_without_ready_tasks_is_no_problem(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", failed=1)
    write_poller(redis_server)
    get_queue("mail").pause("night")

    assert problems(viewer) == []
    assert "mail Paused 0" in page_text(viewer)


def test_many_queues_without_a_worker_are_one_row_with_one_command(redis_server: Store, viewer: Client) -> None:
    for number in range(9):
        write_queue(redis_server, f"queue-{number}", ready=2, age_s=65)
    write_poller(redis_server)

    [found] = problems(viewer)

    assert found["text"].startswith("9 queues have 18 ready tasks and no live worker. Oldest: 1 min ")
    assert found["command"] == "python manage.py runworker " + " ".join(f"queue-{number}" for number in range(9))
    assert "Critical: 9 · Warnings: 0" in page_text(viewer)


def test_many_queues_with_scheduled_tasks_and_no_worker_are_one_row(redis_server: Store, viewer: Client) -> None:
    for number in range(6):
        write_queue(redis_server, f"queue-{number}", scheduled=2)
    write_poller(redis_server)

    [found] = problems(viewer)

    assert found["text"].startswith("6 queues have 12 scheduled tasks and no live worker. Next due: ")
    assert (found["severity"], found["count"]) == ("warning", 6)


def test_more_than_five_problems_of_a_kind_are_summarized(redis_server: Store, viewer: Client) -> None:
    for number in range(9):
        write_worker(redis_server, f"gone-{number}:a", seen_s=50)
    write_poller(redis_server)

    found = problems(viewer)

    assert [each["code"] for each in found] == ["worker_lost"] * 6
    assert found[5]["text"] == "4 more of this kind."
    assert "Critical: 0 · Warnings: 9" in page_text(viewer)


def test_truncated_lists_are_reported(redis_server: Store, viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (queue_stats, queue_problems):
        monkeypatch.setattr(module, "MAX_QUEUES", 500)
    redis_server.raw.zadd(f"{home().base}:queues", {f"queue-{number}": number for number in range(530)})
    for number in range(260):
        write_worker(redis_server, f"app:{number}.a")
    write_poller(redis_server)

    assert [each["text"] for each in problems(viewer)] == [
        "Only the first 500 queues are shown.",
        "Only the first 200 workers are shown.",
    ]


def test_all_of_many_queues_are_looked_at(redis_server: Store, viewer: Client) -> None:
    redis_server.raw.zadd(f"{home().base}:queues", {f"queue-{number}": number for number in range(1_010)})
    write_queue(redis_server, "last", ready=1)
    write_queue(redis_server, "failing", failed=3)
    write_poller(redis_server)

    [found] = problems(viewer)
    data = viewer.get(URL, {"format": "json"}).json()

    assert (found["code"], found["queue"]) == ("no_worker", "last")
    assert len({queue["name"] for queue in data["queues"]}) == len(data["queues"]) == 1_012
    assert data["cost"]["round_trips"] <= 4
    page = viewer.get(URL, {"queues": "all", "sort": "failed"}).content.decode()
    assert "100 of 1,012 queues" in page
    assert page.index("failing") < page.index("queue-1")


def test_queue_of_workers_beyond_the_latest_ones_is_served(redis_server: Store, viewer: Client, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=300)
    for number in range(50):
        write_worker(redis_server, f"mail:{number}.a", seen_s=1, queues=["mail"])
    for number in range(300):
        write_worker(redis_server, f"app:{number}.a")
    write_worker(redis_server, "dead:1.a", seen_s=400)
    for number in range(60):
        write_worker(redis_server, f"old:{number}.a", seen_s=60)
    write_queue(redis_server, "mail", ready=1)
    write_queue(redis_server, "default")
    write_poller(redis_server)

    data = viewer.get(URL, {"format": "json"}).json()

    codes = [each["code"] for each in data["problems"]]
    assert codes == ["worker_lost", "cut_off"]
    assert {queue["name"]: queue["live_workers"] >= 50 for queue in data["queues"]} == {"mail": True, "default": True}
    page = page_text(viewer)
    assert "410 live workers, 1 lost" in page


def test_unreadable_part_does_not_fail_the_page(redis_server: Store, viewer: Client) -> None:
    redis_server.raw.lpush(f"{redis_server.prefix}:analytics:{{default}}:uv:{timezone.localdate():%Y%m%d}", "no sketch")
    write_queue(redis_server, "mail", failed=3)
    write_poller(redis_server)

    response = viewer.get(URL)

    text = text_of(response.content.decode())
    assert response.status_code == 200
    assert "Cannot read visitors: Redis returned an error." in text
    assert "WRONGTYPE" in text
    assert "Visitors today" not in text
    assert "mail Idle 0" in text
    found = viewer.get(URL, {"format": "json"}).json()
    assert (found["visitors"], list(found["errors"])) == (None, ["visitors"])


def test_unreadable_queues_do_not_fail_the_page(redis_server: Store, viewer: Client) -> None:
    redis_server.raw.lpush(f"{home().base}:queues", "no zset")

    text = page_text(viewer)

    assert "Cannot read queues and workers: Redis returned an error." in text
    assert text.count("Unavailable: see the message above.") == 3
    assert "Ready" not in text
    found = viewer.get(URL, {"format": "json"}).json()
    assert (found["queues"], found["workers"], found["poller"], found["eviction_policy"]) == (None, None, None, None)
    assert found["sign_ins"]["today"] == 1


def test_invalid_name_in_settings_fails_only_its_part(redis_server: Store, viewer: Client, settings) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"VISITORS": "a{b}"}}

    text = page_text(viewer)

    assert "Cannot read visitors: An internal error occurred." in text
    assert "braces are not accepted" in text


@pytest.mark.parametrize(("ready", "severity"), [(0, "warning"), (1, "critical")])
def test_bar_of_the_problems_has_the_color_of_the_most_severe(
    ready: int, severity: str, redis_server: Store, viewer: Client
) -> None:
    write_queue(redis_server, "mail", ready=ready, unregistered=1)
    write_poller(redis_server)

    assert f'<section class="drc-problems drc-problems-{severity}"' in viewer.get(URL).content.decode()


def test_problems_are_sorted_by_severity(own_server: Store, viewer: Client) -> None:
    own_server.raw.config_set("maxmemory-policy", "volatile-lru")
    write_queue(own_server, "default", ready=1, age_s=900, unregistered=1)
    write_queue(own_server, "mail", ready=1)
    write_worker(own_server, "here:a")
    write_worker(own_server, "gone:b", seen_s=70)

    assert [each["code"] for each in problems(viewer)] == [
        "evicts",
        "no_worker",
        "poller_missing",
        "late",
        "worker_lost",
        "unregistered",
    ]
    assert "6 problems" in page_text(viewer)
