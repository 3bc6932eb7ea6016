"""A worker without a logging configuration writes its log in batches, and loses no line."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from django_redis_components.core.text import encodable
from django_redis_components.management.logs import ColorFormatter
from django_redis_components.taskqueue import log_handler, logs
from django_redis_components.taskqueue.log_handler import LogBuffer, WorkerLogHandler
from django_redis_components.taskqueue.logs import JsonFormatter, TaskFilter, TextFormatter
from django_redis_components.taskqueue.store.job import Job
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.support.raising_logs import raising_logs
from tests.taskqueue.support import queue_worker
from tests.taskqueue.tasks import (
    add,
    close_output,
    kill_the_process,
    leave_word,
    log_badly,
    log_in_a_fork,
)

QUEUE = logging.getLogger("django_redis_components.taskqueue")


def new_job(**fields: Any) -> Job:
    values = {"id": "t1", "name": "shop.tasks.pay", "queue": "mail", "attempts": 1, "runs": 3} | fields
    return Job(token="here/0/1", body=b"", enqueued_us=0, started_us=0, leased_us=0, **values)


def success_of(output: str) -> list[str]:
    """Return the ids of the tasks whose success is logged."""
    return re.findall(r"\[([\w-]+)\] succeeded in \d", output)


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WorkerLogHandler]:
    """Our handler, alone on the package's logger, with a buffer whose thread does not run; it writes to "log"."""
    package = logging.getLogger("django_redis_components")
    monkeypatch.setattr(package, "propagate", False)
    monkeypatch.setattr(package, "handlers", [])
    monkeypatch.setattr(package, "level", logging.INFO)
    monkeypatch.setattr(LogBuffer, "start", lambda buffer: None)
    package.manager._clear_cache()  # type: ignore[attr-defined]
    made = WorkerLogHandler()
    made.setFormatter(TextFormatter())
    made.addFilter(TaskFilter())
    package.addHandler(made)
    with (tmp_path / "log").open("wb") as file:
        buffer = LogBuffer(file.fileno())
    made.use(buffer)
    monkeypatch.setattr(log_handler, "installed", made)
    yield made
    made.buffer = None
    buffer.close()
    package.manager._clear_cache()  # type: ignore[attr-defined]


@pytest.mark.parametrize("formatter", [TextFormatter(), ColorFormatter(), JsonFormatter()])
@pytest.mark.parametrize(
    "job", [new_job(), new_job(id='a"b\\c\n', name="é%s\x00", queue="\udc80{x}", attempts=0, runs=0)]
)
@pytest.mark.parametrize("seconds", [0.0, 1e-6, 0.0015, 3_600.5])
def test_line_of_a_success_is_that_of_its_record(formatter: Any, job: Job, seconds: float) -> None:
    extra = logs.facts(job, "succeeded", seconds)
    values = (job.name, job.id, seconds)
    record = QUEUE.makeRecord(QUEUE.name, logging.INFO, "x.py", 1, logs.SUCCESS, values, None, extra=extra)
    for created_ms in (1_800_000_000_007, 1_800_000_000_007, 1_800_000_001_250):
        record.created, record.msecs = created_ms / 1_000, created_ms % 1_000

        line = formatter.format_success(job, seconds, created_ms)

        assert encodable(line) == encodable(formatter.format(record)) + "\n"


def test_success_is_written_without_a_record(
    handler: WorkerLogHandler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("django_redis_components"), "handlers", [handler])  # without pytest's
    monkeypatch.setattr(QUEUE, "handle", lambda record: pytest.fail(str(record)))

    log_handler.log_success(new_job(ran_us=1_500))
    handler.flush()

    assert (tmp_path / "log").read_text().endswith("Task shop.tasks.pay[t1] succeeded in 0.002 s.\n")


@pytest.mark.parametrize("what", ["root of the package", "the queue's logger", "filter", "logger filter", "factory"])
def test_handlers_and_filters_of_the_site_get_the_record_of_a_success(
    handler: WorkerLogHandler, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record)

    def keep(record: logging.LogRecord) -> bool:
        seen.append(record)
        return True

    package = logging.getLogger("django_redis_components")
    if what == "root of the package":
        package.addHandler(Keep())
    elif what == "the queue's logger":
        monkeypatch.setattr(QUEUE, "handlers", [Keep()])
    elif what == "filter":
        handler.addFilter(keep)
    elif what == "logger filter":
        monkeypatch.setattr(QUEUE, "filters", [keep])
    else:
        monkeypatch.setattr(
            logging, "_logRecordFactory", lambda *args, **more: seen.append(1) or logging.LogRecord(*args)
        )
        handler.use(handler.buffer)  # type: ignore[arg-type]

    log_handler.log_success(new_job(ran_us=1_500))

    assert len(seen) == 1


