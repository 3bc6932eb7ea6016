"""System checks of a backend in TASKS. None of them opens a connection.

=========  ======================================================================================
drc.E040   an unknown key in TASKS[alias] or its OPTIONS, or an invalid value
drc.E041   OPTIONS["USING"] names a connection that does not exist
drc.E042   an invalid queue name
drc.W040   the app is not installed, so there is no `runworker` to run these tasks
=========  ======================================================================================
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from django_redis_components.contrib.django_tasks.options import NAMES
from django_redis_components.core import keys
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import InvalidTask, UnknownQueue
from django_redis_components.taskqueue.options import TaskOptions, check_queue

#: Every key that TASKS[alias] may have.
ENTRY_KEYS = ("BACKEND", "QUEUES", "OPTIONS")
#: Every key that OPTIONS may have.
KEYS = ("USING", *(name.upper() for name in NAMES))


def check(alias: str, queues: Iterable[str], options: Mapping[str, Any]) -> list[CheckMessage]:
    """Return the mistakes in TASKS[alias]."""
    place = f'TASKS["{alias}"]'
    entry = settings.TASKS.get(alias, {})
    messages = [
        *_unknown(place, entry, ENTRY_KEYS),
        *_unknown(f'{place}["OPTIONS"]', options, KEYS),
        *_values(place, options),
    ]
    if not conf.validation_errors():  # else drc.E001 reports it, and the settings cannot be read
        messages += [*_connection(place, options), *_queues(place, queues)]
    if not apps.is_installed("django_redis_components"):
        text = f"{place} uses the Redis backend, but django_redis_components is not in INSTALLED_APPS."
        hint = "Add it to INSTALLED_APPS: the command runworker is part of it."
        messages.append(Warning(text, hint=hint, id="drc.W040"))
    return messages


def _unknown(place: str, names: Mapping[str, Any], accepted: Sequence[str]) -> Iterator[CheckMessage]:
    for key in names:
        if key not in accepted:
            near = difflib.get_close_matches(str(key).upper(), accepted, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Accepted: {', '.join(accepted)}."
            yield Error(f"{place} has the unknown key {key!r}.", hint=hint, id="drc.E040")


def _values(place: str, options: Mapping[str, Any]) -> Iterator[CheckMessage]:
    for name in NAMES:
        value = options.get(name.upper())
        if value is not None:
            try:
                TaskOptions(**{name: value})
            except InvalidTask as exc:
                yield Error(f'{place}["OPTIONS"]["{name.upper()}"]: {exc}', id="drc.E040")


def _connection(place: str, options: Mapping[str, Any]) -> Iterator[CheckMessage]:
    using = options.get("USING", "default")
    known = conf.settings().connections
    if using not in known:
        near = difflib.get_close_matches(str(using), list(known), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known aliases: {', '.join(sorted(known))}."
        text = f'{place}["OPTIONS"]["USING"] = {using!r}: REDIS_COMPONENTS["CONNECTIONS"] has no such alias.'
        yield Error(text, hint=hint, id="drc.E041")


def _queues(place: str, queues: Iterable[str]) -> Iterator[CheckMessage]:
    for queue in sorted(queues, key=str):
        try:
            keys.validate_name(queue, "queue name")
            check_queue(queue)
        except (TypeError, ValueError, UnknownQueue) as exc:
            yield Error(f'{place}["QUEUES"]: {exc}', id="drc.E042")
