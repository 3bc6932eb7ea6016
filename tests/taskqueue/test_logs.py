"""Log records have the id and the name of their task; commands show them."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.management import logs as shown
from django_redis_components.taskqueue.logs import JsonFormatter, TaskFilter, TextFormatter, about
from django_redis_components.taskqueue.store.job import Ack
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import (
    SITE,
    end_lease,
    let_recovery_begin,
    new_fetcher,
    queue_worker,
    recover,
    running_worker,
    settle_now,
    work_off,
)
from tests.taskqueue.tasks import add, come_back, fail, fail_thrice, leave_word, leave_word_async, note

pytestmark = pytest.mark.integration

QUEUE = "django_redis_components.taskqueue"


def record_of(caplog: pytest.LogCaptureFixture, part: str) -> Any:
    [found] = [record for record in caplog.records if part in record.getMessage()]
    return found


def facts_of(record: Any) -> tuple[Any, ...]:
    return (record.task_id, record.task_name, record.queue, record.attempt, record.run, record.outcome)


@pytest.mark.parametrize(
    ("task", "args", "part", "outcome"),
    [
        (add, (1, 2), "succeeded", "succeeded"),
        (fail, (), "failed (attempt 1 of 1)", "failed"),
        (fail_thrice, (), "(attempt 1 of 3) after", "retried"),
        (come_back, (60,), "is delayed", "delayed"),
    ],
)
def test_outcome_is_logged_with_the_attributes_of_the_run(
    redis_server: Store, caplog: pytest.LogCaptureFixture, task: Any, args: tuple[Any, ...], part: str, outcome: str
) -> None:
    caplog.set_level(logging.DEBUG, QUEUE)
    result = task.using(queue_name="mail").enqueue(*args)

    work_off("mail")

    record = record_of(caplog, part)
    assert facts_of(record) == (result.id, task.name, "mail", 1, 1, outcome)
    assert 0 < record.duration < 60


def test_unregistered_task_is_logged_with_its_attributes(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    result = note.enqueue(1)
    redis_server.raw.hset(f"{redis_server.prefix}:taskqueue:{{default}}:t:{result.id}", "n", "unknown.task")

    work_off()

    record = record_of(caplog, "cannot run")
    assert facts_of(record) == (result.id, "unknown.task", "default", 1, 1, "unregistered")
    assert record.duration == 0.0


def test_success_is_logged_at_info_with_id_name_and_duration(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, QUEUE)
    result = add.enqueue(1, 2)

    work_off()

    [record] = caplog.records
    assert record.levelno == logging.INFO
    text = re.escape(f"Task tests.taskqueue.tasks.add[{result.id}] succeeded in ") + r"\d\.\d{3} s\."
    assert re.fullmatch(text, record.getMessage())


def test_success_is_not_logged_above_info(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, QUEUE)
    add.enqueue(1, 2)

    work_off()

    assert caplog.records == []


def test_lost_worker_and_delay_use_no_attempt_and_are_runs(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    result = fail.using(max_attempts=3, backoff=60).enqueue()
    new_fetcher(worker="dies").fetch("0", 1)
    let_recovery_begin()
    end_lease(store, result.id)
    recover()
    delays = new_fetcher(worker="delays")
    [job] = delays.fetch("0", 1)
    settle_now(delays, Ack(job.id, job.token, "delayed"))

    work_off()

    record = record_of(caplog, "(attempt 1 of 3) after")
    assert (record.attempt, record.run) == (1, 3)
    result.refresh()
    assert (result.attempts, result.runs) == (1, 3)
    assert [run.outcome for run in result.timeline] == ["recovered", "delayed", "retried"]


@pytest.mark.parametrize(("level", "starts"), [(logging.DEBUG, 1), (logging.INFO, 0)])
def test_start_is_logged_at_debug(
    redis_server: Store, caplog: pytest.LogCaptureFixture, level: int, starts: int
) -> None:
    caplog.set_level(level, QUEUE)
    result = add.enqueue(1, 2)

    work_off()

    assert caplog.messages.count(f"Task tests.taskqueue.tasks.add[{result.id}] starts (run 1).") == starts


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "variables", "options", "expected"),
    [
        (Terminal(), {}, {}, True),
        (io.StringIO(), {}, {}, False),
        (Terminal(), {"NO_COLOR": "1"}, {}, False),
        (Terminal(), {"TERM": "dumb"}, {}, False),
        (Terminal(), {}, {"no_color": True}, False),
        (io.StringIO(), {"NO_COLOR": "1"}, {"force_color": True}, True),
    ],
)
def test_logs_are_colored_on_a_terminal_unless_no_color_is_set(
    stream: io.StringIO,
    variables: dict[str, str],
    options: dict[str, bool],
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert shown.has_color(stream, **options) is expected


@pytest.mark.parametrize(
    ("level", "outcome", "code"),
    [(logging.INFO, "succeeded", "32"), (logging.WARNING, "retried", "33"), (logging.ERROR, "", "31")],
)
def test_the_color_shows_the_outcome_or_the_level(level: int, outcome: str, code: str) -> None:
    record = logging.LogRecord("x", level, "x.py", 1, "text", (), None)
    record.outcome = outcome

    assert shown.ColorFormatter().format(record).startswith(f"\x1b[{code}m")


def test_messages_without_an_outcome_have_no_color() -> None:
    assert "\x1b" not in shown.ColorFormatter().format(
        logging.LogRecord("x", logging.INFO, "x.py", 1, "text", (), None)
    )


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What a handler with our filter and a format of the site's own writes of the tasks' own records."""
    made: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            made.append(self.format(record))

    handler = Keep()
    handler.addFilter(TaskFilter())
    handler.setFormatter(logging.Formatter("%(task_id)s|%(task_name)s|%(queue)s|%(attempt)s|%(message)s"))
    logger = logging.getLogger("tests.taskqueue")
    logger.addHandler(handler)
    yield made
    logger.removeHandler(handler)


