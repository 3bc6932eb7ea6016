"""Runs commands in this process, with a terminal or without."""

from __future__ import annotations

import io
import json
import os
import pty
import termios
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.management.jobs import file_distribution

#: A command of each group that prints data.
READS = {
    "doctor": ["doctor", "--scan", "0"],
    "migrate": ["migrate", "--dry-run"],
    "top": ["top", "--once"],
    "queues": ["queues", "status"],
    "tasks": ["tasks", "list", "default", "ready"],
    "shards": ["shards", "list"],
    "workers": ["workers", "list"],
    "schedules": ["schedules", "list"],
    "flows": ["flows", "show", "unheard-of"],
    "outbox": ["outbox", "status"],
    "locks": ["locks", "list"],
    "limits": ["limits", "list"],
    "analytics": ["analytics", "report", "--days", "1"],
    "aggregation": ["aggregation", "delete", "visits", "--yes"],
    "geoip": ["geoip", "delete", "--yes"],
    "autocomplete": ["autocomplete", "unregistered"],
    "search": ["search", "check"],
}


def run_command(*words: str, code: int = 0) -> str:
    """Run a command; return its standard output. It must end with this exit code, without an error message."""
    out = io.StringIO()
    if code:
        with pytest.raises(SystemExit) as raised:
            call_command(*words, stdout=out, stderr=io.StringIO())
        assert raised.value.code == code
    else:
        call_command(*words, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def command_data(*words: str, code: int = 0) -> Any:
    """Run a command with --json; return its output as an object."""
    return json.loads(run_command(*words, "--json", code=code))


def refusal(*words: str, code: int = 1) -> str:
    """Run a command that fails with this exit code; return its error message."""
    with pytest.raises(CommandError) as raised:
        call_command(*words, stdout=io.StringIO(), stderr=io.StringIO())
    assert raised.value.returncode == code
    return str(raised.value)


def receive_files(directory: str, consumer: str) -> None:
    """Run distribute_files, which tries again after a tenth of a second, until a signal ends it."""
    file_distribution.RETRY_S = 0.1
    call_command("distribute_files", "receive", "logs", directory, "--consumer", consumer, "--json")


class Terminal:
    """A pseudo-terminal in the place of standard error."""

    def __init__(self) -> None:
        self._controller, worker = pty.openpty()
        termios.tcsetwinsize(worker, (24, 120))
        self.stream = os.fdopen(worker, "w")

    def shown(self) -> str:
        """Return what was written, which ends with a line."""
        self.stream.write("END\n")
        self.stream.flush()
        data = b""
        while not data.endswith(b"END\r\n"):
            data += os.read(self._controller, 65_536)
        return data.decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self._controller)
