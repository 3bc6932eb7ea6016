"""For the tests of a site: run tasks without Redis, look at what is sent, or run what stands in a real server.

======================  ==========================================================================
`inline()`              `enqueue` runs the task at once in this thread; no Redis
`captured()`            tasks are kept, and run when `run()` is called; no Redis
`assert_enqueued(…)`    inside either: was it sent, with what, how often
`drain()`               run what is ready in a real Redis, in this thread
======================  ==========================================================================

The first two stand between the task queue and its connections: whatever sends (`enqueue_many`, on
commit, asyncio, flows, Django's Tasks backend) is covered. Locks and all else of this package still
need their server. They hold for all threads of the process.

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
        assert result.wait() == "Hello Ada"

See also: ``docs/guides/testing.md``; `pytest_plugin` for fixtures.
"""

from __future__ import annotations

from django_redis_components.testing.draining import drain
from django_redis_components.testing.modes import (
    assert_enqueued,
    assert_nothing_enqueued,
    captured,
    inline,
    sent_tasks,
)
from django_redis_components.testing.sent import SentTask, SentTasks

__all__ = [
    "SentTask",
    "SentTasks",
    "assert_enqueued",
    "assert_nothing_enqueued",
    "captured",
    "drain",
    "inline",
    "sent_tasks",
]
