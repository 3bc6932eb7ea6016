"""Run the demo: start server, worker, poller and site, and supervise them until a signal arrives."""

from __future__ import annotations

import contextlib
import fcntl
import signal
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import TextIO

from example_project.demo.console import Console
from example_project.demo.processes import Child
from example_project.demo.server import DemoServer
from example_project.demo.supervisor import Supervisor
from example_project.paths import DATA_DIR

#: Seconds between two checks of the child processes.
POLL_S = 0.2

#: Seconds to wait for the site's first response before the addresses are printed anyway.
SITE_START_S = 120.0

#: Seconds after which the demo says again what it waits for.
REPORT_S = 5.0

#: Number of ports to try, from the given one on.
PORTS = 100

#: Grace period of each process in seconds, in the order in which they are stopped.
GRACE_S = {"site": 5.0, "worker": 20.0, "poller": 5.0}


class DemoError(Exception):
    """The demo cannot start; the message gives the reason."""


class Demo:
    """One run of the demo. It does not import Django; values that need Django are passed in.

    Args:
        port: Port of the site; the next free one is used if it is taken.
        dashboard_path: Path of the dashboard on the site.
        tour_path: Path of the guided tour.
        has_sample_data: Whether the first start writes sample data.
        sign_in_hint: Returns the accounts to print; called after the content was created.
    """

    def __init__(
        self,
        *,
        port: int,
        dashboard_path: str,
        tour_path: str,
        sign_in_hint: Callable[[], str],
        has_sample_data: bool = True,
        stream: TextIO | None = None,
    ) -> None:
        self.port = port
        self.dashboard_path = dashboard_path
        self.tour_path = tour_path
        self.has_sample_data = has_sample_data
        self.sign_in_hint = sign_in_hint
        self.console = Console(stream)
        self.server = DemoServer(self.console)
        self.supervisor = Supervisor(self.console)
        #: Stop signals received.
        self.signals: list[int] = []

    def run(self) -> None:
        """Run until a signal arrives, then stop everything.

        Raises:
            DemoError: the demo could not start; started processes are stopped.
        """
        with _only_one(), self._signals():
            try:
                self.server.start()
                self._prepare()
                self._start()
                self._follow()
            finally:
                self._stop()

    def _prepare(self) -> None:
        """Create tables and content, unless they exist."""
        populate = ["populate", "--sample-data"] if self.has_sample_data else ["populate"]
        for purpose, args in (
            ("the tables of the database", ["migrate", "--verbosity", "0"]),
            ("members, items and search indexes", populate),
        ):
            self.console.info(f"preparing {purpose}")
            child = self._child("demo", *args)
            child.start()
            try:
                code = child.wait(lambda: bool(self.signals))
            finally:
                child.stop(5.0, lambda: len(self.signals) > 1)
            if code and not self.signals:
                raise DemoError(f"manage.py {args[0]} failed; see above.")

    def _start(self) -> None:
        if self.signals:
            return
        self.port = free_port_from(self.port)
        children = {
            "site": ["runserver", "--noreload", f"127.0.0.1:{self.port}"],
            "worker": ["runworker", "high", "default", "low", "--processes", "4", "--threads", "2"],
            "poller": ["runpoller"],
        }
        for name, args in children.items():
            self.supervisor.start(self._child(name, *args), GRACE_S[name])
        self._wait_for_site()

    def _wait_for_site(self) -> None:
        self.console.info("waiting for the site's first response; worker and poller start beside it")
        started = reported = time.monotonic()
        while not self.signals and time.monotonic() < started + SITE_START_S and not self._site_answers():
            time.sleep(POLL_S)
            self.supervisor.check()
            if time.monotonic() > reported + REPORT_S:
                reported = time.monotonic()
                self.console.info(f"still waiting for the site's first response, {reported - started:.0f} s")
        if self.signals:
            return
        base = f"http://127.0.0.1:{self.port}"
        for text in (
            f"market     {base}/",
            f"tour       {base}{self.tour_path}",
            f"dashboard  {base}{self.dashboard_path}",
            f"mails      {base}/mails/",
            f"sign in    {self.sign_in_hint()}",
            "Ctrl-C stops everything; the next run continues with the same data",
        ):
            self.console.info(text)

    def _site_answers(self) -> bool:
        url = f"http://127.0.0.1:{self.port}/static/market/logo.svg"  # not counted as a visit
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2) as reply:
            return bool(reply.status == 200)
        return False

    def _follow(self) -> None:
        while not self.signals:
            time.sleep(POLL_S)
            self.server.check()
            self.supervisor.check()

    def _stop(self) -> None:
        self.console.info("stopping")
        self.supervisor.stop(self.signals)
        self.server.stop()

    def _child(self, name: str, *args: str) -> Child:
        return Child(name, list(args), {"REDIS_URL": self.server.url}, self.console)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = [signal.signal(number, lambda number, _frame: self.signals.append(number)) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)


def free_port_from(first: int) -> int:
    """Return the first free loopback port, starting at ``first``."""
    for port in range(first, first + PORTS):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the site does: a port in TIME_WAIT is free
            probe.bind(("127.0.0.1", port))
            return port
    raise DemoError(f"No free port from {first} to {first + PORTS - 1}. Name another: manage.py demo --port 9000")


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    """Hold a file lock: two demos on the same files would start two servers on them."""
    DATA_DIR.mkdir(parents=True, exist_ok=True)
    with (DATA_DIR / "demo.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(f"Another demo is running on {DATA_DIR}. Stop it, or set DEMO_DATA_DIR.") from None
        yield
