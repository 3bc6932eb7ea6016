"""Run tests in processes that are forked after the collection: ``pytest -p tests.support.forked --forks 6``.

Each process of pytest-xdist imports and collects all tests, which takes a processor twelve seconds. Here one process
does it, and those that it forks have the tests already. They take groups of tests from one pipe until it is empty, and
write what happens to pipes of their own. A group has the tests of a module, or all tests with a fixture of a package:
no two processes set that up.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import struct
import sys
import traceback
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import Any, NoReturn

import pytest

#: What the pipe of groups has of each one: its index.
INDEX = struct.Struct("H")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="run the tests in so many processes, forked when collected")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    count = session.config.getoption("forks")
    if not count or session.config.option.collectonly or session.testsfailed:
        return None
    _Run(session).run(count)
    return True


def _group_of(item: pytest.Item) -> tuple[bool, str]:
    """Return whether the item shares a fixture of a package, and the name of its group."""
    fixtures = getattr(item, "_fixtureinfo", None)
    for definition in chain(*fixtures.name2fixturedefs.values()) if fixtures else ():
        if definition.scope == "package":
            return True, definition.baseid
    return False, str(item.path)


def _groups(items: Iterable[pytest.Item]) -> list[list[pytest.Item]]:
    """Return the tests in groups, in their order; but first those that take longest, which share a fixture."""
    shared: dict[str, list[pytest.Item]] = {}
    others = []
    for (is_shared, name), group in groupby(items, _group_of):
        if is_shared:
            shared.setdefault(name, []).extend(group)
        else:
            others.append(list(group))
    return [*shared.values(), *others]


class _Process:
    """A forked process, as the first one sees it."""

    def __init__(self, pid: int, number: int, events: int) -> None:
        self.pid, self.number = pid, number
        self.events = os.fdopen(events)
        #: Tests that it has taken and not finished, in order.
        self.taken: list[pytest.Item] = []
        #: Whether it has ended in order.
        self.is_done = False


class _Run:
    """The first process: it reports what the others do."""

    def __init__(self, session: pytest.Session) -> None:
        self.session = session
        self.hook = session.config.hook
        self.groups = _groups(session.items)
        self.queue, self._queued = os.pipe()
        self._selector = selectors.DefaultSelector()

    def run(self, count: int) -> None:
        """Run all tests in so many processes, and report them."""
        os.write(self._queued, b"".join(map(INDEX.pack, range(len(self.groups)))))
        os.close(self._queued)
        for number in range(count):
            self._start(number, [])
        try:
            while self._selector.get_map():
                for key, _ in self._selector.select():
                    self._read(key.data)
                    if self.session.shouldfail:
                        raise self.session.Failed(self.session.shouldfail)
        finally:
            for process in [key.data for key in self._selector.get_map().values()]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGINT)
                os.waitpid(process.pid, 0)

    def _start(self, number: int, first: list[pytest.Item]) -> None:
        """Fork a process, which runs these tests first."""
        sys.stdout.flush()
        sys.stderr.flush()
        read, write = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(read)
            self._close()
            _run_tests(self.session, number, chain(first, self._take(write)), write)
        os.close(write)
        process = _Process(pid, number, read)
        process.taken += first
        self._selector.register(process.events, selectors.EVENT_READ, process)

    def _close(self) -> None:
        """Close what a forked process does not need of this one."""
        for key in list(self._selector.get_map().values()):
            key.data.events.close()
        self._selector.close()

    def _take(self, events: int) -> Iterator[pytest.Item]:
        """Yield the tests of one group after the other, until all are taken."""
        while index := os.read(self.queue, INDEX.size):
            (group,) = INDEX.unpack(index)
            os.write(events, _line("take", group))
            yield from self.groups[group]

    def _read(self, process: _Process) -> None:
        """Report one event of a process."""
        line = process.events.readline()
        if not line.endswith("\n"):
            self._end(process)
            return
        kind, *values = json.loads(line)
        if kind == "take":
            process.taken += self.groups[values[0]]
        elif kind == "start":
            self.hook.pytest_runtest_logstart(nodeid=values[0], location=tuple(values[1]))
        elif kind == "report":
            report = self.hook.pytest_report_from_serializable(config=self.session.config, data=values[0])
            if report.skipped and isinstance(report.longrepr, list):  # JSON has no tuples
                report.longrepr = tuple(report.longrepr)
            self.hook.pytest_runtest_logreport(report=report)
        elif kind == "finish":
            process.taken.pop(0)
            self.hook.pytest_runtest_logfinish(nodeid=values[0], location=tuple(values[1]))
        elif kind == "done":
            process.is_done = True
        else:
            raise RuntimeError(f"A forked process has ended with an error:\n{values[0]}")

    def _end(self, process: _Process) -> None:
        """Reap a process. If it was killed in a test, that one has failed, and another process continues."""
        self._selector.unregister(process.events)
        process.events.close()
        code = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        if process.is_done or self.session.shouldfail:
            return
        if process.taken:
            item, *rest = process.taken
            text = f"The process of this test has ended with exit code {code}."
            report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
            self.hook.pytest_runtest_logreport(report=report)
            self._start(process.number, rest)


class _Sender:
    """The plugin of a forked process that tells the first one what happens."""

    def __init__(self, config: pytest.Config, events: int) -> None:
        self._config = config
        self._events = open(events, "wb", closefd=False)  # noqa: SIM115 -- until the process exits

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self.send("start", nodeid, location)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.send("report", self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self.send("finish", nodeid, location)

    def send(self, kind: str, *values: Any) -> None:
        self._events.write(_line(kind, *values))
        self._events.flush()


def _line(kind: str, *values: Any) -> bytes:
    return json.dumps([kind, *values], default=str).encode() + b"\n"


def _run_tests(session: pytest.Session, number: int, tests: Iterator[pytest.Item], events: int) -> NoReturn:
    """Run tests in a forked process, and end it."""
    config = session.config
    sender = _Sender(config, events)
    try:
        # As in a process of pytest-xdist: pytest-django adds this name to that of the database.
        config.workerinput = {"workerid": f"gw{number}"}  # type: ignore[attr-defined]
        config.pluginmanager.unregister(name="terminalreporter")
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # its files are shared with the other processes
        capture.start_global_capturing()
        config.pluginmanager.register(sender)
        with contextlib.suppress(KeyboardInterrupt):
            _run_protocols(session, tests)
        config.hook.pytest_sessionfinish(session=session, exitstatus=pytest.ExitCode.OK)
        sender.send("done")
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001 -- it must not return to what the first process does
        sender.send("error", traceback.format_exc())
    finally:
        os._exit(0)


def _run_protocols(session: pytest.Session, tests: Iterator[pytest.Item]) -> None:
    test = next(tests, None)
    while test is not None and not session.shouldfail:
        following = next(tests, None)
        session.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        test = following
