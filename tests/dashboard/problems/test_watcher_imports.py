"""Which modules a process loads that watches a connection: those of the components that the site uses."""

from __future__ import annotations

import sys

import pytest

from tests.support import Store
from tests.support.processes import Children

pytestmark = pytest.mark.integration

#: Components that a worker or poller needs only if the site uses them.
COMPONENTS = ("files", "locks", "messaging", "ratelimits", "search", "semaphores")


def watch_once() -> list[str]:
    """Make a round as the active process; return the components whose modules are loaded."""
    from django_redis_components.dashboard.problems.watcher import ProblemWatcher

    watcher = ProblemWatcher("default")
    watcher.round()
    assert watcher.is_active
    return [name for name in COMPONENTS if f"django_redis_components.{name}" in sys.modules]


def test_round_imports_no_component_that_the_site_does_not_use(redis_server: Store, children: Children) -> None:
    child = children.call("tests.dashboard.problems.test_watcher_imports:watch_once", anew=True)

    assert child.result() == []


def test_round_imports_the_components_that_the_site_uses(
    redis_server: Store, children: Children, catalogued: None
) -> None:
    from django_redis_components.dashboard.problems.watched.messages import MAX_READ  # the child imports this module
    from django_redis_components.locks import Lock
    from django_redis_components.messaging import Mailbox
    from django_redis_components.messaging.user_index import MAX_INDEXED

    Mailbox("kim").send("hello")
    assert Lock("stock").acquire()

    child = children.call("tests.dashboard.problems.test_watcher_imports:watch_once", anew=True)

    assert child.result() == ["locks", "messaging"]
    assert MAX_READ == MAX_INDEXED
