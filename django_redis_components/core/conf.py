"""`REDIS_COMPONENTS`: read on first use, checked whole, dropped when the setting changes.

Each section is a frozen dataclass whose fields carry their own check (`sections`). The key in the
dict is the field's name in upper case without a trailing ``_s``.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from django_redis_components.core import sections
from django_redis_components.core.exceptions import ConfigurationError

#: Name of the Django setting.
SETTING = "REDIS_COMPONENTS"
#: User name and password in a URL: what an error must not print.
_CREDENTIALS = re.compile(r"//[^\s'\"]*@")

_S = TypeVar("_S")
_current: sections.Settings | None = None
_on_change: list[Callable[[], None]] = []


class _Mistakes(list[str]):
    """What was found; `strict` asks for more than that the values have their types and bounds."""

    def __init__(self, *, strict: bool) -> None:
        super().__init__()
        self.strict = strict


def settings() -> sections.Settings:
    """The checked settings.

    Raises:
        ConfigurationError: the first mistake found, naming setting, value and what is accepted.
    """
    global _current
    if _current is None:
        mistakes = _Mistakes(strict=False)
        found = _build(mistakes)
        if mistakes:
            raise ConfigurationError(mistakes[0])
        _current = found
    return _current


def validation_errors() -> list[str]:
    """Every mistake in the setting, in words; empty when it is right.

    Also those that fail only what uses the value, such as a site's name with braces.
    """
    found = _Mistakes(strict=True)
    _build(found)
    return list(found)


def on_change(callback: Callable[[], None]) -> None:
    """Have `callback` called whenever `REDIS_COMPONENTS` or `CACHES` changes (tests do that)."""
    _on_change.append(callback)


def key_of(field: dataclasses.Field[Any]) -> str:
    """The key in the dict for a field: ``socket_timeout_s`` is ``SOCKET_TIMEOUT``."""
    return field.name.removesuffix("_s").upper()


def _build(mistakes: _Mistakes) -> sections.Settings:
    given = getattr(django_settings, SETTING, {})
    if not isinstance(given, Mapping):
        mistakes.append(_wrong(SETTING, given, "a dict"))
        return sections.Settings()
    return _section(sections.Settings, given, SETTING, mistakes)


def _section(kind: type[_S], given: Mapping[str, Any], path: str, mistakes: _Mistakes) -> _S:
    fields = {key_of(field): field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    mistakes.extend(_unknown(given, list(fields), path))
    values = {}
    for name, field in fields.items():
        if name in given:
            values[field.name] = _value(field, given[name], f'{path}["{name}"]', mistakes)
    return kind(**values)


def _value(field: dataclasses.Field[Any], value: Any, path: str, mistakes: _Mistakes) -> Any:
    for kind, build in (("section", _section), ("table", _table)):
        if kind in field.metadata:
            if isinstance(value, Mapping):
                return build(field.metadata[kind], value, path, mistakes)
            mistakes.append(_wrong(path, value, "a dict"))
            return _default(field)
    problem = field.metadata["check"](value) or (mistakes.strict and field.metadata["strict"](value))
    if problem:
        mistakes.append(_wrong(path, value, problem))
        return _default(field)
    convert = field.metadata["convert"]
    return value if convert is None or value is None else convert(value)


def _table(kind: type[Any], value: Mapping[str, Any], path: str, mistakes: _Mistakes) -> dict[str, Any]:
    rows = {}
    if not value:
        mistakes.append(_wrong(path, value, "at least one entry"))
    for name, given in value.items():
        row_path = f'{path}["{name}"]'
        problem = sections.text(name) or (mistakes.strict and sections.line(name))
        if problem:
            mistakes.append(f"{path} has the key {name!r}: expected {problem}.")
        elif not isinstance(given, Mapping):
            mistakes.append(_wrong(row_path, given, kind.EXPECTED))
        else:
            before = len(mistakes)
            rows[name] = _section(kind, given, row_path, mistakes)
            problem = rows[name].problem()
            if problem and len(mistakes) == before:
                mistakes.append(f"{row_path}: {problem}.")
    return rows


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _wrong(path: str, value: Any, expected: str) -> str:
    shown = _CREDENTIALS.sub("//***@", repr(value))
    return f"{path} = {shown}: expected {expected}."


def _unknown(given: Mapping[str, Any], known: list[str], path: str) -> Iterator[str]:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name).upper(), known, n=1)
            hint = f'Did you mean "{near[0]}"?' if near else f"Known are {', '.join(sorted(known))}."
            yield f'{path}["{name}"] is unknown. {hint}'


def _changed(*, setting: str, **_: Any) -> None:
    global _current
    if setting in (SETTING, "CACHES"):
        _current = None
        for callback in _on_change:
            callback()


setting_changed.connect(_changed, dispatch_uid="django_redis_components.conf")
