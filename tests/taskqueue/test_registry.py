"""Tasks are registered by name. No name from Redis is imported."""

from __future__ import annotations

import copy
import importlib
import pickle
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import InvalidTask, registry, task
from django_redis_components.taskqueue.schedules.schedule import schedules
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.scripts import ENQUEUE
from tests.support import Store
from tests.taskqueue.batching.tasks import collect
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import add


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes a module of that name and imports it; its tasks are forgotten after the test."""
    before = dict(registry.tasks)
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def write(name: str, text: str, folder: str = "") -> Any:
        path = tmp_path / folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        made.append(name)
        importlib.invalidate_caches()
        return path

    yield write
    registry.tasks.clear()
    registry.tasks.update(before)
    for name in made:
        sys.modules.pop(name, None)


def top_level(value: int) -> int:
    return value


class Shop:
    def sell(self) -> None: ...

    @staticmethod
    def close() -> None: ...


def outer() -> Any:
    def inner() -> None: ...

    return inner


@pytest.mark.parametrize(
    "function",
    [lambda: None, Shop.sell, Shop().sell, Shop.close, outer(), Shop, len, "name"],
    ids=["lambda", "method", "bound", "static", "inner", "class", "builtin", "text"],
)
def test_only_a_top_level_function_can_be_a_task(function: Any) -> None:
    with pytest.raises(InvalidTask) as raised:
        task(function)

    assert str(raised.value) == (f"{function!r} cannot be a task: expected a function at the top level of a module.")


def generated() -> Iterator[int]:
    yield 1


async def generated_async() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [generated, generated_async])
def test_generator_function_cannot_be_a_task(function: Any) -> None:
    with pytest.raises(InvalidTask, match="cannot be a task: a call of a generator function runs nothing of it"):
        task(function)


def test_connection_that_is_no_name_raises() -> None:
    with pytest.raises(InvalidTask, match=r"^using=\['jobs'\]: expected the name of a connection\.$"):
        task(using=["jobs"])


def test_task_is_registered_by_its_dotted_name() -> None:
    made = task(top_level)

    assert registry.find(f"{__name__}.top_level") is made
    assert made.name in registry.names()
    assert made in list(registry.all_tasks())
    assert registry.names() == sorted(registry.names())


def test_duplicate_task_name_raises(module: Any) -> None:
    module(
        "twice",
        """
        from django_redis_components.taskqueue import task

        @task
        def send(): ...

        @task
        def send(): ...
        """,
    )

    with pytest.raises(
        InvalidTask, match=r"^Two functions have the name 'twice\.send': .*twice\.py:4 and .*twice\.py:7\.$"
    ):
        importlib.import_module("twice")


def test_a_reloaded_module_replaces_its_tasks(module: Any) -> None:
    module("again", "from django_redis_components.taskqueue import task\n@task(priority=1)\ndef send(): ...\n")
    found = importlib.import_module("again")

    again = importlib.reload(found)

    assert registry.find("again.send") is again.send


def test_a_function_that_has_moved_in_a_reloaded_module_replaces_its_predecessor(module: Any) -> None:
    head = "from django_redis_components.taskqueue import every, task\n"
    body = "@every(60)\n@task\ndef send(): ...\n@task(aliases=('shop.close',))\ndef close(): ...\n"
    path = module("moved", head + body)
    found = importlib.import_module("moved")

    path.write_text(f"{head}\n\n# a comment\n{body}")
    importlib.invalidate_caches()
    again = importlib.reload(found)

    assert registry.find("moved.send") is again.send
    assert registry.find("shop.close") is registry.find("moved.close") is again.close


def test_schedule_that_has_changed_in_a_reloaded_module_replaces_its_predecessor(module: Any) -> None:
    text = """
        from django_redis_components.taskqueue import every, task
        @every({0}, name="often")
        @every({0})
        @task
        def send(): ...
    """
    before = dict(schedules)
    path = module("changed", text.format(60))
    found = importlib.import_module("changed")
    try:
        path.write_text(textwrap.dedent(text.format(30)) + "\n")
        importlib.invalidate_caches()
        importlib.reload(found)

        made = [each for key, each in schedules.items() if key not in before]
        assert sorted((each.name, each.recurrence.text) for each in made) == [
            ("changed.send every 30 s", "every 30 s"),
            ("often", "every 30 s"),
        ]
    finally:
        schedules.clear()
        schedules.update(before)


def test_two_functions_of_one_name_in_a_reloaded_module_raise(module: Any) -> None:
    text = "from django_redis_components.taskqueue import task\n@task\ndef send(): ...\n"
    path = module("reloaded", text)
    found = importlib.import_module("reloaded")

    path.write_text(f"{text}\n@task\ndef send(): ...\n")
    importlib.invalidate_caches()

    with pytest.raises(InvalidTask, match=r"^Two functions have the name 'reloaded\.send': .*py:2 and .*py:5\.$"):
        importlib.reload(found)


def test_module_of_the_same_name_in_another_folder_is_no_reload(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from django_redis_components.taskqueue import task\n@task\ndef send(): ...\n"
    module("doubled", text)
    importlib.import_module("doubled")
    module("doubled", text, folder="other")
    del sys.modules["doubled"]
    monkeypatch.syspath_prepend(tmp_path / "other")

    with pytest.raises(
        InvalidTask, match=r"^Two functions have the name 'doubled\.send': .*doubled\.py:2 and .*other/doubled\.py:2\.$"
    ):
        importlib.import_module("doubled")


def test_an_error_in_a_tasks_module_is_raised(module: Any, settings: Any) -> None:
    module("__init__", "", folder="broken_app")
    module("tasks", "raise LookupError('in the middle of it')", folder="broken_app")
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "broken_app"]

    with pytest.raises(LookupError, match="in the middle of it"):
        registry.autodiscover()


def test_a_dotted_path_from_redis_is_never_imported(redis_server: Store, module: Any) -> None:
    path = module("planted", "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()\ndef run(): ...\n")
    for name in ("planted.run", "planted", "os.system", "tests.taskqueue.test_registry.Shop.close"):
        call = ENQUEUE(
            base=home().base,
            id=name,
            queue="default",
            due="",
            priority=0,
            unique="",
            expires="",
            fields=("n", name, "b", b"[[],{}]"),
        )
        connections.client().execute(call)

    work_off()

    assert "planted" not in sys.modules
    assert not path.with_suffix(".ran").exists()
    stored = redis_server.raw.zrange(f"{redis_server.prefix}:taskqueue:{{default}}:q:default:unregistered", 0, -1)
    assert sorted(stored) == [
        b"os.system",
        b"planted",
        b"planted.run",
        b"tests.taskqueue.test_registry.Shop.close",
    ]


def test_a_failure_s_class_path_is_text_and_is_never_imported(redis_server: Store, module: Any) -> None:
    module("planted", "raise AssertionError('imported')")
    result = add.enqueue(1, 2)
    key = f"{redis_server.prefix}:taskqueue:{{default}}:t:{result.id}"
    redis_server.raw.hset(key, "s", "failed")
    redis_server.raw.rpush(
        f"{key}:errors", b'{"exception_class_path": "planted.Boom", "message": "m", "traceback": "t"}'
    )

    result.refresh()

    assert result.errors[0].exception_class_path == "planted.Boom"
    assert "planted" not in sys.modules


@pytest.mark.parametrize("module_name", ["__main__", "__mp_main__"])
def test_function_of_a_script_cannot_be_a_task(module_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_level, "__module__", module_name)

    with pytest.raises(InvalidTask) as raised:
        task(top_level)

    assert str(raised.value) == (
        f"'{module_name}.top_level' cannot be a task: '{module_name}' is the module that Python runs as a script, and"
        " no worker can import it. Define the task in another module, such as the tasks.py of an app."
    )
    assert registry.find(f"{module_name}.top_level") is None


@pytest.mark.parametrize("of", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
def test_a_copy_of_a_task_is_the_registered_one(redis_server: Store, of: Callable[[Any], Any]) -> None:
    def copied(value: Any) -> Any:
        made = of(value)
        return pickle.loads(made) if isinstance(made, bytes) else made  # noqa: S301

    result = add.using(priority=5).enqueue(2, 3)

    assert copied(add) is add
    assert copied(add.using(priority=5)).options == add.using(priority=5).options
    assert copied(collect) is collect
    assert (copied(result).id, copied(result).args, copied(result).task.priority) == (result.id, [2, 3], 5)
    assert copied(add.s(2, 3)).then(add.s(4)).enqueue().id


def test_a_pickled_task_that_is_not_registered_here_is_named(module: Any) -> None:
    module("short_lived", "from django_redis_components.taskqueue import task\n@task\ndef work(): ...")
    data = pickle.dumps(importlib.import_module("short_lived").work)
    del registry.tasks["short_lived.work"]

    with pytest.raises(InvalidTask, match=r"^No task 'short_lived\.work' is registered by the module 'short_lived'\.$"):
        pickle.loads(data)  # noqa: S301
