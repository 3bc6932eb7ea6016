"""What a task of Django's framework can be asked, asked of ours: a site may move between the two by an import."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync, sync_to_async

from django_redis_components.core.decorators import without_stop_iteration
from django_redis_components.core.units import Seconds

if TYPE_CHECKING:
    from django_redis_components.taskqueue.options import TaskOptions


class FrameworkNames:
    """Mixin for `Task`: attributes and verbs of `django.tasks.Task` that are not its own anyway."""

    __slots__ = ()
    func: Callable[..., Any]
    name: str
    options: TaskOptions

    @property
    def queue_name(self) -> str:
        """The queue it is sent to."""
        return self.options.queue_name

    @property
    def priority(self) -> int:
        """-100 to 100 within the queue; higher first."""
        return self.options.priority

    @property
    def run_after(self) -> datetime | Seconds | None:
        """When it may start, as `using` was told; None: at once."""
        return self.options.run_after

    @property
    def module_path(self) -> str:
        """Dotted path of the function: the task's name."""
        return self.name

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function here and now, and wait for it: a coroutine function has an event loop for that."""
        if inspect.iscoroutinefunction(self.func):
            return async_to_sync(self.func)(*args, **kwargs)
        return self.func(*args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function here and now; one that is no coroutine function runs in Django's thread for that."""
        if inspect.iscoroutinefunction(self.func):
            return await self.func(*args, **kwargs)
        called_here = without_stop_iteration(self.func)
        return await sync_to_async(called_here)(*args, **kwargs)