def test_records_logged_by_a_task_have_its_id_and_name(redis_server: Store, lines: list[str]) -> None:
    result = leave_word.enqueue("hello")

    work_off()
    logging.getLogger("tests.taskqueue").warning("outside")

    assert lines == [f"{result.id}|{leave_word.name}|default|1|hello", "||||outside"]


def test_records_of_concurrent_coroutines_have_their_own_task_ids(redis_server: Store, lines: list[str]) -> None:
    with running_worker():
        results = [leave_word_async.enqueue(f"word {number}") for number in range(5)]
        for result in results:
            result.get(60)

    assert sorted(lines) == sorted(
        line
        for number, result in enumerate(results)
        for line in [
            f"{result.id}|{leave_word_async.name}|default|1|{who} word {number}" for who in ("first", "thread")
        ]
    )


def test_attributes_set_by_the_record_are_kept(redis_server: Store, lines: list[str]) -> None:
    add.enqueue(1, 2)
    [job] = new_fetcher().fetch("0", 1)

    with about(job):
        logging.getLogger("tests.taskqueue").warning("mine", extra={"task_id": "another"})
    logging.getLogger("tests.taskqueue").warning("outside")

    assert lines == [f"another|{job.name}|default|1|mine", "||||outside"]


def made(message: str, *args: Any, **extra: Any) -> logging.LogRecord:
    record = logging.makeLogRecord(
        {"name": "shop", "levelno": 30, "levelname": "WARNING", "msg": message, "args": args}
    )
    vars(record).update(extra)
    return record


def test_text_format_names_the_task_once() -> None:
    form = TextFormatter()

    assert form.format(made("plain %s", 1)).endswith(" WARNING None plain 1") or "plain 1" in form.format(
        made("plain 1")
    )
    assert form.format(made("hello", task_id="t1", task_name="a.b")).endswith(" hello [task t1 of a.b]")
    assert form.format(made("task t1 hello", task_id="t1", task_name="a.b")).endswith(" task t1 hello")
    assert form.format(made("hello", task_id="", task_name="")).endswith(" hello")


def test_json_format_contains_all_attributes() -> None:
    try:
        raise LookupError("own")
    except LookupError:
        record = made("Zoë %s", 1, task_id="t1", queue="", duration=0.5, odd={1}, exc_info=sys.exc_info())
    record.stack_info = "Stack (most recent call last):"

    shown_fields = json.loads(JsonFormatter().format(record))

    assert shown_fields.pop("time").endswith("+00:00")
    assert shown_fields.pop("exception").endswith("LookupError: own")
    assert shown_fields == {
        "level": "WARNING",
        "logger": "shop",
        "process": record.process,
        "message": "Zoë 1",
        "task_id": "t1",
        "duration": 0.5,
        "odd": "{1}",
        "stack": "Stack (most recent call last):",
    }


