"""A backend for Django's Tasks framework: its tasks on our queue, run by our workers.

    TASKS = {"default": {"BACKEND": "django_redis_components.contrib.django_tasks.RedisBackend"}}

On Django 6.0 and later it serves `django.tasks`; on 5.2 the backport, the package `django-tasks`.
Everything that the framework leaves to a backend is supported: `run_after`, coroutines, results
from any process, priorities. The guarantees are those of `django_redis_components.taskqueue`.

* `enqueue` sends at once and does not wait for a commit; `aenqueue` is asynchronous down to the socket.
* `task` is the framework's decorator, with our options; that of Django 6.0 takes none.
* The worker gives a `TaskContext`, and sends `task_started` and `task_finished` around each run. A
  signal is a message about the run, sent before Redis has the outcome.
* A name from Redis is looked up among the tasks that were made in this process, and never imported;
  so is the class of a stored error.

Keys: those of `taskqueue`. What the framework knows more of a task travels in its body.

=================  ================================================================================
OPTIONS            meaning
=================  ================================================================================
USING              alias in ``REDIS_COMPONENTS["CONNECTIONS"]``; "default"
MAX_ATTEMPTS       defaults of the options of the same name, for tasks that do not say; see
MAX_DELIVERIES     `taskqueue.options.TaskOptions`
BACKOFF
TIMEOUT
CONCURRENCY
RATE
UNIQUE
EXPIRES
RESULT_TTL
=================  ================================================================================

See also: ``docs/components/django-tasks.md``.
"""

from __future__ import annotations

import django

from django_redis_components.core.exceptions import missing_extra

if django.VERSION >= (6, 0):
    from django_redis_components.contrib.django_tasks.native import RedisBackend, RedisTask, task
else:
    try:
        import django_tasks as _backport  # noqa: F401 - the adapter imports it; this says what to install
    except ModuleNotFoundError as exc:
        if exc.name != "django_tasks":
            raise
        raise missing_extra("RedisBackend on Django before 6.0", "django-tasks", "django-tasks") from exc
    from django_redis_components.contrib.django_tasks.backport import (  # type: ignore[assignment]
        RedisBackend,
        RedisTask,
        task,
    )

__all__ = ["RedisBackend", "RedisTask", "task"]
