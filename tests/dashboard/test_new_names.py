"""Unregistered tasks are offered the name of the only registered task that accepts their arguments."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_redis_components.core.protocol import run
from django_redis_components.dashboard.queues.task_verbs import RENAME
from django_redis_components.taskqueue import Task, chain, get_queue, get_result, registry, task
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.unregistered import rename_tasks
from tests.dashboard.queue_pages import url_of, verb_url
from tests.dashboard.support import browser, fields_of, text_of
from tests.support import Store
from tests.taskqueue.support import base_key, work_off

pytestmark = pytest.mark.django_db

URL = url_of("default")
BUTTON = r'formaction="[^"]*/_verb/rename/default/" name="only" value="([^"]+)"[^>]*>([^<]+)'


def send_invoice(order_id: int, *, copy: bool = False) -> str:
    return f"sent {order_id} {copy}"


def send_reminder(order_id: int) -> str:
    return f"reminded {order_id}"


def count_stock() -> int:
    return 7


@pytest.fixture(autouse=True)
def _tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with three tasks, which other versions had elsewhere."""
    monkeypatch.setattr(registry, "tasks", {})
    monkeypatch.setattr(registry, "autodiscover", lambda: None)
    task(name="billing.send_invoice")(send_invoice)
    task(name="billing.send_reminder")(send_reminder)
    task(name="stock.count")(count_stock)


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", RENAME.permission)


def enqueue_as(name: str, *args: Any, func: Any = send_invoice, **kwargs: Any) -> Any:
    """Enqueue a call as a former version has, and let a worker of this one set it aside."""
    result = Task(func=func, name=name, declared_options=registry.find("stock.count").options).enqueue(*args, **kwargs)
    work_off()
    return result


def offered(client: Client) -> dict[str, str]:
    """Return the labels of the buttons of rows, by task id."""
    page = client.get(URL, {"state": "unregistered"}).content.decode()
    return dict(re.findall(BUTTON, page))


def test_moved_task_is_offered_its_new_name(redis_server: Store, operator: Client) -> None:
    moved = enqueue_as("shop.tasks.send_invoice", 7)

    assert offered(operator) == {moved.id: "Run as billing.send_invoice…"}


@pytest.mark.parametrize(
    ("name", "args", "offer"),
    [
        ("shop.tasks.send_invoice", ("a", "b"), None),
        ("billing.notify", (7,), None),
        ("stock.recount", (), "stock.count"),
        ("stock.recount", (7,), None),
        ("elsewhere.other", (7,), None),
        ("other", (), None),
    ],
    ids=["refuses", "two accept", "renamed", "renamed and refuses", "no candidate", "no module"],
)
def test_name_is_offered_if_exactly_one_candidate_accepts_the_arguments(
    redis_server: Store, operator: Client, name: str, args: Any, offer: str | None
) -> None:
    result = enqueue_as(name, *args, func=lambda *_: None)

    assert offered(operator) == ({result.id: f"Run as {offer}…"} if offer else {})


def test_registered_name_and_unread_arguments_are_not_offered(redis_server: Store, operator: Client) -> None:
    enqueue_as("shop.tasks.send_invoice", "x" * 9_000)
    new_here = enqueue_as("shop.tasks.send_reminder", 7)
    registry.tasks["shop.tasks.send_reminder"] = registry.find("billing.send_reminder")

    assert offered(operator) == {}
    del registry.tasks["shop.tasks.send_reminder"]
    assert offered(operator) == {new_here.id: "Run as billing.send_reminder…"}


def test_result_that_a_worker_inserts_counts_as_an_argument(redis_server: Store, operator: Client) -> None:
    former: Any = Task(
        func=lambda stock, order_id: 0, name="old.send_reminder", declared_options=registry.find("stock.count").options
    )
    chain(registry.find("stock.count").si(), former.s(7)).enqueue()
    work_off()
    assert get_queue("default").info().unregistered == 1

    assert offered(operator) == {}


def test_button_of_a_row_runs_the_task_under_its_new_name(redis_server: Store, operator: Client) -> None:
    moved, other = (enqueue_as("shop.tasks.send_invoice", number, copy=True) for number in (7, 8))

    asked = operator.post(verb_url("rename"), {"state": "unregistered", "only": moved.id})
    done = operator.post(verb_url("rename"), fields_of(asked), follow=True)
    work_off()

    assert "Run 1 unregistered task of the queue “default” under its new name?" in text(asked)
    assert "shop.tasks.send_invoice runs as billing.send_invoice." in text(asked)
    assert "1 task is ready under its new name." in text(done)
    found = get_result(moved.id)
    assert (found.return_value, found.name) == ("sent 7 True", "billing.send_invoice")
    assert (other.refresh() or other.state) == "unregistered"
    assert LogEntry.objects.get().change_message.startswith("Rename unregistered tasks of queue 'default' until ")


def test_all_run_under_their_new_names_and_the_others_stay(redis_server: Store, operator: Client) -> None:
    moved = [enqueue_as("shop.tasks.send_invoice", number) for number in range(3)]
    moved.append(enqueue_as("old.send_reminder", 9))
    stranger = enqueue_as("elsewhere.other", 1)

    asked = operator.post(verb_url("rename"), {"state": "unregistered", "all": "1"})
    late = enqueue_as("shop.tasks.send_invoice", 10)
    done = operator.post(verb_url("rename"), fields_of(asked), follow=True)
    work_off()

    assert "4 tasks are ready under their new names." in text(done)
    assert [result.get(timeout=0) for result in moved] == [*(f"sent {each} False" for each in range(3)), "reminded 9"]
    for each in (stranger, late):
        each.refresh()
        assert each.state == "unregistered"


def test_list_without_a_new_name_has_no_buttons_for_it(redis_server: Store, operator: Client) -> None:
    enqueue_as("elsewhere.other", 1)

    assert "/_verb/rename/" not in operator.get(URL, {"state": "unregistered"}).content.decode()
    assert "/_verb/rename/" not in operator.get(URL, {"state": "failed"}).content.decode()


def test_name_needs_the_permission_to_retry(redis_server: Store) -> None:
    enqueue_as("shop.tasks.send_invoice", 7)

    assert offered(browser("view_overview")) == {}


@pytest.mark.contract
def test_renamed_task_is_requeued_once(store: Store) -> None:
    """On each server: the record, the list and the wakeup of one call share a slot."""
    moved = enqueue_as("shop.tasks.send_invoice", 7)
    shard = home()

    def rename(up_to_ms: str) -> int:
        return run(shard.client(), rename_tasks(shard, "default", [moved.id], "billing.send_invoice", up_to_ms))

    assert [rename("0"), rename("inf"), rename("inf")] == [0, 1, 0]
    assert store.raw.hget(base_key(store, "t", moved.id), "n") == b"billing.send_invoice"
    assert len(work_off()) == 1
    assert (moved.refresh() or moved.get(timeout=0)) == "sent 7 False"


def text(response: Any) -> str:
    return text_of(response.content.decode())
