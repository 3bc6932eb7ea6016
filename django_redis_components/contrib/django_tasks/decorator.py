"""`@task` with our options, for whichever version of the framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_redis_components.contrib.django_tasks.framework import DEFAULT_ALIAS, Framework
from django_redis_components.contrib.django_tasks.options import NAMES, QueueOptions


def decorator_of(framework: Framework) -> Callable[..., Any]:
    """The decorator of a framework."""

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
        """Make a function a task of the framework, as its own decorator does, with options of ours.

        That of Django 6.0 takes no options of a backend. A backend that is not ours, such as the immediate one in
        a site's tests, makes its own kind of task, which has no place for them: there they are left out.

        Args:
            priority, queue_name, backend, takes_context: those of the framework.
            options: see `options.QueueOptions`.

        Raises:
            TypeError: an option is unknown.
            InvalidTask: a value is not accepted (the framework's exception).
        """

        def decorate(func: Callable[..., Any]) -> Any:
            kind = framework.handler[backend].task_class
            taken = {
                name: value for name, value in options.items() if name not in NAMES or issubclass(kind, QueueOptions)
            }
            return kind(
                func=func,
                priority=priority,
                queue_name=queue_name,
                backend=backend,
                takes_context=takes_context,
                run_after=None,
                **taken,
            )

        return decorate if function is None else decorate(function)

    return task
