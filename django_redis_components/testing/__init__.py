"""Helpers for the tests of a site: run tasks without Redis, an embedded server, assertions, other holders.

==========================  ===============================================================================
`inline()`                  `enqueue` runs the task at once in this thread; no Redis
`captured()`                tasks are collected, and run when `run()` is called; no Redis
`assert_enqueued(…)`        inside either: assert that a task was enqueued, with which arguments, how often
`drain()`                   run the ready tasks of a real Redis server, in this thread
`embedded_server()`         an empty Valkey server for all components
`allow_hits()`              each hit of a rate limit is allowed; no Redis
`deny_hits()`               each hit of a rate limit is denied; no Redis
`held_elsewhere(…)`         another thread holds a lock, or all permits of a semaphore
`assert_not_held(…)`        assert that locks and semaphores were released
`assert_message_sent(…)`    assert that a chat or a mailbox has a message
`assert_found(…)`           assert what a search index finds
==========================  ===============================================================================

`inline` and `captured` replace the connections of the task queue. They cover every way to enqueue: `enqueue_many`,
on commit, asyncio, flows, and Django's Tasks backend. `allow_hits` and `deny_hits` replace the decisions of rate
limits. All four apply to all threads of the process. The other components need a server: `embedded_server`.

Example::

    from django_redis_components.taskqueue import task
    from django_redis_components.testing import captured

    @task
    def greet(name):
        return f"Hello {name}"

    with captured() as sent:
        result = greet.enqueue("Ada")
        sent.assert_enqueued(greet, args=["Ada"], count=1)
        sent.run()
        assert result.get() == "Hello Ada"

See also: ``docs/guides/testing.md``; ``django_redis_components.pytest_plugin`` for fixtures.
"""

from __future__ import annotations

from django_redis_components.testing.capture import (
    assert_enqueued,
    assert_nothing_enqueued,
    captured,
    inline,
    sent_tasks,
)
from django_redis_components.testing.draining import drain
from django_redis_components.testing.enqueued_tasks import SentTask, SentTasks
from django_redis_components.testing.leases import assert_not_held, held_elsewhere
from django_redis_components.testing.limits import allow_hits, deny_hits
from django_redis_components.testing.messages import assert_message_sent
from django_redis_components.testing.searching import assert_found
from django_redis_components.testing.server import EmbeddedServer, embedded_server

__all__ = [
    "EmbeddedServer",
    "SentTask",
    "SentTasks",
    "allow_hits",
    "assert_enqueued",
    "assert_found",
    "assert_message_sent",
    "assert_not_held",
    "assert_nothing_enqueued",
    "captured",
    "deny_hits",
    "drain",
    "embedded_server",
    "held_elsewhere",
    "inline",
    "sent_tasks",
]
