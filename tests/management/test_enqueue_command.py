"""`manage.py redis tasks enqueue`: start a task by hand, and wait for its result."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, execute_from_command_line
from django.utils import timezone

from django_redis_components.core.client.connections import client
from django_redis_components.core.protocol import run
from django_redis_components.dashboard.actions.commands import LoggedCommand, read_commands
from django_redis_components.taskqueue import TaskResult, get_queue, get_result
from tests.management.support import refusal
from tests.support import Store
from tests.support.waiting import eventually
from tests.taskqueue.store.support import data, lines, redis_command
from tests.taskqueue.support import taskqueue_settings, work_off
from tests.taskqueue.tasks import add, echo, fail, note


def command(*words: str) -> tuple[str, ...]:
    return ("tasks", "enqueue", *words)


def refused(*words: str, code: int = 2) -> str:
    return refusal("redis", *command(*words), code=code)


def logged() -> LoggedCommand:
    return run(client(), read_commands("default"))[0]


@contextmanager
def working() -> Iterator[None]:
    """Run what is enqueued on queue "default" in a thread."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            work_off()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_words_are_json_or_text(redis_server: Store) -> None:
    words = ("7", "1.5", "null", '{"a": [true]}', '"7"', "abc", "007", "NaN", "[", "2026-11-26")
    enqueued = data(*command(echo.name, *words, "--kwargs", '{"to": "kim"}'))

    result = get_result(enqueued["id"])
    assert enqueued == {
        "id": result.id,
        "task": echo.name,
        "queue": "default",
        "state": "ready",
        "is_duplicate": False,
    }
    assert result.args == [7, 1.5, None, {"a": [True]}, "7", "abc", "007", "NaN", "[", "2026-11-26"]
    assert result.kwargs == {"to": "kim"}
    [line] = lines(*command(echo.name, "-5", "--", "-x"))
    assert get_result(line.split()[2]).args == [-5, "-x"]


def test_options_of_the_call_are_those_of_using(redis_server: Store) -> None:
    words = (note.name, "x", "--queue", "mail", "--priority", "-3", "--in", "2h", "--id", "nightly")

    [line] = lines(*command(*words))
    again = lines(*command(*words))

    result = get_result("nightly")
    assert line == f"Enqueued task nightly ({note.name}) on queue 'mail'."
    assert again == [f"No new task: nightly ({note.name}) on queue 'mail' has this id or unique key."]
    assert result.run_after is not None
    assert result.run_after.timestamp() - timezone.now().timestamp() == pytest.approx(7_200, abs=60)
    assert get_queue("mail").info().scheduled == 1
    assert "belongs to another call" in refused(note.name, "y", "--id", "nightly", code=1)
    at = timezone.localtime() + timedelta(days=2)
    due = get_result(data(*command(note.name, "x", "--at", at.strftime("%Y-%m-%d %H:%M")))["id"]).run_after
    assert due is not None
    assert due.timestamp() == pytest.approx(at.timestamp(), abs=60)


def test_arguments_are_decoded_by_the_codec_of_the_site(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, JSON_CODEC="django_redis_components.taskqueue.json_codec.ExtendedJSON")

    enqueued = data(*command(note.name, '{"__type__": "date", "value": "2026-11-22"}'))

    assert get_result(enqueued["id"]).args == [date(2026, 11, 22)]


def test_wait_prints_the_return_value(redis_server: Store) -> None:
    with working():
        text = redis_command(*command(add.name, "1", "2", "--wait"))
        found = data(*command(echo.name, "a", "--wait", "60"))

    enqueued, value = text.splitlines()
    assert (enqueued.split()[0], value) == ("Enqueued", "3")
    assert (found["state"], found["return_value"]) == ("successful", [["a"], {}])


