"""Tasks that a member adds to its group within a loop of `iterate`, which a later run continues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_redis_components.taskqueue import FlowResult, TaskContext, group, task
from tests.support import Store
from tests.taskqueue.flows.support import states
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import echo, note, recorded


@task(takes_context=True, max_attempts=2, backoff=0)
def notify_each(context: TaskContext, fails_at: str, **options: Any) -> str:
    """Add equal notes: one before the loop, one for each of four items, and one after the loop. Fail at one."""
    context.flow.add(note.si("started"))
    for number in context.iterate(range(4), **options):
        fail_once(context, fails_at, f"before {number}")
        context.flow.add(note.si("item"))
        fail_once(context, fails_at, f"after {number}")
    context.flow.add(note.si("item"))
    fail_once(context, fails_at, "the end")
    return "added"


@task(takes_context=True, max_attempts=2, backoff=0)
async def notify_each_async(context: TaskContext, fails_at: str, **options: Any) -> str:
    """As `notify_each`, in a coroutine."""
    await context.flow.aadd(note.si("started"))
    async for number in context.aiterate(range(4), **options):
        fail_once(context, fails_at, f"before {number}")
        await context.flow.aadd(note.si("item"))
        fail_once(context, fails_at, f"after {number}")
    await context.flow.aadd(note.si("item"))
    fail_once(context, fails_at, "the end")
    return "added"


@task(takes_context=True, max_attempts=2, backoff=0)
def notify_in_two_loops(context: TaskContext) -> str:
    """Add an equal note for each item of two loops; fail in the second one."""
    for _ in context.iterate(["first"]):
        context.flow.add(note.si("item"))
    for _ in context.iterate(["second"]):
        fail_once(context, "second", "second")
        context.flow.add(note.si("item"))
    return "added"


@task(takes_context=True, max_attempts=2, backoff=0)
def notify_first(context: TaskContext) -> str:
    """Leave a loop at its first item, and add an equal note afterwards; fail then."""
    for _ in context.iterate(range(4)):
        context.flow.add(note.si("item"))
        break
    context.flow.add(note.si("item"))
    fail_once(context, "the end", "the end")
    return "added"


@task(takes_context=True, max_attempts=2, backoff=0)
async def notify_in_second_loop(context: TaskContext) -> str:
    """Leave a loop, whose generator ends within an item of the next one, as the event loop may end it; fail then."""
    first = context.aiterate(range(4))
    async for number in first:
        if number == 1:
            break
    async for number in context.aiterate(range(2)):
        await first.aclose()  # type: ignore[attr-defined]
        await context.flow.aadd(note.si("item"))
        fail_once(context, "0", str(number))
    return "added"


def fail_once(context: TaskContext, fails_at: str, place: str) -> None:
    if context.attempt == 1 and fails_at == place:
        raise LookupError(place)


def run(member: Any) -> FlowResult:
    """Run a group of this member until it has finished."""
    recorded.clear()
    flow = group(member).enqueue(callback=echo.s())
    work_off()
    assert set(states(flow)) == {"successful"}
    return flow


@pytest.mark.parametrize("options", [{}, {"save_every": 1}, {"on_retry": "restart"}], ids=["", "saved", "restart"])
@pytest.mark.parametrize("fails_at", ["before 2", "after 2", "after 3", "the end"])
@pytest.mark.parametrize("member", [notify_each.s, notify_each_async.s], ids=["sync", "async"])
def test_equal_calls_of_several_items_are_added_once_for_each(
    redis_server: Store, member: Callable[..., Any], fails_at: str, options: dict[str, Any]
) -> None:
    run(member(fails_at, **options))

    assert sorted(recorded) == ["item"] * 5 + ["started"]


def test_equal_calls_of_two_loops_are_added_once_for_each(redis_server: Store) -> None:
    run(notify_in_two_loops.s())

    assert recorded == ["item"] * 2


def test_loop_that_was_left_does_not_end_the_item_of_the_next_one(redis_server: Store) -> None:
    run(notify_in_second_loop.s())

    assert recorded == ["item"] * 2


def test_equal_calls_in_a_loop_and_behind_it_are_added_once_for_each(redis_server: Store) -> None:
    run(notify_first.s())

    assert recorded == ["item"] * 2
