"""`manage.py redis top`: one view, the live view, and the terminal that it leaves."""

from __future__ import annotations

import io
import os
import pty
import re
import sys
import termios
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command

from django_redis_components.management.redis.top import terminal
from tests.dashboard.support import write_poller, write_queue, write_worker
from tests.management.support import command_data, refusal, run_command
from tests.support import Store
from tests.taskqueue.support import new_fetcher
from tests.taskqueue.tasks import note


def fill(store: Store) -> None:
    write_poller(store)
    write_worker(store, "here:7", busy=4)
    write_worker(store, "gone:8", seen_s=60)
    write_queue(store, "mail", ready=1_234)
    note.enqueue("a")
    new_fetcher("default", worker="here:7").fetch("0", 1)


def test_view_is_printed_once(redis_server: Store) -> None:
    fill(redis_server)

    address, threads, tasks, *sections = run_command("redis", "top", "--once").splitlines()

    assert "(connection 'default')" in address
    assert threads == f"Threads [{'|' * 15}{' ' * 15}] 4/8 busy  Workers 1 live, 1 lost  Poller active"
    assert tasks.startswith("Tasks 1,234 ready, 1 running  Finished 0.0/min")
    headers = [line.split()[0] for line in sections if line.split()[:1] and line.split()[0].isupper()]
    assert headers == ["QUEUE", "WORKER", "RUNNING"]
    assert [line.split()[0] for line in sections if re.match("mail|default|gone|here", line)] == [
        "mail",
        "default",
        "gone:7",
        "here:7",
    ]
    assert sections[-1].endswith(f"default  here:7  {note.name}")
    found = command_data("redis", "top")
    assert [each["worker"] for each in found["running"]] == ["here:7"]
    assert {each["name"]: each["ready"] for each in found["queues"]} == {"default": 0, "mail": 1_234}


class Screen(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of the pseudo-terminal that is standard input."""
    master, slave = pty.openpty()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "18")
    with os.fdopen(slave) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield master
    os.close(master)


def test_live_view_fits_and_leaves_the_terminal_as_it_was(redis_server: Store, keyboard: int) -> None:
    fill(redis_server)
    modes, out = termios.tcgetattr(keyboard), Screen()
    os.write(keyboard, b"xq")

    call_command("redis", "top", "--interval", "5", stdout=out, no_color=True)

    shown = out.getvalue()
    assert shown.startswith("\x1b[?1049h\x1b[?25l\x1b[H")
    assert shown.endswith("\x1b[J\x1b[?25h\x1b[?1049l")
    lines = re.sub(r"\x1b\[[?\w]*?[hlHKJ]", "", shown).split("\r\n")
    assert len(lines) <= 18
    assert max(map(len, lines)) <= 80
    assert "… 1 more" in lines
    assert lines[-1] == "Refreshed every 5 s. Ctrl-C or q: exit"
    assert termios.tcgetattr(keyboard) == modes


def test_ctrl_c_leaves_the_terminal_as_it_was_after_an_outage(keyboard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    modes, out = termios.tcgetattr(keyboard), Screen()

    def interrupt(_: float) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal, "wait_for_quit", interrupt)

    call_command("redis", "top", stdout=out, no_color=True)

    shown = out.getvalue()
    assert "Redis is unavailable: " in shown
    assert shown.endswith("\x1b[?25h\x1b[?1049l")
    assert termios.tcgetattr(keyboard) == modes


def test_top_needs_a_terminal_and_a_server(redis_server: Store, settings: Any) -> None:
    assert refusal("redis", "top") == "Standard output is not a terminal; pass --once or --json."
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1"}}}
    assert refusal("redis", "top", "--once", code=3).startswith("Redis is unavailable: ")
