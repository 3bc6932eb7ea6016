"""What the tests stand on: real servers, a proxy that loses replies, children that get killed, patient checks.

==================  ==========================================================================================
``eventually``      repeat a check until it holds (tests.support.waiting)
``run_together``    n threads through one barrier (tests.support.together)
``run_async``       one coroutine in one event loop, our async pools closed after it (tests.support.asynchronous)
``Child``           a Python process of our own: lines with a deadline, kill -9 (tests.support.processes)
``Proxy``           a TCP proxy that drops replies, delays, cuts (tests.support.proxy)
``absent``          skip loudly for lack of a tool; fail under CI=true (tests.support.absence)
``AXE_SCRIPT``      the accessibility checks for a browser test (tests.support.axe)
``stores``          the table of servers: valkey, redis7, cluster; and sentinel (tests.support.stores)
==================  ==========================================================================================
"""

from __future__ import annotations

from tests.support.absence import absent
from tests.support.asynchronous import run_async
from tests.support.processes import Child
from tests.support.proxy import Proxy
from tests.support.stores import Store
from tests.support.together import run_together
from tests.support.waiting import eventually

__all__ = ["Child", "Proxy", "Store", "absent", "eventually", "run_async", "run_together"]
