"""Child processes of a test: started with its settings, read line by line with a deadline, killed at its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

from django.conf import settings
from django.db import connection

from tests.support import fork_server
from tests.support.waiting import TIMEOUT_S

ROOT = Path(__file__).resolve().parents[2]
#: Environment of a child without coverage. It starts a third faster, and one that an exception interrupts cannot leave
#: a lock of coverage held.
UNMEASURED = {"COVERAGE_PROCESS_START": "", "COVERAGE_PROCESS_CONFIG": ""}
#: Environment of a `Children.call` that coverage measures after all: no test runs its lines in the test process.
MEASURED = {name: os.environ.get(name, "") for name in UNMEASURED}


class Child:
    """A process that the fixture ``children`` kills at the end of the test.

    >>> child = children.call("tests.locks.holders:hold", "name", 10)     # python -m tests.support.child
    >>> child = children.manage("runworker", "default", "--burst")       # manage.py, on the tests' settings
    >>> child.wait_for("holding")
    >>> child.kill()
    """

    def __init__(self, argv: list[str], env: dict[str, str] | None = None, *, forked: bool = False) -> None:
        usual = child_environment()
        environment = usual | (env or {})
        self.argv = argv
        self.lines: list[str] = []
        self._next = 0  # index of the first line that neither `readline` nor `wait_for` has returned or passed
        self._ended = False
        self._changed = threading.Condition()
        fork = fork_server.start(argv[2:], environment, usual) if forked else None
        self.process = fork or subprocess.Popen(
            argv,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            bufsize=1,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.poll()

    @property
    def output(self) -> str:
        """Return what it has printed until now, on both streams. `readline` and `wait_for` still find these lines."""
        with self._changed:
            return "\n".join(self.lines)

    def readline(self, timeout_s: float = TIMEOUT_S) -> str:
        """Return the next line; raise AssertionError after the timeout or when the child has ended."""
        line = self._read_line(timeout_s)
        if line is None:
            raise AssertionError(f"no line within {timeout_s} s, or it ended; so far:\n{self.output}")
        return line

    def wait_for(self, text: str, timeout_s: float = TIMEOUT_S) -> str:
        """Read until a line contains ``text``, and return that line."""
        deadline = time.monotonic() + timeout_s
        while True:
            line = self._read_line(max(0.0, deadline - time.monotonic()))
            if line is None:
                raise AssertionError(f"no line with {text!r} within {timeout_s} s; so far:\n{self.output}")
            if text in line:
                return line

    def result(self, timeout_s: float = TIMEOUT_S) -> object:
        """Wait until the function of a ``call`` has returned, and return its value."""
        line = self.wait_for("done ", timeout_s)
        assert self.wait(timeout_s) == 0, self.output
        return json.loads(line.removeprefix("done "))

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        """Wait until it exits, and return the exit code."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.argv} still runs after {timeout_s} s:\n{self.output}") from None
        self._reader.join(5)  # its own children may keep its output open for longer
        return code

    def signal(self, number: int) -> None:
        """Send a signal to the child, not to its children."""
        self.process.send_signal(number)

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the child (SIGKILL), as a crash would; its own children continue."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Kill the child and its whole session (SIGKILL)."""
        _kill_group(self.pid)
        self.process.wait()
        self._reader.join(5)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _read_line(self, timeout_s: float) -> str | None:
        with self._changed:
            self._changed.wait_for(lambda: self._next < len(self.lines) or self._ended, timeout_s)
            if self._next == len(self.lines):
                return None
            self._next += 1
            return self.lines[self._next - 1]


class Children:
    """Starts child processes and kills them at the end.

    Where the result is the same, they are forked from a process that has set Django up (`fork_server`). With ``anew`` a
    new Python is started: for tests of the start, of imports, and of settings that are read while Django is set up.
    """

    def __init__(self) -> None:
        self._all: list[Child] = []

    def call(self, target: str, *args: object, env: dict[str, str] | None = None, anew: bool = False) -> Child:
        """Call ``module:function`` with JSON arguments in a process. Returns when Django is set up there.

        Coverage does not measure it: the code of the test itself runs there, of which tests in one process run the
        same lines. If they do not, pass `MEASURED`. Commands (`manage`) are measured.
        """
        command = ("-m", "tests.support.child", target, json.dumps(args))
        child = self._start(command, UNMEASURED | (env or {}), anew=anew)
        child.wait_for("ready")
        return child

    def call_together(self, target: str, calls: list[list[object]], timeout_s: float = TIMEOUT_S) -> list[Any]:
        """Call ``module:function`` in several processes at the same time. Returns what each call returned.

        Args:
            calls: the JSON arguments of each call.
        """
        result: Any = self.call("tests.support.forks:run_together", target, calls).result(timeout_s)
        return list(result)

    def manage(self, *args: str, env: dict[str, str] | None = None, anew: bool = False) -> Child:
        """Start a management command with the settings of the test."""
        return self._start(("-m", "django", *args), env, anew=anew)

    def run(self, *args: str, env: dict[str, str] | None = None) -> Child:
        """Start ``python *args``."""
        return self._start(args, env, anew=True)

    def _start(self, args: tuple[str, ...], env: dict[str, str] | None, *, anew: bool) -> Child:
        child = Child([sys.executable, *args], env, forked=not anew)
        self._all.append(child)
        return child

    def close(self) -> None:
        for child in self._all:
            child.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def child_environment() -> dict[str, str]:
    """Return the environment by which tests/settings.py in a child gets the settings of the test."""
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "TEST_REDIS_COMPONENTS": json.dumps(settings.REDIS_COMPONENTS),
        "TEST_DATABASE": str(connection.settings_dict["NAME"]),
    }


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