class Unspeakable:
    """Raises whatever it is asked for."""

    def _raise(self, *_: object) -> Any:
        raise LookupError("no")

    __eq__ = __ne__ = __str__ = __repr__ = __bool__ = _raise
    __hash__ = None  # type: ignore[assignment]


def _cycle() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["self"] = found
    return found


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Unspeakable(), "<Unspeakable>"),
        ([Unspeakable()], "<list>"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (_cycle(), "{'self': {...}}"),
        (float("nan"), "nan"),
        (10**5_000, "an integer of 16610 bits"),
        ("\udcff", "\udcff"),
        (0, 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_json_format_loses_no_message_by_an_attribute(value: Any, written: Any) -> None:
    record = logging.makeLogRecord({"msg": "moin", "order": value, "other": 7, "empty": ""})

    text = JsonFormatter().format(record)

    found = json.loads(text.encode())
    assert (found["message"], found["other"], found["order"], "empty" in found) == ("moin", 7, written, False)


def test_text_format_takes_any_task_id() -> None:
    record = logging.makeLogRecord({"msg": "moin", "task_id": 5, "task_name": "shop.tasks.pack"})

    assert TextFormatter().format(record).endswith("moin [task 5 of shop.tasks.pack]")


def test_a_worker_writes_json(redis_server: Store, children: Children) -> None:
    worker = children.manage("runworker", "--log-format", "json", env=SITE)
    worker.wait_for("Worker: queues default")
    failed, spoken = fail.enqueue("my own"), leave_word.enqueue("hello")
    eventually(lambda: '"message": "hello"' in worker.output and "failed (attempt 1 of 1)" in worker.output)
    worker.terminate()
    assert worker.wait() == 0

    shown_fields = [json.loads(line) for line in worker.output.splitlines()]

    [error] = [each for each in shown_fields if each["level"] == "ERROR"]
    assert (error["task_id"], error["outcome"], error["queue"]) == (failed.id, "failed", "default")
    assert error["exception"].endswith("LookupError: my own")
    [word] = [each for each in shown_fields if each["message"] == "hello"]
    assert (word["logger"], word["task_id"], word["task_name"]) == ("tests.taskqueue", spoken.id, leave_word.name)


def test_a_worker_writes_text_and_names_the_task(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children)
    spoken = leave_word.enqueue("hello")

    assert worker.wait_for("hello").endswith(f" hello [task {spoken.id} of {leave_word.name}]")


def test_unknown_log_format_is_refused() -> None:
    with pytest.raises(CommandError, match=r"argument --log-format: invalid choice: 'xml'"):
        call_command("runworker", "--log-format", "xml")


@pytest.fixture
def chain() -> Iterator[tuple[logging.Logger, logging.Logger]]:
    """Two loggers, one below the other, and nothing above them."""
    top, low = logging.getLogger("tests.logs"), logging.getLogger("tests.logs.low")
    top.propagate = False
    yield top, low
    for logger in (top, low):
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)


def test_handler_is_added_to_the_top_logger(
    chain: tuple[logging.Logger, logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    top, low = chain
    top.handlers.clear()  # pytest's own

    assert shown.show_logs(low.name, 1) is True
    assert shown.show_logs(low.name, 1) is False

    assert (len(top.handlers), low.handlers, low.level, top.level) == (1, [], logging.INFO, logging.NOTSET)
    low.info("hello")
    assert capsys.readouterr().err.endswith(" hello\n")


def test_record_shown_by_another_handler_is_not_repeated(
    chain: tuple[logging.Logger, logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    top, low = chain
    top.handlers.clear()  # pytest's own
    shown.show_logs(top.name, 1)
    own = logging.StreamHandler()
    own.setLevel(logging.ERROR)
    low.addHandler(logging.NullHandler())
    low.addHandler(own)

    low.error("by its own")
    low.warning("by ours")

    assert [line.rpartition(" ")[2] for line in capsys.readouterr().err.splitlines()] == ["own", "ours"]


def test_ignored_log_format_is_reported(redis_server: Store, capsys: pytest.CaptureFixture[str], settings: Any) -> None:
    with pytest.raises(CommandError):
        call_command("runworker", "--using", "nowhere", "--log-format", "json")

    assert capsys.readouterr().err == ("--log-format is ignored: LOGGING has handlers for django_redis_components.\n")
