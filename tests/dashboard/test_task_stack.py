"""The stack of a running task: asked of its worker process, by permission, logged, masked and bounded."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.test import Client

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.dashboard.task import stack_view
from django_redis_components.taskqueue import TaskResult
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.workers import read_workers
from tests.dashboard.support import browser, client_of, write_worker
from tests.dashboard.task_pages import TASKS, text, url_of
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import Held, new_fetcher, queue_worker, taskqueue_settings
from tests.taskqueue.tasks import hold, hold_async, note

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", "view_task_stack")


def stack_url(task_id: str) -> str:
    return f"{TASKS}_verb/stack/{quote(task_id)}/"


def last_entry() -> str:
    entry = LogEntry.objects.order_by("pk").last()
    assert entry is not None
    return entry.get_change_message()


def start(store: Store, result: TaskResult) -> None:
    """Lease a task for a worker that does not answer."""
    new_fetcher(worker="here:f00.a").fetch("0", 1)
    write_worker(store, "here:f00.a")


@pytest.mark.parametrize(("task", "line"), [(hold, "time.sleep(every_s)"), (hold_async, "await asyncio.sleep(0.01)")])
def test_worker_sends_the_stack_of_a_task(
    redis_server: Store, children: Children, settings: Any, operator: Client, task: Any, line: str
) -> None:
    taskqueue_settings(settings, LEASE=60)
    queue_worker(children, "default")
    held = Held(redis_server, "a")
    result = task.enqueue("a")
    held.started()

    def found() -> str:
        shown = text(operator.post(stack_url(result.id)))
        assert f"Stack of task {result.id}" in shown
        return shown if line in shown else ""  # it may have asked Redis at that moment

    shown = eventually(found)

    assert f"in {task.func.__name__}" in shown
    assert "interruption.py" not in shown, "only the frames of the task"
    assert last_entry() == f"Show the stack of task '{result.id}': shown."
    assert run(connections.client(), read_workers(home())).workers[0].command is None
    keys = [key for key in redis_server.keys() if b":stack:" in key]  # noqa: SIM118 - a Store is no dict
    assert all(0 < redis_server.raw.pttl(key) <= 60_000 for key in keys)
    held.release()
    assert result.get(60) == "a", "the task continues"


def test_worker_that_does_not_answer_is_named(
    redis_server: Store, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_view, "WAIT_S", 0.1)
    result = note.enqueue("x")
    start(redis_server, result)

    shown = text(operator.post(stack_url(result.id)))

    assert "The worker here:f00.a did not answer within" in shown
    assert last_entry().endswith(": no answer.")


def test_lost_worker_is_not_asked(redis_server: Store, operator: Client) -> None:
    result = note.enqueue("x")
    new_fetcher(worker="gone:f00.a").fetch("0", 1)

    assert "Not asked: the worker gone:f00.a has exited or is lost." in text(operator.post(stack_url(result.id)))
    assert "refused" in last_entry()


def test_task_that_has_ended_meanwhile_is_said(
    redis_server: Store, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_view, "ask", lambda *_: "")
    result = note.enqueue("x")
    start(redis_server, result)

    assert "does not run on the worker here:f00.a any more" in text(operator.post(stack_url(result.id)))
    assert last_entry().endswith(": it did not run there.")


def test_further_request_is_not_made_while_others_wait(
    redis_server: Store, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_view, "WAIT_S", 0.1)
    result = note.enqueue("x")
    start(redis_server, result)
    for _ in range(stack_view.MAX_WAITING):
        assert stack_view.free_waits.acquire(blocking=False)
    try:
        page = operator.post(stack_url(result.id))
    finally:
        for _ in range(stack_view.MAX_WAITING):
            stack_view.free_waits.release()

    assert "Not asked: 2 other pages of this process wait for a stack. Ask again in some seconds." in text(page)
    assert f'action="{stack_url(result.id)}"' in page.content.decode()
    assert last_entry().endswith(": not asked, others wait.")
    assert not [key for key in redis_server.keys() if b":stack:" in key]  # noqa: SIM118 - a Store is no dict
    for _ in range(stack_view.MAX_WAITING + 1):
        assert "did not answer within" in text(operator.post(stack_url(result.id)))


def test_wait_is_free_again_after_an_error(redis_server: Store, operator: Client) -> None:
    result = note.enqueue("x")
    new_fetcher(worker="gone:f00.a").fetch("0", 1)

    for _ in range(stack_view.MAX_WAITING + 1):
        assert "has exited or is lost" in text(operator.post(stack_url(result.id)))


def masked(message: str) -> str:
    return message.replace("secret", "…")


def test_stack_is_masked_and_escaped(
    redis_server: Store, operator: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = {"MASK_ERROR": "tests.dashboard.test_task_stack.masked"}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": mask}
    monkeypatch.setattr(stack_view, "ask", lambda *_: "send('secret') <b>")
    result = note.enqueue("x")
    start(redis_server, result)

    page = operator.post(stack_url(result.id)).content.decode()

    assert "send(&#x27;…&#x27;) &lt;b&gt;" in page
    assert "secret" not in page


def test_button_and_view_need_the_permission_and_a_running_task(redis_server: Store, operator: Client) -> None:
    ready = note.enqueue("x")
    assert "Show the stack" not in text(operator.get(url_of(ready.id)))
    page = text(operator.get(stack_url(ready.id)))
    assert "This does not apply to the task in its state: Ready." in page
    assert operator.post(stack_url(ready.id)).status_code == 200
    assert not LogEntry.objects.exists()

    start(redis_server, ready)

    assert "Show the stack" in text(operator.get(url_of(ready.id)))
    assert "recorded in the admin’s log" in text(operator.get(stack_url(ready.id)))
    other = client_of("staff with the permission")
    assert "Show the stack" not in text(other.get(url_of(ready.id)))
    assert other.post(stack_url(ready.id)).status_code == 403
