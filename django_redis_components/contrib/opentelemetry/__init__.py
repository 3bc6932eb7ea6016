"""Spans of OpenTelemetry that continue from the code that enqueues a task to its runs in the workers.

    from django_redis_components.contrib.opentelemetry import instrument

    instrument()  # in AppConfig.ready(), after the site has configured its tracer provider

Nothing is imported and no task carries a context until then.

See also: ``docs/guides/tracing.md``.
"""

from __future__ import annotations

from typing import Any

from django_redis_components.core.exceptions import missing_extra
from django_redis_components.taskqueue.middleware import Middleware, pipeline

__all__ = ["instrument", "uninstrument"]

#: The middleware that traces this process, if any.
_installed: list[Middleware] = []


def instrument(tracer_provider: Any = None) -> None:
    """Trace the tasks that this process enqueues and runs.

    Args:
        tracer_provider: creates the spans; None: the global one of OpenTelemetry.

    Raises:
        ImportError: ``opentelemetry-api`` is not installed.
    """
    try:
        from django_redis_components.contrib.opentelemetry.spans import TraceTasks
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise missing_extra("instrument()", "opentelemetry-api", "opentelemetry") from exc
    uninstrument()
    _installed.append(TraceTasks(tracer_provider))
    pipeline.install(_installed[0])


def uninstrument() -> None:
    """Trace no further tasks."""
    while _installed:
        pipeline.uninstall(_installed.pop())
