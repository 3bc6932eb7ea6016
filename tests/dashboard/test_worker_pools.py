"""Changes of the pools of workers from their page."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.dashboard.workers.pool_views import VERBS
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.pools import list_kept
from tests.dashboard.support import HOSTILE, browser, fields_of, now_ms, text_of, write_worker
from tests.dashboard.worker_pages import REPORT, WORKERS, waiting
from tests.support import Store
from tests.taskqueue.support import base_key, taskqueue_settings

pytestmark = pytest.mark.django_db

LINE = "default --threads 8 --async-concurrency 100"
ABLE = REPORT | {"command_line": LINE, "async_concurrency": 100}
POOL, RESET = f"{WORKERS}pool/", f"{WORKERS}reset/"


@pytest.fixture
def operator(redis_server: Store) -> Client:
    for worker in ("app-1:aa.1", "app-1:aa.2", "app-2:bb.1"):
        write_worker(redis_server, worker, **ABLE)
    return browser("view_overview", "change_worker_pool")


def commands(store: Store, supervisor: str) -> list[str]:
    """The verbs of the commands that wait, with their arguments."""
    return [entry.decode().split(" ")[3] for entry in store.raw.lrange(base_key(store, "commands", supervisor), 0, -1)]


def ask(client: Client, url: str = POOL, *ids: str, **query: str) -> dict[str, str]:
    response = client.get(url, {"id": ids or ("app-1:aa",), **query})
    assert response.status_code == 200, response.content
    return fields_of(response)


def post(client: Client, fields: dict[str, str], url: str = POOL) -> tuple[int, str]:
    response = client.post(url, fields, follow=True)
    return response.status_code, text_of(response.content.decode())


def test_form_shows_the_pool_and_sends_what_was_changed(redis_server: Store, operator: Client) -> None:
    assert f'href="{POOL}?id=app-1%3Aaa"' in operator.get(WORKERS).content.decode()
    fields = ask(operator)
    assert (fields["threads"], fields["coroutines"], fields["queues"]) == ("8", "100", "default")

    for _ in range(2):  # the second is the same operation
        status, shown = post(operator, fields | {"threads": "4", "queues": "mail=5, default=1"})

    assert (status, "Sent. The worker" in shown) == (200, True)
    assert commands(redis_server, "app-1:aa") == ["pool/threads=4&queues=mail%3D5%2Cdefault%3D1"]
    entry = LogEntry.objects.order_by("pk")[0]
    assert "Set threads 4, queues mail=5,default=1 of worker 'app-1:aa'" in entry.get_change_message()
    assert run(connections.client(), list_kept(home())) == []
    assert "Change of the pool requested by " in text_of(operator.get(WORKERS).content.decode())


def test_kept_change_is_stored_for_the_host_or_for_all(redis_server: Store, operator: Client) -> None:
    fields = ask(operator)
    post(operator, fields | {"threads": "4", "keep": "on"})
    assert f'href="{POOL}?id=app-1%3Aaa&amp;id=app-2%3Abb&amp;all=1"' in operator.get(WORKERS).content.decode()
    fields = ask(operator, POOL, "app-1:aa", "app-2:bb", all="1")
    post(operator, fields | {"coroutines": "50", "keep": "on"})

    kept = run(connections.client(), list_kept(home()))

    assert [(each.host, each.command_line, each.name, each.change.value) for each in kept] == [
        ("*", LINE, "coroutines", "50"),
        ("app-1", LINE, "threads", "4"),
    ]
    assert commands(redis_server, "app-1:aa") == ["pool/threads=4&keep=1", "pool/coroutines=50&keep=1"]
    post(operator, ask(operator, RESET), RESET)
    assert [each.host for each in run(connections.client(), list_kept(home()))] == ["*"]
    assert commands(redis_server, "app-1:aa")[-1] == "reset"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "Nothing is changed. Enter threads, coroutines or queues."),
        ({"threads": "0"}, "Threads: expected a whole number from 1 to 1,000."),
        ({"threads": "eight"}, "Threads: expected a whole number from 1 to 1,000."),
        ({"coroutines": "10001"}, "Coroutines: expected a whole number from 1 to 10,000."),
        ({"queues": "a=0"}, "Queues: expected names such as “mail,default”, or with weights such as"),
        ({"queues": "mial"}, "Queues: the site does not declare “mial”."),
    ],
)
def test_values_that_are_not_accepted_are_named(
    redis_server: Store, operator: Client, settings: Any, values: dict[str, str], problem: str
) -> None:
    taskqueue_settings(settings, QUEUES=["default", "mail"])

    status, shown = post(operator, ask(operator) | values)

    assert (status, problem in shown) == (409, True), shown
    assert waiting() == {}


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_change_nothing(operator: Client, value: str) -> None:
    fields = ask(operator)
    for name in ("threads", "coroutines", "queues"):
        assert post(operator, fields | {name: f"{value}{{}}"})[0] == 409
    assert waiting() == {}


def test_pool_that_another_operator_has_changed_meanwhile_is_shown_again(redis_server: Store, operator: Client) -> None:
    fields = ask(operator)
    changes = [["threads", "8", "ben", now_ms(redis_server), 0]]
    write_worker(redis_server, "app-1:aa.1", **ABLE | {"threads": 2, "changes": changes})

    status, shown = post(operator, fields | {"threads": "4"})

    assert (status, waiting()) == (409, {})
    assert "The pool has changed since you opened this page. Nothing was sent. Check it again." in shown
    assert "2 · 8" in shown, "of two processes"
    again = operator.post(POOL, fields | {"threads": "4"})
    assert post(operator, fields_of(again))[0] == 200
    assert commands(redis_server, "app-1:aa") == ["pool/threads=4"]


def test_changes_are_shown_with_author_and_end(redis_server: Store, operator: Client) -> None:
    at = now_ms(redis_server)
    changes = [["threads", "8", "anna", at, 0], ["coroutines", "100", "ben", at, 1], ["queues", "x", "ben", at, 0]]
    report = {"threads": 4, "async_concurrency": 50, "queues": ["a", "b"], "weights": [5, 1], "changes": changes}
    write_worker(redis_server, "app-2:bb.1", **ABLE | report)

    shown = text_of(operator.get(WORKERS).content.decode())

    assert "4 threads, configured 8, changed by anna at " in shown
    assert " until restart" in shown
    assert "50 coroutines, configured 100, changed by ben at " in shown
    assert " and kept" in shown
    assert "Queues a=5,b=1, configured x, changed by ben at " in shown
    assert "12 of" not in shown
    [*_, worker] = operator.get(WORKERS, {"format": "json"}).json()["workers"]
    assert (worker["changes"][0]["name"], worker["changes"][0]["configured"]) == ("threads", "8")
    assert f'href="{RESET}?id=app-2%3Abb"' in operator.get(WORKERS).content.decode()
    assert f'href="{RESET}?id=app-1%3Aaa"' not in operator.get(WORKERS).content.decode()


def test_worker_of_an_older_release_is_left_out(redis_server: Store, operator: Client) -> None:
    write_worker(redis_server, "old:cc.1", **REPORT)
    alone = text_of(operator.get(POOL, {"id": "old:cc"}).content.decode())
    assert "This worker’s release cannot change its pool. Restart it with the new code." in alone
    assert f'href="{POOL}?id=old%3Acc"' not in operator.get(WORKERS).content.decode()

    both = operator.get(POOL, {"id": ["old:cc", "app-1:aa"]})
    post(operator, fields_of(both) | {"threads": "4"})

    assert "1 process is left out: its release cannot change the pool." in text_of(both.content.decode())
    assert set(waiting()) == {"app-1:aa"}


def test_too_many_kept_changes_are_refused(redis_server: Store, operator: Client) -> None:
    kept = base_key(redis_server, "kept_pools")
    redis_server.raw.hset(kept, mapping={f"h{number}\nx\nthreads": "1 2 a" for number in range(3_000)})

    _, shown = post(operator, ask(operator) | {"threads": "4", "keep": "on"})

    assert "Too many changed pools are kept. Nothing was sent." in shown
    assert waiting() == {}


@pytest.mark.parametrize("verb", VERBS)
def test_change_requires_its_permission_and_live_workers(
    redis_server: Store, settings: Any, operator: Client, verb: str
) -> None:
    url = f"{WORKERS}{verb}/"
    for client, status in (
        (browser("view_overview", "quiet_worker", "restart_worker", "stop_worker"), 403),
        (browser("change_worker_pool"), 403),
        (Client(), 302),
        (operator, 200),
    ):
        assert client.get(url, {"id": "app-1:aa"}).status_code == status
        assert client.post(url, {"id": "app-1:aa"}).status_code == status
    assert operator.get(url).status_code == 400
    assert "No worker has this id." in text_of(operator.get(url, {"id": "nowhere:1"}).content.decode())
    fields = ask(operator, url)
    redis_server.raw.delete(base_key(redis_server, "workers"))
    assert "No worker has this id." in post(operator, fields | {"threads": "4"}, url)[1]
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"READ_ONLY": True}}
    assert operator.get(url, {"id": "app-1:aa"}).status_code == 403
    assert waiting() == {}


def test_some_supervisors_that_have_exited_are_named(redis_server: Store, operator: Client) -> None:
    fields = ask(operator, POOL, "app-1:aa", "app-2:bb")
    for _ in range(20):
        redis_server.raw.rpush(
            base_key(redis_server, "commands", "app-2:bb"), f"{now_ms(redis_server) + 60_000} 1 o quiet x y"
        )

    _, shown = post(operator, fields | {"threads": "4"})

    assert "Sent to 1 of 2 workers. The others have exited or are lost." in shown