def test_record_from_warning_on_is_written_at_once_after_those_before_it(
    handler: WorkerLogHandler, tmp_path: Path
) -> None:
    QUEUE.info("first")
    assert (tmp_path / "log").read_text() == ""

    QUEUE.warning("second")

    assert [line.rpartition(" ")[2] for line in (tmp_path / "log").read_text().splitlines()] == ["first", "second"]


def test_full_buffer_loses_nothing(handler: WorkerLogHandler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_handler, "SIZE", 300)

    for number in range(50):
        QUEUE.info("%d%s", number, "." * 400 if number == 20 else "")
    handler.flush()

    assert [line.split()[4].rstrip(".") for line in (tmp_path / "log").read_text().splitlines()] == [
        str(number) for number in range(50)
    ]


def test_supervisor_writes_what_a_process_has_left(handler: WorkerLogHandler, tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as file:
        buffer = LogBuffer(file.fileno())
    pid = os.fork()
    if pid == 0:
        buffer.append(b"left\n")
        os._exit(0)
    os.waitpid(pid, 0)

    buffer.write_rest()

    assert (tmp_path / "log").read_text() == "left\n"
    buffer.close()


def test_lines_for_a_closed_pipe_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read_fd, write_fd = os.pipe()
    buffer = LogBuffer(write_fd)
    os.close(read_fd)
    os.close(write_fd)

    buffer.append(b"one\ntwo\n")
    buffer.flush()
    with (tmp_path / "log").open("wb") as file:
        os.dup2(file.fileno(), buffer.fd)
    buffer.report_discarded()

    assert "2 lines of this log could not be written." in caplog.text
    with raising_logs(SystemExit) as messages, ThreadPoolExecutor(1) as pool:
        pool.submit(buffer.report_discarded).result()  # in the thread that writes, SystemExit would end it
    assert messages == ["%d lines of this log could not be written."]
    buffer.close()


@pytest.mark.usefixtures("handler")
def test_lines_of_processes_that_share_a_full_pipe_are_not_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    read_fd, write_fd = os.pipe()
    with os.fdopen(write_fd, "wb") as stream:
        monkeypatch.setattr(log_handler.installed, "stream", stream)
        for letter in (b"a", b"b"):
            buffer = log_handler.new_buffer()
            assert buffer is not None
            if os.fork() == 0:
                try:
                    for _ in range(20_000):
                        buffer.append(letter * 20 + b"\n")
                    buffer.flush()
                finally:
                    os._exit(0)
            buffer.close()
    with os.fdopen(read_fd, "rb") as pipe:
        lines = pipe.read().splitlines()
    for _ in range(2):
        os.wait()

    assert {line: lines.count(line) for line in set(lines)} == {b"a" * 20: 20_000, b"b" * 20: 20_000}


@pytest.fixture
def half_line(handler: WorkerLogHandler, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """A process that has written a part of its line to the log of this one, which is the supervisor.

    Yields the file descriptor that is read from, and the process: it writes the rest when it gets SIGCONT.
    """
    read_fd, write_fd = os.pipe()
    stream = os.fdopen(write_fd, "w")
    handler.setStream(stream)
    monkeypatch.setattr(handler, "buffer", None)
    buffer = log_handler.new_buffer()
    assert buffer is not None
    child = os.fork()
    if child == 0:
        try:
            write = os.write

            def write_a_part(fd: int, data: bytes) -> int:
                monkeypatch.setattr(os, "write", write)
                written = write(fd, data[:10])
                os.kill(os.getpid(), signal.SIGSTOP)
                return written

            monkeypatch.setattr(os, "write", write_a_part)
            buffer.append(b"a" * 20 + b"\n")
            buffer.flush()
        finally:
            os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    yield read_fd, child
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    buffer.close()
    stream.close()
    os.close(read_fd)


def test_line_of_the_supervisor_waits_for_the_end_of_that_of_a_process(half_line: tuple[int, int]) -> None:
    read_fd, child = half_line
    supervisor = threading.Thread(target=QUEUE.warning, args=("stopping",))
    supervisor.start()
    supervisor.join(0.1)  # if it does not wait, it has written then
    os.kill(child, signal.SIGCONT)
    supervisor.join()

    written = b""
    while written.count(b"\n") < 2:
        written += os.read(read_fd, 4_096)
    assert b"a" * 20 + b"\n" in written
    assert b"stopping" in written


def test_supervisor_logs_although_a_process_has_stopped_in_its_line(
    half_line: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must go on renewing the leases of the others."""
    monkeypatch.setattr(log_handler, "MAX_LINE_WAIT_S", 0.05)

    QUEUE.warning("stopping")

    assert b"stopping" in os.read(half_line[0], 4_096)


def test_full_non_blocking_pipe_is_waited_for() -> None:
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    os.set_blocking(read_fd, False)
    buffer = LogBuffer(write_fd)
    lines = b"".join(b"%07d\n" % number for number in range(20_000))
    buffer.append(lines)
    got: list[bytes] = []

    writer = threading.Thread(target=buffer.flush)
    writer.start()

    def read() -> bool:
        with contextlib.suppress(BlockingIOError):
            got.append(os.read(read_fd, 1 << 16))
        return sum(map(len, got)) == len(lines)

    eventually(read)
    writer.join()
    assert b"".join(got) == lines
    for fd in (read_fd, write_fd):
        os.close(fd)
    buffer.close()


@pytest.mark.integration
def test_log_has_all_stored_successes_of_a_killed_process(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children, "--threads", "1")
    done = [add.enqueue(1, number) for number in range(50)]
    for result in done:
        result.get(60)
    kill_the_process.using(max_deliveries=1).enqueue("x", 0)

    worker.wait_for("signal SIGKILL")

    before, _, _ = worker.output.partition("signal SIGKILL")
    assert sorted(success_of(before)) == sorted(result.id for result in done)


@pytest.mark.integration
def test_success_that_a_killed_process_has_not_stored_is_logged_by_the_next_run(
    redis_server: Store, children: Children
) -> None:
    done = [add.enqueue(1, number) for number in range(50)]
    kill_the_process.using(max_deliveries=1).enqueue("x", 0)
    worker = queue_worker(children, "--threads", "1")

    for result in done:
        result.get(60)
    worker.terminate()

    assert worker.wait() == 0
    assert set(success_of(worker.output)) == {result.id for result in done}


def test_successes_come_before_later_records(
    handler: WorkerLogHandler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("django_redis_components"), "handlers", [handler])  # without pytest's
    for number in range(250):
        log_handler.log_success(new_job(id=f"t{number}", ran_us=1_500))
    assert (tmp_path / "log").read_text() == ""

    QUEUE.warning("last")

    log = (tmp_path / "log").read_text()
    assert success_of(log) == [f"t{number}" for number in range(250)]
    assert log.splitlines()[-1].endswith(" last")


def test_success_that_cannot_be_formatted_is_reported_and_keeps_no_other_back(
    handler: WorkerLogHandler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("django_redis_components"), "handlers", [handler])  # without pytest's
    log_handler.log_success(new_job(id="bad", ran_us=None))

    log_handler.format_successes()
    log_handler.log_success(new_job(id="good", ran_us=1_500))
    handler.flush()

    log = (tmp_path / "log").read_text()
    assert "The success of some tasks cannot be logged." in log
    assert success_of(log) == ["good"]


@pytest.mark.integration
def test_log_has_one_line_for_each_task_of_a_stopped_worker(redis_server: Store, children: Children) -> None:
    done = [add.enqueue(1, number) for number in range(300)]
    worker = queue_worker(children, "--threads", "4", "--processes", "2", "--log-format", "json")
    for result in done:
        result.get(60)
    worker.terminate()
    assert worker.wait() == 0

    lines = [json.loads(line) for line in worker.output.splitlines()]
    assert sorted(line["task_id"] for line in lines if line.get("outcome")) == sorted(result.id for result in done)


@pytest.mark.integration
def test_log_is_complete_whatever_a_task_does_to_it(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children, "--threads", "1")
    results = [
        log_badly.enqueue(),
        log_in_a_fork.enqueue("from the fork"),
        close_output.enqueue(),
        leave_word.enqueue("hello"),
        add.enqueue(1, 2),
    ]

    for part in ("--- Logging error ---", "from the fork", "hello", f"[{results[-1].id}] succeeded"):
        worker.wait_for(part)

    assert worker.output.count("from the fork") == worker.output.count("hello") == 1
    assert success_of(worker.output) == [result.id for result in results]
