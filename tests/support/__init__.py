"""Test helpers: real servers, a proxy that drops replies, child processes, polling with a deadline.

==================  ==========================================================================================
``eventually``      repeat a check until it succeeds (tests.support.waiting)
``run_together``    start n threads at the same time (tests.support.together)
``run_async``       run a coroutine in a new event loop, then close the async pools (tests.support.asynchronous)
``Child``           a child process: read lines with a deadline, kill (tests.support.processes)
``fork_server``     forks the processes of ``Child`` where a new Python would do the same
``call_together``   a method of the fixture ``children``: call a function in several processes at the same time
``Proxy``           a TCP proxy that drops replies, delays, closes connections (tests.support.proxy)
``skip_missing``    skip a test because a program is missing; fail with CI=true (tests.support.missing)
``AXE_SCRIPT``      the accessibility checks for a browser test (tests.support.axe)
``stores``          the servers: valkey, redis7, cluster and sentinel (tests.support.stores)
==================  ==========================================================================================
"""

from __future__ import annotations

from tests.support.asynchronous import run_async
from tests.support.missing import skip_missing
from tests.support.processes import Child
from tests.support.proxy import Proxy
from tests.support.stores import Store
from tests.support.together import run_together
from tests.support.waiting import eventually

__all__ = ["Child", "Proxy", "Store", "eventually", "run_async", "run_together", "skip_missing"]
