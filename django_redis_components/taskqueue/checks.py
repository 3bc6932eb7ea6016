"""System checks of tasks and schedules."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from traceback import FrameSummary, extract_tb
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning

import django_redis_components
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import defaults, json_codec, outbox, placement, registry, sealing, shards
from django_redis_components.taskqueue.exceptions import InvalidTask, UnknownQueue
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.options import check_queue
from django_redis_components.taskqueue.schedules.schedule import Schedule, registered

#: The directory of this package, whose lines are not shown as the place of a mistake.
PACKAGE = str(Path(django_redis_components.__file__).parent) + os.sep


def check_middleware() -> list[CheckMessage]:
    """Report middleware that cannot be loaded (drc.E045)."""
    try:
        pipeline.load(conf.settings().taskqueue.middleware)
    except ConfigurationError as exc:
        return [Error(str(exc), id="drc.E045")]
    return []


def check_codec() -> list[CheckMessage]:
    """Report a codec that cannot be used (drc.E042)."""
    try:
        json_codec.check_codec()
    except ConfigurationError as exc:
        return [Error(str(exc), id="drc.E042")]
    return []


def check_options() -> list[CheckMessage]:
    """Report defaults and routes that are invalid or do not fit a task (drc.E046), and a backoff without use (W056)."""
    _discovered()
    found: list[CheckMessage] = []
    try:
        defaults.configured()
        for task in registry.all_tasks():
            if problem := _problem_of(task):
                found.append(Error(problem, id="drc.E046"))
            elif "backoff" in task.declared and task.options.max_attempts == 1:
                text = f"Task {task.name} has a backoff, but max_attempts is 1: it is never retried."
                hint = "Set max_attempts=4 for three retries, or silence drc.W056 if calls set it with using()."
                found.append(Warning(text, hint=hint, id="drc.W056"))
    except ConfigurationError as exc:
        return [Error(str(exc), id="drc.E046")]
    return found


def check_shards() -> list[CheckMessage]:
    """Report shards and routes that contradict each other (drc.E053)."""
    return [Error(problem, id="drc.E053") for problem in shards.problems()]


def check_placement() -> list[CheckMessage]:
    """Report tasks of spread queues that cannot be placed (drc.E054), and those of which one shard gets all (W054)."""
    found: list[CheckMessage] = []
    #: Of each group of a limit, where its tasks are, and one of them.
    groups: dict[tuple[str, str], dict[Any, str]] = {}
    for task in registry.all_tasks():
        try:
            options = task.options
        except (ConfigurationError, InvalidTask):
            continue  # `check_options` reports it
        route = shards.route_of(options.queue_name, task.connection)
        try:
            spread = placement.placement_of(options, task.name, task._enqueue_func) if len(route) > 1 else None
        except InvalidTask as exc:
            found.append(Error(str(exc), id="drc.E054"))
            continue
        if len(route) > 1 and (option := placement.constant_option(options, spread)):
            text = f"All tasks of {task.name} go to one shard of the queue {options.queue_name!r}: {option} has no key."
            hint = "Give it a key, use a queue in one shard, or silence drc.W054 if one shard is enough."
            found.append(Warning(text, hint=hint, id="drc.W054"))
        for what in ("concurrency", "rate"):
            limit = getattr(options, what)
            if limit is not None and limit.group:
                place = route, spread and (limit.key, spread.scope, spread.is_constant and spread.text)
                groups.setdefault((what, limit.group), {})[place] = task.name
    return [*found, *_split_groups(groups)]


def _split_groups(groups: Mapping[tuple[str, str], Mapping[Any, str]]) -> Iterator[Error]:
    """Yield errors for limits that tasks in different shards share."""
    for (what, group), places in groups.items():
        if len(places) > 1:
            names = " and ".join(sorted(places.values()))
            text = f"{names} share the {what} group {group!r}, and are placed in different shards."
            hint = "Tasks that share a limit must have queues in the same shards, and there the same keys."
            yield Error(text, hint=hint, id="drc.E054")


def _problem_of(task: Any) -> str:
    """Return why a task cannot be enqueued with its options of the settings; "" if it can."""
    try:
        if "queue_name" not in task.declared:
            check_queue(task.options.queue_name)
        else:
            task.options  # noqa: B018 - resolves them
    except UnknownQueue as exc:
        return f"{task.name}: the queue is from {defaults.source_of(task, 'queue_name')}. {exc}"
    except InvalidTask as exc:
        return str(exc)
    return ""


def _has_outbox(task: Any) -> bool:
    try:
        return bool(task.options.outbox)
    except (ConfigurationError, InvalidTask):
        return False  # `check_options` reports it


def check_periodic() -> list[CheckMessage]:
    """Import the `tasks` modules and report invalid schedules (drc.E043, drc.E044)."""
    found = _discovered()
    for schedule in registered():
        found.extend(_of(schedule))
    return found


def check_outbox() -> list[CheckMessage]:
    """Report what is to use the outbox while its app is not installed (drc.E047)."""
    if apps.is_installed(outbox.APP):
        return []
    setting = ['REDIS_COMPONENTS["TASKQUEUE"]["OUTBOX"] is True'] if conf.settings().taskqueue.outbox else []
    tasks = sorted(f"Task {task.name} has outbox=True" for task in registry.all_tasks() if _has_outbox(task))
    hint = (
        f'Add "{outbox.APP}" to INSTALLED_APPS and run "manage.py migrate", or remove the option. Until then'
        " enqueue_on_commit raises InvalidTask."
    )
    return [
        Error(f'{each}, but "{outbox.APP}" is not in INSTALLED_APPS.', hint=hint, id="drc.E047")
        for each in [*setting, *tasks]
    ]


def check_sealing() -> list[CheckMessage]:
    """Report sealed tasks without a key (drc.E048), and keys or sealed tasks without cryptography (drc.E049)."""
    sealed = sorted(f"Task {task.name} has sealed=True" for task in registry.all_tasks() if _is_sealed(task))
    keys = conf.settings().taskqueue.seal_keys
    if sealed and not keys:
        text = ', but REDIS_COMPONENTS["TASKQUEUE"]["SEAL_KEYS"] has no key.'
        hint = (
            "Add a key of cryptography.fernet.Fernet.generate_key(), as text; until then enqueue() raises InvalidTask."
        )
        return [Error(f"{each}{text}", hint=hint, id="drc.E048") for each in sealed]
    if keys and not sealing.is_installed():
        text = 'REDIS_COMPONENTS["TASKQUEUE"]["SEAL_KEYS"] is set, but cryptography is not installed.'
        return [Error(text, hint="pip install 'django-redis-components[sealed]'", id="drc.E049")]
    return []


def _is_sealed(task: Any) -> bool:
    try:
        return bool(task.options.sealed)
    except (ConfigurationError, InvalidTask):
        return False  # `check_options` reports it


def connections_of_tasks() -> list[str]:
    """Import the `tasks` modules and return the connections that their tasks use, sorted."""
    _discovered()  # check_periodic reports the errors
    return sorted({task.connection for task in registry.all_tasks()})


def _discovered() -> list[CheckMessage]:
    try:
        registry.autodiscover()
    except InvalidTask as exc:
        return [Error(str(exc), obj=_line_of(exc), id="drc.E043")]
    except Exception:
        # Workers and pollers exit with this error. A check must not: the module may need `migrate` to run first.
        logger.debug("A module of tasks cannot be imported.", exc_info=True)
    return []


def _line_of(error: InvalidTask) -> str | None:
    """Return the file and line of the site that called this package last."""
    calls = pairwise(extract_tb(error.__traceback__))
    lines = [each for each, called in calls if called.filename.startswith(PACKAGE) and _is_of_the_site(each)]
    return f"{lines[-1].filename}:{lines[-1].lineno}" if lines else None


def _is_of_the_site(frame: FrameSummary) -> bool:
    return not frame.filename.startswith((PACKAGE, "<"))  # "<string>" is generated code


def _of(schedule: Schedule) -> list[CheckMessage]:
    known = conf.settings().connections
    task = schedule.task
    if task.connection not in known:
        text = (
            f"Schedule {schedule.name!r} uses the connection {task.connection!r}, which does not exist."
            f' Known aliases in REDIS_COMPONENTS["CONNECTIONS"]: {", ".join(known)}.'
        )
        return [Error(text, id="drc.E044")]
    try:
        check_queue(task.options.queue_name)
    except UnknownQueue as exc:
        return [Error(f"Schedule {schedule.name!r}: {exc}", id="drc.E044")]
    return []
