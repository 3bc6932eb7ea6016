"""Tracebacks on the pages: the lines where a task failed are marked."""

from __future__ import annotations

import pytest

from django_redis_components.dashboard.error_text import traceback_lines
from django_redis_components.templatetags.redis_components import drc_traceback
from tests.dashboard.failure_pages import FAILURES
from tests.dashboard.support import client_of, fail_with
from tests.support import Store

TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/tasks.py", line 52, in send_receipt
    deliver(message)
  File "/srv/shop/mail.py", line 41, in deliver
    connection.send_messages([message])
  File "/usr/lib/python3.13/smtplib.py", line 398, in getreply
    raise SMTPServerDisconnected("closed")
smtplib.SMTPServerDisconnected: closed
"""


def failed_lines(text: str) -> list[str]:
    return [line.strip() for line, is_failed in traceback_lines(text) if is_failed]


def test_last_line_of_the_sites_code_and_the_exception_are_marked() -> None:
    assert failed_lines(TRACEBACK) == ["connection.send_messages([message])", "smtplib.SMTPServerDisconnected: closed"]


def test_last_line_of_a_library_is_marked_without_the_sites_code() -> None:
    text = TRACEBACK.replace("/srv/shop/", "/venv/lib/python3.13/site-packages/shop/")

    assert failed_lines(text) == ['raise SMTPServerDisconnected("closed")', "smtplib.SMTPServerDisconnected: closed"]


@pytest.mark.parametrize("text", ["", "LookupError", 'File "x", line 1'])
def test_text_that_is_no_traceback_is_kept(text: str) -> None:
    assert [line for line, _ in traceback_lines(text)] == [text]
    assert failed_lines(text) == [text.strip()]


def test_lines_are_escaped() -> None:
    assert drc_traceback("<b>\n<i>x") == '&lt;b&gt;\n<span class="drc-raised">&lt;i&gt;x</span>'


@pytest.mark.django_db
def test_page_of_failures_marks_the_exception(redis_server: Store) -> None:
    fail_with("no stock")

    html = client_of("superuser").get(FAILURES).content.decode()

    assert '<span class="drc-raised">LookupError: no stock</span>' in html
    assert '<span class="drc-raised">    raise LookupError(text)</span>' in html
