"""Helpers for the tests of a site: run tasks without Redis, inspect enqueued tasks, or drain a real server.

====================  ===============================================================================
`inline()`            `enqueue` runs the task at once in this thread; no Redis
`captured()`          tasks are collected, and run when `run()` is called; no Redis
`assert_enqueued(…)`  inside either: assert that a task was enqueued, with which arguments, how often
`drain()`             run the ready tasks of a real Redis server, in this thread
====================  ===============================================================================

`inline` and `captured` replace the connections of the task queue. They cover every way to enqueue: `enqueue_many`,
on commit, asyncio, flows, and Django's Tasks backend. Locks and the other components still need their server.
Both apply to all threads of the process.

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

See also: ``docs/guides/testing.md``; `pytest_plugin` for fixtures.
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
