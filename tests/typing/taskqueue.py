"""Tasks: their arguments, options, results and flows."""

from __future__ import annotations

from typing import Any, assert_type

from django_redis_components.taskqueue import Batch, BatchCall, TaskContext, TaskResult, Unique, chain, group, task


@task
def plain(number: int, *, text: str = "") -> int:
    return number


@task(max_attempts=3)
def with_options(number: int) -> str:
    return str(number)


@task
async def coroutine(number: int) -> bytes:
    return bytes(number)


@task(takes_context=True)
def with_context(context: TaskContext, number: int) -> float:
    return float(number)


@task(batch=Batch(100, wait=1.0))
def in_batches(calls: list[BatchCall]) -> None: ...


@task(batch=Batch(100))
async def in_batches_on_loop(calls: list[BatchCall]) -> None: ...


def parameters(number: int, *, text: str = "") -> None: ...


@task(batch=Batch(100, key="{number}", signature=parameters), max_attempts=3)
def checked_batch(calls: list[BatchCall]) -> None: ...


@task(batch=Batch(100, wait=1.0, signature=parameters))
async def checked_batch_on_loop(calls: list[BatchCall]) -> None: ...


@task
def mail(to: str, copies: int) -> None: ...


@task
def clean() -> None: ...


def any_result(result: TaskResult) -> None: ...


async def right() -> None:
    assert_type(plain.enqueue(1).get(), int)
    assert_type(plain.using(priority=1).enqueue(1, text="a").return_value, int)
    assert_type(await plain.enqueue(1).aget(5), int)
    assert_type(plain(1), int)
    assert_type(with_options.enqueue_on_commit(1).get(), str)
    assert_type((await coroutine.aenqueue(1)).get(), bytes)
    assert_type(await coroutine(1), bytes)
    assert_type(with_context.enqueue(1).get(), float)
    assert_type(with_context.get_result("id").get(), float)
    any_result(plain.enqueue(1))
    assert_type(in_batches.enqueue(1, text="a").get(), Any)
    assert_type((await in_batches_on_loop.aenqueue(1)).get(), Any)
    assert_type(checked_batch.using(priority=1).enqueue(1, text="a").get(), Any)
    checked_batch([BatchCall((1,))])
    await checked_batch_on_loop.acall([BatchCall((1,))])
    await checked_batch_on_loop.aenqueue_many([checked_batch_on_loop.si(1), ((2,), {"text": "b"})])
    chain(plain.s(1), checked_batch.s(text="a"), checked_batch.si(1)).enqueue()

    assert_type(with_options.enqueue_many([((1,), {})])[0].get(), str)
    assert_type(plain.enqueue_many([plain.si(1), plain.si(2, text="b")]), list[TaskResult[int]])
    await plain.using(priority=2).aenqueue_many(plain.si(number) for number in range(3))

    chain(plain.s(1), mail.s(2), clean.si()).enqueue()  # the address is the result of `plain`
    chain(plain.s(1)).enqueue(on_error=clean.si(), on_complete=chain(clean.si()), on_success=group(clean.si()))
    chain(mail.s("a", 2), mail.s(copies=2), mail.s(to="a", copies=2))
    group(with_context.s(1), coroutine.s(1), coroutine.s()).then(plain.s(text="a"))
    group(chain(plain.s(1), clean.si()).on_failure("ignore"), mail.s("a", 2)).on_failure("continue").enqueue()
    chain(plain.s(1), group(clean.si(), chain(clean.si(), clean.si())).on_failure("ignore")).then(clean.si())


async def wrong_calls_of_batches() -> None:
    checked_batch.enqueue("one")  # type: ignore[arg-type]
    checked_batch.enqueue()  # type: ignore[call-arg]
    checked_batch.enqueue(1, txt="a")  # type: ignore[call-arg]
    checked_batch.enqueue_on_commit([BatchCall((1,))])  # type: ignore[arg-type]
    checked_batch.using(priority=1).si(1, 2)  # type: ignore[call-arg, arg-type]
    await checked_batch_on_loop.aenqueue(1, text=2)  # type: ignore[arg-type]
    Batch(100, signature=5)  # type: ignore[call-overload]
    Batch("100")  # type: ignore[call-overload]


async def wrong_arguments() -> None:
    plain.enqueue("one")  # type: ignore[arg-type]
    plain.enqueue()  # type: ignore[call-arg]
    plain.enqueue(1, txt="a")  # type: ignore[call-arg]
    await coroutine.aenqueue("one")  # type: ignore[arg-type]
    mail.enqueue_on_commit("a")  # type: ignore[call-arg]
    task(batch=Batch(100))(plain.func)  # type: ignore[arg-type]
    with_context.enqueue(1, 2)  # type: ignore[call-arg]
    plain.delay(1)  # type: ignore[attr-defined]
    number: str = plain.enqueue(1).get()  # type: ignore[assignment]
    print(number)


def wrong_calls_in_flows() -> None:
    plain.s("one")  # type: ignore[call-overload]
    plain.s(1, txt="a")  # type: ignore[call-overload]
    mail.s("a", "b")  # type: ignore[call-overload]
    mail.s("a", 1, 2)  # type: ignore[call-overload]
    clean.s(1)  # type: ignore[call-overload]
    plain.si()  # type: ignore[call-arg]
    mail.si(1)  # type: ignore[call-arg, arg-type]
    plain.s(1).on_failure("stop")  # type: ignore[arg-type]
    chain(plain.s(1)).on_failure("stop")  # type: ignore[arg-type]
    group(plain.s(1)).on_failure("stop")  # type: ignore[arg-type]


def wrong_calls_of_many() -> None:
    plain.enqueue_many([plain.si("one")])  # type: ignore[arg-type]
    plain.enqueue_many([1, 2])  # type: ignore[list-item]
    plain.enqueue_many([(1, {})])  # type: ignore[list-item]


def wrong_options() -> None:
    plain.using(prioritty=1)  # type: ignore[call-arg]
    plain.using(priority="high")  # type: ignore[arg-type]
    Unique(on_conflict="wait")  # type: ignore[arg-type]
    Unique(on_conflict="extend", max_wait="30")  # type: ignore[arg-type]
    task(max_attempts="3")  # type: ignore[call-overload]
    task(run_after=3)  # type: ignore[call-overload]
