"""Fixtures of all tests: real servers, a key prefix per test, and clean-up.

==================  =======================================================================================
``store``           embedded Valkey; a test marked ``contract`` runs once on each store: that, Debian's Redis 7, and a
                    Cluster of three masters (``--one-store``: on that only)
``redis_server``    embedded Valkey only
``own_server``      an embedded Valkey of this test alone, append-only file on: stop, kill and start it
``replica``         a replica of ``own_server``, in step with it; a test may stop it
``sentinel_server`` one master, one replica, one sentinel
``proxy``           a reply-losing proxy before ``redis_server``; our alias ``proxied`` goes through it
``children``        processes on this test's settings: ``.call("module:function", …)``, ``.manage("runworker")``;
                    forked where a new Python would do the same (tests.support.fork_server)
==================  =======================================================================================

The first four point ``REDIS_COMPONENTS`` at the server, under alias ``default``.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import secrets
import signal
import sys
import threading
import weakref
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import redis
from django.db import connections as databases
from django.utils import translation

from django_redis_components.autocomplete import widgets
from django_redis_components.core import circuit_breaker
from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.core.leasing.renewal import renewer
from django_redis_components.core.observability import catalog
from tests.support import eventually, fork_server, missing
from tests.support.clocks import ServerClock
from tests.support.pools import close_pools
from tests.support.processes import UNMEASURED, Children
from tests.support.proxy import Proxy
from tests.support.stores import DEFAULT_STORE, STORES, Store, Stores
from tests.support.tables import keep_content_types
from tools.localserver import LocalServer

TESTS = Path(__file__).parent

#: A test that asks for one of these is marked ``redis``.
REDIS_FIXTURES = {"store", "redis_server", "own_server", "sentinel_server", "proxy"}

#: Directories whose tests all depend on the version of Python or Django; other files are marked one by one.
INTEGRATION = [TESTS / name for name in ("architecture", "contrib", "dashboard", "testing")]


#: Parameters of a test marked ``contract``. It runs the same lines on each store: coverage measures one.
ALL_STORES = [pytest.param(name, marks=[] if name == DEFAULT_STORE else [pytest.mark.unmeasured]) for name in STORES]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--one-store", action="store_true", help="run the tests marked contract on one store only")


def pytest_configure() -> None:
    """Let Ctrl-C interrupt the processes that tests start, and tables be emptied quickly.

    A shell starts background jobs with SIGINT ignored, and children would inherit that.
    """
    keep_content_types()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector look seldom, and never at the collected tests: it took a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if re.search(" at 0x[0-9a-f]{9}", item.nodeid):  # the processes of pytest-xdist would collect different tests
            raise pytest.UsageError(f"{item.nodeid}: an address is no name; give the parameters ids.")
        if REDIS_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("redis")
        for marker in _folder_markers(item.path):
            item.add_marker(marker)


@functools.cache
def _folder_markers(path: Path) -> list[str]:
    """Return the markers that all tests of a file get from its folder."""
    folders = path.parents
    browser = ["browser"] if TESTS / "browser" in folders else []
    return browser + (["integration"] if any(folder in folders for folder in INTEGRATION) else [])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The contract of a script (each of its return codes) is tested on every store; what Python does with it, once."""
    marks = list(metafunc.definition.iter_markers())
    is_chosen = any(mark.name == "parametrize" and mark.args[0] == "store" for mark in marks)
    if "store" in metafunc.fixturenames and not is_chosen:
        on_all = any(mark.name == "contract" for mark in marks) and not metafunc.config.getoption("one_store")
        metafunc.parametrize("store", ALL_STORES if on_all else [DEFAULT_STORE], indirect=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remove what earlier tests leave: the language of their last request, database connections, what tasks recorded.

    A worker in the thread of a test without a database would use these connections, and a task that behaves differently
    at its first run would take another test's run for it.
    """
    translation.deactivate()
    _indexes_before.clear()
    _indexes_before.update(widgets.used_indexes)
    if (tasks := sys.modules.get("tests.taskqueue.tasks")) is not None:
        tasks.recorded.clear()
    if item.get_closest_marker("django_db") is None:
        for connection in databases.all(initialized_only=True):
            connection.close()


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Collect without coverage's trace function: only the import of a test module runs lines of the package."""
    with _traced_by(None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, Any, Any]:
    """Run what is between the tests, which is most of the time of a short one, without coverage's trace function."""
    global _tracer
    _tracer = sys.gettrace()
    with _traced_by(None):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    """Measure what fixtures run: they may import a module of the package first. Those of every test only tidy up."""
    with _traced_by(None if fixturedef.argname.startswith("_") else _tracer):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run a test with coverage's trace function, which slows all Python down; one marked ``unmeasured`` without it.

    A test that ends with another trace function would hide what later tests run.
    """
    is_measured = item.get_closest_marker("unmeasured") is None
    with _traced_by(_tracer if is_measured else None), contextlib.nullcontext() if is_measured else _unmeasured():
        return (yield)


#: Coverage's trace function, if it measures this process.
_tracer: Any = None


@contextlib.contextmanager
def _traced_by(function: Any) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(function)
    try:
        yield
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def _unmeasured() -> Iterator[None]:
    """Start threads and processes without coverage."""
    before = threading.gettrace()
    threading.settrace(None)
    try:
        with patch.dict(os.environ, UNMEASURED):
            yield
    finally:
        threading.settrace(before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Remove what a test leaves, after its fixtures, and fail one that leaves an exception behind as "being handled".

    Every later exception would name it as its cause. A trace function that raises at the first instructions of an
    ``except`` block can do this to its thread.
    """
    try:
        yield
    finally:
        _remove_leftovers()
    if (error := sys.exc_info()[1]) is not None:
        pytest.fail(
            f"{item.nodeid} left {error!r} in sys.exc_info(); run what it interrupts in a thread.", pytrace=False
        )


#: Indexes of forms before the test.
_indexes_before: set[str] = set()
#: Wakeup listeners of the test.
_listeners: list[weakref.ref[WakeupListener]] = []


def _remove_leftovers() -> None:
    """Remove what most tests leave. A fixture for each of these would take longer than they do, for each test."""
    close_pools()
    renewer.watches.clear()  # it would watch the lease of a deleted lock for a third of its time
    circuit_breaker.forget_failures()  # the next test uses the same aliases
    widgets.used_indexes.intersection_update(_indexes_before)  # system checks would report those of deleted forms
    for listener in filter(None, (each() for each in _listeners)):
        listener.close()  # the connection of one that is garbage collected later would fail another test
    _listeners.clear()


def _remember_listeners() -> None:
    genuine = WakeupListener.__init__

    def init(listener: WakeupListener, *args: Any, **options: Any) -> None:
        genuine(listener, *args, **options)
        _listeners.append(weakref.ref(listener))

    WakeupListener.__init__ = init  # type: ignore[method-assign]


_remember_listeners()


def pytest_sessionfinish() -> None:
    fork_server.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """What a test has logged must be UTF-8: pytest-xdist can send nothing else, and ends with an internal error."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for what, times in missing.count_missing(terminalreporter.stats.get("skipped", [])).items():
        terminalreporter.write_line(f"!!! NOT TESTED ({times} tests skipped): {what}", red=True, bold=True)


@pytest.fixture(scope="session")
def stores() -> Iterator[Stores]:
    """The table of servers. Tests ask for ``store`` or ``redis_server``."""
    table = Stores()
    yield table
    table.close()


@pytest.fixture
def children() -> Iterator[Children]:
    """Starts processes and ends them with the test."""
    with Children() as started:
        yield started


@pytest.fixture
def store(request: pytest.FixtureRequest, stores: Stores, settings: Any, children: Children) -> Iterator[Store]:
    """One store, or every store in turn for tests marked ``contract``."""
    yield from _lend(stores, request.param, settings, children)


@pytest.fixture
def redis_server(stores: Stores, settings: Any, children: Children) -> Iterator[Store]:
    """The embedded Valkey, for what does not depend on the server."""
    yield from _lend(stores, "valkey", settings, children)


@pytest.fixture
def sentinel_server(stores: Stores, settings: Any, children: Children) -> Iterator[Store]:
    """Master, replica and sentinel; ``servers`` has them in this order."""
    yield from _lend(stores, "sentinel", settings, children)


@pytest.fixture
def own_server(stores: Stores, settings: Any, children: Children) -> Iterator[Store]:
    """A server of this test alone, with an append-only file: ``own_server.servers[0]`` may be stopped."""
    yield from _lend_own(stores.new_directory("own"), settings, children)


@pytest.fixture
def replica(own_server: Store, stores: Stores) -> Iterator[LocalServer]:
    """A replica of ``own_server``, in step with it. A test may stop it by SIGSTOP."""
    master = own_server.servers[0]
    own_server.raw.config_set("repl-diskless-sync-delay", 0)
    server = LocalServer(
        directory=stores.new_directory("replica"),
        extra_args=("--replicaof", f"127.0.0.1 {master.port}"),
        die_with_parent=True,
    ).start()
    try:
        eventually(lambda: own_server.raw.wait(1, 100) == 1)
        yield server
    finally:
        os.kill(server.pid, signal.SIGCONT)
        server.kill()


@pytest.fixture
def stepped_server(stores: Stores, settings: Any, children: Children) -> Iterator[tuple[Store, ServerClock]]:
    """An ``own_server``, and its clock, which the test may step."""
    directory = stores.new_directory("stepped")
    clock = ServerClock(directory / "clock")
    for store in _lend_own(directory, settings, children, clock.binary):
        yield store, clock


@pytest.fixture
def proxy(redis_server: Store, settings: Any) -> Iterator[Proxy]:
    """A proxy before ``redis_server``. ``using="proxied"`` goes through it, ``using="default"`` straight."""
    with Proxy(redis_server.url) as running:
        settings.REDIS_COMPONENTS = components_settings(redis_server, proxied=running.url)
        yield running
        close_pools()


@pytest.fixture
def catalogued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the names that the test uses recorded, as on a site, but in its thread and at once."""
    monkeypatch.setattr(catalog, "is_on", lambda: True)
    monkeypatch.setattr(catalog.RECORDER, "notify", catalog.RECORDER.flush)


#: Seconds that a page view or a hit waits for Redis. After the default, a fraction of a second, it would sometimes not
#: be counted on a busy machine.
LONG_TIMEOUT_S = 10.0
# Nor would it be counted after replies that a busy machine has delayed.
circuit_breaker.SLOW_S = LONG_TIMEOUT_S


def components_settings(store: Store, **more_urls: str) -> dict[str, Any]:
    """Return the REDIS_COMPONENTS of a test: alias ``default`` is the store, ``more_urls`` are further aliases."""
    urls = {"default": store.url, **more_urls}
    return {
        "PREFIX": store.prefix,
        "CONNECTIONS": {alias: {"URL": url} for alias, url in urls.items()},
        "ANALYTICS": {"TIMEOUT": LONG_TIMEOUT_S},
        "RATELIMITS": {"TIMEOUT": LONG_TIMEOUT_S, "COUNT_HITS": False},
        "LIVE_EVENTS": False,  # their thread would send commands at any time
        "CATALOG": False,  # so would this one
        "DASHBOARD": {"RESTARTED_WITHIN": 0},  # the servers of the tests have just been started
    }


def _new_prefix() -> str:
    return f"t{secrets.token_hex(4)}"


def _lend_own(directory: Path, settings: Any, children: Children, binary: Path | None = None) -> Iterator[Store]:
    server = LocalServer(
        binary,
        directory=directory,
        appendonly=True,
        die_with_parent=True,
        extra_args=("--appendfsync", "everysec"),
    ).start()
    mine = Store("own", server.url, _new_prefix(), redis.Redis.from_url(server.url), (server,))
    settings.REDIS_COMPONENTS = components_settings(mine)
    yield mine
    children.close()
    close_pools()
    mine.raw.close()
    server.kill()


def _lend(stores: Stores, name: str, settings: Any, children: Children) -> Iterator[Store]:
    lent = stores.get(name).for_test(_new_prefix())
    settings.REDIS_COMPONENTS = components_settings(lent)
    yield lent
    children.close()  # before its keys go: a worker would write new ones
    close_pools()
    lent.delete_keys()
