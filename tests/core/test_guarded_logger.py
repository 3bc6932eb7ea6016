"""The loggers of the package: what the site's logging raises does not reach the code that logs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from django_redis_components.core.exceptions import BaseInterruption, Interruption
from django_redis_components.core.guarded_logger import guarded_logger
from tests.support.raising_logs import raising_logs
from tests.taskqueue.hostile import errors

logger = guarded_logger("django_redis_components.tests")


def in_thread(function: Callable[[], object]) -> list[BaseException]:
    """Run a function in a thread, and return what it raised."""
    raised: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as exc:  # noqa: BLE001 - it is returned
            raised.append(exc)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return raised


@pytest.mark.parametrize("method", ["debug", "info", "warning", "error", "exception"])
def test_filter_that_raises_loses_the_message_and_nothing_else(
    method: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, logger.target.name)

    with raising_logs():
        getattr(logger, method)("Tried %d times.", 3)

    text = "The logging of the site raised KeyError; a message was lost: Tried %d times.\n"
    assert capsys.readouterr().err == text


def test_filter_that_raises_system_exit_ends_no_thread() -> None:
    with raising_logs(SystemExit) as messages:
        assert in_thread(lambda: logger.error("first")) == []
        assert in_thread(lambda: logger.error("second")) == []

    assert messages == ["first", "second"]


@pytest.mark.parametrize("kind", [Interruption, BaseInterruption])
def test_interruption_of_the_running_code_is_raised(kind: type[BaseException]) -> None:
    with raising_logs(kind):
        [raised] = in_thread(lambda: logger.error("interrupted"))

    assert type(raised) is kind


def test_ctrl_c_in_the_main_thread_is_raised() -> None:
    with raising_logs(KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        logger.error("interrupted")


def test_record_has_the_line_of_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    logger.error("an error")
    logger.exception("an exception")  # noqa: LOG004 - its line is the point
    logger.log_exception(LookupError(), "a given exception")

    assert {(record.filename, record.funcName) for record in caplog.records} == {
        ("test_guarded_logger.py", "test_record_has_the_line_of_the_caller")
    }


def test_level_that_is_off_costs_no_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger.target.name)

    with raising_logs() as messages:
        logger.warning("not logged")

    assert messages == []


@pytest.mark.parametrize("kind", errors.KINDS)
def test_exception_is_logged_whatever_its_class_does(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise errors.make(kind)
    except BaseException:
        logger.exception("The function of %s failed.", "the site")

    [record] = caplog.records
    text = logging.Formatter().format(record)
    assert text.startswith("The function of the site failed.\n")
    assert "in test_exception_is_logged_whatever_its_class_does" in text


def test_given_exception_is_logged_at_a_level(caplog: pytest.LogCaptureFixture) -> None:
    logger.log_exception(LookupError("no such item"), "Cannot be read.", level=logging.WARNING)

    [record] = caplog.records
    assert (record.levelname, record.getMessage()) == ("WARNING", "Cannot be read.")
    assert "LookupError: no such item" in caplog.text
