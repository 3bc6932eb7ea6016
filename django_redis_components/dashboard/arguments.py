"""Arguments of tasks as text: values with telling names are masked, and the text is cut."""

from __future__ import annotations

import inspect
import re
from functools import lru_cache
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.core import serialization
from django_redis_components.core.text import one_line
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import SealedArguments
from django_redis_components.taskqueue.json_codec import pack
from django_redis_components.taskqueue.record import TaskRecord

#: Shown instead of a masked value.
MASK = "•••"
#: Names whose values are masked, at any depth.
MASKED_NAMES = re.compile(
    r"pass(word|wd|phrase|code)|secret|token|api_?key|auth|credential|cookie|session|signature|private|iban|card_?n|cvv",
    re.IGNORECASE,
)
#: Characters of the arguments in a list of tasks.
LIST_LENGTH = 120
#: Characters of one argument, and lines, on a task's page.
VALUE_LENGTH, MAX_LINES = 4_000, 200


def masked_arguments(record: TaskRecord[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return positional and keyword arguments as plain JSON values, masked by name.

    Positional arguments have the names of the function's parameters if this process has registered the task.

    Raises:
        Exception: the stored message is not valid or is sealed, or the site's codec does not accept it.
    """
    if record.is_sealed:
        raise SealedArguments("The arguments are sealed.")
    names = _parameter_names(registry.find(record.name))
    args, kwargs = pack(record.args), pack(record.kwargs)
    named = [names[index] if index < len(names) else "" for index in range(len(args))]
    masked = [_masked(name, value) for name, value in zip(named, args, strict=True)]
    return masked, {name: _masked(name, value) for name, value in kwargs.items()}


def arguments_text(record: TaskRecord[Any]) -> str:
    """Return the arguments on one line, as in a call, masked and cut."""
    try:
        args, kwargs = masked_arguments(record)
    except SealedArguments:
        return pgettext("arguments of a task", "sealed")
    except Exception:  # noqa: BLE001 - the site's codec may raise anything
        return _("not readable")
    parts = [_masked_json(value) for value in args] + [
        f"{one_line(name)}={_masked_json(value)}" for name, value in kwargs.items()
    ]
    text = ", ".join(parts)
    return text if len(text) <= LIST_LENGTH else f"{text[: LIST_LENGTH - 1]}…"


def argument_lines(record: TaskRecord[Any], *, masked: bool = True) -> list[str]:
    """Return the arguments as the lines of a call, one for each, cut; positional ones with the names of parameters.

    Sealed arguments are one line that says so, unless they are not to be masked.

    Raises:
        Exception: the stored message is not valid, the site's codec does not accept it, or this process cannot open it.
    """
    if masked and record.is_sealed:
        return [pgettext("arguments of a task", "sealed")]
    args, kwargs = masked_arguments(record) if masked else (pack(record.args), pack(record.kwargs))
    names = _parameter_names(registry.find(record.name))
    pairs = [(names[index] if index < len(names) else "", value) for index, value in enumerate(args)] + [
        *kwargs.items()
    ]
    lines = [
        _cut(f"{one_line(name)}={_masked_json(value)}" if name else _masked_json(value))
        for name, value in pairs[:MAX_LINES]
    ]
    return [*lines, "…"] if len(pairs) > MAX_LINES else lines


def masked_text(value: Any) -> str:
    """Return metadata or a return value as JSON on one line, masked by name and cut."""
    return _cut(_masked_json(_masked("", value)))


def _cut(line: str) -> str:
    return line if len(line) <= VALUE_LENGTH else f"{line[: VALUE_LENGTH - 1]}…"


def _masked(name: str, value: Any) -> Any:
    if MASKED_NAMES.search(name):
        return MASK
    if isinstance(value, dict):
        return {key: _masked(key, each) for key, each in value.items()}
    if isinstance(value, list):
        return [_masked("", each) for each in value]
    return value


def _masked_json(value: Any) -> str:
    return MASK if value == MASK else one_line(serialization.encode(value).decode())


def _parameter_names(task: Any) -> tuple[str, ...]:
    return () if task is None else _names_of(task.func, task.takes_context)


@lru_cache(maxsize=4_096)
def _names_of(func: Any, takes_context: bool) -> tuple[str, ...]:
    """Return the names of the positional parameters that callers give; none if Python cannot determine them."""
    try:
        parameters = inspect.signature(func).parameters.values()
    except (TypeError, ValueError):
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(each.name for each in parameters if each.kind in kinds)[int(takes_context) :]
