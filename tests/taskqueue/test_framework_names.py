"""Tasks have the attributes of a task of Django's framework."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_type_hints

import django
import pytest
from asgiref.sync import async_to_sync
from django.utils.module_loading import import_string

from django_redis_components.taskqueue import Task, TaskError, task
from django_redis_components.taskqueue.options import DeclaredOptions, SendingOptions, TaskOptions
from tests.support import Store, run_async
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import add, add_async, fail

pytestmark = pytest.mark.integration

FrameworkTask: Any = import_string("django.tasks.Task" if django.VERSION >= (6, 0) else "django_tasks.base.Task")


@task
def exhausted() -> None:
    """Raise StopIteration."""
    next(iter(()))


def test_task_has_the_option_names_of_the_framework() -> None:
    task = add.using(queue_name="mail", priority=7, run_after=60)

    assert (task.queue_name, task.priority, task.run_after) == ("mail", 7, 60)
    assert task.module_path == task.name == "tests.taskqueue.tasks.add"
    assert (add.queue_name, add.priority, add.run_after) == ("default", 0, None)


def test_task_has_every_attribute_of_a_framework_task_but_backend() -> None:
    theirs = {name for name in dir(FrameworkTask) if not name.startswith("_")}

    assert theirs - set(dir(Task)) == {"backend", "get_backend"}


def test_repr_of_a_task_is_short() -> None:
    assert repr(add) == "<Task tests.taskqueue.tasks.add>"


def test_call_and_acall_run_the_function() -> None:
    assert add.call(1, b=2) == add_async.call(1, 2) == 3
    assert async_to_sync(add.acall)(1, 2) == async_to_sync(add_async.acall)(1, 2) == 3


def test_acall_of_a_function_that_raises_stop_iteration_ends() -> None:
    """On Python 3.11 a future that should hold StopIteration is awaited for ever."""
    with pytest.raises(StopIteration):
        exhausted.call()
    with pytest.raises(RuntimeError, match=r"exhausted\(\) raised StopIteration$"):
        run_async(exhausted.acall)


def test_error_has_its_exception_class(store: Store) -> None:
    result = fail.enqueue("no such order")
    work_off()

    result.refresh()
    assert result.errors[0].exception_class is LookupError


def test_exception_class_does_not_import_a_module() -> None:
    with pytest.raises(ImportError, match=r"no name from Redis is imported\."):
        assert TaskError("antigravity_of_nobody.Error", "", "").exception_class


def test_signatures_list_all_options() -> None:
    every = {field.name for field in dataclasses.fields(TaskOptions)}

    assert set(SendingOptions.__annotations__) == every
    assert every - set(DeclaredOptions.__annotations__) == {"id", "metadata", "run_after"}
    assert get_type_hints(Task.using)["options"]
    assert inspect.signature(Task.using).parameters["options"].kind is inspect.Parameter.VAR_KEYWORD
