"""Processes that are forked from one that has set Django up, for tests whose subject is not how Python starts.

A new Python needs about a second of the processor until a worker runs: imports, system checks, URLs. The server has
done this once, for one settings module, and each process that it forks reads the settings of its own environment again,
runs ``python -m MODULE ARGS`` as a new Python would, and exits as one.

The test process starts it: ``python -m tests.support.fork_server FD``. A request on the socket FD is JSON with two open
files, the output and a socket for the process: on this the process sends its id and the server its exit code.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]

#: The settings modules whose processes are forked: many tests start them, and the apps of each are always the same.
#: Not those of the demo: its views import paths that depend on the environment.
SETTINGS = (
    "tests.settings",
    "tests.taskqueue.site",
    "tests.taskqueue.batching.site",
    "tests.taskqueue.iterating.site",
    "tests.taskqueue.hostile.site",
)

#: By which coverage measures a process from its start.
COVERAGE = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")

#: Variables that only a new Python obeys start like this.
READ_AT_START = ("PYTHON", "LD_")

#: What most of these processes import. The server imports no module of the tests that reads the environment.
PRELOADED = (
    "django_redis_components.dashboard.problems.watcher",
    "django_redis_components.management.commands.runpoller",
    "django_redis_components.management.commands.runworker",
    "django_redis_components.taskqueue.startup",
    "django_redis_components.taskqueue.supervisor.autoreload",
    "tests.support",
    "tests.support.forks",
)

#: Bytes of a request. One argument of a process may have 128 KiB.
MAX_REQUEST = 1 << 18


class ForkedProcess:
    """A process of the server, with what the tests use of `subprocess.Popen`."""

    def __init__(self, pid: int, status: socket.socket, stdout: IO[str]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._status = status
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        with self._lock:
            if self.returncode is None:
                if not select.select([self._status], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
                self.returncode = _read_number(self._status)
                self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _read_number(status: socket.socket) -> int:
    message = status.recv(32)
    if not message:
        raise EOFError("The fork server has ended.")
    return int(message)


class _Server:
    """The test's side of a fork server."""

    def __init__(self, settings_module: str, variables: Mapping[str, str]) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fork_server", str(other.fileno())],
                cwd=ROOT,
                env={
                    **os.environ,
                    **dict.fromkeys(COVERAGE, ""),
                    **variables,
                    "DJANGO_SETTINGS_MODULE": settings_module,
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # Python asks once what it writes to
                stderr=subprocess.STDOUT,
                pass_fds=[other.fileno()],
                start_new_session=True,
            )

    def start(self, argv: list[str], environment: Mapping[str, str]) -> ForkedProcess:
        mine, status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        read, write = os.pipe()
        try:
            request = json.dumps({"argv": argv, "environment": dict(environment)}).encode("utf-8", "surrogateescape")
            socket.send_fds(self._socket, [request], [write, status.fileno()])
        finally:
            os.close(write)
            status.close()
        try:
            pid = _read_number(mine)
        except EOFError:
            assert self.process.stdout is not None
            mine.close()
            os.close(read)
            raise RuntimeError(f"The fork server has ended:\n{self.process.stdout.read().decode()}") from None
        return ForkedProcess(pid, mine, os.fdopen(read, errors="replace", encoding="utf-8"))

    def close(self) -> None:
        """End the server. The processes that it has forked continue."""
        self._socket.close()
        self.process.terminate()  # a process that a test has forked may have the socket open
        self.process.communicate()


_servers: dict[str, _Server] = {}


def start(argv: list[str], environment: Mapping[str, str], usual: Mapping[str, str]) -> ForkedProcess | None:
    """Start ``python -m *argv``, or return None if only a new Python does what this asks for.

    Args:
        environment: that of the process.
        usual: the one that a test has not changed. The server knows nothing of this test's settings.
    """
    settings_module = environment.get("DJANGO_SETTINGS_MODULE", "")
    variables = _variables_of_start(environment)
    is_measured = any(environment.get(name) for name in COVERAGE)
    if is_measured or settings_module not in SETTINGS or variables != _variables_of_start(usual):
        return None
    if settings_module not in _servers:
        _servers[settings_module] = _Server(settings_module, variables)
    return _servers[settings_module].start(argv, environment)


def close() -> None:
    """End the servers of this process."""
    for server in _servers.values():
        server.close()
    _servers.clear()


def _variables_of_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if value and name.startswith(READ_AT_START)}


class _Requests:
    """The server's own side: forks a process for each request, and reports how each one ends."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        self._statuses: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: process id, socket

    def serve(self) -> tuple[list[str], dict[str, str]]:
        """Serve until the test process ends; return in each new process, with what it is to run."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._control:
                    self._report(key.fd)
                elif (request := self._fork()) is not None:
                    return request

    def _fork(self) -> tuple[list[str], dict[str, str]] | None:
        message, files, _, _ = socket.recv_fds(self._control, MAX_REQUEST, 2)
        if not message:
            sys.exit()
        output, status = files[0], socket.socket(fileno=files[1])
        pid = os.fork()
        if pid:
            os.close(output)
            pidfd = os.pidfd_open(pid)
            self._statuses[pidfd] = pid, status
            self._selector.register(pidfd, selectors.EVENT_READ)
            return None
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        status.send(str(os.getpid()).encode())
        status.close()
        self._close()
        request = json.loads(message.decode("utf-8", "surrogateescape"))
        return request["argv"], request["environment"]

    def _report(self, pidfd: int) -> None:
        pid, status = self._statuses.pop(pidfd)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with status, contextlib.suppress(OSError):  # the test may have ended
            status.send(str(code).encode())

    def _close(self) -> None:
        self._selector.close()
        self._control.close()
        for pidfd, (_, status) in self._statuses.items():
            os.close(pidfd)
            status.close()


def _preload() -> set[str]:
    """Import what the processes need; return the names of the modules of the settings."""
    import django
    from django.conf import settings
    from django.core import checks

    before = set(sys.modules)
    assert settings.INSTALLED_APPS  # imports them
    of_settings = {name for name in set(sys.modules) - before if not hasattr(sys.modules[name], "__path__")}
    django.setup()
    for name in PRELOADED:
        importlib.import_module(name)
    checks.run_checks(tags=[checks.Tags.urls])  # others import the tasks: a process does this itself
    return of_settings


def _read_environment(environment: dict[str, str], of_settings: set[str]) -> None:
    """Import the modules of the settings again, in this environment."""
    from django.conf import settings
    from django.core.signals import setting_changed
    from django.db import connections
    from django.utils.functional import empty

    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    for name in of_settings:
        del sys.modules[name]
    settings._wrapped = empty
    connections.__init__()  # it forgets its connections and settings
    vars(connections).pop("settings", None)
    setting_changed.send(sender=settings, setting="REDIS_COMPONENTS", value=settings.REDIS_COMPONENTS, enter=True)


if __name__ == "__main__":
    _of_settings = _preload()
    _argv, _environment = _Requests(socket.socket(fileno=int(sys.argv[1]))).serve()
    _read_environment(_environment, _of_settings)
    sys.argv = ["-m", *_argv[1:]]
    runpy.run_module(_argv[0], run_name="__main__", alter_sys=True)
