"""The tasks of the tests. In a process on ``tests.taskqueue.site`` they are discovered as any site's are."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection
from django.db.backends.signals import connection_created
from django.dispatch import receiver

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import TaskDelayed
from django_redis_components.core.observability.live_events import RECORDER
from django_redis_components.core.protocol import Command
from django_redis_components.core.settings import conf
from django_redis_components.locks import Lock
from django_redis_components.taskqueue import SoftTimeLimitExceeded, TaskCancelled, TaskContext, exponential, task
from django_redis_components.taskqueue.shards import home
from tests.taskqueue.tenants import tenant

#: What tasks that ran in this process have noted.
recorded: list[Any] = []
#: Which process has opened a database connection, by the connection's identity.
opened_by: dict[int, int] = {}


@receiver(connection_created)
def note_who_opens(connection: Any, **_: Any) -> None:
    opened_by[id(connection.connection)] = os.getpid()


if "QUERY_ON_IMPORT" in os.environ:
    with connection.cursor() as at_import:
        at_import.execute("SELECT 1")


class BrokenTextError(Exception):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise LookupError("no text")


class ExitingTextError(Exception):
    """An exception whose text exits the thread."""

    def __str__(self) -> str:
        raise SystemExit(1)


@task
def fleet_size() -> int:
    """Return the number of worker processes that the running one lists."""
    return RECORDER.fleet


@task
def add(a: int, b: int) -> int:
    """A result to compare."""
    return a + b


@task
def echo(*args: Any, **kwargs: Any) -> Any:
    """What arrives."""
    return [args, kwargs]


@task
def note(what: Any) -> Any:
    """Leave a word in this process."""
    recorded.append(what)
    return what


#: Set unless a test blocks the task below with `blocked_notes`.
_released = threading.Event()
_released.set()


@contextmanager
def blocked_notes() -> Iterator[threading.Event]:
    """Block `note_when_released` in this process until the test sets the event."""
    _released.clear()
    try:
        yield _released
    finally:
        _released.set()


@task
def note_when_released(what: Any) -> Any:
    """As `note`, after the test has set the event; does not use Redis meanwhile."""
    _released.wait(60)
    recorded.append(what)
    return what


@task
async def add_async(a: int, b: int) -> int:
    """A coroutine of the site's own."""
    await asyncio.sleep(0)
    return a + b


@task
def insist(name: str) -> str:
    """As `hold`, whatever interrupts it."""
    try:
        return hold.func(name)
    except (SoftTimeLimitExceeded, TaskCancelled):
        return insist.func(name)


@task
def stay_in_c(name: str) -> None:
    """Say that it runs, and keep the interpreter's lock for ever."""
    connections.client().execute(Command("RPUSH", f"{conf.settings().prefix}:started:{name}", os.getpid()))
    re.match("(a+)+b", "a" * 60)


@task
def count_up(seconds: float) -> int:
    """Compute for some time, and note that it is done."""
    until, total = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        total += 1
    recorded.append("counted")
    return total


@task
def tidy_up(name: str) -> str:
    """As `hold`, and notice when the time is over."""
    try:
        return hold.func(name)
    except SoftTimeLimitExceeded:
        return "tidied up"


@task
async def hold_async(name: str) -> str:
    """As `hold`, on the event loop."""
    base = conf.settings().prefix
    client = connections.aclient()
    await client.execute(Command("RPUSH", f"{base}:started:{name}", os.getpid()))
    while await client.execute(Command("EXISTS", f"{base}:let-go:{name}", retry=True)) == 0:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await client.execute(Command("RPUSH", f"{base}:ended:{name}", os.getpid()))
    return name


@task
def give_up() -> None:
    """End as cancelled."""
    raise TaskCancelled


@task
async def note_async(what: Any) -> Any:
    """Leave a word in this process, from a coroutine."""
    recorded.append(what)
    return what


@task
async def whereabouts_async() -> list[Any]:
    """The thread, and the event loop."""
    return [threading.current_thread().name, id(asyncio.get_running_loop())]


@task
async def in_a_thread_async() -> bool:
    """Whether synchronous code runs elsewhere."""
    return await sync_to_async(threading.get_ident)() != threading.get_ident()


@task
async def do_without_a_thread_async() -> str:
    """Return why synchronous code cannot run."""
    try:
        return str(await sync_to_async(threading.get_ident)())
    except RuntimeError as exc:
        return str(exc)


@task
async def leave_synchronous_code_behind() -> str:
    """Create a task that calls synchronous code after this one has ended."""

    async def later() -> None:
        await asyncio.sleep(0.05)
        await sync_to_async(recorded.append)("ran")

    _left.add(asyncio.create_task(later()))
    return "left"


