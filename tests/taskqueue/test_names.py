"""Names and aliases of tasks: what was enqueued under an old name runs under the new one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_redis_components.taskqueue import InvalidTask, Task, get_queue, get_result, registry, task
from django_redis_components.taskqueue.exceptions import TaskResultMismatch
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.unregistered import requeue_unregistered
from tests.support import Store
from tests.support.processes import Children
from tests.taskqueue.renaming.tasks import NAMES, NEW_NAME, OLD_NAME, VERSION
from tests.taskqueue.renaming.tasks import send as send_and_wait
from tests.taskqueue.support import (
    Held,
    end_lease,
    kill_processes,
    new_fetcher,
    processes_of,
    queue_worker,
    recover,
    taskqueue_settings,
    work_off,
)


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    """Forgets what a test registers."""
    before = dict(registry.tasks)
    yield
    registry.tasks.clear()
    registry.tasks.update(before)


def send(order_id: int) -> str:
    return f"sent {order_id}"


def send_again(order_id: int) -> str:
    return f"sent {order_id} again"


def deploy(made: Callable[[], Task[..., Any, Any]]) -> Task[..., Any, Any]:
    """Return a task as a process of another version of the code has it, which knows no other task of these tests."""
    for name in [name for name, each in registry.tasks.items() if each.func in (send, send_again, send_and_wait)]:
        del registry.tasks[name]
    return made()


def test_name_replaces_the_path_of_the_function(redis_server: Store) -> None:
    made = task(name="shop.send")(send)

    result = made.enqueue(7)
    work_off()

    assert (made.name, made.module_path) == ("shop.send", f"{__name__}.send")
    assert registry.find(f"{__name__}.send") is None
    assert (get_result(result.id).name, result.get(timeout=0)) == ("shop.send", "sent 7")


def test_task_runs_what_was_enqueued_under_an_alias(store: Store) -> None:
    old = deploy(lambda: task(name="shop.tasks.send")(send))
    result = old.enqueue(7)
    new = deploy(lambda: task(name="billing.send", aliases=["shop.tasks.send"])(send))

    work_off()

    stored = get_result(result.id)
    assert (stored.return_value, stored.name, stored.task) == ("sent 7", "shop.tasks.send", new)
    assert new.get_result(result.id).state == "successful"


def test_result_under_a_name_that_is_no_alias_is_that_of_another_task(redis_server: Store) -> None:
    result = deploy(lambda: task(name="shop.tasks.send")(send)).enqueue(7)
    new = deploy(lambda: task(name="billing.send")(send))

    with pytest.raises(TaskResultMismatch):
        new.get_result(result.id)


@pytest.mark.contract
def test_task_of_a_dead_worker_runs_under_its_new_name(store: Store) -> None:
    result = deploy(lambda: task(name="shop.tasks.send")(send)).enqueue(7)
    assert new_fetcher(worker="old:1").fetch("0", 1)
    new = deploy(lambda: task(name="billing.send", aliases=["shop.tasks.send"])(send))

    end_lease(store, result.id)
    assert recover() == [(result.id, "default", "requeued")]
    work_off(worker="new:1")

    stored = get_result(result.id)
    assert (stored.return_value, stored.task) == ("sent 7", new)
    assert [(run.worker_id, run.outcome) for run in stored.timeline] == [("old:1", "recovered"), ("new:1", "succeeded")]


@pytest.mark.unmeasured
def test_worker_of_the_renamed_code_runs_what_a_killed_worker_of_the_old_code_has_begun(
    redis_server: Store, children: Children, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=1)
    site = {"DJANGO_SETTINGS_MODULE": "tests.taskqueue.renaming.site"}
    old = queue_worker(children, env=site | {VERSION: "old"})
    result = deploy(lambda: task(**NAMES["old"])(send_and_wait)).enqueue("a")
    held = Held(redis_server, "a")
    held.started()

    kill_processes([*processes_of(old.pid), old.pid])
    queue_worker(children, env=site | {VERSION: "new"})
    held.started(times=2)
    held.release()

    assert (result.get(60), result.name) == ("new a", OLD_NAME)
    assert [run.outcome for run in result.timeline] == ["recovered", "succeeded"]
    deploy(lambda: task(**NAMES["new"])(send_and_wait))
    assert get_result(result.id).task.name == NEW_NAME


def test_worker_without_a_new_name_keeps_its_tasks_for_one_that_has_it(store: Store) -> None:
    """A fleet of two versions: the old worker sets the task aside, and the supervisor of the new one requeues it."""
    new = deploy(lambda: task(name="billing.send", aliases=["shop.tasks.send"])(send))
    result = new.enqueue(7)
    deploy(lambda: task(name="shop.tasks.send")(send))
    work_off(worker="old:1")
    assert get_queue("default").info().unregistered == 1

    deploy(lambda: task(name="billing.send", aliases=["shop.tasks.send"])(send))
    requeue_unregistered(home(), ["default"])
    work_off(worker="new:1")

    assert (result.get(timeout=0), result.attempts) == ("sent 7", 1)


def test_unregistered_task_is_requeued_when_its_name_becomes_an_alias(store: Store) -> None:
    result = deploy(lambda: task(name="shop.tasks.send")(send)).enqueue(7)
    deploy(lambda: task(name="billing.send")(send))
    work_off()
    assert get_queue("default").info().unregistered == 1

    deploy(lambda: task(name="billing.send", aliases=["shop.tasks.send"])(send))
    requeue_unregistered(home(), ["default"])
    work_off()

    assert result.get(timeout=0) == "sent 7"


def test_aliases_are_listed_once_under_their_name() -> None:
    before = registry.names()
    made = task(name="billing.send", aliases=["shop.tasks.send", "shop.send"])(send)

    assert sorted({*registry.names()} - {*before}) == ["billing.send"]
    assert [each for each in registry.all_tasks() if each.func is send] == [made]
    assert {"billing.send", "shop.tasks.send", "shop.send"} <= {*registry.names_and_aliases()}


def test_redefined_task_loses_its_former_aliases() -> None:
    task(name="billing.send", aliases=["shop.send"])(send)

    again = task(name="billing.send", aliases=["shop.tasks.send"])(send)

    assert registry.find("shop.send") is None
    assert registry.find("shop.tasks.send") is again


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ({"name": "send"}, {"name": "send"}, "send"),
        ({"name": "send"}, {"name": "send_again", "aliases": ["send"]}, "send"),
        ({"name": "send", "aliases": ["send_again"]}, {"name": "send_again"}, "send_again"),
        ({"name": "send", "aliases": ["old"]}, {"name": "send_again", "aliases": ["old"]}, "old"),
    ],
    ids=["name", "alias of a name", "name of an alias", "alias"],
)
def test_name_of_another_task_is_an_error_that_names_both(first: Any, second: Any, name: str) -> None:
    made = task(**first)(send)

    with pytest.raises(InvalidTask) as raised:
        task(**second)(send_again)

    text = str(raised.value)
    assert text.startswith(f"Two functions have the name {name!r}: ")
    lines = [f"{each.__code__.co_filename}:{each.__code__.co_firstlineno}" for each in (send, send_again)]
    assert re.findall(r"\S+\.py:\d+", text) == lines
    assert registry.find(first["name"]) is made
    assert registry.find(second["name"]) in (None, made)


def test_two_names_of_one_function_cannot_share_an_alias() -> None:
    task(name="one", aliases=["old"])(send)

    with pytest.raises(InvalidTask, match=r"^Two functions have the name 'old': .* \(alias of one\) and .*of two\)\.$"):
        task(name="two", aliases=["old"])(send)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"name": ""}, "name"),
        ({"name": 7}, "name"),
        ({"name": "a b"}, "name='a b': expected a name without spaces, such as 'shop.send_invoice'."),
        ({"name": "x" * 201}, "name"),
        ({"aliases": "shop.send"}, "aliases='shop.send': expected a list of names, such as ('shop.tasks.send',)."),
        ({"aliases": ["a{b}"]}, "aliases"),
        ({"aliases": [None]}, "aliases"),
    ],
)
def test_invalid_name_raises(options: Any, text: str) -> None:
    with pytest.raises(InvalidTask) as raised:
        task(**options)(send)

    assert str(raised.value).startswith(text)


@pytest.mark.parametrize("options", [{}, {"name": "shop.send"}])
def test_function_of_a_script_cannot_be_a_task_under_any_name(options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send, "__module__", "__main__")

    with pytest.raises(InvalidTask, match="is the module that Python runs as a script"):
        task(**options)(send)
