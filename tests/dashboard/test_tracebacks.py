"""Tracebacks on the pages: the lines where a task failed are marked, frames of libraries are folded."""

from __future__ import annotations

import re

import pytest
from django.contrib.admin.utils import quote

from django_redis_components.dashboard.error_text import traceback_parts
from django_redis_components.dashboard.task import stack_view
from django_redis_components.templatetags.redis_components import drc_traceback
from tests.dashboard.failure_pages import FAILURES
from tests.dashboard.support import client_of, fail_with, write_worker
from tests.dashboard.task_pages import TASKS
from tests.dashboard.task_pages import url_of as task_url
from tests.support import Store
from tests.taskqueue.support import new_fetcher, work_off
from tests.taskqueue.tasks import fail, note

TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/tasks.py", line 52, in send_receipt
    deliver(message)
  File "/srv/shop/mail.py", line 41, in deliver
    connection.send_messages([message])
  File "/usr/lib/python3.13/smtplib.py", line 398, in getreply
    raise SMTPServerDisconnected("closed")
smtplib.SMTPServerDisconnected: closed
"""


LIBRARY = "/venv/lib/python3.13/site-packages/requests/api.py"
CHAIN = f"""Traceback (most recent call last):
  File "{LIBRARY}", line 9, in get
    return self.cache[url]
           ~~~~~~~~~~^^^^^
  File "/opt/src/django_redis_components/taskqueue/worker/execution.py", line 7, in call
    return function()
  [Previous line repeated 9 more times]
KeyError: 'url'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/usr/lib/python3.13t/threading.py", line 1, in run
  File "/srv/shop/tasks.py", line 52, in send_receipt
    deliver(message)
  File "<frozen importlib._bootstrap>", line 3, in _load
shop.errors.Undelivered: no route
  to the server
"""
GROUP = f"""  + Exception Group Traceback (most recent call last):
  |   File "{LIBRARY}", line 9, in get
  |     raise ExceptionGroup("many", errors)
  | ExceptionGroup: many (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/shop/tasks.py", line 3, in charge
    |     1 / 0
    | ZeroDivisionError: division by zero
    +------------------------------------
"""


def failed_lines(text: str) -> list[str]:
    return [line.strip() for part in traceback_parts(text) for line, is_failed in part.lines if is_failed]


def all_lines(text: str) -> list[str]:
    return [line for part in traceback_parts(text) for line, _ in part.lines]


def folded(text: str) -> list[tuple[int, str]]:
    """Return the number of frames and the first line of each part that is folded."""
    return [(part.frames, part.lines[0][0].strip()) for part in traceback_parts(text) if part.frames]


def test_last_line_of_the_sites_code_and_the_exception_are_marked() -> None:
    assert failed_lines(TRACEBACK) == ["connection.send_messages([message])", "smtplib.SMTPServerDisconnected: closed"]
    assert failed_lines(GROUP)[0] == "|     1 / 0"


def test_last_line_of_a_library_is_marked_without_the_sites_code() -> None:
    text = TRACEBACK.replace("/srv/shop/", "/venv/lib/python3.13/site-packages/shop/")

    assert failed_lines(text) == ['raise SMTPServerDisconnected("closed")', "smtplib.SMTPServerDisconnected: closed"]


def test_location_of_a_syntax_error_is_no_call_of_a_library() -> None:
    text = f'{TRACEBACK}  File "{LIBRARY}", line 3\n    x y\nSyntaxError: invalid syntax'

    assert folded(text) == [(1, 'File "/usr/lib/python3.13/smtplib.py", line 398, in getreply')]
    assert failed_lines(text) == ["x y", "SyntaxError: invalid syntax"]


def test_frames_of_libraries_and_of_the_worker_are_folded_between_those_of_the_site() -> None:
    assert folded(TRACEBACK) == [(1, 'File "/usr/lib/python3.13/smtplib.py", line 398, in getreply')]
    assert folded(CHAIN) == [
        (2, f'File "{LIBRARY}", line 9, in get'),
        (1, 'File "/usr/lib/python3.13t/threading.py", line 1, in run'),
        (1, 'File "<frozen importlib._bootstrap>", line 3, in _load'),
    ]
    assert folded(GROUP) == [(1, f'|   File "{LIBRARY}", line 9, in get')]


def test_lines_that_belong_to_a_frame_are_folded_with_it() -> None:
    [first, *_] = [part for part in traceback_parts(CHAIN) if part.frames]

    assert first.lines[-1][0] == "  [Previous line repeated 9 more times]"


@pytest.mark.parametrize("text", [TRACEBACK, CHAIN, GROUP])
def test_lines_keep_their_order(text: str) -> None:
    assert all_lines(text) == text.rstrip("\n").split("\n")


def test_traceback_of_libraries_only_is_not_folded() -> None:
    assert folded(TRACEBACK.replace("/srv/shop/", "/venv/lib/python3.13/site-packages/shop/")) == []


def test_nothing_is_marked_in_a_stack_without_an_exception() -> None:
    frames = TRACEBACK.split("\n")[1:-2]

    assert failed_lines("\n".join(frames)) == []
    assert folded("\n".join(frames)) == [(1, 'File "/usr/lib/python3.13/smtplib.py", line 398, in getreply')]


@pytest.mark.parametrize("text", ["", "LookupError", 'File "x", line 1', "x\n  File y\n|  ", '  File "' * 5_000])
def test_text_that_is_no_traceback_is_kept(text: str) -> None:
    assert all_lines(text) == text.split("\n")
    assert folded(text) == []


def test_lines_are_escaped() -> None:
    assert drc_traceback("<b>\n<i>x") == '<pre>&lt;b&gt;\n<span class="drc-raised">&lt;i&gt;x</span></pre>'
    hostile = TRACEBACK.replace("getreply", "</pre></details><script>")

    assert "<script>" not in drc_traceback(hostile)
    assert "1 frame of libraries" in drc_traceback(hostile)


@pytest.mark.django_db
def test_page_of_failures_marks_the_exception(redis_server: Store) -> None:
    fail_with("no stock")

    html = client_of("superuser").get(FAILURES).content.decode()

    assert '<span class="drc-raised">LookupError: no stock</span>' in html
    assert '<span class="drc-raised">    raise LookupError(text)</span>' in html


@pytest.mark.django_db
def test_pages_of_failures_and_of_a_task_fold_the_frames_of_the_worker(redis_server: Store) -> None:
    result = fail.enqueue("no stock")
    work_off()
    client = client_of("superuser")

    for address in (FAILURES, task_url(result.id)):
        html = client.get(address).content.decode()
        header, summary = "<pre>Traceback (most recent call last):</pre>", "[3-9] frames of libraries</summary>"
        folded = re.escape(header) + f'<details class="drc-frames"><summary>{summary}<pre>  File &quot;'
        assert re.search(folded, html), address  # middleware of another test has frames, too
        assert "<pre>  File &quot;" + fail.func.__code__.co_filename in html, address


@pytest.mark.django_db
def test_stack_of_a_running_task_folds_frames_of_libraries(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_view, "ask", lambda *_: "\n".join(TRACEBACK.split("\n")[1:-2]))
    result = note.enqueue("x")
    new_fetcher(worker="here:f00.a").fetch("0", 1)
    write_worker(redis_server, "here:f00.a")

    html = client_of("superuser").post(f"{TASKS}_verb/stack/{quote(result.id)}/").content.decode()

    assert "1 frame of libraries</summary><pre>  File &quot;/usr/lib/python3.13/smtplib.py" in html
    assert "drc-raised" not in html