#: Tasks of the loop that nothing else refers to.
_left: set[asyncio.Task[None]] = set()


@task
async def query_async() -> list[Any]:
    """Ask the database twice from a coroutine; the threads that were used, and whether the connection is one."""

    def ask() -> tuple[str, int]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return threading.current_thread().name, id(connection.connection)

    first, second = await sync_to_async(ask)(), await sync_to_async(ask)()
    recorded.append(connection)
    return [first[0], second[0], first[1] == second[1]]


@task
async def raise_async(kind: str) -> None:
    """Raise from a coroutine."""
    await asyncio.sleep(0)
    kinds = {"LookupError": LookupError, "SystemExit": SystemExit, "CancelledError": asyncio.CancelledError}
    raise kinds[kind](kind)


@task
async def leave_a_task_behind() -> str:
    """Start a task that ends with SystemExit, and do not wait for it."""

    async def leave() -> None:
        raise SystemExit("left behind")

    recorded.append(asyncio.create_task(leave()))
    await asyncio.sleep(0.01)
    return "left"


@task
def text_of(length: int) -> str:
    """Return a text that long."""
    return "x" * length


@task
def fail(text: str = "out of order") -> None:
    """Raise at every attempt."""
    raise LookupError(text)


@task()
async def fail_async(text: str) -> None:
    raise LookupError(text)


@task(max_attempts=3, backoff=[0, 0.03])
def fail_thrice(text: str = "again") -> None:
    """Raise at every attempt, and be tried three times."""
    raise LookupError(text)


@task(max_attempts=2, backoff=exponential(base=0.001))
def fail_with_jitter() -> None:
    """Raise at every attempt."""
    raise LookupError("jitter")


@task(max_attempts=5, backoff=lambda exception, tried: None)
def fail_and_give_up() -> None:
    """Its backoff sees no point in another attempt."""
    raise LookupError("hopeless")


@task(max_attempts=5, backoff=lambda exception, tried: tried.nonsense)
def fail_with_broken_backoff() -> None:
    """Its backoff fails as well."""
    raise LookupError("mine")


@task
def fail_without_text() -> None:
    """Raise an exception whose text cannot be read."""
    raise BrokenTextError


@task
def fail_with_an_exit() -> None:
    """Raise an exception whose text exits the thread."""
    raise ExitingTextError


