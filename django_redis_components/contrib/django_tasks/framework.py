"""The parts of a Tasks framework that the backend uses: of Django's own, or of its backport."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any, Self

from django.dispatch import Signal

#: The alias of a task that names no backend.
DEFAULT_ALIAS = "default"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """The classes, signals and helpers of one framework.

    Attributes:
        handler: `task_backends`, alias to backend.
        error: our subclass of `TaskError`.
        invalid_task, no_result: the exceptions `InvalidTask` and `TaskResultDoesNotExist`.
        normalize: `normalize_json`.
    """

    handler: Any
    task: type[Any]
    result: type[Any]
    status: Any
    error: type[Any]
    context: type[Any]
    invalid_task: type[Exception]
    no_result: type[Exception]
    enqueued: Signal
    started: Signal
    finished: Signal
    normalize: Callable[[Any], Any]

    @classmethod
    def of(
        cls,
        package: ModuleType,
        signals: ModuleType,
        *,
        error: type[Any],
        invalid_task: type[Exception],
        no_result: type[Exception],
        normalize: Callable[[Any], Any],
    ) -> Self:
        """Return the `Framework` of a package with the names of `django.tasks`. Names that differ are arguments."""
        return cls(
            handler=package.task_backends,
            task=package.base.Task,
            result=package.TaskResult,
            status=package.TaskResultStatus,
            error=error,
            context=package.TaskContext,
            invalid_task=invalid_task,
            no_result=no_result,
            enqueued=signals.task_enqueued,
            started=signals.task_started,
            finished=signals.task_finished,
            normalize=normalize,
        )