def test_wait_exits_with_1_unless_the_task_succeeds(redis_server: Store) -> None:
    with working():
        failed = refused(fail.name, "no stock", "--wait", "60", code=1)
    late = refused(note.name, "x", "--wait", "0", code=1)

    assert "failed. Last error: builtins.LookupError: no stock" in failed
    assert late.endswith("had not finished after 0 s: it is ready.")
    assert get_queue("default").info().ready == 1


def test_task_that_is_cancelled_ends_the_wait_with_1(redis_server: Store) -> None:
    def cancel() -> None:
        eventually(lambda: get_queue("default").info().ready == 1)
        assert get_queue("default").tasks("ready")[0].cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    text = refused(note.name, "x", "--wait", "60", code=1)
    thread.join()

    assert "was cancelled" in text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ("tests.taskqueue.tasks.ad", "1"),
            "registered as 'tests.taskqueue.tasks.ad'. Did you mean 'tests.",
        ),
        # Other tests register tasks in this process, too.
        (("shop.note",), "No task is registered as 'shop.note'. Did you mean 'tests."),
        (("taskqueue.tasks.note",), "'tests.taskqueue.tasks.note'"),
        (("nothing.like_it_at_all_x",), "No task is registered as 'nothing.like_it_at_all_x'."),
        ((add.name, "1"), "missing a required argument: 'b'. It is add(a: 'int', b: 'int')."),
        ((add.name, "1", "--kwargs", '{"a": 1}'), "multiple values for argument 'a'"),
        ((add.name, "1", "2", "--using", "other"), f"--using other: task {add.name} is enqueued over the connection"),
        ((note.name, "x", "--id", "a b" * 300), "id="),
    ],
)
def test_call_that_cannot_be_made_exits_with_2(words: tuple[str, ...], text: str, redis_server: Store) -> None:
    assert text in refused(*words)
    assert get_queue("default").info().ready == 0


def test_queue_that_is_not_declared_exits_with_2(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, QUEUES=["default", "mail"])

    assert "Did you mean 'mail'?" in refused(note.name, "x", "--queue", "mial")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--kwargs", "[]"), "expected an object as JSON"),
        (("--priority", "101"), "expected an integer from -100 to 100"),
        (("--in", "1h", "--at", "2099-01-01"), "not allowed with argument"),
        (("--wait", "-1"), "expected a number of seconds of at least 0"),
    ],
)
def test_options_that_are_not_valid_are_named(words: tuple[str, ...], text: str) -> None:
    with pytest.raises(CommandError, match=text):
        redis_command(*command(note.name, "x", *words))


def test_log_of_commands_has_no_arguments_and_no_values(
    redis_server: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(*words: str) -> LoggedCommand:
        monkeypatch.setattr("sys.argv", ["manage.py", "redis", *words])
        execute_from_command_line(["manage.py", "redis", *words])
        return logged()

    with working():
        entry = execute(*command(note.name, "private", "--kwargs", "{}", "--wait"))
    assert entry.command == "redis tasks enqueue"
    assert entry.outcome.startswith("Enqueued task ")
    assert entry.outcome.endswith(f" ({note.name}) on queue 'default'. State: successful.")

    result = note.enqueue(1)
    entry = execute("tasks", "update", result.id, "--args", '["private"]', "--kwargs={}")
    assert entry.command == f"redis tasks update {result.id} --args … --kwargs=…"


def test_interrupted_wait_names_the_task(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TaskResult, "get", interrupt)
    text = refused(note.name, "x", "--wait", code=1)

    [result] = get_queue("default").tasks("ready")
    assert text == f"Interrupted. Task {result.id} was enqueued, and is not cancelled."


def test_help_states_units_defaults_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        redis_command(*command("--help"))
    text = " ".join(capsys.readouterr().out.split())

    assert "JSON where a word is JSON, else text" in text
    assert "for this many seconds at most, without a limit if no number is given (default: do not wait)" in text
    assert "The exit code is 1 if the task fails, is cancelled, expires or does not finish in time" in text
    assert "2 invalid arguments" in text
