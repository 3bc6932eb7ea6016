"""Middleware: what surrounds the enqueueing and the run of each task.

A site lists its own in ``TASKQUEUE["MIDDLEWARE"]``, the outermost first:

    class CurrentTenant(Middleware):
        def before_enqueue(self, task):
            task.headers["tenant"] = tenant.get()

        def around_run(self, run, call_next):
            with tenant.use(run.headers["tenant"]):
                return call_next()

        async def aaround_run(self, run, call_next):
            with tenant.use(run.headers["tenant"]):
                return await call_next()

The signals are sent by the innermost one, so that receivers run within the site's. Without middleware and receivers a
run costs nothing more. What the worker must do for each task (database connections, the context, the log, live events)
is no middleware: nothing can be put around it or in its place.

See also: ``docs/guides/middleware.md``.
"""

from __future__ import annotations

from django_redis_components.taskqueue.middleware.base import (
    Middleware,
    NewTask,
    RunContext,
    RunOutcome,
    WorkerDescription,
)

__all__ = ["Middleware", "NewTask", "RunContext", "RunOutcome", "WorkerDescription"]
