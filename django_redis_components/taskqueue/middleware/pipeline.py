"""The middleware of this process, and the calls of its callbacks."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.utils.module_loading import import_string

from django_redis_components.core.exceptions import ConfigurationError, must_raise
from django_redis_components.core.names import dotted_path
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import logs, signals
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.json_codec import pack
from django_redis_components.taskqueue.middleware.base import Middleware, NewTask, RunContext, RunOutcome
from django_redis_components.taskqueue.middleware.sending import SendSignals
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.sealing import without_context
from django_redis_components.taskqueue.store.messages import HEADERS_KEY

#: Callbacks of which a class must override both or none.
_PAIR = ("around_run", "aaround_run")

_SEND_SIGNALS = SendSignals()
#: Added by `installed` around those of the settings.
_installed: list[Middleware] = []
_pipeline: Pipeline | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Pipeline:
    """The middleware by what it overrides, the outermost first.

    Attributes:
        all: of the process.
        before_enqueue, after_enqueue: those that override these.
        runs: those that override `around_run` or `on_outcome`.
    """

    all: tuple[Middleware, ...]
    before_enqueue: tuple[Middleware, ...]
    after_enqueue: tuple[Middleware, ...]
    runs: tuple[Middleware, ...]


def current() -> Pipeline:
    """Return the middleware of this process; it is imported at the first call.

    Raises:
        ConfigurationError: an entry of TASKQUEUE["MIDDLEWARE"] is not a middleware.
    """
    return _pipeline or _load()


def for_run(task: Any) -> tuple[Middleware, ...]:
    """Return what surrounds a run of this task, the outermost first. Called for each run."""
    runs = (_pipeline or _load()).runs
    if task.own_middleware is not None:
        return (*runs, *task.own_middleware)
    if signals.task_started.receivers or signals.task_retrying.receivers or signals.task_finished.receivers:
        runs = (*runs, _SEND_SIGNALS)
    return runs


def call_before_enqueue(task: NewTask) -> dict[str, Any]:
    """Call `before_enqueue` of all, and return the options with the headers that they have added.

    Raises:
        TypeError, ValueError: the headers are not JSON.
    """
    for hook in current().before_enqueue:
        hook.before_enqueue(task)
    return {HEADERS_KEY: pack(task.headers, "headers")} if task.headers else {}


def notify_enqueued(results: Sequence[TaskResult], *, sends_signals: bool = True) -> None:
    """Call `after_enqueue` for tasks that were accepted together.

    Args:
        sends_signals: whether `task_enqueued` is sent.
    """
    for hook in _enqueue_hooks(sends_signals=sends_signals):
        for result in results:
            if not result.is_duplicate:
                with _logged(hook, f"after task {result.id} was enqueued", raises=hook.raises_after_enqueue):
                    hook.after_enqueue(result)


async def anotify_enqueued(results: Sequence[TaskResult], *, sends_signals: bool = True) -> None:
    """See `notify_enqueued`."""
    for hook in _enqueue_hooks(sends_signals=sends_signals):
        for result in results:
            if not result.is_duplicate:
                with _logged(hook, f"after task {result.id} was enqueued", raises=hook.raises_after_enqueue):
                    await hook.aafter_enqueue(result)


def notify_outcome(hooks: Sequence[Middleware], run: RunContext, outcome: RunOutcome) -> None:
    """Call `on_outcome` of all, the innermost first. Whatever they raise, the outcome has been decided."""
    with logs.about(run._job):
        for hook in reversed(hooks):
            try:
                hook.on_outcome(run, outcome)
            except BaseException as exc:  # noqa: BLE001 - it is logged
                text = "Middleware %s failed after the end of task %s (%s)."
                shown = without_context(exc, is_sealed=run._job.is_sealed)
                logger.log_exception(shown, text, dotted_path(type(hook)), run.id, outcome.name)


def notify(callback: str, subject: Any) -> None:
    """Call a callback about a worker or a process: of all, the innermost first for those that stop."""
    hooks = current().all
    for hook in reversed(hooks) if callback.endswith("_stop") else hooks:
        try:
            getattr(hook, callback)(subject)
        except BaseException:  # SystemExit would end the process, and each one that replaces it
            logger.exception("Middleware %s failed in %s.", dotted_path(type(hook)), callback)


@contextmanager
def installed(middleware: Middleware) -> Iterator[None]:
    """Add a middleware around all others while the block runs."""
    install(middleware)
    try:
        yield
    finally:
        uninstall(middleware)


def install(middleware: Middleware) -> None:
    """Add a middleware around all others."""
    _installed.insert(0, middleware)
    _forget()


def uninstall(middleware: Middleware) -> None:
    """Remove a middleware that was added by `install`."""
    _installed.remove(middleware)
    _forget()


def load(paths: Iterable[str]) -> list[Middleware]:
    """Import and create middleware.

    Raises:
        ConfigurationError: see `current`.
    """
    return [_create(path) for path in paths]


def overrides(middleware: Middleware, callback: str) -> bool:
    """Return whether the class of a middleware overrides a callback."""
    return getattr(type(middleware), callback) is not getattr(Middleware, callback)


def _enqueue_hooks(*, sends_signals: bool) -> Iterable[Middleware]:
    """Signals first: `testing.inline` runs the tasks, outermost."""
    signal_hooks = (_SEND_SIGNALS,) if sends_signals and signals.task_enqueued.receivers else ()
    return itertools.chain(signal_hooks, reversed(current().after_enqueue))


def _load() -> Pipeline:
    global _pipeline
    every = (*_installed, *load(conf.settings().taskqueue.middleware))
    _pipeline = Pipeline(
        all=every,
        before_enqueue=_overriding(every, "before_enqueue"),
        after_enqueue=_overriding(every, "after_enqueue", "aafter_enqueue"),
        runs=_overriding(every, *_PAIR, "on_outcome"),
    )
    return _pipeline


def _overriding(every: Iterable[Middleware], *callbacks: str) -> tuple[Middleware, ...]:
    return tuple(hook for hook in every if any(overrides(hook, callback) for callback in callbacks))


def _create(path: str) -> Middleware:
    setting = f'REDIS_COMPONENTS["TASKQUEUE"]["MIDDLEWARE"]: {path!r}'
    try:
        kind = import_string(path)
    except ImportError as exc:
        raise ConfigurationError(f"{setting} cannot be imported: {exc}") from exc
    if not isinstance(kind, type) or not issubclass(kind, Middleware):
        raise ConfigurationError(f"{setting} is not a subclass of django_redis_components.taskqueue.Middleware.")
    middleware = kind()
    if len({overrides(middleware, callback) for callback in _PAIR}) > 1:
        one, other = sorted(_PAIR, key=lambda callback: not overrides(middleware, callback))
        raise ConfigurationError(
            f"{setting} overrides {one} and not {other}. Override both: tasks that are"
            f" {'functions' if other == 'around_run' else 'coroutine functions'} would run without it."
        )
    return middleware


@contextmanager
def _logged(hook: Middleware, when: str, *, raises: bool) -> Iterator[None]:
    """Log an error of a callback, unless it ends this thread or must be raised."""
    try:
        yield
    except BaseException as exc:
        if raises or not isinstance(exc, Exception) or must_raise(exc):
            raise
        logger.exception("Middleware %s failed %s.", dotted_path(type(hook)), when)


def _forget() -> None:
    global _pipeline
    _pipeline = None


conf.on_change(_forget)
