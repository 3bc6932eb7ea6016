"""`@task` with the queue's options, for every version of the framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_redis_components.contrib.django_tasks.framework import DEFAULT_ALIAS, Framework
from django_redis_components.contrib.django_tasks.options import NAMES, QueueOptions


def decorator_of(framework: Framework) -> Callable[..., Any]:
    """Return the decorator for a framework."""

    def task(
        function: Callable[..., Any] | None = None,
        /,
        *,
        priority: int = 0,
        queue_name: str = "default",
        backend: str = DEFAULT_ALIAS,
        takes_context: bool = False,
        **options: Any,
    ) -> Any:
        """Define a task of the framework, with the options of the queue.

        The framework's own decorator in Django 6.0 accepts no options of a backend. Another backend, such as the
        immediate one in tests, uses its own task class: the options are ignored then.

        Args:
            priority, queue_name, backend, takes_context: as in the framework's decorator.
            options: see `options.QueueOptions`.

        Raises:
            TypeError: an option is unknown.
            InvalidTask: a value is not accepted (the framework's exception).
        """

        def decorate(func: Callable[..., Any]) -> Any:
            kind = framework.handler[backend].task_class
            accepted = {
                name: value for name, value in options.items() if name not in NAMES or issubclass(kind, QueueOptions)
            }
            return kind(
                func=func,
                priority=priority,
                queue_name=queue_name,
                backend=backend,
                takes_context=takes_context,
                run_after=None,
                **accepted,
            )

        return decorate if function is None else decorate(function)

    return task