@task(max_attempts=3)
def leave_the_house(kind: str) -> None:
    """Raise a BaseException."""
    raise {"SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt}[kind](kind)


@task
def return_what_is_not_json() -> object:
    """Return a value that is not JSON."""
    return {"found": [1, object()]}


@task
def come_back(delay_s: float | None) -> str:
    """Delay the first run."""
    if "come_back" not in recorded:
        recorded.append("come_back")
        raise TaskDelayed("not now", delay_s)
    return "came back"


@task
def query() -> list[int]:
    """Query the database; return its reply, the pid that opened the connection, and this pid."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        [(one,)] = cursor.fetchall()
    return [one, opened_by[id(connection.connection)], os.getpid()]


@task
def kill_the_process(name: str, neighbors: int) -> None:
    """Wait until this many `hold` tasks have started, then kill the process."""
    base = conf.settings().prefix
    client = connections.client()
    while neighbors and client.execute(Command("LLEN", f"{base}:started:{name}", retry=True)) < neighbors:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


@task
def exit_the_process(name: str, neighbors: int) -> None:
    """Wait until this many `hold` tasks have started, then end the process as if it had stopped normally."""
    base = conf.settings().prefix
    client = connections.client()
    while client.execute(Command("LLEN", f"{base}:started:{name}", retry=True)) < neighbors:
        time.sleep(0.01)
    os._exit(0)


@task(max_attempts=50, backoff=0.2)
def query_after(name: str) -> int:
    """Query the database, wait as `hold` does, and query again."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    hold(name)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        [(one,)] = cursor.fetchall()
    return int(one)


@task
def hold(name: str, every_s: float = 0.01) -> str:
    """Record that it runs, and wait until the test releases the name; see `Held`."""
    base = conf.settings().prefix
    client = connections.client()
    client.execute(Command("RPUSH", f"{base}:started:{name}", os.getpid()))
    while client.execute(Command("EXISTS", f"{base}:let-go:{name}", retry=True)) == 0:
        time.sleep(every_s)
    client.execute(Command("RPUSH", f"{base}:ended:{name}", os.getpid()))
    return name


@task(takes_context=True)
def add_and_hold(context: TaskContext, name: str, times: int) -> str:
    """Add tasks to the group, then do as `hold`."""
    context.flow.add(*(add.s(number, number) for number in range(times)))
    return hold.func(name)


@task
def pid(ballast_mib: int = 0) -> int:
    """Return the pid; keep this much memory."""
    recorded.append(bytearray(b"x") * (ballast_mib << 20))
    return os.getpid()


@task
def frozen_objects() -> int:
    return gc.get_freeze_count()


@task(takes_context=True, max_attempts=3, backoff=0)
def use_context(context: TaskContext, *steps: Any, fails: int = 0) -> Any:
    """Call these methods of its context, (name, arguments); record what they returned; fail the first `fails` runs."""
    done = [_take(context, *step) for step in steps]
    recorded.append(done)
    if context.attempt <= fails:
        raise LookupError("not yet")
    return context.metadata


@task(takes_context=True)
async def use_context_async(context: TaskContext, *steps: Any) -> Any:
    """`tell` as a coroutine."""
    for name, *args in steps:
        done = getattr(context, name)(*args)
        recorded.append(await done if asyncio.iscoroutine(done) else done)
    return context.metadata


def _take(context: TaskContext, name: str, *args: Any) -> Any:
    if name == "set":
        context.metadata[args[0]] = args[1]
        return None
    if name == "look":
        found = use_context.get_result(context.task_result.id)
        return [found.metadata, found.progress and [found.progress.done, found.progress.total, found.progress.note]]
    if name == "lose":
        new_holder = {"L": "another/worker/1"}
        connections.client().execute(
            Command("HSET", home().record(context.task_result.id), *sum(new_holder.items(), ()))
        )
        return None
    return getattr(context, name)(*args)


@task
def leave_word(word: str) -> None:
    """Log a message."""
    logging.getLogger("tests.taskqueue").warning(word)


@task
def close_output() -> None:
    """Close standard output and error, as a program does that becomes a daemon."""
    for descriptor in (1, 2):
        os.close(descriptor)


@task
def log_badly() -> None:
    """Log a message whose argument does not fit."""
    logging.getLogger("tests.taskqueue").warning("%d", "text")


@task
def log_in_a_fork(word: str) -> None:
    """Log a message in a forked child."""
    pid = os.fork()
    if pid == 0:
        logging.getLogger("tests.taskqueue").warning(word)
        os._exit(0)
    os.waitpid(pid, 0)


@task
async def leave_word_async(word: str) -> None:
    """Log a message on the loop and one in the thread of its synchronous parts."""
    logger = logging.getLogger("tests.taskqueue")
    await asyncio.sleep(0.01)
    logger.warning("first %s", word)
    await sync_to_async(logger.warning)("thread %s", word)


@task
def leave_orphans(number: int) -> list[int]:
    """Start processes that outlive their parent for a moment; return their pids."""
    script = f"for i in $(seq {number}); do sleep 0.05 > /dev/null & echo $!; done"
    found = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, check=True)
    return [int(line) for line in found.stdout.split()]


@task
def nap(seconds: float) -> None:
    """Take some time."""
    time.sleep(seconds)


@task
def note_and_send(number: int, urgent: dict[str, Any] | None) -> None:
    """Record the number, enqueue an urgent task if asked to, and take some time."""
    recorded.append(number)
    if urgent is not None:
        note.using(**urgent).enqueue("urgent")
    time.sleep(0.01)


@task(concurrency=3)
def crowd() -> int:
    """Return how many run at once."""
    base = conf.settings().prefix
    client = connections.client()
    inside: int = client.execute(Command("INCR", f"{base}:inside"))
    time.sleep(0.003)
    client.execute(Command("DECR", f"{base}:inside"))
    return inside


@task
def holder_of_a_lock(name: str) -> list[str]:
    """What `inspect` reports of the running task."""
    with Lock(name) as held:
        return [str(held.inspect().held_by)]


@task
async def holder_of_a_lock_async(name: str) -> list[str]:
    """The same of a coroutine, and of a thread that it waits for."""
    async with Lock(name) as held:
        found = (await held.ainspect()).held_by
    with_thread = await sync_to_async(holder_of_a_lock.func)(name)
    return [str(found), *with_thread]


@task
def read_tenant() -> str:
    """Return the tenant that middleware has set."""
    return tenant.get()


@task
async def read_tenant_async() -> str:
    """The same in a coroutine."""
    await asyncio.sleep(0)
    return tenant.get()


@task
async def set_task_factory_async(kind: str) -> str:
    """Set a task factory of the event loop: one without the argument `context`, or one that raises."""

    def old(loop: Any, coro: Any) -> Any:
        return asyncio.Task(coro, loop=loop)

    def raising(loop: Any, coro: Any, **options: Any) -> Any:
        coro.close()
        raise LookupError("no task")

    factory: Any = {"old": old, "raising": raising}[kind]
    asyncio.get_running_loop().set_task_factory(factory)
    return kind
