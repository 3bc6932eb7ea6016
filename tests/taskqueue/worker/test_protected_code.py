"""Interruptions do not leave locks taken, transactions broken or queues damaged."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from django.db import connection, connections, transaction

from django_redis_components.taskqueue import SoftTimeLimitExceeded, TaskCancelled
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker import db_connections
from django_redis_components.taskqueue.worker.interruption import ThreadRun
from django_redis_components.taskqueue.worker.protected_code import is_protected
from tests.support import Store, eventually

pytestmark = pytest.mark.integration

JOB = Job("id", "token", "name", b"[[],{}]", "default", 0, 0, 0, 0, 0)
#: Interruptions of the storm. The environment variable asks for more, such as 2000.
STORM = int(os.environ.get("STORM_INTERRUPTIONS", "10"))


def in_handler(act: Callable[[], Any]) -> None:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            act()

    Handler().handle(logging.makeLogRecord({}))


def in_condition(act: Callable[[], Any]) -> None:
    condition = threading.Condition()
    with condition:
        condition.wait_for(lambda: act() or True)


def in_generator(act: Callable[[], Any]) -> None:
    @contextlib.contextmanager
    def manage() -> Iterator[None]:
        act()
        yield

    with manage():
        pass


def in_enter(act: Callable[[], Any]) -> None:
    class Manager:
        def __enter__(self) -> None:
            act()

        def __exit__(self, *_: object) -> None: ...

    with Manager():
        pass


def in_queue(act: Callable[[], Any]) -> None:
    class Queue(queue.Queue[int]):
        def _put(self, item: int) -> None:
            act()

    Queue().put(1)


def in_query(act: Callable[[], Any]) -> None:
    with connection.execute_wrapper(lambda execute, *args: (act(), execute(*args))[1]), connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def in_pool(act: Callable[[], Any]) -> None:
    class Connection(redis.Connection):
        def connect(self) -> None:
            act()

    with contextlib.suppress(AttributeError):  # it has no socket
        redis.ConnectionPool(connection_class=Connection).get_connection()


def in_decorated_function(act: Callable[[], Any]) -> None:
    class Decorator(contextlib.ContextDecorator):
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    Decorator()(act)()


def in_with_block(act: Callable[[], Any]) -> None:
    with contextlib.suppress(LookupError):
        act()


def seen_in(place: Callable[[Callable[[], Any]], None]) -> bool:
    """Return whether the code that `place` calls is protected."""
    seen: list[bool] = []
    place(lambda: seen.append(is_protected(sys._getframe(), seen_in.__code__)))
    return seen[0]


@pytest.mark.parametrize("place", [in_handler, in_condition, in_generator, in_enter, in_queue, in_pool])
def test_code_that_holds_locks_is_protected(place: Callable[[Callable[[], Any]], None]) -> None:
    assert seen_in(place)


@pytest.mark.django_db
def test_code_of_database_connections_is_protected() -> None:
    assert seen_in(in_query)


@pytest.mark.parametrize("place", [in_decorated_function, in_with_block])
def test_code_within_with_blocks_is_not_protected(place: Callable[[Callable[[], Any]], None]) -> None:
    assert not seen_in(place)


def test_interruption_arrives_after_the_protected_code() -> None:
    run, inside, left = ThreadRun(JOB), threading.Event(), threading.Event()
    steps: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            inside.set()
            until = time.monotonic() + 0.03
            while time.monotonic() < until:
                pass
            steps.append("handled")

    handler = Handler()

    def log_and_go_on() -> None:
        handler.handle(logging.makeLogRecord({}))
        while not left.wait(0):
            time.sleep(0)

    def cancel() -> None:
        inside.wait(60)
        run.cancel()

    helper = threading.Thread(target=cancel)
    helper.start()
    with pytest.raises(TaskCancelled):
        run.call(log_and_go_on, [], {}, None)
    helper.join()

    assert steps == ["handled"]
    assert is_free(handler.lock)


def is_free(lock: Any) -> bool:
    """Return whether another thread can acquire a lock."""
    found: list[bool] = []

    def acquire() -> None:
        if lock.acquire(timeout=10):
            found.append(True)
            lock.release()

    thread = threading.Thread(target=acquire)
    thread.start()
    thread.join()
    return bool(found)


class Storm:
    """Threads that log, lock, write in transactions and use queues, and are interrupted all the time."""

    def __init__(self) -> None:
        self.handler = logging.FileHandler(os.devnull)
        self.logger = logging.getLogger("storm")
        self.logger.propagate = False
        self.logger.addHandler(self.handler)
        self.lock, self.condition = threading.Lock(), threading.Condition()
        self.queue: queue.Queue[int] = queue.Queue()
        self.interrupted = 0
        self.current: dict[int, ThreadRun] = {}
        self.over = threading.Event()
        self.failures: list[BaseException] = []

    def work(self, number: int) -> None:
        """The function of the runs."""
        for round_number in range(100_000):
            if self.over.is_set():
                return
            self.logger.warning("round %d", round_number)
            with self.lock, self.condition:
                self.condition.notify_all()
            self.queue.put(round_number)
            self.queue.get()
            sum(number * round_number for number in range(200))
            with transaction.atomic(), transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT 1")

    def run_repeatedly(self, number: int) -> None:
        """Run the function as a worker's thread does: again after each interruption.

        Without coverage's trace function: before Python 3.13 a traced thread enters no function while an interruption
        of another one is pending, which may wait for a lock of the first.
        """
        sys.settrace(None)
        try:
            while not self.over.is_set():
                run = self.current[number] = ThreadRun(JOB)
                with contextlib.suppress(TaskCancelled, SoftTimeLimitExceeded):
                    run.call(self.work, [number], {}, None)
                self.interrupted += run.interrupted
                db_connections.close_all(JOB)
        except BaseException as exc:  # noqa: BLE001 - reported by the test
            self.failures.append(exc)
        finally:
            connections.close_all()

    def interrupt_repeatedly(self) -> None:
        """Interrupt all runs, again and again."""
        sys.settrace(None)
        kinds = [SoftTimeLimitExceeded, TaskCancelled]
        for at in range(10_000_000):
            if self.over.is_set():
                return
            for run in list(self.current.values()):
                if run.is_open and not run.interrupted:
                    run.interrupt(kinds[at % 2])
            time.sleep(0.0005)


@pytest.mark.unmeasured
@pytest.mark.django_db(transaction=True)
def test_storm_of_interruptions_leaves_nothing_taken(redis_server: Store) -> None:
    storm = Storm()
    threads = [threading.Thread(target=storm.run_repeatedly, args=(number,), daemon=True) for number in range(4)]
    interrupter = threading.Thread(target=storm.interrupt_repeatedly, daemon=True)
    for each in [*threads, interrupter]:
        each.start()

    try:
        eventually(lambda: storm.interrupted >= STORM or storm.failures, timeout_s=60 + STORM)
    finally:
        storm.over.set()
    for each in [interrupter, *threads]:
        each.join(60)

    assert storm.failures == []
    assert [each.is_alive() for each in threads] == [False] * 4, "no thread waits for a lock"
    assert is_free(storm.handler.lock)
    assert is_free(storm.lock)
    assert is_free(storm.queue.mutex)
    assert is_free(storm.condition)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)
    storm.logger.removeHandler(storm.handler)
    storm.handler.close()
