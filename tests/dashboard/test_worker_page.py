"""The page of workers, and the commands that it sends."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_redis_components.dashboard.workers.change_views import VERBS
from tests.dashboard.support import HOSTILE, browser, dump, fields_of, now_ms, text_of, write_worker
from tests.dashboard.worker_pages import REPORT, WORKERS, fill, waiting
from tests.support import Store
from tests.taskqueue.support import base_key
from tests.taskqueue.tasks import add

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return browser("view_overview")


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", *{verb.permission for verb in VERBS.values()})


def text(client: Client, **query: str) -> str:
    response = client.get(WORKERS, query)
    assert response.status_code == 200, response.content
    return text_of(response.content.decode())


def test_page_shows_supervisors_with_processes_and_tasks(redis_server: Store, viewer: Client) -> None:
    task = add.enqueue(1, 2)
    fill(redis_server)
    lost = {**REPORT, "supervisor_pid": 9, "runs": [[task.id, "shop.tasks.charge", "mail", 1], ["x", "gone", "m", 1]]}
    write_worker(redis_server, "app-2:bb.1", seen_s=98, **lost)
    record = base_key(redis_server, "t", task.id)
    redis_server.raw.hset(record, mapping={"s": "running", "L": "app-2:bb.1/0/1"})
    running = base_key(redis_server, "q", "default", "running")
    redis_server.raw.zadd(running, {task.id: now_ms(redis_server) + 60_000})
    before = dump(redis_server)

    shown = text(viewer)

    assert dump(redis_server) == before, "the page writes nothing"
    assert shown.index("app-2 2026.11.3 1 lost 1 process") < shown.index("app-1 2026.11.3 2 processes"), (
        "lost ones first"
    )
    for part in (
        "Live workers 2 1 lost",
        "12 of 16",
        "1 standby",
        "Version 2026.11.3",
        "Its 2 tasks return to their queues by ",
        "its record has expired",
        "shop.tasks.send_receipt",
        "11 more running tasks",
        "app-1 2026.11.3 2 processes",
        "7 alive default 12 of 8 shop.tasks.send_receipt +11",
        " 84 240 MiB ",
        "Supervisor app-1 · 4711 Poller standby Round trip 0.4 ms Finished 0",
        "Quiet requested by m.keller at ",
        ": executed.",
        "No running task.",
        " 2 round trips ",
    ):
        assert part in shown, part
    assert re.search(r"lease expires in (1 min )?\d+ s", shown)
    assert "Stop…" not in shown


def test_processes_of_a_host_with_older_code_are_a_group_of_their_own(redis_server: Store, viewer: Client) -> None:
    for number, version in enumerate(["2026.11.2", "2026.11.3", "2026.11.3"]):
        started = {"started_at": 1_790_000_000 + number, "version": version}
        write_worker(redis_server, f"app-1:{number}.a", **{**REPORT, **started})

    shown = text(viewer)

    assert "app-1 2026.11.2 ▲ older version 1 process" in shown
    assert "app-1 2026.11.3 2 processes" in shown
    assert shown.count("older version") == 1
    assert "3 processes" not in shown


def test_coroutines_are_not_counted_as_busy_threads(redis_server: Store, viewer: Client) -> None:
    write_worker(redis_server, "app-1:aa.1", async_concurrency=100, busy=60, busy_coroutines=57, **REPORT)

    shown = text(viewer)

    assert "alive default 3 of 8 shop.tasks.send_receipt +59" in shown
    assert "Busy 3 of 8 " in shown
    assert "Coroutines 57 of 100 " in shown


def test_elapsed_time_of_a_run_is_shown_with_its_limit(redis_server: Store, viewer: Client) -> None:
    runs = [["t-1", "shop.tasks.charge", "mail", 54, 60], ["t-2", "shop.tasks.send", "mail", 3, 60]]
    write_worker(redis_server, "app-1:aa.1", **{**REPORT, "runs": [*runs, ["t-3", "shop.tasks.free", "mail", 9]]})

    html = viewer.get(WORKERS).content.decode()

    assert re.search(r'drc-metered-late"><bdi>5\d s of 1 min 0 s</bdi>.*?drc-bar" width="9\d\.\d%"', html, re.DOTALL)
    assert re.search(r'drc-metered"><bdi>(3\.\d|[4-9]\.\d|\d\d) s of 1 min 0 s</bdi>', html)
    assert re.search(r"<bdi>(9\.\d|\d\d) s</bdi></span>", html), "without a limit there is no bar"


def test_command_is_sent_to_all_supervisors_of_a_host(redis_server: Store, operator: Client) -> None:
    for name in ("aa", "bb"):
        write_worker(redis_server, f"app-1:{name}.1", **REPORT)
    url = f"{WORKERS}quiet/?id=app-1%3Aaa&amp;id=app-1%3Abb"
    assert f'href="{url}"' in operator.get(WORKERS).content.decode()

    asked = operator.get(url.replace("&amp;", "&"))
    redis_server.raw.delete(base_key(redis_server, "workers"))
    write_worker(redis_server, "app-1:aa.1", **REPORT)
    done = operator.post(f"{WORKERS}quiet/", fields_of(asked), follow=True)

    assert "Sent to 1 of 2 supervisors. The others have exited or are lost." in text_of(done.content.decode())
    assert waiting() == {"app-1:aa": "quiet"}
    assert "Quiet workers 'app-1:aa', 'app-1:bb'" in LogEntry.objects.get().get_change_message()
    too_many = [("id", f"app:{number}") for number in range(51)]
    assert operator.get(f"{WORKERS}quiet/?{urlencode(too_many)}").status_code == 400


def test_json_has_the_facts_of_the_page(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)

    found = viewer.get(WORKERS, {"format": "json"}).json()

    assert (found["total"], found["live"], found["next"]) == (3, 2, None)
    by_id = {each["id"]: each for each in found["workers"]}
    assert [each["is_lost"] for each in by_id.values()] == [False, False, True]
    first = by_id["app-1:aa.1"]
    assert (first["supervisor"], first["memory"], first["per_minute"]) == ("app-1:aa", 240 << 20, 84.2)
    [task] = first["runs"]
    assert (task["id"], task["queue"], task["now"]) == ("task-1", "mail", None)
    assert 9.2 <= task["elapsed"] < 60
    assert by_id["app-1:aa.2"]["command"]["outcome"] == "done"
    assert by_id["app-2:bb.1"]["runs"][0]["now"]["state"] == "gone"


def test_fifty_workers_are_a_page(redis_server: Store, viewer: Client) -> None:
    runs = [[f"task-{number}", "shop.tasks.send_receipt", "mail", 9.2, 30] for number in range(10)]
    for number in range(53):
        write_worker(redis_server, f"app:{number:03}.a", **{**REPORT, "busy": 8, "runs": runs})

    response = viewer.get(WORKERS, {"format": "json"}).json()
    following = viewer.get(WORKERS, {"format": "json", "after": response["next"]}).json()
    page = viewer.get(WORKERS).content

    assert (len(response["workers"]), response["total"], response["cost"]["round_trips"]) == (50, 53, 1)
    assert [each["id"] for each in following["workers"]] == ["app:050.a", "app:051.a", "app:052.a"]
    assert (response["count"]["first"], following["count"]["first"]) == (1, None)
    assert "1 to 50 of 53" in text(viewer)
    assert b"?after=app%3A049.a" in page
    assert len(page) < 800_000
    assert viewer.get(WORKERS, {"after": "x" * 301}).status_code == 400


@pytest.mark.parametrize("command", VERBS)
def test_command_is_confirmed_logged_and_sent_once(redis_server: Store, operator: Client, command: str) -> None:
    fill(redis_server)
    url = f"{WORKERS}{command}/"
    target = "app-1:aa"
    assert f'href="{url}?id=app-1%3Aaa"' in operator.get(WORKERS).content.decode()

    asked = operator.get(url, {"id": target})
    assert "app-1 · 4711" in text_of(asked.content.decode())
    fields = fields_of(asked)
    assert waiting() == {}
    for _ in range(2):
        done = operator.post(url, fields, follow=True)

    assert "Sent. The worker" in text_of(done.content.decode())
    assert waiting() == {target: command}
    key = base_key(redis_server, "commands", target)
    assert redis_server.raw.llen(key) == 1
    entries = [(each.object_id, each.get_change_message()) for each in LogEntry.objects.all()]
    assert [object_id for object_id, _ in entries] == [target, target]
    assert f"{command.capitalize()} worker 'app-1:aa'" in entries[0][1]
    assert re.search(r"requested by view_overview-\S+ at \S+: not executed yet\.", text(operator))


@pytest.mark.parametrize("command", VERBS)
def test_command_requires_its_own_permission(
    redis_server: Store, settings: Any, operator: Client, command: str
) -> None:
    fill(redis_server)
    verb, url = VERBS[command], f"{WORKERS}{command}/?id=app-1:aa"
    others = {each.permission for each in VERBS.values()} - {verb.permission}

    for client, status in (
        (browser(), 403),
        (browser("view_overview", *others), 403),
        (browser(verb.permission), 403),
        (Client(), 302),
        (operator, 200),
    ):
        assert client.get(url).status_code == status
        assert client.post(url).status_code == status
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"READ_ONLY": True}}
    assert operator.post(url).status_code == 403
    assert "Stop…" not in text(operator)
    assert waiting() == {}


def test_unknown_and_lost_workers_cannot_be_commanded(redis_server: Store, operator: Client) -> None:
    fill(redis_server)
    url = f"{WORKERS}stop/"

    assert "No worker has this id." in text_of(operator.get(url, {"id": "nowhere:1"}).content.decode())
    assert "This worker is lost" in text_of(operator.get(url, {"id": "app-2:bb"}).content.decode())
    assert operator.get(url).status_code == 400
    fields = fields_of(operator.get(url, {"id": "app-1:aa.1"}))
    redis_server.raw.delete(base_key(redis_server, "workers"))
    assert "Nothing was sent" in text_of(operator.post(url, fields, follow=True).content.decode())
    assert waiting() == {}


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_reports_are_shown_escaped(redis_server: Store, viewer: Client, value: str) -> None:
    value = value.encode("utf-8", "replace").decode()
    report = {
        "host": value, "queues": [value], "version": value, "state": value, "poller": value,
        "runs": [[value, value, value, 1]], "command": ["stop", value, 1, value, "w:1.a"],
    }  # fmt: skip
    write_worker(redis_server, "w:1.a", **report)
    write_worker(redis_server, "w:2.a", seen_s=100, **report)

    response = viewer.get(WORKERS)

    assert response.status_code == 200
    assert "<script>alert" not in response.content.decode()
    assert viewer.get(WORKERS, {"format": "json"}).status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory": -1}, {"memory": 1e300}, {"per_minute": "x"}, {"runs": 7}, {"runs": [[1]]}, {"runs": {}},
        {"command": [1]}, {"command": ["a", "b", 1e300, "c", "d"]}, {"round_trip": float("nan")}, {"leases": "x"},
    ],
)  # fmt: skip
def test_corrupt_report_counts_as_none(redis_server: Store, viewer: Client, wrong: dict[str, Any]) -> None:
    write_worker(redis_server, "w:1.a", **{**REPORT, **wrong})

    [worker] = viewer.get(WORKERS, {"format": "json"}).json()["workers"]

    assert (worker["id"], worker["runs"], worker["memory"]) == ("w:1.a", [], None)
    assert viewer.get(WORKERS).status_code == 200


def test_page_without_workers_says_how_to_start_one(redis_server: Store, viewer: Client) -> None:
    assert "No workers. Start one: python manage.py runworker" in text(viewer)
