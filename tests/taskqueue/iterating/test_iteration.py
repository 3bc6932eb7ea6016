"""`iterate`: a retry continues at the cursor, and the cursor belongs to the lease and to the arguments."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import TaskDelayed
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue import (
    Counts,
    Cursor,
    LeaseLost,
    Progress,
    TaskContext,
    Unique,
    get_queue,
    get_result,
    task,
)
from django_redis_components.taskqueue.iteration import decode_cursor, encode_cursor
from django_redis_components.taskqueue.run_start import result_of_run
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.testing import inline
from tests.support import Proxy, Store, run_async
from tests.taskqueue.iterating.support import context_after_death, context_of
from tests.taskqueue.iterating.tasks import Numbers, see, see_async, seen, sources
from tests.taskqueue.support import (
    base_key,
    new_fetcher,
    queue_key,
    settle_now,
    work_off,
    work_until_finished,
)
from tests.taskqueue.tasks import echo
from tests.taskqueue.worker.support import fetch_call


@pytest.mark.contract
@pytest.mark.parametrize("made", [see, see_async], ids=["sync", "async"])
def test_retry_continues_after_the_last_item_that_is_done(store: Store, made: Any) -> None:
    sources.append(range(10))
    result = made.enqueue([3, 7])

    work_until_finished(result)

    assert (result.state, result.attempts, seen) == ("successful", 3, list(range(10)))
    assert result.cursor == Cursor(0, None, 10, 10)
    assert result.progress == Progress(10, 10)


@pytest.mark.parametrize(
    "source", [list("abc"), {"a": 1, "b": 2, "c": 3}, iter("abc")], ids=["list", "dict", "iterator"]
)
def test_any_ordered_iterable_is_accepted(redis_server: Store, source: Any) -> None:
    sources.append(source)

    see.enqueue()
    work_off()

    assert seen == ["a", "b", "c"]


def test_async_iterable_continues_at_its_position(redis_server: Store) -> None:
    sources.append(Numbers(6))
    result = see_async.enqueue([2, 5])

    work_until_finished(result)

    assert (result.state, seen, result.progress) == ("successful", list(range(6)), Progress(6))


@pytest.mark.parametrize("made", [see, see_async], ids=["sync", "async"])
def test_loops_that_an_earlier_run_has_finished_are_left_out(redis_server: Store, made: Any) -> None:
    sources[:] = [range(3), range(10, 13), range(20, 23)]
    result = made.enqueue([11, 20])

    work_until_finished(result)

    assert (result.state, seen) == ("successful", [0, 1, 2, 10, 11, 12, 20, 21, 22])
    assert result.cursor == Cursor(2, None, 3, 3)


def test_retry_starts_with_the_first_item_if_it_is_told_to_restart(redis_server: Store) -> None:
    sources.append(range(4))
    result = see.enqueue([2], on_retry="restart")

    work_until_finished(result)

    assert (result.state, seen, result.progress) == ("successful", [0, 1, 0, 1, 2, 3], Progress(4, 4))


def test_retry_by_an_operator_restarts_too(redis_server: Store) -> None:
    sources.append(range(4))
    result = see.using(max_attempts=1).enqueue([2], on_retry="restart")
    work_until_finished(result)
    assert result.state == "failed"

    get_queue("default").retry_failed()
    result.refresh()
    sources[:] = [range(2)]
    work_until_finished(result)

    assert (result.state, seen) == ("successful", [0, 1, 0, 1])


def test_restart_is_final_also_if_the_run_after_it_dies_at_once(redis_server: Store) -> None:
    sources.append(range(4))
    result = see.using(max_attempts=1).enqueue([2], on_retry="restart")
    work_off()
    get_queue("default").retry_failed()
    context = context_of(see)
    assert next(context.iterate(range(4), on_retry="restart")) == 0

    again = context_after_death(redis_server, see, result.id)

    assert again.task_result.cursor == Cursor(0, None, None, 0)
    assert list(again.iterate(range(4), on_retry="restart")) == [0, 1, 2, 3]


def test_death_of_the_worker_continues_also_with_restart(redis_server: Store) -> None:
    result = see.enqueue(on_retry="restart")
    context = context_of(see)
    for number in context.iterate(range(5), save_every=1, on_retry="restart"):
        if number == 3:
            break

    again = context_after_death(redis_server, see, result.id)

    assert list(again.iterate(range(5), on_retry="restart")) == [3, 4]


def test_cursor_is_written_once_a_second_by_default(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("django_redis_components.taskqueue.iteration.time.monotonic", lambda: now[0])
    result = see.enqueue()
    context = context_of(see)
    stored = []

    for _ in context.iterate(range(8)):
        now[0] += 0.4
        result.refresh()
        stored.append(result.cursor and result.cursor.done)

    assert stored == [None, None, None, 3, 3, 3, 6, 6], "after 1.2 s each"
    result.refresh()
    assert result.cursor == Cursor(0, None, 8, 8), "the end of the loop is written at once"


def test_cursor_is_written_after_as_many_items_as_asked_for(redis_server: Store) -> None:
    result = see.enqueue()
    context = context_of(see)
    stored = []

    for _ in context.iterate(range(6), save_every=2):
        result.refresh()
        stored.append(result.cursor and result.cursor.after)

    assert stored == [None, None, 2, 2, 4, 4]


def test_item_is_not_done_before_the_loop_asks_for_the_next(redis_server: Store) -> None:
    result = see.enqueue()
    context = context_of(see)

    for number in context.iterate(range(6), save_every=1):
        if number == 4:
            break
    context.save_metadata()

    result.refresh()
    assert (result.cursor, result.progress) == (Cursor(0, None, 4, 4), Progress(4, 6))


def test_progress_of_the_task_itself_is_kept(redis_server: Store) -> None:
    result = see.enqueue()
    context = context_of(see)

    for number in context.iterate(range(3)):
        context.progress(number * 10, 30, "bytes")

    result.refresh()
    assert (result.progress, result.cursor) == (Progress(20, 30, "bytes"), Cursor(0, None, 3, 3))


def test_metadata_and_cursor_are_independent(redis_server: Store) -> None:
    result = see.using(metadata={"by": "kim"}).enqueue()
    context = context_of(see)

    for number in context.iterate(range(3), save_every=1):
        context.metadata["at"] = number
        context.save_metadata()

    result.refresh()
    assert (result.metadata, result.cursor) == ({"by": "kim", "at": 2}, Cursor(0, None, 3, 3))
    assert result.progress == Progress(3, 3)


def test_run_that_has_lost_its_lease_ends_and_writes_nothing(redis_server: Store) -> None:
    result = see.enqueue()
    first = context_of(see)
    items = first.iterate(range(100), save_every=1)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    second = context_after_death(redis_server, see, result.id)
    others = second.iterate(range(100), save_every=1)
    assert [next(others) for _ in range(3)] == [2, 3, 4], "after the two that the first one had done"

    with pytest.raises(LeaseLost):
        next(items)

    result.refresh()
    assert result.cursor == Cursor(0, None, 4, 4), "that of the second worker"


def test_async_run_that_has_lost_its_lease_ends(redis_server: Store) -> None:
    result = see_async.enqueue()
    context = context_of(see_async)
    redis_server.raw.hset(base_key(redis_server, "t", result.id), mapping={"L": "there:1/0/9"})
    taken = []

    async def take() -> None:
        async for number in context.aiterate(range(5), save_every=2):
            taken.append(number)

    with pytest.raises(LeaseLost):
        run_async(take)
    assert taken == [0, 1]


def test_deleted_task_ends(redis_server: Store) -> None:
    result = see.enqueue()
    context = context_of(see)
    redis_server.raw.delete(base_key(redis_server, "t", result.id))

    with pytest.raises(LeaseLost):
        list(context.iterate(range(3)))

    assert redis_server.raw.exists(base_key(redis_server, "t", result.id)) == 0


@pytest.mark.contract
def test_interrupted_outcome_is_applied_once(store: Store) -> None:
    result, _ = echo.enqueue(1), echo.enqueue(2)
    [job] = new_fetcher(worker="w").fetch("0", 1)
    call = fetch_call(Ack(job.id, job.token, "interrupted", ran_us=5))

    assert connections.client().execute(call)[0] == [1]
    assert connections.client().execute(call)[0] == [2]

    result.refresh()
    assert (result.state, result.attempts, result.runs, result.worker_ids) == ("ready", 0, 1, ["w"])
    assert [run.outcome for run in result.timeline] == ["interrupted"]
    assert store.raw.lrange(queue_key(store, "requeued"), 0, -1) == [result.id.encode()], "ahead of the second task"
    assert store.raw.zcard(queue_key(store, "running")) == 0
    assert get_queue("default").metrics().totals == Counts()
    [again] = new_fetcher(worker="v").fetch("0", 1)
    assert (again.id, again.runs, again.attempts) == (result.id, 1, 0)
    assert connections.client().execute(call)[0] == [0]


def through_the_proxy(made: Any) -> Any:
    return dataclasses.replace(made, connection="proxied")


def test_cursor_is_written_once_if_the_reply_is_lost(redis_server: Store, proxy: Proxy) -> None:
    made = through_the_proxy(see)
    result = made.enqueue()
    context = context_of(made, using="proxied")
    items = context.iterate(range(3), save_every=1)
    assert next(items) == 0

    proxy.drop_next_reply(after=home().base.encode())

    assert list(items) == [1, 2]
    assert proxy.dropped == 1
    result.refresh()
    assert result.cursor == Cursor(0, None, 3, 3)


@pytest.mark.parametrize("made", [see, see_async], ids=["sync", "async"])
def test_loop_continues_while_the_cursor_cannot_be_written(
    redis_server: Store, proxy: Proxy, made: Any, caplog: pytest.LogCaptureFixture
) -> None:
    far = through_the_proxy(made)
    result = far.enqueue()
    context = context_of(far, using="proxied")
    taken: list[int] = []

    def step(number: int) -> None:
        taken.append(number)
        if number == 0:
            proxy.stop_accepting()
            proxy.cut()
        elif number == 2:
            proxy.accept_again()

    async def go_through() -> None:
        async for number in context.aiterate(range(4), save_every=1):
            step(number)

    if made is see_async:
        run_async(go_through)
    else:
        for number in context.iterate(range(4), save_every=1):
            step(number)

    assert taken == [0, 1, 2, 3]
    assert f"The progress of task {result.id} could not be written (" in caplog.text
    result.refresh()
    assert result.cursor == Cursor(0, None, 4, 4)


@pytest.mark.parametrize("made", [see, see_async], ids=["sync", "async"])
def test_task_is_delayed_if_its_cursor_cannot_be_read(redis_server: Store, proxy: Proxy, made: Any) -> None:
    """It must not start with the first item."""
    far = through_the_proxy(made)
    far.enqueue()
    [job] = new_fetcher(using="proxied").fetch("0", 1)
    proxy.stop_accepting()
    proxy.cut()
    _, context = result_of_run(far, job, "proxied")
    assert context is not None

    async def take() -> None:
        async for _ in context.aiterate(range(3)):
            pass

    with pytest.raises(TaskDelayed, match="its cursor cannot be read"):
        run_async(take) if made is see_async else list(context.iterate(range(3)))

    proxy.accept_again()
    assert list(context.iterate(range(3))) == [0, 1, 2]


def test_cursor_that_was_not_read_at_the_start_is_read_by_the_loop(redis_server: Store, proxy: Proxy) -> None:
    far = through_the_proxy(see)
    result = far.enqueue()
    redis_server.raw.hset(base_key(redis_server, "t", result.id), "I", encode_cursor(Cursor(0, None, 3, 3)))
    [job] = new_fetcher(using="proxied").fetch("0", 1)
    proxy.stop_accepting()
    proxy.cut()
    _, context = result_of_run(far, job, "proxied")
    proxy.accept_again()
    assert context is not None

    assert list(context.iterate(range(5))) == [3, 4]


def test_deletion_during_an_outage_ends_the_loop(redis_server: Store) -> None:
    result = see.enqueue()
    [job] = new_fetcher().fetch("0", 1)
    unread = TaskContext(result, job, None)  # as if Redis had not answered when the run began
    redis_server.raw.delete(base_key(redis_server, "t", result.id))

    with pytest.raises(LeaseLost):
        list(unread.iterate(range(3)))


def test_nested_loops_are_refused_and_a_retry_leaves_nothing_out(redis_server: Store) -> None:
    result = see.enqueue()
    context = context_of(see)
    outer = context.iterate(range(3))
    assert next(outer) == 0
    assert list(context.iterate(range(2))) == [0, 1]

    with pytest.raises(RuntimeError) as raised:
        next(outer)
    context.save_metadata()

    assert str(raised.value) == (
        "iterate() was called within the loop of another iterate(): the cursor has one position. Iterate over pairs,"
        " or enqueue a task for each outer item."
    )
    result.refresh()
    assert result.cursor == Cursor(0, None, None, 0), "the retry starts with the outer loop"


def test_cursor_of_another_key_is_refused(redis_server: Store) -> None:
    result = see.enqueue()
    redis_server.raw.hset(base_key(redis_server, "t", result.id), "I", encode_cursor(Cursor(0, "slug", "a", 1)))

    with pytest.raises(ValueError, match="cannot continue") as raised:
        list(context_of(see).iterate([1]))

    assert str(raised.value) == (
        f"iterate(key=None) cannot continue task {result.id}: its cursor is of key='slug'. Enqueue the task anew, or"
        ' retry it with on_retry="restart".'
    )


@pytest.mark.parametrize(
    ("source", "options", "kind", "text"),
    [
        (5, {}, TypeError, "source=5: expected a queryset or an iterable."),
        ({1}, {}, TypeError, "source={1}: a set has no stable order. Pass sorted(…)."),
        (
            [1],
            {"key": "pk"},
            TypeError,
            "key='pk': only querysets have a key; other iterables go by position.",
        ),
        ([1], {"chunk_size": 0}, ValueError, "chunk_size=0: expected an integer from 1 to 10000."),
        ([1], {"save_every": 0}, ValueError, "save_every=0: expected an integer of at least 1."),
        ([1], {"save_every": 1.5}, TypeError, "save_every=1.5: expected an integer of at least 1."),
        ([1], {"total": 0}, ValueError, "total=0: expected a number above 0."),
        ([1], {"on_retry": "again"}, ValueError, "on_retry='again': expected one of 'continue', 'restart'."),
    ],
)
def test_wrong_argument_is_refused_by_the_call(
    redis_server: Store, source: Any, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    see.enqueue()
    context = context_of(see)

    with pytest.raises(kind) as raised:
        context.iterate(source, **options)

    assert str(raised.value) == text
    with pytest.raises(kind):
        context.aiterate(source, **options)


def test_async_iterable_is_refused_by_the_sync_loop(redis_server: Store) -> None:
    see.enqueue()
    numbers = Numbers(3)

    with pytest.raises(TypeError, match=r"is an async iterable: use aiterate\(\)\.$"):
        context_of(see).iterate(numbers)  # type: ignore[arg-type]


def test_new_arguments_remove_the_cursor_and_other_changes_keep_it(redis_server: Store) -> None:
    sources.append(range(5))
    result = see.using(backoff=60).enqueue([3])
    work_off()
    result.refresh()
    assert (result.state, result.cursor) == ("retrying", Cursor(0, None, 3, 3))

    result.update(priority=5)
    assert result.cursor == Cursor(0, None, 3, 3)
    result.update(args=[[3]])
    assert result.cursor == Cursor(0, None, 3, 3), "they are the same"
    result.update(args=[[4]])

    assert result.cursor is None


@task(takes_context=True, unique=Unique(key="one", until="started", on_conflict="replace"))
def replaced(context: TaskContext, number: int) -> None: ...


def test_call_that_replaces_the_arguments_removes_the_cursor(redis_server: Store) -> None:
    result = replaced.enqueue(3)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    _, context = result_of_run(replaced, job, "default")
    assert context is not None
    assert list(context.iterate(range(3))) == [0, 1, 2]
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))  # as a worker whose grace period has ended
    result.refresh()
    assert (result.state, result.cursor) == ("ready", Cursor(0, None, 3, 3))

    assert replaced.enqueue(4).id == result.id

    result.refresh()
    assert (result.args, result.cursor) == ([4], None)


def test_cursor_is_kept_as_long_as_the_record_and_restored_with_it(redis_server: Store) -> None:
    sources.append(range(5))
    result = see.using(backoff=60).enqueue([3])
    work_off()

    purge = get_queue("default").purge()
    assert purge.count == 1
    get_queue("default").restore(purge.id)

    result.refresh()
    assert (result.state, result.cursor) == ("retrying", Cursor(0, None, 3, 3))
    failed = see.using(max_attempts=1).enqueue([3])
    work_off()
    assert redis_server.raw.hexists(base_key(redis_server, "t", failed.id), "I")
    assert 0 < redis_server.raw.pttl(base_key(redis_server, "t", failed.id)) <= 14 * 86_400_000


def test_cursor_of_a_later_release_may_have_more_parts() -> None:
    assert decode_cursor(b'[0, "pk", 7, 7, "later"]') == Cursor(0, "pk", 7, 7)


@pytest.mark.parametrize("made", [see, see_async], ids=["sync", "async"])
def test_inline_tasks_iterate(made: Any) -> None:
    sources.append(range(4))
    with inline():
        result = made.enqueue([2])
        result.refresh()

        assert (result.state, seen, result.cursor) == ("successful", [0, 1, 2, 3], Cursor(0, None, 4, 4))


def test_plain_task_stores_no_cursor(redis_server: Store) -> None:
    result = echo.enqueue(1)
    work_off()

    assert get_result(result.id).cursor is None
    assert connections.client().execute(Command("HEXISTS", base_key(redis_server, "t", result.id), "I")) == 0
