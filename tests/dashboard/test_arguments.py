"""Arguments of tasks as text: masked by name, escaped and cut."""

from __future__ import annotations

from typing import Any

from django_redis_components.core import serialization
from django_redis_components.dashboard.arguments import arguments_text, masked_arguments
from django_redis_components.taskqueue import TaskContext, task
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.record import TaskRecord


@task(takes_context=True)
def charge(context: TaskContext, order_id: int, card_number: str) -> None: ...


def record(body: Any, name: str = "shop.tasks.unregistered") -> TaskRecord[Any]:
    stored = body if isinstance(body, bytes) else serialization.encode(body)
    return TaskRecord(name, "id", {Field.body: stored}, [])


def test_values_are_masked_by_name_at_any_depth() -> None:
    named = {"order_id": 7, "user": {"password": "x", "name": "ada"}, "api_key": "k", "rows": [{"auth_token": 1}]}

    text = arguments_text(record([["a"], named]))

    assert text == '"a", order_id=7, user={"password":"•••","name":"ada"}, api_key=•••, rows=[{"auth_token":"•••"}]'


def test_positional_values_are_masked_by_the_parameters_of_the_task() -> None:
    assert masked_arguments(record([[7, "4111"], {}], charge.name)) == ([7, "•••"], {})


def test_text_is_cut_and_has_no_control_characters() -> None:
    assert len(arguments_text(record([["x" * 500], {}]))) == 120
    assert arguments_text(record([["a\n\u202eb"], {"k\n": 1}])) == r'"a\n\u202eb", k\n=1'


def test_text_of_a_corrupt_message_says_so() -> None:
    for body in (b"", b"\xff", b"7", b"[]", b"{}", b"[1,2]", b'["a",[]]', b"[" * 5_000):
        assert arguments_text(record(body)) == "not readable"
    assert arguments_text(TaskRecord("n", "id", {}, [])) == "not readable"
