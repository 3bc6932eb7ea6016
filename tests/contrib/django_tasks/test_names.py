"""Names from Redis are looked up among the registered tasks and never imported."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from django_redis_components.contrib import task_discovery
from django_redis_components.contrib.django_tasks.registered_task import RegisteredTask
from django_redis_components.core.client import connections
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.scripts import ENQUEUE
from tests.contrib.django_tasks.framework import (
    IMMEDIATE,
    NAME,
    REDIS,
    InvalidTask,
    TaskResultDoesNotExist,
    default_task_backend,
    task,
)
from tests.contrib.django_tasks.shop.tasks import add, fail
from tests.support import Store
from tests.taskqueue.support import queue_key, work_off


@pytest.fixture(autouse=True)
def _backends(configure: Any) -> None:
    configure()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], Path]]:
    """Writes a module of that name, which the test may import."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def write(name: str, text: str) -> Path:
        path = tmp_path / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        made.append(name)
        importlib.invalidate_caches()
        return path

    yield write
    for name in [name for name in sys.modules if name.split(".")[0] in {name.split(".")[0] for name in made}]:
        del sys.modules[name]


def test_task_is_registered_when_it_is_created() -> None:
    entry = registry.find(add.module_path)

    assert isinstance(entry, RegisteredTask)
    assert (entry.name, entry.func, entry.source) == ("tests.contrib.django_tasks.shop.tasks.add", add.func, add)


def test_copy_of_a_task_does_not_replace_it_in_the_registry() -> None:
    add.using(priority=9, queue_name="elsewhere", max_attempts=7)

    entry = registry.find(add.module_path)
    assert (entry.source.priority, entry.options.max_attempts, entry.options.queue_name) == (0, 1, "default")


def test_a_name_from_redis_is_never_imported(redis_server: Store, module: Any) -> None:
    path = module("planted", "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()\ndef run(): ...\n")
    for name in ("planted.run", "os.system", f"{__name__}.plain"):
        body = json.dumps([[], {}, {"django": {}}])
        connections.client().execute(
            ENQUEUE(
                base=home().base,
                id=name,
                queue="default",
                due="",
                priority=0,
                unique="",
                expires="",
                fields=("n", name, "b", body),
            )
        )

    work_off()

    for name in ("planted.run", "os.system", f"{__name__}.plain"):
        with pytest.raises(TaskResultDoesNotExist, match="which is not registered as a task in this process"):
            default_task_backend.get_result(name)
    assert redis_server.raw.zcard(queue_key(redis_server, "unregistered")) == 3
    assert "planted" not in sys.modules
    assert not path.with_suffix(".ran").exists()


def plain() -> None:
    """A function that is no task."""
    raise AssertionError("it ran")


@pytest.mark.parametrize("path", ["planted.Boom", "planted", "planted.deep.Boom"])
def test_the_class_of_an_error_is_never_imported(redis_server: Store, module: Any, path: str) -> None:
    module("planted", "raise AssertionError('imported')")
    error = _error_of_class(redis_server, path)

    with pytest.raises(ImportError) as raised:
        assert error.exception_class

    assert str(raised.value) == (f"The module of {path!r} is not imported here, and no name from Redis is imported.")
    assert error.exception_class_path == path


@pytest.mark.parametrize("path", ["sys", "os.system", "json.JSONEncoder", "os.nothing", "sys.maxsize.real"])
def test_path_of_another_object_than_an_exception_is_refused(redis_server: Store, path: str) -> None:
    error = _error_of_class(redis_server, path)

    with pytest.raises(ValueError, match=r"^'.*' does not reference a valid exception\.$"):
        assert error.exception_class


class Outer:
    """Contains an exception class."""

    class InnerError(Exception):
        """An exception with a dotted name in its module."""


def test_an_exception_inside_a_class_is_found(redis_server: Store) -> None:
    assert _error_of_class(redis_server, f"{__name__}.Outer.InnerError").exception_class is Outer.InnerError


def _error_of_class(store: Store, path: str) -> Any:
    result = fail.enqueue()
    work_off()
    key = f"{store.prefix}:taskqueue:{{default}}:t:{result.id}:errors"
    store.raw.lset(key, 0, json.dumps({"exception_class_path": path, "message": "", "traceback": "t"}))
    return fail.get_result(result.id).errors[0]


def test_duplicate_task_name_raises(module: Any) -> None:
    module("twice", f"from {NAME} import task\n@task\ndef send(): ...\n@task\ndef send(): ...\n")

    with pytest.raises(
        InvalidTask, match=r"^Two functions have the name 'twice\.send': .*twice\.py:2 and .*twice\.py:4\.$"
    ):
        importlib.import_module("twice")


def test_a_reloaded_module_replaces_its_tasks(module: Any) -> None:
    module("again", f"from {NAME} import task\n@task\ndef send(): ...\n")
    found = importlib.import_module("again")

    again = importlib.reload(found)

    assert registry.find("again.send").source is again.send


def test_a_function_that_the_framework_refuses_is_not_registered() -> None:
    before = registry.names()

    with pytest.raises(InvalidTask, match=r"^Task function must be defined at a module level\.$"):
        task(lambda: None)

    assert registry.names() == before


def test_an_invalid_option_registers_nothing(configure: Any) -> None:
    before = registry.names()
    configure(options={"MAX_ATTEMPTS": "three"})

    with pytest.raises(InvalidTask, match="max_attempts='three': expected an integer"):
        task(plain)

    assert registry.names() == before


@pytest.fixture
def shop(module: Any, settings: Any) -> Any:
    """An installed app whose tasks are made for another backend than ours."""
    settings.TASKS = {
        "default": {"BACKEND": IMMEDIATE},
        "broken": {"BACKEND": "does.not.exist"},
        "redis": {"BACKEND": REDIS, "QUEUES": []},
    }
    lazy = "from django.utils.functional import SimpleLazyObject\nlazy = SimpleLazyObject(lambda: 1 / 0)\n"
    module("corner.__init__", "")
    module("corner.tasks", f"from {NAME} import task\n{lazy}@task\ndef send(value): return value\n")
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "corner"]
    return importlib.import_module("corner.tasks")


def test_worker_registers_tasks_of_another_backend(redis_server: Store, shop: Any) -> None:
    result = shop.send.using(backend="redis").enqueue(5)
    registry.tasks.clear()
    registry.autodiscover()  # as a worker does when it starts

    work_off()

    assert shop.send.using(backend="redis").get_result(result.id).return_value == 5


def test_discovery_keeps_registered_tasks(shop: Any) -> None:
    copy = shop.send.using(backend="redis")
    registry.autodiscover()

    assert registry.find(copy.module_path).source.backend == "redis"


def test_discovery_does_nothing_on_a_site_without_our_backend(
    shop: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.tasks.clear()
    settings.TASKS = {"default": {"BACKEND": IMMEDIATE}}
    task_discovery.discover()
    monkeypatch.delitem(sys.modules, NAME)
    task_discovery.discover()

    assert registry.names() == []


def test_name_of_a_native_task_cannot_be_reused(module: Any) -> None:
    module(
        "both",
        f"from {NAME} import task as theirs\n"
        "from django_redis_components.taskqueue import task as ours\n"
        "@ours\ndef send(): ...\n"
        "@theirs\ndef send(): ...\n",
    )

    with pytest.raises(InvalidTask, match=r"Two functions have the name 'both\.send'"):
        importlib.import_module("both")
