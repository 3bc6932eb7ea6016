"""Methods of tasks in Celery, RQ, Dramatiq and Huey raise errors that name the replacement."""

from __future__ import annotations

import copy

import pytest

from tests.taskqueue.tasks import add


@pytest.mark.parametrize(
    ("name", "replacement"),
    [
        ("delay", "add.enqueue(…)"),
        ("apply_async", "add.using(…).enqueue(…)"),
        ("perform_async", "add.enqueue(…)"),
        ("send", "add.enqueue(…)"),
        ("send_with_options", "add.using(…).enqueue(…)"),
        ("schedule", "add.using(run_after=…).enqueue(…)"),
        ("call_local", "add.call(…)"),
        ("signature", "add.s(…)"),
    ],
)
def test_method_of_another_queue_raises_and_names_the_replacement(name: str, replacement: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(add, name)

    assert str(raised.value) == f"'Task' object has no attribute {name!r}. Use {replacement}."
    assert raised.value.name == name
    assert not hasattr(add, name)


def test_unknown_attribute_raises_without_a_hint() -> None:
    with pytest.raises(AttributeError, match=r"^'Task' object has no attribute 'enqeue'$"):
        add.enqeue  # type: ignore[attr-defined]  # noqa: B018


def test_task_can_be_copied() -> None:
    assert copy.copy(add) == copy.deepcopy(add) == add
