"""What the backend needs of a Tasks framework. Django's own and its backport have it under the same names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

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
        normalise: `normalize_json`.
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
    normalise: Callable[[Any], Any]
